"""Is every object of a catalog sound? What `check_open` looks at beyond the upgrade itself."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from hermit.durable.errors import InvalidObject
from hermit.durable.table import json_text
from hermit.durable.unique import RULES
from hermit.formats import codec

Pairs = Iterable[tuple[bytes, bytes]]


def validate(rows: Mapping[str, Pairs], replica_sizes: Collection[str] | None = None) -> int:
    """Decode every object and check what must be unique; returns how many there are."""
    return sum(_validate_kind(name, pairs, replica_sizes) for name, pairs in rows.items())


def _validate_kind(name: str, pairs: Pairs, replica_sizes: Collection[str] | None) -> int:
    key_of, value_of = codec.decoder(name, "key"), codec.decoder(name, "value")
    rule = RULES.get(name)
    keys: set[bytes] = set()
    claims: set[bytes] = set()
    for encoded, data in pairs:
        key, value = key_of(encoded), value_of(data)
        if encoded in keys:
            raise InvalidObject(f"{name} has two objects with the key {_show(name, key)}", kind=name)
        keys.add(encoded)
        if rule is not None:
            claim = rule.claim(value)
            if claim in claims:
                raise InvalidObject(
                    f"{rule.what} must be unique, but two objects of {name} share that of {_show(name, key)}",
                    kind=name,
                )
            claims.add(claim)
        if replica_sizes is not None:
            _check_size(name, key, value, replica_sizes)
    return len(keys)


def _check_size(name: str, key: Any, value: Any, sizes: Collection[str]) -> None:
    if name == "cluster_replicas":
        size = value.managed.size if value.WhichOneof("location") == "managed" else None
    elif name == "clusters":
        size = value.managed.size if value.WhichOneof("variant") == "managed" else None
    else:
        return
    if size is not None and size not in sizes:
        raise InvalidObject(
            f"{name} {_show(name, key)} has the size {size!r}, which is not among the valid ones",
            hint=f"valid sizes: {', '.join(sorted(sizes)) or 'none'}",
            kind=name,
            size=size,
        )


def _show(name: str, key: Any) -> str:
    return json_text(codec.to_json(name, key))
