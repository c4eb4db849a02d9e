"""Collections of objects: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

from typing import Any

import pytest

from hermit.errors import CorruptData, InvalidInput
from hermit.formats import codec
from hermit.formats.generate import rows
from hermit.objects import KINDS
from hermit.rows import Row
from hermit.stash import Stash
from hermit.stash.typed import TypedCollection


def objects(name: str) -> list[tuple[Any, Any]]:
    found = [row for row in rows(300, seed=5) if row.collection == name]
    return [(codec.decode_key(name, row.key), codec.decode_value(name, row.value)) for row in found]


@pytest.mark.parametrize("name", KINDS)
def test_objects_of_every_kind_come_out_as_they_went_in(stash: Stash, name: str) -> None:
    made = objects(name)
    stash.write(lambda t: TypedCollection(t, name).insert(made))
    found = stash.read(lambda t: list(TypedCollection(t, KINDS[name]).rows()))
    assert sorted(map(repr, found)) == sorted(map(repr, made))


def test_an_object_is_replaced_and_deleted_by_its_key(stash: Stash) -> None:
    (key, first), (_, second) = objects("roles")[:2]
    stash.write(lambda t: TypedCollection(t, "roles").insert([(key, first)], lower=0))
    assert not stash.write(lambda t: TypedCollection(t, "roles").replace(key, first))
    assert stash.confirm().version == 1
    assert stash.write(lambda t: TypedCollection(t, "roles").replace(key, second))
    assert stash.read(lambda t: TypedCollection(t, "roles").get(key)) == second
    assert stash.write(lambda t: TypedCollection(t, "roles").replace(key, None))
    assert not stash.write(lambda t: TypedCollection(t, "roles").replace(key, None))
    assert stash.read(lambda t: TypedCollection(t, "roles").get(key)) is None
    assert stash.read(lambda t: list(TypedCollection(t, "roles").rows())) == []


def test_an_object_of_another_kind_is_refused(stash: Stash) -> None:
    role, cluster = objects("roles")[0], objects("clusters")[0]
    with pytest.raises(InvalidInput):
        stash.write(lambda t: TypedCollection(t, "roles").insert([(role[0], cluster[1])]))
    assert stash.read(lambda t: t.collections()) == {}


def test_bytes_that_are_no_object_are_corrupt(stash: Stash) -> None:
    stash.write(lambda t: t.append([(Row("roles", b"not", b"a role"), 1)]))
    with pytest.raises(CorruptData):
        stash.read(lambda t: list(TypedCollection(t, "roles").rows()))
