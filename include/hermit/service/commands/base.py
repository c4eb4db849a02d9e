"""What a command is: one particular modification, validated twice and then turned into entries.

Building a command checks what can be checked without a catalog, so that a command which no catalog could
accept never exists. `plan` checks the rest against one catalog and returns the entries that lead from it
to the commanded state; it changes nothing. When somebody else was quicker, it is simply asked again with
the newer catalog. No entries means that there is nothing to do (`if_exists`, `if_not_exists`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hermit.errors import violated
from hermit.service.catalog import Catalog
from hermit.service.commands.fields import check_fields
from hermit.service.descriptors import CatalogObjectDescriptor, ObjectType, SchemaDescriptor
from hermit.service.entries import (
    DropEntry,
    NewObjectEntry,
    ObjectIdGenUpdateEntry,
    RenameEntry,
    UpdateEntry,
)
from hermit.service.errors import InvalidCommand, ObjectExists, ObjectInUse, ObjectNotFound

NAME_LENGTH_MAX = 255
_USERS_SHOWN_MAX = 5

O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


class CatalogCommand(ABC):
    """One modification of the catalog."""

    __slots__ = ()

    def __post_init__(self) -> None:
        check_fields(self)
        self.validate()

    @abstractmethod
    def validate(self) -> None:
        """Refuse what no catalog could accept."""

    @abstractmethod
    def plan(self, catalog: Catalog) -> list[UpdateEntry]:
        """The entries that do it; none when it is done already. Refuses what breaks a rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaObjectCommand(CatalogCommand):
    """A command about an object in a schema."""

    schema: str
    name: str

    def validate(self) -> None:
        check_name(self.schema, "schema")
        check_name(self.name, "object")


def check_name(name: str, what: str) -> None:
    """Refuse a name that is empty, too long, or holds characters that nobody can see."""
    if not name or len(name) > NAME_LENGTH_MAX:
        raise InvalidCommand(
            f"the name of the {what} has {len(name)} characters", hint=f"1 to {NAME_LENGTH_MAX} are allowed"
        )
    if not name.isprintable() or name != name.strip():
        raise InvalidCommand(
            f"the name of the {what} {name!r} begins or ends with a space, or holds control characters"
        )


def check_distinct(names: Sequence[str], what: str) -> None:
    """Refuse a list in which something stands twice."""
    if len(set(names)) < len(names):
        doubled = sorted(name for name, count in Counter(names).items() if count > 1)
        raise InvalidCommand(f"{what} {', '.join(map(repr, doubled))} given more than once")


def find_schema(catalog: Catalog, name: str) -> SchemaDescriptor:
    """The schema that a command names."""
    found = catalog.schema(name)
    if found is None:
        raise ObjectNotFound(f"there is no schema {name!r}")
    return found


def find_member(
    catalog: Catalog, schema: str, name: str, type_: type[O], *, if_exists: bool = False
) -> O | None:
    """The object in a schema that a command names; None when it may be missing and is."""
    home = catalog.schema(schema)
    found = None if home is None else home.named(name)
    if isinstance(found, type_):
        return found
    if if_exists and found is None:
        return None
    word = type_.object_type.word
    if found is not None:
        raise ObjectNotFound(
            f"{schema}.{name} is a {found.object_type.word}, not a {word}", hint="check the name"
        )
    if home is None:
        raise ObjectNotFound(f"there is no schema {schema!r}")
    raise ObjectNotFound(f"there is no {word} {schema}.{name}")


def member(catalog: Catalog, schema: str, name: str, type_: type[O]) -> O:
    """The object in a schema that a command names, which must be there."""
    found = find_member(catalog, schema, name, type_)
    if found is None:
        violated("what may not be missing is found, or was refused", name=name)
    return found


def check_free(schema: SchemaDescriptor, name: str) -> None:
    """Refuse a name that something in the schema has already."""
    found = schema.named(name)
    if found is not None:
        raise _taken(schema, found)


def is_there(schema: SchemaDescriptor, name: str, type_: ObjectType, if_not_exists: bool) -> bool:
    """Whether there is nothing to create. Refuses a taken name, unless that is what was asked for."""
    found = schema.named(name)
    if found is None:
        return False
    if if_not_exists and found.object_type is type_:
        return True
    raise _taken(schema, found)


def _taken(schema: SchemaDescriptor, found: CatalogObjectDescriptor) -> ObjectExists:
    return ObjectExists(f"{schema.name}.{found.name} exists already: it is a {found.object_type.word}")


def check_unused(catalog: Catalog, descriptor: CatalogObjectDescriptor) -> None:
    """Refuse to drop what others refer to."""
    users = catalog.users_of(descriptor.id)
    if users:
        names = tuple(f"{user.object_type.word} {catalog.path(user)}" for user in users)
        shown = ", ".join(names[:_USERS_SHOWN_MAX]) + (", ..." if len(names) > _USERS_SHOWN_MAX else "")
        raise ObjectInUse(
            f"{descriptor.object_type.word} {catalog.path(descriptor)} is used by {shown}",
            hint="drop those first",
            dependents=names,
        )


def rename(
    catalog: Catalog, command: SchemaObjectCommand, type_: type[O], new_name: str, if_exists: bool
) -> list[UpdateEntry]:
    """Give an object in a schema another name that is free there."""
    found = find_member(catalog, command.schema, command.name, type_, if_exists=if_exists)
    if found is None:
        return []
    check_free(find_schema(catalog, command.schema), new_name)
    return [RenameEntry(found.id, new_name)]


def drop(
    catalog: Catalog, command: SchemaObjectCommand, type_: type[O], if_exists: bool
) -> list[UpdateEntry]:
    """End an object in a schema that nobody uses."""
    found = find_member(catalog, command.schema, command.name, type_, if_exists=if_exists)
    if found is None:
        return []
    check_unused(catalog, found)
    return [DropEntry(found.id)]


def replace_given(descriptor: O, **values: Any) -> O:
    """The descriptor with those of the values that were given, that is, are not None."""
    return replace(descriptor, **{key: value for key, value in values.items() if value is not None})


def created(*news: NewObjectEntry[O]) -> list[UpdateEntry]:
    """Entries for new objects, whose identifiers were taken in order from the catalog's next."""
    return [*news, ObjectIdGenUpdateEntry(len(news))]
