"""A copy of an immutable object with some fields changed, without the detour over its constructor.

`dataclasses.replace` checks every field and calls the constructor, which costs more than everything else
that applying an entry does. What is copied here was checked when it was first made.

Every command copies five objects, so that the copying itself must be quick: for each type, and each choice
of fields to change, a function is written once that sets one field after the other, as `dataclass` does for
constructors. A loop over the fields takes more than twice as long.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")

_Copy = Callable[[Any, dict[str, Any]], Any]


def evolve(value: T, **changes: Any) -> T:
    """The same object, but for these fields. Fields that do not exist are a mistake of the caller."""
    kind: Any = type(value)
    copied: T = _copier(kind, *changes)(value, changes)
    return copied


@cache
def _copier(kind: Any, *changed: str) -> _Copy:
    """What copies objects of a type with slots, taking these fields from the changes."""
    names = [field.name for field in dataclasses.fields(kind)]
    if unknown := sorted(set(changed) - set(names)):
        raise TypeError(f"{kind.__name__} has no field {', '.join(unknown)}")
    sources = [f"changes[{name!r}]" if name in changed else f"value.{name}" for name in names]
    lines = [f"    set_{name}(copy, {source})" for name, source in zip(names, sources, strict=True)]
    body = "\n".join(("def copier(value, changes):", "    copy = new(kind)", *lines, "    return copy"))
    # The setters of the slots themselves: that of the class refuses, as its objects are frozen.
    scope: dict[str, Any] = {f"set_{name}": getattr(kind, name).__set__ for name in names}
    scope |= {"new": object.__new__, "kind": kind}
    exec(body, scope)  # noqa: S102
    copier: _Copy = scope["copier"]
    return copier
