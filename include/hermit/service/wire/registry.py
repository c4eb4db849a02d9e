"""The registry of all serializers, built from their decorators.

    @catalog_serializer(version=2, since="0.1.0")
    class TableSerializerV2(CatalogObjectSerializer[TableDescriptor]): ...

Versions of a type are 1, 2, 3 and so on: registering refuses a gap and a version that exists, whatever the
order in which modules are imported within a type. Objects are written with the newest serializer of their
type and read with the one that their header names, so that a serializer, once released, stays for ever as
it is; `guard.py` sees to that. There is no forward compatibility: bytes of a version or a type that is not
registered here are refused.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from hermit.errors import HermitError
from hermit.service.errors import SerializerFromTheFuture, UnknownObjectType
from hermit.service.marshallable import MarshalledType
from hermit.service.wire.io import FIRST_PROTOCOL_VERSION, PROTOCOL_VERSION, Input, Output

T = TypeVar("T")

VERSION_MAX = 2**21 - 1
"""What fits the three bytes that a header has for it."""

_RELEASE = re.compile(r"\d+\.\d+\.\d+")


class SerializerMistake(HermitError):
    """A serializer cannot be registered, or is not what was released."""


class CatalogObjectSerializer(ABC, Generic[T]):
    """Writes and reads one type in one version. It keeps no state, and uses nothing but `io`."""

    type: ClassVar[MarshalledType]

    @abstractmethod
    def write(self, value: T, out: Output) -> None:
        """Write the payload."""

    @abstractmethod
    def read(self, inp: Input) -> T:
        """Read the payload."""


class Registered(NamedTuple):
    """A serializer, and what its decorator says of it."""

    serializer: CatalogObjectSerializer[Any]
    type: MarshalledType
    version: int
    since: str

    @property
    def name(self) -> str:
        """How the guard calls it."""
        return f"{self.type.name}/{self.version}"


class _Entry(NamedTuple):
    serializer: CatalogObjectSerializer[Any]
    header: bytes


class SerializerRegistry:
    """Every serializer, by type and version."""

    def __init__(self) -> None:
        self._types: dict[int, list[Registered]] = {}
        self._writers: dict[tuple[int, int], _Entry] = {}
        self.by_header: dict[bytes, CatalogObjectSerializer[Any]] = {}
        """Every serializer by the bytes that an object of it begins with."""

    def register(self, serializer: CatalogObjectSerializer[Any], version: int, since: str) -> None:
        """Add the next version of a type."""
        type_ = serializer.type
        versions = self._types.setdefault(type_, [])
        where = f"{type(serializer).__name__}, version {version} of {type_.name}"
        if version <= len(versions):
            taken = type(versions[version - 1].serializer).__name__ if version > 0 else "none"
            raise SerializerMistake(
                f"{where}, is there already: {taken}", hint=f"the next version is {len(versions) + 1}"
            )
        if version != len(versions) + 1 or version > VERSION_MAX:
            raise SerializerMistake(f"{where}, leaves a gap", hint=f"the next version is {len(versions) + 1}")
        if not _RELEASE.fullmatch(since):
            raise SerializerMistake(f"{where}, is since {since!r}", hint="name a release, like '0.1.0'")
        if versions and _release(since) < _release(versions[-1].since):
            raise SerializerMistake(f"{where}, is since {since}, before the version that it follows")
        versions.append(Registered(serializer, type_, version, since))
        self.by_header[header(type_, version)] = serializer
        self._writers.clear()

    def writer(self, type_: MarshalledType, protocol: int) -> _Entry:
        """The serializer that writes a type: the newest, unless the protocol knows only the first."""
        found = self._writers.get((type_, protocol))
        if found is None:
            if protocol == FIRST_PROTOCOL_VERSION:
                found = _Entry(self.versions(type_)[0].serializer, header(type_, 1)[:2])
            else:
                newest = self.versions(type_)[-1]
                found = _Entry(newest.serializer, header(type_, newest.version))
            self._writers[type_, protocol] = found
        return found

    def find(self, type_id: int, version: int) -> Registered:
        """The serializer that a header names."""
        versions = self._types.get(type_id)
        if versions is None:
            raise UnknownObjectType(f"there is no object type {type_id}", type_id=type_id)
        if not 1 <= version <= len(versions):
            raise SerializerFromTheFuture(
                f"version {version} of {versions[0].type.name} is not known: the newest is {len(versions)}",
                type_id=type_id,
                found=version,
                newest=len(versions),
            )
        return versions[version - 1]

    def versions(self, type_: MarshalledType) -> list[Registered]:
        """The serializers of a type, oldest first."""
        if type_ not in self._types:
            raise UnknownObjectType(f"nothing serializes {type_.name}", type_id=int(type_))
        return self._types[type_]

    def pinned(self, versions: Mapping[str, int]) -> SerializerRegistry:
        """The same serializers, writing types in these versions, by name, and others in their first."""
        found = SerializerRegistry()
        found._types, found.by_header = self._types, self.by_header
        for type_ in self._types.values():
            name = type_[0].type.name
            registered = self.find(type_[0].type, versions.get(name, 1))
            entry = _Entry(registered.serializer, header(registered.type, registered.version))
            found._writers[registered.type, PROTOCOL_VERSION] = entry
        return found

    def __iter__(self) -> Iterator[Registered]:
        for type_ in sorted(self._types):
            yield from self._types[type_]


def header(type_: MarshalledType, version: int) -> bytes:
    """Type and serializer version, as every object begins."""
    out = Output(SerializerRegistry())
    out.short(type_)
    out.varint(version)
    return bytes(out.buffer)


_DEFAULT = SerializerRegistry()

S = TypeVar("S", bound=CatalogObjectSerializer[Any])


def catalog_serializer(
    *, version: int, since: str, registry: SerializerRegistry = _DEFAULT
) -> Callable[[type[S]], type[S]]:
    """Register the class below as a version of its type. `since` is the release that first wrote it."""

    def decorate(cls: type[S]) -> type[S]:
        registry.register(cls(), version, since)
        return cls

    return decorate


@cache
def default_registry() -> SerializerRegistry:
    """All serializers of the package, after the guard has compared them with what was released."""
    from hermit.service.wire import guard

    registry = unchecked_registry()
    guard.check_bytes(registry)
    return registry


def unchecked_registry() -> SerializerRegistry:
    """All serializers of the package, as they are: for the guard itself, and for releasing them."""
    from hermit.service.wire import serializers

    for module in pkgutil.iter_modules(serializers.__path__):
        importlib.import_module(f"{serializers.__name__}.{module.name}")
    return _DEFAULT


def _release(since: str) -> tuple[int, ...]:
    return tuple(int(part) for part in since.split("."))
