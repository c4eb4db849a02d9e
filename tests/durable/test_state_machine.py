"""Random operations, reopenings and fences against a plain model, on every implementation.

The model is a dictionary per kind, the epoch, and who still may do something. Hypothesis looks for a
sequence of operations after which a catalog answers something else than the model.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from hermit.durable import (
    init_persist_catalog_state,
    init_shadow_catalog_state,
    init_stash_catalog_state,
)
from hermit.durable.abc import DurableCatalogState, UnopenedCatalogState
from hermit.durable.errors import DuplicateKey, UniquenessViolation, UnknownObject
from hermit.durable.table import Object
from hermit.errors import Fenced, ReadOnly
from hermit.formats import codec
from hermit.formats.gen import objects_pb2 as pb
from hermit.objects import KINDS

from .samples import SAMPLES, audit_event, item, role, setting, timestamp

Contents = dict[str, dict[bytes, Object[Any, Any]]]
# Few numbers and names, so that operations meet each other.
NUMBERS = st.integers(1, 5)
ROLES = st.builds(role, NUMBERS, st.sampled_from("abc"))
ITEMS = st.builds(item, NUMBERS, st.sampled_from("ab"), NUMBERS)
OPERATIONS = {
    ("roles", ("insert", "set", "delete")): ROLES,
    ("items", ("insert", "update", "delete")): ITEMS,
    ("settings", ("set", "delete")): st.builds(setting, NUMBERS),
    ("update_log", ("set",)): st.builds(SAMPLES["update_log"], NUMBERS),
    ("audit_log", ("set", "delete")): st.builds(audit_event, NUMBERS),
}
CHANGES = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(names), objects, st.just(kind))
        for (kind, names), objects in OPERATIONS.items()
    ),
    max_size=5,
)


class CatalogMachine(RuleBasedStateMachine):
    """One catalog, its model, the current opener, and openers of the past."""

    def __init__(self, unopened: Callable[[], UnopenedCatalogState], cleanup: ExitStack) -> None:
        super().__init__()
        self._unopened = unopened
        self._handles = cleanup
        self._fenced: list[DurableCatalogState] = []
        self._readers: list[DurableCatalogState] = []
        self._epoch = 0
        self._model: Contents = {kind: {} for kind in KINDS}
        self._open(unopened().open())
        for kind in KINDS:
            self._model[kind] = {self._key(kind, found): found for found in self._catalog.objects(kind)}

    def teardown(self) -> None:
        self._handles.close()

    # Opening and fencing

    def _open(self, catalog: DurableCatalogState) -> None:
        self._catalog = self._handles.enter_context(catalog)
        assert self._catalog.epoch > self._epoch
        self._epoch = self._catalog.epoch
        self._fenced += self._readers
        self._readers = []

    @rule(lower=st.integers(0, 3), preload=st.booleans())
    def open_again(self, lower: int, preload: bool) -> None:
        self._fenced.append(self._catalog)
        self._open(self._unopened().open(epoch_min=self._epoch + lower, preload=preload))
        assert self._catalog.epoch == self._epoch

    @rule()
    def close_and_open(self) -> None:
        self._catalog.close()
        self._open(self._unopened().open())

    @rule()
    def go_on_in_another_process(self) -> None:
        """The token is handed over; the process before is gone."""
        token = self._catalog.token
        self._catalog.close()
        self._catalog = self._handles.enter_context(self._unopened().resume(token))
        assert self._catalog.epoch == self._epoch

    @rule(preload=st.booleans())
    def open_read_only(self, preload: bool) -> None:
        self._readers.append(self._handles.enter_context(self._unopened().open_read_only(preload=preload)))

    @precondition(lambda self: self._fenced)
    @rule(data=st.data())
    def a_fenced_handle_does_nothing(self, data: st.DataObject) -> None:
        fenced = data.draw(st.sampled_from(self._fenced))
        for call in (
            lambda: fenced.get_roles(),
            lambda: fenced.confirm_leadership(),
            lambda: fenced.set_timestamp("epoch_ms", 666),
        ):
            with pytest.raises((Fenced, ReadOnly)):
                call()
        with pytest.raises(Fenced):
            fenced.get_config()

    # Changing

    @rule(changes=CHANGES, commits=st.booleans())
    def transact(self, changes: list[Any], commits: bool) -> None:
        before = self._catalog.content_version()
        model = {kind: dict(objects) for kind, objects in self._model.items()}
        with self._catalog.transaction() as transaction:
            for name, found, kind in changes:
                expected = _change(model, name, found, kind)
                with pytest.raises(expected) if expected else nullcontext():
                    _operate(transaction.table(kind), name, found)
            if commits:
                self._catalog.commit_transaction(transaction)
        changed = commits and model != self._model
        if commits:
            self._model = model
        assert (self._catalog.content_version() != before) is changed

    @rule(number=NUMBERS, value=st.integers(0, 3))
    def set_timestamp(self, number: int, value: int) -> None:
        found = timestamp(number)._replace(value=pb.TimestampValue(ts_ms=value))
        self._catalog.set_timestamp(found.key.timeline, value)
        self._model["timestamps"][self._key("timestamps", found)] = found

    @rule(retired=st.sampled_from([None, True, False]))
    def set_tombstone(self, retired: bool | None) -> None:
        self._catalog.set_config("tombstone", None if retired is None else int(retired))
        found = Object(pb.ConfigKey(key="tombstone"), pb.ConfigValue(value=int(retired or 0)))
        if retired is None:
            self._model["config"].pop(self._key("config", found), None)
        else:
            self._model["config"][self._key("config", found)] = found
        assert self._catalog.tombstone() is retired
        assert self._unopened().tombstone() is retired

    @rule(amount=st.integers(0, 3))
    def allocate(self, amount: int) -> None:
        key = self._key("id_allocators", Object(pb.IdAllocatorKey(name="item"), None))
        first = self._model["id_allocators"][key].value.next_id
        assert self._catalog.allocate_id("item", amount) == list(range(first, first + amount))
        found = Object(pb.IdAllocatorKey(name="item"), pb.IdAllocatorValue(next_id=first + amount))
        self._model["id_allocators"][key] = found

    @rule(changes=CHANGES)
    def rehearse(self, changes: list[Any]) -> None:
        """A savepoint does it all, and nothing of it stays."""
        model = {kind: dict(objects) for kind, objects in self._model.items()}
        with self._unopened().open_savepoint() as dry:
            with dry.transaction() as transaction:
                for name, found, kind in changes:
                    expected = _change(model, name, found, kind)
                    with pytest.raises(expected) if expected else nullcontext():
                        _operate(transaction.table(kind), name, found)
                dry.commit_transaction(transaction)
            for kind in ("roles", "items", "audit_log"):
                assert dry.objects(kind) == _objects(model, kind)

    # What must hold

    @invariant()
    def the_catalog_is_what_the_model_says(self) -> None:
        for kind in ("roles", "items", "settings", "timestamps", "id_allocators", "config"):
            assert self._catalog.objects(kind) == _objects(self._model, kind)
        assert self._catalog.epoch == self._epoch == self._unopened().epoch()

    @rule(data=st.data())
    def every_reader_sees_the_same(self, data: st.DataObject) -> None:
        sides = [self._catalog, *self._readers]
        reader = data.draw(st.sampled_from(sides))
        for kind in KINDS:
            assert reader.objects(kind) == _objects(self._model, kind)
        with self._unopened().inspect() as found:
            assert found.digests() == reader.digests()
            assert found.content_version() == self._catalog.content_version()

    def _key(self, kind: str, found: Object[Any, Any]) -> bytes:
        return codec.encode_key(kind, found.key)


def _objects(model: Contents, kind: str) -> list[Object[Any, Any]]:
    return [found for _, found in sorted(model[kind].items())]


def _operate(table: Any, name: str, found: Object[Any, Any]) -> None:
    if name == "delete":
        table.delete(found.key)
    else:
        getattr(table, name)(*found)


def _change(model: Contents, name: str, found: Object[Any, Any], kind: str) -> type[Exception] | None:
    """Do to the model what the operation does to a catalog, or say how it fails."""
    key, objects = codec.encode_key(kind, found.key), model[kind]
    if name == "insert" and key in objects:
        return DuplicateKey
    if name in ("update", "delete") and key not in objects:
        return UnknownObject
    if name == "delete":
        del objects[key]
        return None
    if kind in ("roles", "items") and any(
        other != key and _name(kind, held) == _name(kind, found) for other, held in objects.items()
    ):
        return UniquenessViolation
    objects[key] = found
    return None


def _name(kind: str, found: Object[Any, Any]) -> Any:
    return (str(found.value.schema_id), found.value.name) if kind == "items" else found.value.name


@pytest.fixture
def machine(database_url: str) -> Iterator[Callable[[str], CatalogMachine]]:
    """Makes a machine over a catalog of its own."""
    with ExitStack() as folders:

        def make(store: str) -> CatalogMachine:
            handles = ExitStack()
            organization_id = uuid.uuid4()
            folder = tempfile.mkdtemp()
            folders.callback(shutil.rmtree, folder)

            def stash() -> UnopenedCatalogState:
                return init_stash_catalog_state(database_url, organization_id)

            def persist() -> UnopenedCatalogState:
                return init_persist_catalog_state(f"{folder}/shard")

            makers: dict[str, Callable[[], UnopenedCatalogState]] = {
                "stash": stash,
                "persist": persist,
                "shadow": lambda: init_shadow_catalog_state(stash(), persist()),
            }
            return CatalogMachine(makers[store], handles)

        yield make


@pytest.mark.slow
@pytest.mark.row("D-7", "D-8", "D-9")
@pytest.mark.parametrize("store", ["stash", "persist", "shadow"])
def test_no_sequence_of_operations_tells_a_catalog_from_the_model(
    machine: Callable[[str], CatalogMachine], store: str
) -> None:
    run_state_machine_as_test(
        lambda: machine(store),
        settings=settings(
            max_examples=10,
            stateful_step_count=25,
            deadline=None,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
