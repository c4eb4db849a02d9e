"""Commands about zones."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.service.catalog import Catalog
from hermit.service.commands.base import (
    CatalogCommand,
    check_distinct,
    check_name,
    check_unused,
    created,
    replace_given,
)
from hermit.service.descriptors import ZoneDescriptor
from hermit.service.entries import (
    AlterZoneEntry,
    DropEntry,
    NewZoneEntry,
    RenameEntry,
    SetDefaultZoneEntry,
    UpdateEntry,
)
from hermit.service.errors import InvalidCommand, ObjectExists, ObjectInUse, ObjectNotFound

PARTITIONS_MAX = 65_000
REPLICAS_MAX = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateZone(CatalogCommand):
    """A new zone."""

    name: str
    partitions: int = 25
    replicas: int = 1
    filter: str = "$..*"
    storage_profiles: tuple[str, ...] = ("default",)
    if_not_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "zone")
        _check_range(self.partitions, PARTITIONS_MAX, "partitions")
        _check_settings(self.replicas, self.filter, self.storage_profiles)

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        if catalog.zone(self.name) is not None:
            if self.if_not_exists:
                return []
            raise ObjectExists(f"zone {self.name!r} exists already")
        zone = ZoneDescriptor(
            id=catalog.next_id,
            name=self.name,
            partitions=self.partitions,
            replicas=self.replicas,
            filter=self.filter,
            storage_profiles=self.storage_profiles,
        )
        return created(NewZoneEntry(zone))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterZone(CatalogCommand):
    """Other settings of a zone. Its partitions are fixed: the data is spread over them."""

    name: str
    replicas: int | None = None
    filter: str | None = None
    storage_profiles: tuple[str, ...] | None = None
    if_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "zone")
        _check_settings(self.replicas, self.filter, self.storage_profiles)

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        zone = _find(catalog, self.name, self.if_exists)
        if zone is None:
            return []
        altered = replace_given(
            zone, replicas=self.replicas, filter=self.filter, storage_profiles=self.storage_profiles
        )
        return [] if altered == zone else [AlterZoneEntry(altered)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SetDefaultZone(CatalogCommand):
    """Another zone for tables that name none."""

    name: str

    def validate(self) -> None:
        check_name(self.name, "zone")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        zone = _find(catalog, self.name, False)
        return [] if zone is None or zone.id == catalog.default_zone_id else [SetDefaultZoneEntry(zone.id)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameZone(CatalogCommand):
    """Another name for a zone."""

    name: str
    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "zone")
        check_name(self.new_name, "zone")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        zone = _find(catalog, self.name, self.if_exists)
        if zone is None:
            return []
        if catalog.zone(self.new_name) is not None:
            raise ObjectExists(f"zone {self.new_name!r} exists already", hint="choose another name")
        return [RenameEntry(zone.id, self.new_name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class DropZone(CatalogCommand):
    """The end of a zone that no table uses."""

    name: str
    if_exists: bool = False

    def validate(self) -> None:
        check_name(self.name, "zone")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        zone = _find(catalog, self.name, self.if_exists)
        if zone is None:
            return []
        if zone.id == catalog.default_zone_id:
            raise ObjectInUse(
                f"zone {self.name!r} is the default zone", hint="make another one the default", dependents=()
            )
        check_unused(catalog, zone)
        return [DropEntry(zone.id)]


def _find(catalog: Catalog, name: str, if_exists: bool) -> ZoneDescriptor | None:
    zone = catalog.zone(name)
    if zone is None and not if_exists:
        raise ObjectNotFound(f"there is no zone {name!r}")
    return zone


def _check_range(value: int, maximum: int, what: str) -> None:
    if not 1 <= value <= maximum:
        raise InvalidCommand(f"{value} {what} are not possible", hint=f"1 to {maximum}")


def _check_settings(replicas: int | None, filter_: str | None, profiles: tuple[str, ...] | None) -> None:
    if replicas is not None:
        _check_range(replicas, REPLICAS_MAX, "replicas")
    if filter_ is not None and not filter_.strip():
        raise InvalidCommand("the filter of the zone is empty", hint="'$..*' takes every node")
    if profiles is not None:
        if not profiles:
            raise InvalidCommand("a zone needs a storage profile")
        for profile in profiles:
            check_name(profile, "storage profile")
        check_distinct(profiles, "storage profile")
