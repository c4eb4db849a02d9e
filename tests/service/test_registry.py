"""The registry of serializers and the guard over those that were released."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hermit.service.descriptors import ZoneDescriptor
from hermit.service.entries import DropEntry
from hermit.service.marshallable import MarshalledType
from hermit.service.wire import guard
from hermit.service.wire.io import Input, Output
from hermit.service.wire.marshaller import UpdateLogMarshaller
from hermit.service.wire.registry import (
    CatalogObjectSerializer,
    SerializerMistake,
    SerializerRegistry,
    catalog_serializer,
    default_registry,
    unchecked_registry,
)
from hermit.service.wire.samples import ZONE, sample


class DropSerializer(CatalogObjectSerializer[DropEntry]):
    type = MarshalledType.DROP

    def write(self, value: DropEntry, out: Output) -> None:
        out.varint(value.id)

    def read(self, inp: Input) -> DropEntry:
        return DropEntry(inp.varint())


@pytest.mark.row("I-33", "I-38")
def test_a_decorated_serializer_appears_in_the_registry_with_its_version_and_release() -> None:
    registry = SerializerRegistry()
    catalog_serializer(version=1, since="1.2.3", registry=registry)(DropSerializer)
    catalog_serializer(version=2, since="1.3.0", registry=registry)(DropSerializer)
    assert [(each.type, each.version, each.since) for each in registry] == [
        (MarshalledType.DROP, 1, "1.2.3"),
        (MarshalledType.DROP, 2, "1.3.0"),
    ]
    assert UpdateLogMarshaller(registry).marshal(DropEntry(1)).hex() == "000200290201"


@pytest.mark.row("I-37")
def test_versions_of_every_type_are_contiguous() -> None:
    for type_ in MarshalledType:
        versions = [each.version for each in default_registry().versions(type_)]
        assert versions == list(range(1, len(versions) + 1))
    newest = [default_registry().versions(type_)[-1].version for type_ in MarshalledType]
    assert sum(version >= 2 for version in newest) >= 5


@pytest.mark.row("I-37", "I-38")
@pytest.mark.parametrize(
    ("versions", "message"),
    [
        (["2"], "leaves a gap"),
        (["1", "3"], "leaves a gap"),
        (["1", "1"], "is there already"),
        (["0"], "is there already"),
        (["1@next"], "is since 'next'"),
        (["1@2.0.0", "2@1.9.9"], "before the version that it follows"),
    ],
)
def test_the_registry_refuses_gaps_duplicates_and_releases_that_are_none(
    versions: list[str], message: str
) -> None:
    registry = SerializerRegistry()
    for each in versions[:-1]:
        _register(registry, each)
    with pytest.raises(SerializerMistake, match=message):
        _register(registry, versions[-1])


def _register(registry: SerializerRegistry, text: str) -> None:
    version, _, since = text.partition("@")
    registry.register(DropSerializer(), int(version), since or "1.0.0")


@pytest.mark.row("I-39")
def test_every_serializer_is_what_was_released_in_bytes_meaning_and_source() -> None:
    registry, released = unchecked_registry(), guard.read_released()
    guard.check_bytes(registry, released)
    guard.check_sources(registry, released)
    assert {each.name for each in registry} | {"io"} == set(released)
    assert guard.release(registry, sample, released) == released


def _registry(serializer: CatalogObjectSerializer[Any]) -> SerializerRegistry:
    """All serializers, with one in the place of the first of its type."""
    registry = SerializerRegistry()
    for each in unchecked_registry():
        replaced = each.type is serializer.type and each.version == 1
        registry.register(serializer if replaced else each.serializer, each.version, each.since)
    return registry


class WritesMore(DropSerializer):
    def write(self, value: DropEntry, out: Output) -> None:
        out.varint(value.id + 1)


class ReadsOther(DropSerializer):
    def read(self, inp: Input) -> DropEntry:
        return DropEntry(inp.varint() + 1)


class ReadsNothing(DropSerializer):
    def read(self, inp: Input) -> DropEntry:
        return DropEntry(1)


class SwapsZoneFields(CatalogObjectSerializer[ZoneDescriptor]):
    """Reading and writing agree with each other, but no longer with what was released."""

    type = MarshalledType.ZONE

    def write(self, value: ZoneDescriptor, out: Output) -> None:
        out.varint(value.id)
        out.text(value.name)
        out.varint(value.updated)
        out.varint(value.replicas)
        out.varint(value.partitions)

    def read(self, inp: Input) -> ZoneDescriptor:
        id_, name, updated, replicas, partitions = (
            inp.varint(),
            inp.text(),
            inp.varint(),
            inp.varint(),
            inp.varint(),
        )
        return ZoneDescriptor(
            id=id_,
            name=name,
            updated=updated,
            replicas=replicas,
            partitions=partitions,  # type: ignore[arg-type]
        )


@pytest.mark.row("I-39")
@pytest.mark.parametrize("serializer", [WritesMore, ReadsOther, ReadsNothing, SwapsZoneFields])
def test_a_changed_released_serializer_is_refused(serializer: type[CatalogObjectSerializer[Any]]) -> None:
    registry = _registry(serializer())
    with pytest.raises(guard.SerializerChanged):
        guard.check_bytes(registry)
    with pytest.raises(guard.SerializerChanged):
        guard.check_sources(registry)


def test_a_released_serializer_may_not_go_nor_change_its_release() -> None:
    without, later = SerializerRegistry(), SerializerRegistry()
    for each in unchecked_registry():
        if each.type is not MarshalledType.DROP:
            without.register(each.serializer, each.version, each.since)
        later.register(each.serializer, each.version, "0.1.1")
    with pytest.raises(guard.SerializerMissing, match="DROP/1"):
        guard.check_bytes(without)
    with pytest.raises(guard.SerializerChanged, match="since"):
        guard.check_bytes(later)


def test_a_new_serializer_is_recorded_before_it_is_part_of_a_release() -> None:
    registry = _registry(unchecked_registry().find(MarshalledType.DROP, 1).serializer)
    registry.register(DropSerializer(), 2, "0.1.0")
    with pytest.raises(guard.SerializerNotReleased, match="DROP/2"):
        guard.check_bytes(registry)
    released = guard.release(registry, sample, guard.read_released())
    guard.check_bytes(registry, released)
    assert {name: entry for name, entry in released.items() if name != "DROP/2"} == guard.read_released()


def test_a_serializer_of_the_next_release_may_still_change() -> None:
    registry = _registry(unchecked_registry().find(MarshalledType.DROP, 1).serializer)
    registry.register(DropSerializer(), 2, "999.0.0")
    guard.check_bytes(registry)


def test_golden_bytes_that_were_tampered_with_are_found() -> None:
    released = copy.deepcopy(dict(guard.read_released()))
    entry = dict(released["ZONE/2"])
    entry["bytes"] = entry["bytes"][:-2] + "00"
    with pytest.raises(guard.SerializerChanged):
        guard.check_bytes(unchecked_registry(), {**released, "ZONE/2": entry})


@pytest.mark.row("I-39")
def test_golden_bytes_of_a_zone_by_hand() -> None:
    zone = ZoneDescriptor(id=1, name="a", partitions=300, replicas=2, storage_profiles=("p",))
    assert UpdateLogMarshaller().marshal(zone).hex(" ") == (
        "00 02 00 0a 02 01 01 61 00 ac 02 02 04 24 2e 2e 2a 01 01 70"
    )
    assert ZONE.marshalled_type == 10
