"""Opening: what it initializes, upgrades and refuses, and that it is one atomic step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hermit.durable.errors import GenerationTooOld, InvalidObject, UpgradeNeeded
from hermit.errors import CorruptData, HermitError, NotInitialized
from hermit.formats import codec, config
from hermit.formats.errors import FormatFromTheFuture, FormatTooOld
from hermit.formats.generate import rows as generate
from hermit.formats.upgrade import upgrade
from hermit.formats.versions import MIN_STASH_VERSION, STASH_VERSION
from hermit.rows import Row

from .conftest import Lab, fill
from .samples import cluster_replica, role


def _config(name: str, value: int) -> Row:
    return Row(config.COLLECTION, config.encode_key(name), config.encode_value(value))


def _upgraded(rows: list[Row], version: int) -> set[Row]:
    """What the steps make of these rows, without any store."""
    live = dict.fromkeys(rows)

    def read(collection: str) -> list[tuple[bytes, bytes]]:
        return [(row.key, row.value) for row in live if row.collection == collection]

    def write(changes: Any) -> None:
        for row, diff in changes:
            if diff > 0:
                live[row] = None
            else:
                del live[row]

    upgrade(version, read, write)
    return set(live)


def _stored(lab: Lab) -> tuple[Any, ...]:
    """Everything that could be changed by somebody who must change nothing."""
    with lab.unopened().inspect() as found:
        rows = sorted(found.snapshot_unconsolidated())
        return lab.unopened().epoch(), found.content_version(), rows


@pytest.mark.row("M-19", "D-11", "D-46", "D-78", "M-5", "D-55")
@pytest.mark.parametrize("version", [MIN_STASH_VERSION, 15, 18, STASH_VERSION - 1])
def test_opening_an_older_catalog_upgrades_it(lab: Lab, version: int) -> None:
    rows = [*generate(120, 2, version), _config(config.DEPLOY_GENERATION, 4), _config(config.TOMBSTONE, 0)]
    fill(lab, rows)
    unopened = lab.unopened()
    assert unopened.is_initialized()
    assert unopened.format_version() == version
    assert unopened.deploy_generation() == 4, "readable before any upgrade"
    assert unopened.tombstone() is False
    assert unopened.format_version() == version, "and reading it upgraded nothing"
    opened = lab.open()
    assert opened.format_version() == STASH_VERSION
    expected = {row for row in _upgraded(rows, version) if row != _config(config.TOMBSTONE, 0)}
    assert set(opened.snapshot()) == expected
    assert opened.tombstone() is False
    assert len(opened.get_items()) == sum(row.collection == "items" for row in rows)


@pytest.mark.row("D-12", "D-48", "D-71")
def test_checking_an_older_catalog_upgrades_it_in_memory_only(lab: Lab) -> None:
    fill(lab, generate(120, 2, 15))
    before = _stored(lab)
    check = lab.unopened().check_open()
    assert (check.found, check.current) == (15, STASH_VERSION)
    assert check.objects >= 120
    assert _stored(lab) == before


@pytest.mark.row("D-13")
def test_checking_a_catalog_that_nobody_initialized_fails_and_leaves_it_so(lab: Lab) -> None:
    with pytest.raises(NotInitialized):
        lab.unopened().check_open()
    assert lab.unopened().is_initialized() is False


@pytest.mark.row("D-12", "D-71")
def test_checking_a_running_catalog_disturbs_nobody(lab: Lab) -> None:
    leader = lab.open()
    reader = lab.read_only()
    before = _stored(lab)
    for _ in range(3):
        lab.unopened().check_open()
        leader.confirm_leadership()
        assert reader.get_roles() == leader.get_roles()
    assert _stored(lab) == before


@pytest.mark.row("D-14")
def test_checking_finds_a_damaged_object_of_any_kind(lab: Lab) -> None:
    good = list(generate(80, 1))
    victim = next(row for row in good if row.collection == "storage_usage")
    damaged = victim._replace(value=bytes([victim.value[0] ^ 1]) + victim.value[1:])
    fill(lab, [damaged if row == victim else row for row in good])
    before = _stored(lab)
    with pytest.raises(CorruptData, match="storage_usage"):
        lab.unopened().check_open()
    assert _stored(lab) == before


def test_checking_finds_two_objects_with_one_name(lab: Lab) -> None:
    twin = role(9, "twin")
    rows = [
        Row("roles", codec.encode_key("roles", key), codec.encode_value("roles", twin.value))
        for key in (role(8).key, twin.key)
    ]
    fill(lab, [*generate(40, 1), *rows])
    with pytest.raises(InvalidObject, match="unique"):
        lab.unopened().check_open()


@pytest.mark.row("D-72")
def test_checking_knows_the_valid_sizes(lab: Lab) -> None:
    opened = lab.open()
    opened.set_cluster_replica(cluster_replica(1, "huge"))
    lab.unopened().check_open(replica_sizes={"small", "huge"})
    with pytest.raises(InvalidObject, match="huge"):
        lab.unopened().check_open(replica_sizes={"small"})


@pytest.mark.row("D-17")
def test_a_catalog_that_needs_an_upgrade_cannot_be_opened_to_read(lab: Lab) -> None:
    fill(lab, generate(40, 1, 17))
    before = _stored(lab)
    with pytest.raises(UpgradeNeeded) as caught:
        lab.read_only()
    assert (caught.value.found, caught.value.current) == (17, STASH_VERSION)
    assert _stored(lab) == before


@pytest.mark.parametrize(
    ("version", "error"),
    [
        (0, FormatTooOld),
        (13, FormatTooOld),
        (STASH_VERSION + 1, FormatFromTheFuture),
        (2**63, FormatFromTheFuture),
    ],
)
@pytest.mark.parametrize("mode", ["open", "read_only", "savepoint", "check_open"])
def test_an_opener_that_cannot_serve_a_catalog_fences_nobody(
    lab: Lab, version: int, error: type[HermitError], mode: str
) -> None:
    rows = [row for row in generate(30, 1) if row.collection != config.COLLECTION]
    fill(lab, [*rows, _config(config.USER_VERSION, version)])
    before = _stored(lab)
    attempt = lab.unopened().check_open if mode == "check_open" else getattr(lab, mode)
    with pytest.raises(error):
        attempt()
    assert _stored(lab) == before


@pytest.mark.row("M-17", "D-46", "D-61")
def test_an_upgrade_that_fails_leaves_epoch_and_contents_as_they_were(lab: Lab) -> None:
    """Epoch and contents move in one atomic step (ruling A-7): no crash shows one without the other."""
    good = list(generate(60, 1, 15))
    victim = next(row for row in good if row.collection == "items")
    fill(lab, [row._replace(value=b"damaged") if row == victim else row for row in good])
    before = _stored(lab)
    for attempt in (lab.open, lab.savepoint, lambda: lab.unopened().check_open()):
        with pytest.raises(HermitError):
            attempt()
        assert _stored(lab) == before


def test_rows_without_a_format_version_are_not_taken_for_an_empty_catalog(lab: Lab) -> None:
    fill(lab, [row for row in generate(30, 1) if row.collection != config.COLLECTION])
    before = _stored(lab)
    with pytest.raises(HermitError, match="not empty"):
        lab.open()
    assert _stored(lab) == before


def test_a_generation_that_is_too_old_is_refused_before_the_upgrade(lab: Lab) -> None:
    fill(lab, [*generate(30, 1, 15), _config(config.DEPLOY_GENERATION, 9)])
    before = _stored(lab)
    for attempt in (lab.open, lab.savepoint):
        with pytest.raises(GenerationTooOld):
            attempt(deploy_generation=8)
    assert _stored(lab) == before


@pytest.mark.row("D-53")
def test_a_deploy_generation_that_is_not_given_stays_what_it_is(lab: Lab) -> None:
    with lab.unopened().open(deploy_generation=3):
        pass
    with lab.unopened().open() as opened:
        assert opened.deploy_generation() == 3
        assert opened.token.deploy_generation == 3
        opened.set_deploy_generation(6)
        assert opened.token.deploy_generation == 6
        with pytest.raises(GenerationTooOld):
            opened.set_deploy_generation(5)
        assert opened.deploy_generation() == 6
    assert lab.unopened().deploy_generation() == 6


@pytest.mark.row("D-44")
def test_only_opening_for_writing_initializes(persist: Lab, tmp_path: Path) -> None:
    assert persist.unopened().is_initialized() is False
    with persist.unopened().open_savepoint():
        pass
    assert persist.unopened().is_initialized() is False
    assert not (tmp_path / "shard").exists()
    with persist.unopened().open():
        pass
    assert persist.unopened().is_initialized() is True


def test_without_preloading_everything_is_there_when_asked_for(lab: Lab) -> None:
    with lab.unopened().open() as opened:
        expected = opened.dump(), opened.get_roles(), opened.get_audit_log()
    for lazy in (lab.open(preload=False), lab.read_only(preload=False), lab.savepoint(preload=False)):
        assert (lazy.dump(), lazy.get_roles(), lazy.get_audit_log()) == expected
    last = lab.open(preload=False)
    last.set_objects("roles", [role(5)])
    assert last.get_role_by_id(role(5).key.id) == role(5)


@pytest.mark.row("M-6", "M-7", "M-8")
def test_a_tombstone_is_a_number_in_the_config_and_anything_else_is_damage(lab: Lab) -> None:
    opened = lab.open()
    for retired in (True, False):
        opened.set_tombstone(retired)
        assert opened.get_config_by_key("tombstone") == int(retired)
        assert lab.unopened().config("tombstone") == int(retired)
    opened.set_config("tombstone", 2)
    for ask in (opened.tombstone, lab.unopened().tombstone):
        with pytest.raises(CorruptData):
            ask()
    opened.set_config("big", 2**64 - 1)
    assert lab.unopened().config("big") == 2**64 - 1
