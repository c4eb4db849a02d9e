"""Update entries: the smallest changes that a log records, each a pure function on catalogs."""

from __future__ import annotations

from hermit.service.entries.base import UpdateEntry
from hermit.service.entries.columns import AlterColumnEntry, DropColumnsEntry, NewColumnsEntry
from hermit.service.entries.objects import (
    DropEntry,
    NewIndexEntry,
    NewObjectEntry,
    NewSchemaEntry,
    NewSequenceEntry,
    NewTableEntry,
    NewViewEntry,
    NewZoneEntry,
    RenameEntry,
)
from hermit.service.entries.settings import (
    AlterSequenceEntry,
    AlterViewEntry,
    AlterZoneEntry,
    ObjectIdGenUpdateEntry,
    SetDefaultZoneEntry,
)

__all__ = [
    "AlterColumnEntry",
    "AlterSequenceEntry",
    "AlterViewEntry",
    "AlterZoneEntry",
    "DropColumnsEntry",
    "DropEntry",
    "NewColumnsEntry",
    "NewIndexEntry",
    "NewObjectEntry",
    "NewSchemaEntry",
    "NewSequenceEntry",
    "NewTableEntry",
    "NewViewEntry",
    "NewZoneEntry",
    "ObjectIdGenUpdateEntry",
    "RenameEntry",
    "SetDefaultZoneEntry",
    "UpdateEntry",
]
