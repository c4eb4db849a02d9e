"""The four booleans of a role become one set of permission bits.

Each new permission used to need a new field, and every reader had to learn it. As bits of one number,
new permissions need neither. The booleans go away; a role with none of them has the number 0.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Old, Update, carry
from hermit.formats.gen import objects_v16_pb2 as v16
from hermit.formats.gen import objects_v17_pb2 as v17

_INHERIT = 1
_CREATE_ROLE = 2
_CREATE_DB = 4
_CREATE_CLUSTER = 8


def upgrade(old: Old) -> Iterator[Action]:
    """Turn `attributes` into `permissions`."""
    for role in old.messages("roles", v16.RoleKey, v16.RoleValue):
        value = carry(role.value, v17.RoleValue)
        value.permissions = _permissions(role.value.attributes)
        yield Update(role, value)


def _permissions(attributes: v16.RoleAttributes) -> int:
    return (
        _INHERIT * attributes.inherit
        | _CREATE_ROLE * attributes.create_role
        | _CREATE_DB * attributes.create_db
        | _CREATE_CLUSTER * attributes.create_cluster
    )
