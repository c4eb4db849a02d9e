"""A copy of an immutable object with some fields changed, without the detour over its constructor.

`dataclasses.replace` checks every field and calls the constructor, which costs more than everything else
that applying an entry does. What is copied here was checked when it was first made.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_set = object.__setattr__


def evolve(value: T, **changes: Any) -> T:
    """The same object, but for these fields. Fields that do not exist are a mistake of the caller."""
    kind: Any = type(value)
    copy: T = object.__new__(kind)
    for name in _fields(kind):
        _set(copy, name, changes.pop(name) if name in changes else getattr(value, name))
    if changes:
        raise TypeError(f"{kind.__name__} has no field {', '.join(changes)}")
    return copy


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))
