"""Components: collections of others in the same stash, with a fence of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermit.errors import Fenced, InvalidInput
from hermit.rows import Row
from hermit.stash import Stash
from hermit.stash.bulk import create_side, digests, export, replace_from_side
from hermit.stash.consolidate import consolidate
from hermit.stash.metrics import metrics

from .conftest import ClosingClient, nothing

OURS, THEIRS = Row("items", b"k", b"catalog"), Row("items", b"k", b"storage")


@pytest.fixture
def storage(connect: Callable[..., ClosingClient], stash: Stash) -> ClosingClient:
    return connect(component="storage")


def test_components_share_neither_names_nor_fence(
    client: ClosingClient, stash: Stash, storage: ClosingClient
) -> None:
    theirs = storage.open(lambda t: t.append([(THEIRS, 1)]))[0]
    stash.write(lambda t: t.append([(OURS, 1)]))
    assert theirs.read(lambda t: list(t.rows("items"))) == [(b"k", b"storage")]
    assert stash.read(lambda t: list(t.rows("items"))) == [(b"k", b"catalog")]
    storage.open(nothing)
    assert stash.confirm().epoch == 1
    with pytest.raises(Fenced):
        theirs.confirm()
    client.open(nothing)
    assert storage.open_read_only().read(lambda t: t.get("items", b"k")) == b"storage"


@pytest.mark.row("M-2")
def test_a_replacement_leaves_another_components_collections_alone_and_usable(
    stash: Stash, storage: ClosingClient
) -> None:
    theirs = storage.open(lambda t: t.append([(THEIRS, 1)]))[0]
    stash.write(lambda t: t.append([(OURS, 1)]))
    create_side(stash, "empty")
    theirs.write(lambda t: t.append([(Row("items", b"during", b""), 1)]))
    replace_from_side(stash, "empty", config={"tombstone": 0})
    theirs.write(lambda t: t.append([(Row("items", b"after", b""), 1)]))
    assert stash.read(lambda t: list(t.rows("items"))) == []
    found = theirs.read(lambda t: (sorted(key for key, _ in t.rows("items")), t.upper("items")))
    assert found == ([b"after", b"during", b"k"], 3)
    assert theirs.confirm().version == 3


def test_bulk_and_metrics_see_only_the_own_component(
    client: ClosingClient, stash: Stash, storage: ClosingClient
) -> None:
    theirs = storage.open(lambda t: t.append([(THEIRS, 1), (Row("shards", b"", b""), 1)]))[0]
    stash.write(lambda t: t.append([(OURS, 1)]))
    assert digests(stash).keys() == {"items"}
    assert digests(stash) != digests(theirs)
    with export(stash, 1) as exported:
        assert list(exported.collections.values()) == ["items"]
    assert [m.name for m in metrics(client)] == ["items"]
    theirs.write(lambda t: t.append([(THEIRS, -1)]))
    consolidate(stash)
    assert len(theirs.read(lambda t: list(t.updates("items")))) == 2


@pytest.mark.parametrize("name", ["", "Storage", "a-b", 'x"; drop', "a" * 33, "1st"])
def test_a_component_needs_a_plain_name(connect: Callable[..., ClosingClient], name: str) -> None:
    with pytest.raises(InvalidInput):
        connect(component=name)
