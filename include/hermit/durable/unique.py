"""What must be unique in a kind beyond its key: mostly names, each within what it lives in.

A rule turns an object into the claim that it makes. Two objects of one kind never hold the same claim.
Claims are bytes, so that an index of 100,000 of them stays small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from google.protobuf.message import Message

from hermit.formats.gen import objects_pb2 as pb


class Rule(NamedTuple):
    """What is unique, in words for the error message, and the claim of an object's value."""

    what: str
    claim: Callable[[Any], bytes]


def _name(value: Any) -> bytes:
    name: str = value.name
    return name.encode()


def _within(scope: Message, value: Any) -> bytes:
    return scope.SerializeToString(deterministic=True) + b"/" + _name(value)


def _item(value: pb.ItemValue) -> bytes:
    # Types have a name space of their own: a table and its row type may bear the same name.
    space = b"type/" if value.item_type == pb.ITEM_TYPE_TYPE else b"item/"
    return space + _within(value.schema_id, value)


RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "clusters": Rule("the name of a cluster", _name),
        "cluster_replicas": Rule(
            "the name of a replica in its cluster", lambda value: _within(value.cluster_id, value)
        ),
        "cluster_introspection_source_indexes": Rule(
            "the identifier of an index", lambda value: b"%d" % value.index_id
        ),
        "databases": Rule("the name of a database", _name),
        "items": Rule("the name of an item in its schema", _item),
        "roles": Rule("the name of a role", _name),
        "schemas": Rule(
            "the name of a schema in its database", lambda value: _within(value.database_id, value)
        ),
        "system_object_mappings": Rule("the identifier of a system object", lambda value: b"%d" % value.id),
    }
)
"""By kind. A kind that is not listed has no rule but that its keys differ."""
