"""Whether what a command was given is what it is declared to take.

Types are checked when a command is built, because nobody else would: a number where a name must be, or one
name where a tuple of names must be, would else come out as some other error, or as letters taken for
columns. Lists become tuples, so that a command, and the objects made from it, cannot change afterwards.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from hermit.service.errors import InvalidCommand

Check = Callable[[object], bool]


def check_fields(given: Any) -> None:
    """Refuse a field of another type than it is declared with; turn lists into tuples."""
    kind: Any = type(given)
    for name, declared, usual, is_right in _fields(kind):
        value = getattr(given, name)
        if type(value) in usual and (type(value) is not str or value.isascii()):
            continue
        if type(value) in (list, tuple):
            value = _frozen(value)
            object.__setattr__(given, name, value)
        if not is_right(value):
            raise InvalidCommand(f"{kind.__name__}: {name} is {value!r}", hint=f"give it as {declared}")
        if not is_text(value):
            raise InvalidCommand(f"{kind.__name__}: {name} is {value!r}, which holds half of a character")


def is_text(value: object) -> bool:
    """Whether all text in it, also within tuples, can be stored; half of a character has no UTF-8."""
    if isinstance(value, tuple):
        return all(map(is_text, value))
    if not isinstance(value, str) or value.isascii():
        return True
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _frozen(value: Any) -> Any:
    # Not what is a tuple by inheritance: that has a type of its own to keep.
    return tuple(map(_frozen, value)) if type(value) in (list, tuple) else value


@cache
def _fields(kind: Any) -> list[tuple[str, str, frozenset[type], Check]]:
    hints = {each: get_type_hints(kind)[each.name] for each in dataclasses.fields(kind)}
    return [(each.name, str(each.type), _usual(hint), _check(hint)) for each, hint in hints.items()]


def _usual(hint: Any) -> frozenset[type]:
    """Types whose values are right without a closer look. Tuples are none of them: what is in them counts."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return frozenset(each for each in options if isinstance(each, type) and get_origin(each) is None)


def _check(hint: Any) -> Check:
    """What tells whether a value is of a type. Worked out once: commands are built often."""
    if hint is Any:
        return lambda value: True
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        options = [_check(each) for each in arguments]
        return lambda value: any(option(value) for option in options)
    if origin is tuple:
        return _check_tuple(arguments)
    if hint is int:
        return lambda value: isinstance(value, int) and not isinstance(value, bool)
    return lambda value: isinstance(value, hint)


def _check_tuple(hints: tuple[Any, ...]) -> Check:
    if len(hints) == 2 and hints[1] is Ellipsis:
        of_all = _check(hints[0])
        return lambda value: isinstance(value, tuple) and all(map(of_all, value))
    checks = [_check(hint) for hint in hints]

    def check(value: object) -> bool:
        if not isinstance(value, tuple) or len(value) != len(checks):
            return False
        return all(of_one(item) for of_one, item in zip(checks, value, strict=True))

    return check
