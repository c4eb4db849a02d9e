"""The guard over released serializers: what a release wrote can be read for ever, as what it was.

`released.json` holds, for each type and version, bytes that the release wrote, what they mean, which
versions of other serializers wrote the objects within them, and a hash of the serializer's source. Bytes
and meaning are compared whenever the registry is built, so that no process runs with a serializer that
changed; the sources are compared by the tests, as they need not be there at run time.

A serializer is released when its `since` is not later than this release of hermit. Releasing adds to the
file and never changes what is in it.
"""

from __future__ import annotations

import ast
import dataclasses
import hashlib
import inspect
import json
import textwrap
from array import array
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from hermit import __version__
from hermit.service.descriptors import Objects
from hermit.service.errors import WireError
from hermit.service.marshallable import MarshalledType
from hermit.service.wire import io
from hermit.service.wire.marshaller import UpdateLogMarshaller
from hermit.service.wire.registry import Registered, SerializerMistake, SerializerRegistry

RELEASED = Path(__file__).with_name("released.json")
_IO = "io"

Released = Mapping[str, Mapping[str, Any]]


class SerializerChanged(SerializerMistake):
    """A released serializer is not what it was."""

    hint = "logs hold what it wrote, so restore it with `git checkout`; put the change into a new version"


class SerializerMissing(SerializerMistake):
    """A released serializer is gone."""

    hint = "logs hold what it wrote, so restore it with `git checkout`"


class SerializerNotReleased(SerializerMistake):
    """A serializer claims to be part of a release that does not know it."""

    hint = "run `./hermit catalog release`, or name the next release in `since`"


def read_released(path: Path = RELEASED) -> Released:
    """What was released."""
    try:
        found: Released = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise SerializerMistake(
            f"cannot read {path.name}: {error}", hint="restore it with `git checkout`"
        ) from error
    return found


def check_bytes(registry: SerializerRegistry, released: Released | None = None) -> None:
    """Compare what the serializers read and write with what was released."""
    released = read_released() if released is None else released
    serializers = {each.name: each for each in registry}
    for name in released:
        if name != _IO and name not in serializers:
            raise SerializerMissing(f"the serializer {name} was released and is gone")
    for name, each in serializers.items():
        if name not in released and _release(each.since) <= _release(__version__):
            raise SerializerNotReleased(f"the serializer {name} is since {each.since}, but was not released")
        if name in released:
            _check_one(registry, each, released[name])


def check_sources(registry: SerializerRegistry, released: Released | None = None) -> None:
    """Compare the sources of the serializers, and of what they are built on, with what was released."""
    released = read_released() if released is None else released
    found = {each.name: source_hash(type(each.serializer)) for each in registry} | {_IO: source_hash(io)}
    for name, entry in released.items():
        if found.get(name) != entry["source"]:
            raise SerializerChanged(f"the source of the released serializer {name} was changed")


def release(
    registry: SerializerRegistry, sample: Callable[[MarshalledType, int], Any], released: Released
) -> dict[str, Mapping[str, Any]]:
    """The released serializers with those added that are due."""
    result = dict(released)
    if _IO not in result:
        result[_IO] = {"source": source_hash(io)}
    for each in registry:
        if each.name not in result and _release(each.since) <= _release(__version__):
            result[each.name] = _golden(registry, each, sample(each.type, each.version))
    return result


def source_hash(subject: type | ModuleType) -> str:
    """A hash of what the source says, whatever its comments and layout; with all that a class inherits."""
    if isinstance(subject, ModuleType):
        return _hash_one(subject)
    inherited = [each for each in subject.__mro__ if each.__module__ == subject.__module__]
    return hashlib.sha256("".join(map(_hash_one, inherited)).encode()).hexdigest()


def _hash_one(subject: type | ModuleType) -> str:
    tree = ast.parse(textwrap.dedent(inspect.getsource(subject)))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def facts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """What an object says, field by field."""
    if dataclasses.is_dataclass(value):
        yield path, type(value).__name__
        for field in dataclasses.fields(value):
            yield from facts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple | list | Objects | array):
        for number, each in enumerate(value):
            yield from facts(each, f"{path}[{number}]")
    else:
        yield path, repr(value)


def _check_one(registry: SerializerRegistry, found: Registered, entry: Mapping[str, Any]) -> None:
    if found.since != entry["since"]:
        raise SerializerChanged(f"{found.name} was released since {entry['since']}, not {found.since}")
    data = bytes.fromhex(entry["bytes"])
    try:
        value: Any = UpdateLogMarshaller(registry).unmarshal(data, object)
    except WireError as error:
        raise SerializerChanged(f"{found.name} no longer reads what it wrote: {error.message}") from error
    meaning = dict(facts(value))
    for path, wanted in entry["value"].items():
        if meaning.get(path) != wanted:
            raise SerializerChanged(
                f"{found.name} reads {meaning.get(path)} for {path or 'the object'}, which was {wanted}"
            )
    if UpdateLogMarshaller(registry.pinned(entry["pins"])).marshal(value) != data:
        raise SerializerChanged(f"{found.name} no longer writes the bytes that it wrote")


def _golden(registry: SerializerRegistry, each: Registered, sample: Any) -> dict[str, Any]:
    """What to remember of a serializer: its bytes, written with all others at their newest, or at most
    its own version, so that the first ones show what the first release wrote."""
    pins = {other.type.name: other.version for other in registry if 1 < other.version <= each.version}
    data = UpdateLogMarshaller(registry.pinned(pins)).marshal(sample)
    value = UpdateLogMarshaller(registry).unmarshal(data, object)
    return {
        "since": each.since,
        "bytes": data.hex(),
        "pins": pins,
        "value": dict(facts(value)),
        "source": source_hash(type(each.serializer)),
    }


def _release(since: str) -> tuple[int, ...]:
    return tuple(int(part) for part in since.split("."))
