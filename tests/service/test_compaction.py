"""Compaction: snapshots in the log, recovery from them, and whoever still needs what is old."""

from __future__ import annotations

import pytest

from hermit.service import compaction, errors
from hermit.service.clock import after_ms
from hermit.service.commands import CreateSchema
from hermit.service.events import CatalogEvent, EventType
from hermit.service.manager import CatalogManager
from hermit.service.snapshot import Snapshot, take
from tests.service.conftest import Cluster
from tests.service.test_manager import raw
from tests.service.world import table


def versions(cluster: Cluster, node: CatalogManager, count: int) -> None:
    """Make versions 2, 3 and so on, ten ms apart."""
    for _ in range(count):
        cluster.time.ms += 10
        cluster.result(node.execute(CreateSchema(name=f"s{node.catalog_latest().version + 1}")), node)


def renewed(cluster: Cluster, *nodes: CatalogManager) -> None:
    """Let the nodes claim anew what they need: time for the next claim passes, but none expires."""
    cluster.time.ms += 10_001
    for node in nodes:
        node.step()


@pytest.mark.row("I-26", "I-27", "I-28")
def test_a_snapshot_takes_the_place_of_its_version_and_of_all_before(cluster: Cluster) -> None:
    node = cluster.node()
    versions(cluster, node, 6)
    boundary = node.catalog_at(5)
    renewed(cluster, node)
    assert node.compact(boundary.time) == (5, 5)
    rows = raw(node)
    assert {key for key in rows if key.startswith("catalog.update.")} == {
        f"catalog.update.{version}" for version in (5, 6, 7)
    }
    assert int.from_bytes(rows["catalog.snapshot.version"], "big") == 5
    assert int.from_bytes(rows["catalog.version"], "big") == 7
    snapshot = node.marshaller.unmarshal(rows["catalog.update.5"], Snapshot)
    assert (snapshot.version, snapshot.time) == (5, boundary.time)


@pytest.mark.row("I-29")
def test_recovery_gives_the_same_catalogs_with_and_without_compaction(cluster: Cluster) -> None:
    node = cluster.node()
    versions(cluster, node, 6)
    known = {version: node.catalog_at(version) for version in range(8)}
    before = cluster.node()
    assert {version: before.catalog_at(version) for version in range(8)} == known
    before.stop()
    renewed(cluster, node)
    node.compact(known[4].time)
    after = cluster.node()
    assert after.earliest_version == 4
    for version in range(4, 8):
        assert after.catalog_at(version) == known[version]
        assert after.catalog_at(timestamp=known[version].time) == known[version]
    versions(cluster, after, 1)
    assert after.catalog_latest().version == 8


def test_a_late_joiner_that_asks_for_what_is_gone_is_told_what_is_the_earliest(
    stash_cluster: Cluster,
) -> None:
    node = stash_cluster.node()
    versions(stash_cluster, node, 6)
    old = node.catalog_at(2).time
    renewed(stash_cluster, node)
    node.compact()
    late = stash_cluster.node()
    assert late.catalog_latest() == node.catalog_latest()
    with pytest.raises(errors.VersionCompacted, match="the earliest is 7") as gone:
        late.catalog_at(3)
    assert (gone.value.version, gone.value.earliest) == (3, 7)
    with pytest.raises(errors.TimestampCompacted) as too_early:
        late.catalog_at(timestamp=old)
    assert too_early.value.earliest == 7
    with pytest.raises(errors.VersionCompacted):
        late.catalog_ready(3).result(0)


def test_a_second_compaction_goes_on_from_the_first(cluster: Cluster) -> None:
    node = cluster.node()
    versions(cluster, node, 3)
    renewed(cluster, node)
    assert node.compact() == (4, 4)
    with pytest.raises(errors.CompactionHeld, match="no later versions"):
        node.compact()
    versions(cluster, node, 3)
    renewed(cluster, node)
    assert node.compact() == (7, 3)
    assert [key for key in raw(node) if key.startswith("catalog.update.")] == ["catalog.update.7"]
    assert cluster.node().catalog_latest() == node.catalog_latest()


def test_the_low_watermark_keeps_the_version_that_was_active_then(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    versions(stash_cluster, node, 6)
    renewed(stash_cluster, node)
    between = after_ms(node.catalog_at(4).time, 5)
    assert node.compact(between).earliest == 4
    assert stash_cluster.node().catalog_at(timestamp=between).version == 4
    with pytest.raises(errors.CompactionHeld, match="low watermark"):
        node.compact(between)


def test_a_reader_keeps_its_version_and_all_later_ones(stash_cluster: Cluster) -> None:
    node = stash_cluster.node()
    versions(stash_cluster, node, 6)
    with node.reading(3) as catalog:
        renewed(stash_cluster, node)
        assert node.compact().earliest == 3
        assert node.catalog_at(3) is catalog
        with pytest.raises(errors.CompactionHeld, match="reader on this node"):
            node.compact()
    renewed(stash_cluster, node)
    assert node.compact().earliest == 7
    node.step()
    with pytest.raises(errors.VersionCompacted):
        node.catalog_at(3)


def test_a_reader_on_another_node_is_respected(stash_cluster: Cluster) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    versions(stash_cluster, node, 6)
    other.step()
    with other.reading(4):
        renewed(stash_cluster, node, other)
        assert node.compact().earliest == 4
        with pytest.raises(errors.CompactionHeld, match="node"):
            node.compact()
    renewed(stash_cluster, node, other)
    assert node.compact().earliest == 7


def test_a_reader_that_pins_what_is_compacted_elsewhere_goes_on_reading_it(stash_cluster: Cluster) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    versions(stash_cluster, node, 6)
    renewed(stash_cluster, node, other)
    with other.reading(4) as catalog:
        # Pinned after the claim: compaction does not know, but this node does.
        assert node.compact().earliest == 7
        other.step()
        assert other.catalog_at(4) is catalog
        assert other.earliest_version == 4
    other.step()
    assert other.earliest_version == 7


def test_a_node_that_is_behind_holds_compaction_up(stash_cluster: Cluster) -> None:
    node, slow = stash_cluster.node(), stash_cluster.node()
    slow.step()
    versions(stash_cluster, node, 6)
    renewed(stash_cluster, node)
    assert node.compact().earliest == 1
    with pytest.raises(errors.CompactionHeld, match=f"node {slow._queue.node_name}"):
        node.compact()
    slow.step()
    assert slow.catalog_latest().version == 7


def test_a_node_paused_for_longer_than_its_claim_goes_on_from_the_snapshot_and_says_so(
    cluster: Cluster,
) -> None:
    node, paused = cluster.node(), cluster.node()
    heard: list[CatalogEvent] = []
    paused.subscribe(heard.append, [EventType.TABLE_CREATED])
    ready, skipped = paused.catalog_ready(7), paused.catalog_ready(3)
    paused.step()
    versions(cluster, node, 6)
    cluster.time.ms += 31_000
    node.step()
    assert node.compact().earliest == 7
    # As after a consolidation of the store: the single steps are gone there too.
    paused._is_adopted = False
    paused.step()
    assert paused.catalog_latest() == node.catalog_latest()
    assert [(event.type, event.version) for event in heard] == [(EventType.VERSIONS_SKIPPED, 7)]
    assert ready.result(0).version == 7
    with pytest.raises(errors.VersionCompacted, match="the earliest is 7"):
        skipped.result(0)
    with pytest.raises(errors.VersionCompacted, match="the earliest is 7"):
        paused.catalog_at(1)


def test_a_node_that_was_paused_but_finds_every_step_in_the_store_misses_nothing(cluster: Cluster) -> None:
    node, paused = cluster.node(), cluster.node()
    heard: list[int] = []
    paused.subscribe(lambda event: heard.append(event.version))
    versions(cluster, node, 6)
    cluster.time.ms += 31_000
    node.step()
    node.compact()
    paused.step()
    assert heard == [2, 3, 4, 5, 6, 7]


def test_a_large_snapshot_is_stored_in_parts_and_they_go_with_it(
    stash_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compaction, "take", lambda catalog, registry: take(catalog, registry, 300))
    node = stash_cluster.node()
    stash_cluster.result(node.execute([table(f"t{number}", schema="public") for number in range(40)]))
    renewed(stash_cluster, node)
    node.compact()
    parts = [key for key in raw(node) if ".part." in key]
    assert len(parts) > 3
    late = stash_cluster.node()
    assert late.catalog_latest() == node.catalog_latest()
    versions(stash_cluster, node, 1)
    monkeypatch.undo()
    renewed(stash_cluster, node, late)
    node.compact()
    assert [key for key in raw(node) if ".part." in key] == []
    assert stash_cluster.node().catalog_latest() == node.catalog_latest()


def test_a_node_that_stops_gives_up_its_claim(stash_cluster: Cluster) -> None:
    node, other = stash_cluster.node(), stash_cluster.node()
    other.step()
    assert len(stash_cluster.nodes[0].wait_for(node.ask(lambda log: log.read())).readers.claims) == 2
    other.stop()
    assert list(node.wait_for(node.ask(lambda log: log.read())).readers.claims) == [node._queue.node_name]
