"""v16 to v17: four booleans become a set of bits."""

from __future__ import annotations

import itertools

import pytest

from hermit.formats.gen import objects_v16_pb2 as v16
from hermit.formats.gen import objects_v17_pb2 as v17
from hermit.formats.upgrades.v16_to_v17 import upgrade
from tests.formats.old_catalog import OldCatalog


@pytest.mark.row("F-7")
def test_each_boolean_becomes_its_bit() -> None:
    roles = []
    wanted = {}
    for number, flags in enumerate(itertools.product((False, True), repeat=4)):
        inherit, create_role, create_db, create_cluster = flags
        attributes = v16.RoleAttributes(
            inherit=inherit, create_role=create_role, create_db=create_db, create_cluster=create_cluster
        )
        value = v16.RoleValue(name="r", attributes=attributes, membership=v16.RoleMembership())
        roles.append((v16.RoleKey(id=v16.RoleId(user=number)), value))
        wanted[number] = inherit + 2 * create_role + 4 * create_db + 8 * create_cluster
    new = OldCatalog(v16, {"roles": roles}).after(upgrade, v17)
    assert {key.id.user: value.permissions for key, value in new["roles"]} == wanted


def test_the_rest_of_a_role_stays() -> None:
    membership = v16.RoleMembership(
        entries=[v16.RoleMembershipEntry(role=v16.RoleId(user=2), grantor=v16.RoleId(system=1))]
    )
    value = v16.RoleValue(
        name="r",
        attributes=v16.RoleAttributes(create_db=True),
        membership=membership,
        variables=[v16.RoleVariable(name="cluster", values=["a"])],
        oid=5,
    )
    old = OldCatalog(v16, {"roles": [(v16.RoleKey(id=v16.RoleId(user=1)), value)]})
    ((_, new),) = old.after(upgrade, v17)["roles"]
    assert new == v17.RoleValue(
        name="r",
        membership=v17.RoleMembership(
            entries=[v17.RoleMembershipEntry(role=v17.RoleId(user=2), grantor=v17.RoleId(system=1))]
        ),
        variables=[v17.RoleVariable(name="cluster", values=["a"])],
        oid=5,
        permissions=4,
    )
