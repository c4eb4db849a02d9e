"""What can be written to the update log says of which type it is.

The numbers are part of the log's format: a number is never given to another type. Which serializer
writes a type, and in which versions, is known to `hermit.service.wire` alone.
"""

from __future__ import annotations

from enum import IntEnum, unique
from typing import ClassVar, Protocol


@unique
class MarshalledType(IntEnum):
    """The object type in the header of every serialized object: two bytes."""

    VERSIONED_UPDATE = 1
    SNAPSHOT = 2
    SNAPSHOT_PART = 3

    ZONE = 10
    SCHEMA = 11
    TABLE = 12
    TABLE_COLUMN = 13
    TABLE_SCHEMA_VERSIONS = 14
    INDEX = 15
    INDEX_COLUMN = 16
    VIEW = 17
    SEQUENCE = 18

    NEW_SCHEMA = 30
    NEW_TABLE = 31
    NEW_INDEX = 32
    NEW_ZONE = 33
    NEW_VIEW = 34
    NEW_SEQUENCE = 35
    RENAME = 40
    DROP = 41
    NEW_COLUMNS = 42
    DROP_COLUMNS = 43
    ALTER_COLUMN = 44
    ALTER_ZONE = 45
    ALTER_VIEW = 46
    ALTER_SEQUENCE = 47
    SET_DEFAULT_ZONE = 48
    OBJECT_ID_GEN_UPDATE = 49


class MarshallableEntry(Protocol):
    """An object with a place in the log."""

    marshalled_type: ClassVar[MarshalledType]
