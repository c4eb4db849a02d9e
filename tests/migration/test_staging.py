"""Staging, partition by partition: memory, attempts that die, limits, and what others see meanwhile."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from typer.testing import CliRunner

from hermit.cli.throttle import app
from hermit.errors import InvalidInput
from hermit.formats.generate import rows
from hermit.migration import dry_run, parts, progress, staging, steps, throttle, work
from hermit.migration.load import load_rows
from hermit.migration.manifest import Manifest
from hermit.migration.move import Fencing, Move
from hermit.migration.parts import Part
from hermit.migration.protocol import Direction
from hermit.migration.shelf import Shelf
from hermit.migration.stores import Stores
from hermit.migration.throttle import Brake, Limits, Pace
from hermit.persist.batch import staged_files
from hermit.stash.consolidate import consolidate
from tests.migration.driver import move, stores_for, truth
from tests.persist.s3_server import S3Server

MIGRATE, ROLLBACK = Direction.MIGRATE, Direction.ROLLBACK
BOTH = pytest.mark.parametrize("direction", [MIGRATE, ROLLBACK])
# Small enough that the little catalog of these tests has several partitions.
LIMITS = Limits(rows_per_partition=60)


class Killed(Exception):
    """The job dies here."""


@pytest.fixture
def stores(database_url: str, tmp_path: Path, organization_id: UUID) -> Stores:
    """A stash with a generated catalog, and a shard that does not exist yet."""
    stores = stores_for(database_url, str(tmp_path / "shards"), organization_id)
    load_rows(stores, rows(300, 7))
    return stores


class Job:
    """One run up to its staging job, which can be told to die, or to do partitions twice."""

    def __init__(self, stores: Stores, direction: Direction) -> None:
        self.stores, self.direction = stores, direction
        self.move = Move.parse(
            direction=direction.value,
            organization_id=str(stores.organization_id),
            protocol=None,
            dry_run=False,
            run_id="job",
        )
        self.fencing: Fencing = steps.fence_epoch(stores, self.move)
        self.decision = steps.check_tombstone(stores, self.move, self.fencing)
        assert self.decision.batch is not None
        self.batch = self.decision.batch
        self.ran: list[str] = []

    def stage(
        self,
        die_after: int | None = None,
        twice: bool = False,
        limits: Limits = LIMITS,
        wrap: Callable[[Any], Any] = lambda function: function,
    ) -> Part:
        def run(function: Any, items: Any) -> list[Part]:
            results = []
            for item in items:
                if len(results) == die_after:
                    raise Killed
                if twice:
                    function(item)
                results.append(wrap(function)(item))
                self.ran.append(item[0])
            return results

        workers = staging.Workers(run, limits=limits)
        with self.stores.resumed(self.fencing) as (stash, persist):
            staging.sweep(self.stores, stash, self.batch)
            if self.direction is MIGRATE:
                version, part = staging.stage_stash(self.stores, stash, self.batch, workers)
            else:
                version, part = staging.stage_shard(self.stores, stash, persist, self.batch, workers)
        self.stores.manifests().write(
            Manifest(
                batch=self.batch,
                direction=self.direction,
                source_version=version,
                digests=part.read,
                staged_digests=part.staged,
                files=part.files,
                rows=part.rows,
                bytes=part.bytes,
                seconds=1.0,
                rows_reused=part.reused,
            )
        )
        return part

    def finish(self) -> None:
        order = ["replace", "verify"] if self.direction is MIGRATE else ["verify", "replace"]
        for step in [*order, "set_tombstone"]:
            getattr(steps, step)(self.stores, self.move, self.fencing, self.batch)
        steps.finish(self.stores, self.move, self.batch)


def ready(stores: Stores, direction: Direction) -> None:
    """Bring the truth to where the direction starts, with changes on top when that is persist."""
    if direction is ROLLBACK:
        job = Job(stores, MIGRATE)
        job.stage()
        job.finish()
        change(stores)


def change(stores: Stores) -> None:
    store = stores.state().truth.store.value
    with {"stash": stores.stash, "persist": stores.persist}[store].open() as catalog:
        for number in range(3):
            catalog.set_setting(f"changed {number}", f"{store} {number}")
        catalog.set_setting("changed 1", "again")


@BOTH
def test_a_partition_that_is_run_twice_leaves_no_double_rows(stores: Stores, direction: Direction) -> None:
    ready(stores, direction)
    before = truth(stores)[1]
    job = Job(stores, direction)
    part = job.stage(twice=True)
    assert len(job.ran) > 2
    assert part.rows == before.rows
    job.finish()
    assert truth(stores) == (direction.target.value, before)


def once(function: Any) -> Any:
    """A function that can be called once, by whichever thread, and then never again."""
    calls = itertools.count()

    def call(*arguments: Any) -> Any:
        if next(calls):
            raise Killed
        return function(*arguments)

    return call


@BOTH
def test_a_small_catalog_is_staged_by_threads_of_the_driver_and_gone_on_with_there(
    stores: Stores, direction: Direction, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready(stores, direction)
    before = truth(stores)[1]
    # As if it were too large for one partition, on a machine of three cores.
    monkeypatch.setattr(work, "SMALL_BYTES", 0)
    monkeypatch.setattr(work, "cores_here", lambda: 3)
    crashed = Job(stores, direction)
    with monkeypatch.context() as dying:
        dying.setattr(parts, "leave", once(parts.leave))
        with pytest.raises(Killed):
            crashed.stage(limits=Limits())
    job = Job(stores, direction)
    part = job.stage(limits=Limits())
    assert crashed.ran == job.ran == []
    assert part.rows == before.rows
    assert 0 < part.reused < part.rows
    job.finish()
    assert truth(stores) == (direction.target.value, before)


@BOTH
def test_partitions_of_a_crashed_attempt_are_used_again(stores: Stores, direction: Direction) -> None:
    ready(stores, direction)
    before = truth(stores)[1]
    crashed = Job(stores, direction)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    again = Job(stores, direction)
    assert (again.batch, again.decision.reused) == (crashed.batch, True)
    part = again.stage()
    assert part.reused > 0
    assert not set(again.ran) & set(crashed.ran)
    assert part.rows == before.rows
    again.finish()
    assert truth(stores) == (direction.target.value, before)
    assert Shelf(stores.location).names() == []


@BOTH
def test_partitions_are_not_used_again_when_the_contents_have_changed(
    stores: Stores, direction: Direction
) -> None:
    ready(stores, direction)
    crashed = Job(stores, direction)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    change(stores)
    before = truth(stores)[1]
    again = Job(stores, direction)
    assert again.batch != crashed.batch
    assert again.stage().reused == 0
    again.finish()
    assert truth(stores) == (direction.target.value, before)
    assert stores.sides() == set()
    assert stores.staged_batches() == set()


def test_a_rewritten_heap_is_read_anew_although_its_version_is_the_same(stores: Stores) -> None:
    crashed = Job(stores, MIGRATE)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    with psycopg.connect(stores.stash_url, autocommit=True) as connection:
        connection.execute(f"VACUUM FULL {stores.stash_client.schema}.data".encode())
    before = truth(stores)[1]
    again = Job(stores, MIGRATE)
    assert again.batch == crashed.batch
    part = again.stage()
    assert part.reused == 0
    again.finish()
    assert truth(stores) == ("persist", before)


def test_vacuum_and_consolidation_do_not_move_rows_between_partitions(stores: Stores) -> None:
    change(stores)
    before = truth(stores)[1]
    crashed = Job(stores, MIGRATE)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    with psycopg.connect(stores.stash_url, autocommit=True) as connection:
        connection.execute(f"VACUUM {stores.stash_client.schema}.data".encode())
    again = Job(stores, MIGRATE)
    with stores.resumed(again.fencing) as (stash, _):
        consolidate(stash.stash)
    part = again.stage()
    assert part.reused > 0
    again.finish()
    assert truth(stores) == ("persist", before)


def test_a_part_whose_file_is_gone_is_staged_again(stores: Stores) -> None:
    crashed = Job(stores, MIGRATE)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    for path in Path(stores.location, "batches", crashed.batch).iterdir():
        path.unlink()
    again = Job(stores, MIGRATE)
    assert again.stage().reused == 0
    again.finish()


def test_a_torn_note_reads_as_absent(stores: Stores) -> None:
    crashed = Job(stores, MIGRATE)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    torn, *_ = Path(stores.location, "_hermit/staged", crashed.batch, "part").iterdir()
    torn.write_bytes(torn.read_bytes()[:20])
    again = Job(stores, MIGRATE)
    part = again.stage()
    assert torn.stem in again.ran
    assert part.reused > 0
    again.finish()


def test_a_piece_that_is_complete_without_a_note_is_counted_not_copied_twice(stores: Stores) -> None:
    ready(stores, ROLLBACK)
    before = truth(stores)[1]
    crashed = Job(stores, ROLLBACK)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    for path in Path(stores.location, "_hermit/staged", crashed.batch, "part").iterdir():
        path.unlink()
    again = Job(stores, ROLLBACK)
    assert again.stage().rows == before.rows
    again.finish()
    assert truth(stores) == ("stash", before)


def test_a_sealed_side_is_not_gone_on_with(stores: Stores) -> None:
    ready(stores, ROLLBACK)
    before = truth(stores)[1]
    crashed = Job(stores, ROLLBACK)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    again = Job(stores, ROLLBACK)
    with stores.resumed(again.fencing) as (stash, _):
        stores.side_digests(stash, crashed.batch)
    assert again.stage().reused == 0
    again.finish()
    assert truth(stores) == ("stash", before)


@contextlib.contextmanager
def recorded(stores: Stores, batch: str) -> Iterator[list[progress.Progress]]:
    """What somebody who looks all the time sees."""
    seen: list[progress.Progress] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.wait(0.01):
            found = progress.read(stores.location, batch)
            if found is not None:
                seen.append(found)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        stop.set()
        thread.join()


@BOTH
def test_progress_goes_up_to_the_end_counts_attempts_once_and_is_gone_afterwards(
    stores: Stores, direction: Direction
) -> None:
    ready(stores, direction)
    total = truth(stores)[1].rows
    job = Job(stores, direction)
    with recorded(stores, job.batch) as seen:
        job.stage(twice=True)
    end = progress.read(stores.location, job.batch)
    assert end is not None
    # The row that a store keeps to itself is read as well.
    assert total <= end.rows_done <= total + 2
    assert (end.rows_total, end.partitions_done) == (end.rows_done, end.partitions)
    assert end.seconds_left == 0
    assert end.direction == direction
    counts = [found.rows_done for found in seen]
    assert counts == sorted(counts)
    assert progress.running(stores.location) == [end]
    job.finish()
    assert progress.read(stores.location, job.batch) is None
    assert progress.running(stores.location) == []


def test_progress_of_a_resumed_batch_starts_where_the_crashed_one_ended(stores: Stores) -> None:
    crashed = Job(stores, MIGRATE)
    with pytest.raises(Killed):
        crashed.stage(die_after=2)
    again = Job(stores, MIGRATE)
    first: list[progress.Progress | None] = []

    def look(function: Any) -> Any:
        first.append(progress.read(stores.location, again.batch))
        return function

    again.stage(wrap=look)
    assert first[0] is not None
    assert (first[0].partitions_done, first[0].rows_done > 0) == (2, True)


def test_the_request_carries_the_limits(stores: Stores) -> None:
    job = Job(stores, MIGRATE)
    limited = Move.parse(
        direction="migrate",
        organization_id=str(stores.organization_id),
        protocol=None,
        dry_run=False,
        run_id="r",
        limits={"rows_per_partition": 10, "max_rows_per_second": None, "organization_id": "ignored"},
    )
    request = steps.request(stores, limited, job.fencing, job.batch)
    assert Limits.parse(request) == Limits(rows_per_partition=10)


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[Callable[[], None]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += max(seconds, 0.001)
        if self.slept:
            self.slept.pop(0)()


def test_a_partition_keeps_to_its_pace_and_takes_up_a_new_one_while_it_waits(tmp_path: Path) -> None:
    shelf, clock = Shelf(str(tmp_path)), Clock()
    brake = Brake(shelf, "b", "p", clock, clock.sleep)
    brake.hold(1_000, lambda: None)
    assert clock.now == 0
    throttle.announce(shelf, "b", Pace(100))
    clock.now = 10.0
    for _ in range(3):
        brake.hold(1_000, lambda: None)
    # Ten seconds had gone by since the rows before: a third is paid for.
    assert 19 <= clock.now - 10 <= 21
    started = clock.now
    clock.slept = [lambda: throttle.announce(shelf, "b", Pace(None))]
    brake.hold(1_000_000, lambda: None)
    assert clock.now - started < 2


def test_a_partition_over_the_parallelism_waits_and_is_let_through(tmp_path: Path) -> None:
    shelf, clock = Shelf(str(tmp_path)), Clock()
    throttle.announce(shelf, "b", Pace(None, ("p",)))
    beats: list[float] = []
    clock.slept = [lambda: None, lambda: None, lambda: throttle.announce(shelf, "b", Pace(None, ("q",)))]
    Brake(shelf, "b", "p", clock, clock.sleep).hold(1, lambda: beats.append(clock.now))
    assert len(beats) >= 3
    Brake(shelf, "b", "q2", clock, clock.sleep).hold(1, lambda: beats.append(-1))
    assert -1 not in beats


def test_limits_are_changed_only_where_something_is_staged(stores: Stores) -> None:
    shelf = Shelf(stores.location)
    with pytest.raises(InvalidInput, match="no staging"):
        throttle.change(shelf, "migrate_none", max_parallelism=1)
    job = Job(stores, MIGRATE)
    changed: list[Limits] = []

    def look(function: Any) -> Any:
        changed.append(throttle.change(shelf, job.batch, max_rows_per_second=10_000_000))
        return function

    job.stage(wrap=look)
    assert changed[0] == Limits(LIMITS.rows_per_partition, None, 10_000_000)
    assert throttle.change(shelf, job.batch, max_rows_per_second=None) == LIMITS


def test_the_command_changes_the_limits_of_what_is_being_staged(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HERMIT_PERSIST_LOCATION", str(tmp_path / "shards"))
    arguments = ["--organization-id", str(stores.organization_id), "--max-parallelism", "3"]
    refused = CliRunner().invoke(app, arguments)
    assert isinstance(refused.exception, InvalidInput)
    job = Job(stores, MIGRATE)
    answers: list[str] = []

    def change(function: Any) -> Any:
        answers.append(CliRunner().invoke(app, arguments).output)
        return function

    job.stage(wrap=change)
    assert answers[0].splitlines() == ["max_rows_per_second: no limit", "max_parallelism: 3"]
    assert throttle.read(Shelf(stores.location), job.batch) == Limits(60, 3, None)


def test_an_attempt_on_an_object_store_is_gone_on_with_there_and_back(
    database_url: str, organization_id: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = S3Server()
    try:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        stores = stores_for(database_url, f"s3://bucket/{organization_id}", organization_id)
        load_rows(stores, rows(100, 7))
        before = truth(stores)[1]
        for direction in (MIGRATE, ROLLBACK):
            crashed = Job(stores, direction)
            with pytest.raises(Killed):
                crashed.stage(die_after=1)
            again = Job(stores, direction)
            assert again.stage().reused > 0
            assert progress.read(stores.location, again.batch) is not None
            again.finish()
            assert truth(stores) == (direction.target.value, before)
        assert Shelf(stores.location).names() == []
        scratch = dry_run.scratch(stores, "dry_run_1")
        assert staging.stage_rows(scratch, "dry_run_1", rows(10, 1)).rows > 0
        Shelf(scratch).put("dry_run_1", {})
        dry_run.finish(stores, crashed.move, "dry_run_1")
        assert staged_files(scratch, "dry_run_1") == {}
        assert Shelf(scratch).names() == []
    finally:
        server.stop()


def test_what_was_taken_away_and_added_since_is_copied_back_right(stores: Stores) -> None:
    ready(stores, ROLLBACK)
    with stores.persist.open() as catalog:
        catalog.set_setting("changed 0", "persist 0")
        catalog.set_setting("changed 1", "persist 1")
    before = truth(stores)[1]
    move(stores, ROLLBACK)
    assert truth(stores) == ("stash", before)
