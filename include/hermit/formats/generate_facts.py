"""The facts of generated catalogs: plausible objects of every kind, in the shape of the current version.

A fact is the collection with the fields of key and value, as the constructors of the messages take them.
Each collection draws from random sequences of its own, so that the size of one does not alter another; and
every block of its rows from one of its own, so that blocks can be made anywhere, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

_EPOCH_MS = 1_690_000_000_000
_SYSTEM_SHARE = 0.05
BLOCK_ROWS = 10_000
"""Rows of a collection that share a random sequence."""
_NOUNS = (
    "orders",
    "users",
    "events",
    "payments",
    "sessions",
    "devices",
    "clicks",
    "invoices",
    "carts",
    "logs",
)
_ADJECTIVES = ("daily", "recent", "open", "late", "active", "archived", "merged", "raw", "clean", "top")
_TYPES = ("int4", "int8", "text", "numeric(38, 2)", "timestamptz", "jsonb", "uuid", "bool")
_SIZES = ("2xsmall", "xsmall", "small", "medium", "large", "xlarge")
_ZONES = ("use1-az1", "use1-az2", "use1-az4")

Fields = dict[str, Any]


class Fact(NamedTuple):
    """One object, not yet encoded."""

    collection: str
    key: Fields
    value: Fields


@dataclass(frozen=True)
class Plan:
    """What to generate: rows of every collection, the size that this one's rows should have, and which block
    of them; None: all."""

    seed: int
    counts: Mapping[str, int]
    row_bytes: float | None = None
    block: int | None = None

    def blocks(self, collection: str) -> range:
        """The blocks that the rows of a collection are made in."""
        return range(-(-self.counts.get(collection, 0) // BLOCK_ROWS))

    def numbers(self, collection: str) -> Iterator[tuple[int, Random]]:
        """A number for every row, from 1 over all blocks, with the random sequence of its block."""
        for block in self.blocks(collection) if self.block is None else (self.block,):
            random = Random(f"{self.seed}/{collection}/{block}" if block else f"{self.seed}/{collection}")
            end = min((block + 1) * BLOCK_ROWS, self.counts.get(collection, 0))
            for number in range(block * BLOCK_ROWS + 1, end + 1):
                yield number, random

    def other(self, random: Random, collection: str) -> int:
        """The number of some object of another collection."""
        return random.randint(1, max(1, self.counts.get(collection, 0)))


def _name(random: Random, number: int) -> str:
    return f"{random.choice(_ADJECTIVES)}_{random.choice(_NOUNS)}_{number}"


def _namespaced(random: Random, number: int) -> Fields:
    return {"system" if random.random() < _SYSTEM_SHARE else "user": number}


def _text_id(identifier: Fields) -> str:
    ((namespace, number),) = identifier.items()
    return f"{namespace[0]}{number}"


def _role(plan: Plan, random: Random) -> Fields:
    # Roles 1 to n: see `_roles`, which gives every twentieth number to the system.
    number = plan.other(random, "roles")
    return {"system": number} if number % 20 == 1 else {"user": number}


def _grants(plan: Plan, random: Random) -> list[Fields]:
    return [
        {
            "grantee": {"public": {}} if random.random() < 0.3 else _role(plan, random),
            "grantor": _role(plan, random),
            "mode": {"bits": random.getrandbits(12)},
        }
        for _ in range(random.choice((0, 1, 1, 2, 3)))
    ]


def _audit_log(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("audit_log"):
        which = random.choice(tuple(_EVENTS))
        object_type, details = _EVENTS[which](plan, random)
        value: Fields = {
            "event_type": random.randint(1, 5),
            "object_type": object_type,
            "occurred_at_ms": _EPOCH_MS + number * 977,
            which: details,
        }
        if random.random() < 0.9:
            value["user"] = f"user{plan.other(random, 'roles')}@example.com"
        yield Fact("audit_log", {"id": number}, value)


def _full_name(random: Random) -> Fields:
    return {"database": "hermit", "schema": "public", "item": _name(random, random.randint(1, 9999))}


def _id_name_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    number = plan.other(random, "databases")
    return 14, {"id": f"u{number}", "name": _name(random, number)}


def _item_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    return random.randint(1, 10), {"id": f"u{plan.other(random, 'items')}", "name": _full_name(random)}


def _rename_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    names = {"old_name": _full_name(random), "new_name": _full_name(random)}
    return random.randint(1, 10), {"id": f"u{plan.other(random, 'items')}", **names}


def _replica_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    event: Fields = {
        "cluster_id": f"u{plan.other(random, 'clusters')}",
        "cluster_name": _name(random, 1),
        "replica_name": f"r{random.randint(1, 4)}",
        "logical_size": random.choice(_SIZES),
    }
    if random.random() < 0.8:
        event["replica_id"] = str(plan.other(random, "cluster_replicas"))
    return 13, event


def _privilege_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    return random.randint(1, 10), {
        "object_id": f"u{plan.other(random, 'items')}",
        "grantee_id": _text_id(_role(plan, random)),
        "grantor_id": _text_id(_role(plan, random)),
        "privileges": "".join(random.sample("arwdUC", random.randint(1, 4))),
    }


def _alter_cluster_event(plan: Plan, random: Random) -> tuple[int, Fields]:
    clusters = [f"u{plan.other(random, 'clusters')}" for _ in range(2)]
    return 3, {
        "id": f"u{plan.other(random, 'items')}",
        "name": _full_name(random),
        "old_cluster_id": clusters[0],
        "new_cluster_id": clusters[1],
    }


_EVENTS: Mapping[str, Callable[[Plan, Random], tuple[int, Fields]]] = {
    "id_name": _id_name_event,
    "item": _item_event,
    "rename_item": _rename_event,
    "replica": _replica_event,
    "privilege": _privilege_event,
    "alter_item_cluster": _alter_cluster_event,
}


def _clusters(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("clusters"):
        value: Fields = {
            "name": _name(random, number),
            "privileges": _grants(plan, random),
            "owner_id": _role(plan, random),
        }
        if random.random() < 0.25:
            value["unmanaged"] = {}
        else:
            value["managed"] = {
                "size": random.choice(_SIZES),
                "replication_factor": random.randint(0, 3),
                "availability_zones": random.sample(_ZONES, random.randint(0, 3)),
            }
        yield Fact("clusters", {"id": {"system" if number % 20 == 1 else "user": number}}, value)


def _cluster(plan: Plan, random: Random) -> Fields:
    number = plan.other(random, "clusters")
    return {"system" if number % 20 == 1 else "user": number}


def _cluster_replicas(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("cluster_replicas"):
        value: Fields = {
            "cluster_id": _cluster(plan, random),
            "name": f"r{number}",
            "owner_id": _role(plan, random),
            "logging": {"log_logging": random.random() < 0.2},
        }
        if random.random() < 0.8:
            value["logging"]["interval_us"] = 1_000_000
        if random.random() < 0.2:
            hosts = [f"10.0.{random.randint(0, 255)}.{random.randint(1, 254)}" for _ in range(2)]
            value["unmanaged"] = {
                "compute_addresses": [f"{host}:2101" for host in hosts],
                "storage_addresses": [f"{host}:2100" for host in hosts],
                "workers": random.randint(1, 16),
            }
        else:
            value["managed"] = {"size": random.choice(_SIZES)}
            if random.random() < 0.5:
                value["managed"]["availability_zone"] = random.choice(_ZONES)
            if random.random() < 0.1:
                value["managed"]["billed_as"] = "small"
        yield Fact("cluster_replicas", {"id": _namespaced(random, number)}, value)


def _introspection(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("cluster_introspection_source_indexes"):
        key = {"cluster_id": _cluster(plan, random), "name": f"introspection_source_{number}"}
        value = {"index_id": number, "oid": 16_384 + number}
        yield Fact("cluster_introspection_source_indexes", key, value)


def _databases(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("databases"):
        value = {
            "name": _name(random, number),
            "privileges": _grants(plan, random),
            "oid": 20_000 + number,
            "owner_id": _role(plan, random),
        }
        yield Fact("databases", {"id": {"user": number}}, value)


def _default_privileges(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("default_privileges"):
        key: Fields = {
            "role_id": {"user": number},
            "object_type": random.randint(1, 15),
            "grantee": {"public": {}} if random.random() < 0.3 else _role(plan, random),
        }
        if random.random() < 0.5:
            key["database_id"] = {"user": plan.other(random, "databases")}
            if random.random() < 0.5:
                key["schema_id"] = {"user": plan.other(random, "schemas")}
        yield Fact("default_privileges", key, {"privileges": {"bits": random.getrandbits(12)}})


def _id_allocators(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("id_allocators"):
        yield Fact("id_allocators", {"name": f"allocator_{number}"}, {"next_id": random.getrandbits(32)})


def _items(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("items"):
        name = _name(random, number)
        value = {
            "schema_id": {"user": plan.other(random, "schemas")},
            "name": name,
            "create_sql": _create_sql(random, name, plan.row_bytes),
            "privileges": _grants(plan, random),
            "oid": 100_000 + number % 4_000_000_000,
            "owner_id": _role(plan, random),
            "item_type": random.choice((1, 1, 1, 2, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 10)),
        }
        yield Fact("items", {"gid": _namespaced(random, number)}, value)


def _create_sql(random: Random, name: str, row_bytes: float | None) -> str:
    """A statement that has about the length that rows of the wanted size leave for it."""
    length = (
        random.lognormvariate(5.2, 0.6) if row_bytes is None else (row_bytes - 90) * random.uniform(0.7, 1.3)
    )
    columns: list[str] = []
    text = f'CREATE TABLE "hermit"."public"."{name}" ('
    used = len(text) + 1
    while not columns or used < length:
        column = f'"{random.choice(_NOUNS)}_{len(columns)}" "pg_catalog"."{random.choice(_TYPES)}"'
        columns.append(column)
        used += len(column) + 2
    return text + ", ".join(columns) + ")"


def _roles(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("roles"):
        value = {
            "name": f"user{number}@example.com",
            "membership": {
                "entries": [
                    {"role": _role(plan, random), "grantor": _role(plan, random)}
                    for _ in range(random.choice((0, 0, 1, 2)))
                ]
            },
            "variables": [
                {"name": name, "values": [random.choice(_NOUNS)]}
                for name in random.sample(("cluster", "search_path", "timezone"), random.choice((0, 0, 1, 2)))
            ],
            "oid": 30_000 + number,
            "permissions": random.getrandbits(4),
        }
        yield Fact("roles", {"id": {"system" if number % 20 == 1 else "user": number}}, value)


def _schemas(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("schemas"):
        is_system = number % 20 == 1
        value = {
            "name": _name(random, number),
            "privileges": _grants(plan, random),
            "oid": 40_000 + number,
            "owner_id": {"system": 1} if is_system else _role(plan, random),
        }
        if not is_system:
            value["database_id"] = {"user": plan.other(random, "databases")}
        yield Fact("schemas", {"id": {"system" if is_system else "user": number}}, value)


def _settings(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("settings"):
        name = "catalog_content_version" if number == 1 else f"setting_{number}"
        yield Fact("settings", {"name": name}, {"value": str(random.randint(0, 99))})


def _storage_usage(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("storage_usage"):
        value: Fields = {
            "size_bytes": random.getrandbits(40),
            "collected_at_ms": _EPOCH_MS + number * 3_600_000,
        }
        if random.random() < 0.95:
            value["shard_id"] = f"s{sha256(random.randbytes(8)).hexdigest()[:32]}"
        yield Fact("storage_usage", {"id": number}, value)


def _system_configurations(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("system_configurations"):
        name = "max_tables" if number == 1 else f"variable_{number}"
        yield Fact("system_configurations", {"name": name}, {"value": str(random.randint(0, 10_000))})


def _system_object_mappings(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("system_object_mappings"):
        name = f"hermit_{random.choice(_NOUNS)}_{number}"
        key = {"schema_name": "hermit_catalog", "object_type": random.randint(1, 8), "object_name": name}
        value = {"id": number, "fingerprint": sha256(name.encode()).hexdigest()}
        yield Fact("system_object_mappings", key, value)


def _system_privileges(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("system_privileges"):
        key = {"grantee": {"user": number}, "grantor": {"system": 1}}
        yield Fact("system_privileges", key, {"privileges": {"bits": random.getrandbits(12)}})


def _timestamps(plan: Plan) -> Iterator[Fact]:
    for number, random in plan.numbers("timestamps"):
        timeline = "epoch_ms" if number == 1 else f"external.{number}"
        yield Fact("timestamps", {"timeline": timeline}, {"ts_ms": _EPOCH_MS + random.getrandbits(30)})


def _update_log(plan: Plan) -> Iterator[Fact]:
    length = round(max(1, (plan.row_bytes or 250) - 40))
    for number, random in plan.numbers("update_log"):
        yield Fact("update_log", {"key": f"catalog.update.{number}"}, {"entry": random.randbytes(length)})


FACTS: Mapping[str, Callable[[Plan], Iterator[Fact]]] = {
    "audit_log": _audit_log,
    "clusters": _clusters,
    "cluster_replicas": _cluster_replicas,
    "cluster_introspection_source_indexes": _introspection,
    "databases": _databases,
    "default_privileges": _default_privileges,
    "id_allocators": _id_allocators,
    "items": _items,
    "roles": _roles,
    "schemas": _schemas,
    "settings": _settings,
    "storage_usage": _storage_usage,
    "system_configurations": _system_configurations,
    "system_object_mappings": _system_object_mappings,
    "system_privileges": _system_privileges,
    "timestamps": _timestamps,
    "update_log": _update_log,
}
"""The generator of every collection but config."""
