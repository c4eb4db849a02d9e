"""Commands about sequences."""

from __future__ import annotations

from dataclasses import dataclass

from hermit.service.catalog import Catalog
from hermit.service.commands.base import (
    SchemaObjectCommand,
    check_name,
    created,
    drop,
    find_member,
    find_schema,
    is_there,
    rename,
    replace_given,
)
from hermit.service.descriptors import ObjectType, SequenceDescriptor
from hermit.service.entries import AlterSequenceEntry, NewSequenceEntry, UpdateEntry
from hermit.service.errors import InvalidCommand

_BOUND = 2**63


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSequence(SchemaObjectCommand):
    """A new sequence."""

    start: int = 1
    increment: int = 1
    minimum: int = 1
    maximum: int = _BOUND - 1
    cycle: bool = False
    if_not_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        _check(self.name, self.start, self.increment, self.minimum, self.maximum)

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        schema = find_schema(catalog, self.schema)
        if is_there(schema, self.name, ObjectType.SEQUENCE, self.if_not_exists):
            return []
        sequence = SequenceDescriptor(
            id=catalog.next_id,
            name=self.name,
            schema_id=schema.id,
            start=self.start,
            increment=self.increment,
            minimum=self.minimum,
            maximum=self.maximum,
            cycle=self.cycle,
        )
        return created(NewSequenceEntry(sequence))


@dataclass(frozen=True, slots=True, kw_only=True)
class AlterSequence(SchemaObjectCommand):
    """Other settings of a sequence; what is not given stays."""

    increment: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    cycle: bool | None = None
    if_exists: bool = False

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        found = find_member(catalog, self.schema, self.name, SequenceDescriptor, if_exists=self.if_exists)
        if found is None:
            return []
        altered = replace_given(
            found,
            increment=self.increment,
            minimum=self.minimum,
            maximum=self.maximum,
            cycle=self.cycle,
        )
        _check(self.name, altered.start, altered.increment, altered.minimum, altered.maximum)
        return [] if altered == found else [AlterSequenceEntry(altered)]


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameSequence(SchemaObjectCommand):
    """Another name for a sequence."""

    new_name: str
    if_exists: bool = False

    def validate(self) -> None:
        SchemaObjectCommand.validate(self)
        check_name(self.new_name, "sequence")

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return rename(catalog, self, SequenceDescriptor, self.new_name, self.if_exists)


@dataclass(frozen=True, slots=True, kw_only=True)
class DropSequence(SchemaObjectCommand):
    """The end of a sequence."""

    if_exists: bool = False

    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        return drop(catalog, self, SequenceDescriptor, self.if_exists)


def _check(name: str, start: int, increment: int, minimum: int, maximum: int) -> None:
    if not increment:
        raise InvalidCommand(f"sequence {name!r} would stand still: its increment is 0")
    if not -_BOUND <= minimum < maximum < _BOUND:
        raise InvalidCommand(f"sequence {name!r} cannot run from {minimum} to {maximum}")
    if not minimum <= start <= maximum:
        raise InvalidCommand(f"sequence {name!r} starts at {start}, not between {minimum} and {maximum}")
    if abs(increment) > maximum - minimum:
        raise InvalidCommand(f"sequence {name!r} steps by {increment}, more than it is wide")
