"""The shadow: every method on both sides, and no difference goes unnoticed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hermit.durable import init_shadow_catalog_state
from hermit.durable.abc import CatalogInspection, DurableCatalogState, UnopenedCatalogState
from hermit.durable.errors import ShadowMismatch
from hermit.durable.shadow import ShadowCatalog, ShadowInspection, ShadowTransaction, ShadowUnopened
from hermit.durable.transaction import TableView
from hermit.errors import Fenced, HermitError, InvalidInput
from hermit.formats.gen import objects_pb2 as pb

from .conftest import Lab
from .methods import READS, UNOPENED, WRITES, public
from .samples import SAMPLES, item, role


class Tampered:
    """A side that answers one method differently, and all others as it should."""

    def __init__(self, side: Any, method: str, answer: Callable[..., Any]) -> None:
        self._side = side
        self._method = method
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._side, name)
        if name != self._method:
            return found
        return self._answer if callable(found) else self._answer()


def _fail(*arguments: Any, **options: Any) -> Any:
    raise HermitError("tampered with")


def test_the_shadow_has_every_method_of_the_interface() -> None:
    assert public(DurableCatalogState) <= set(dir(ShadowCatalog))
    assert public(UnopenedCatalogState) <= set(dir(ShadowUnopened))
    assert public(CatalogInspection) <= set(dir(ShadowInspection))


@pytest.mark.row("D-9")
def test_an_error_on_one_side_alone_is_a_mismatch_for_every_method(shadow: Lab) -> None:
    opened: Any = shadow.open()
    primary, secondary = opened.primary, opened.secondary
    for name, call in {**READS, **WRITES}.items():
        for sides in (
            (primary, Tampered(secondary, name, _fail)),
            (Tampered(primary, name, _fail), secondary),
        ):
            with pytest.raises(ShadowMismatch) as caught:
                call(ShadowCatalog(*sides))
            assert caught.value.method == name
            assert "tampered with" in str(caught.value)
            _align(primary, secondary)


def _align(*sides: Any) -> None:
    """A write that failed on one side happened on the other: make both the same again."""
    for side in sides:
        with side.transaction() as transaction:
            for kind in SAMPLES:
                transaction.table(kind).delete_where(lambda key, value: True)
            transaction.config.set(pb.ConfigKey(key="user_version"), pb.ConfigValue(value=21))
            for name in ("item", "audit_log", "storage_usage"):
                transaction.id_allocators.set(pb.IdAllocatorKey(name=name), pb.IdAllocatorValue(next_id=1))
            side.commit_transaction(transaction)


@pytest.mark.row("D-9")
def test_a_different_answer_on_one_side_is_a_mismatch_for_every_read(shadow: Lab) -> None:
    opened: Any = shadow.open()
    silent = {"confirm_leadership"}  # it answers nothing
    for name, call in READS.items():
        if name in silent | {"subscribe", "content_version"}:
            continue
        other = Tampered(opened.secondary, name, lambda *a, **o: ["something else"])
        with pytest.raises((ShadowMismatch, AttributeError)) as caught:
            call(ShadowCatalog(opened.primary, other))
        assert isinstance(caught.value, ShadowMismatch) or name == "snapshot_unconsolidated", name
    for name in ("epoch", "boot_ts", "is_read_only"):
        other = Tampered(opened.secondary, name, lambda: -1)
        with pytest.raises(ShadowMismatch):
            getattr(ShadowCatalog(opened.primary, other), name)


@pytest.mark.row("D-9")
def test_a_different_answer_before_opening_is_a_mismatch(stash: Lab, persist: Lab) -> None:
    for name, call in UNOPENED.items():
        other: Any = Tampered(persist.unopened(), name, lambda *a: "something else")
        with pytest.raises(ShadowMismatch) as caught:
            call(ShadowUnopened(stash.unopened(), other))
        assert caught.value.method == name


def test_contents_that_differ_are_noticed_by_getters_dump_and_digests(
    shadow: Lab, stash: Lab, persist: Lab
) -> None:
    with shadow.unopened().open() as opened:
        token: Any = opened.token
    first, _, second = token.nonce.partition("/")
    del first
    with persist.unopened().resume(type(token)("persist", token.epoch, second)) as alone:
        alone.set_objects("roles", [role(1)])
    resumed = shadow.resume(token)
    for call in (
        lambda: resumed.get_roles(),
        lambda: resumed.dump(),
        lambda: resumed.digests(),
        lambda: resumed.snapshot(),
        lambda: resumed.get_role_by_id(pb.RoleId(user=1)),
    ):
        with pytest.raises(ShadowMismatch) as caught:
            call()
        assert caught.value.primary != caught.value.secondary


def test_a_difference_inside_a_transaction_is_noticed(shadow: Lab) -> None:
    opened: Any = shadow.open()
    transaction = opened.transaction()
    assert isinstance(transaction, ShadowTransaction)
    for number, call in enumerate(
        (
            lambda found: transaction.roles.items(),
            lambda found: transaction.roles.get(found.key),
            lambda found: transaction.roles.insert(*found),
            lambda found: transaction.roles.update(*found),
            lambda found: transaction.roles.set(*found),
            lambda found: transaction.roles.delete(found.key),
        )
    ):
        transaction.primary.roles.insert(*role(number + 1))
        with pytest.raises(ShadowMismatch):
            call(role(number + 1))
        for side in (transaction.primary, transaction.secondary):
            side.roles.set(role(number + 1).key, None)


def test_the_tables_of_a_shadow_transaction_do_what_tables_do(shadow: Lab) -> None:
    opened = shadow.open()
    with opened.transaction() as transaction:
        for name in public(TableView):
            assert callable(getattr(transaction.items, name))
        transaction.items.insert(*item(1))
        transaction.items.update(item(1).key, item(1, "other").value)
        assert transaction.items.delete_where(lambda key, value: value.name == "other")
        transaction.items.set(*item(2))
        opened.commit_transaction(transaction)
    assert [found.value.name for found in opened.get_items()] == ["item_2"]


def test_an_epoch_that_one_side_is_ahead_with_is_caught_up_by_opening(shadow: Lab, stash: Lab) -> None:
    with shadow.unopened().open(), stash.unopened().open(epoch_min=40):
        pass
    with pytest.raises(ShadowMismatch):
        shadow.unopened().epoch()
    assert shadow.open().epoch == 41
    assert shadow.unopened().epoch() == 41


def test_one_side_that_was_fenced_is_a_mismatch_that_names_the_fence(shadow: Lab, persist: Lab) -> None:
    opened = shadow.open()
    persist.open()
    with pytest.raises(ShadowMismatch, match="Fenced"):
        opened.get_roles()


def test_both_sides_fenced_is_the_same_answer(shadow: Lab) -> None:
    opened = shadow.open()
    shadow.open()
    with pytest.raises(Fenced):
        opened.get_roles()


@pytest.mark.row("D-32")
def test_a_shadow_wraps_any_two_catalogs(persist: Lab, stash: Lab, tmp_path: Any) -> None:
    from hermit.durable import init_persist_catalog_state

    other = init_persist_catalog_state(tmp_path / "other")
    with init_shadow_catalog_state(persist.unopened(), other).open() as opened:
        opened.set_tombstone(True)
        assert opened.tombstone() is True
    with (
        init_shadow_catalog_state(persist.unopened(), stash.unopened()).open_savepoint() as dry,
        pytest.raises(ShadowMismatch),
    ):
        dry.tombstone()


def test_a_token_of_something_else_resumes_no_shadow(shadow: Lab, stash: Lab) -> None:
    with shadow.unopened().open():
        pass
    with stash.unopened().open() as opened, pytest.raises(InvalidInput):
        shadow.resume(opened.token)
