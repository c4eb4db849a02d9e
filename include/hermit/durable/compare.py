"""Comparing what two catalogs answered to the same call, and showing how they differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from hermit.durable.errors import ShadowMismatch
from hermit.errors import HermitError

T = TypeVar("T")
_SHOWN_MAX = 3
_TEXT_MAX = 400
# Errors that both stores raise. A store may have its own kinds of them; those count as what they are.
_SHARED = ("hermit.errors", "hermit.durable.errors", "hermit.formats.errors")


class Outcome(NamedTuple):
    """What a call came to: a value, or an error."""

    value: Any
    error: Exception | None

    @classmethod
    def of(cls, call: Callable[[], Any]) -> Outcome:
        try:
            return cls(call(), None)
        except Exception as error:
            return cls(None, error)

    def get(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


def compare(
    method: str, primary: Outcome, secondary: Outcome, essence: Callable[[Any], Any] | None = None
) -> Any:
    """The primary's outcome, if the secondary's is the same; `essence` is what must be equal of a value."""
    if primary.error is not None or secondary.error is not None:
        if _error_kind(primary.error) is not _error_kind(secondary.error):
            raise mismatch(method, _show(primary), _show(secondary))
        return primary.get()
    first, second = primary.value, secondary.value
    if essence is not None:
        first, second = essence(first), essence(second)
    if first != second:
        raise mismatch(method, *_differences(first, second))
    return primary.value


def mismatch(method: str, primary: str, secondary: str) -> ShadowMismatch:
    """The error for two answers that differ."""
    return ShadowMismatch(
        f"the two sides of the shadow catalog differ in {method}: primary: {primary}; secondary: {secondary}",
        hint="one of the stores is wrong: `hermit debug diff` compares all contents",
        method=method,
        primary=primary,
        secondary=secondary,
    )


def _error_kind(error: Exception | None) -> type[Exception] | None:
    if error is None:
        return None
    kinds = type(error).__mro__
    shared = [kind for kind in kinds if kind.__module__ in _SHARED and issubclass(kind, HermitError)]
    found: type[Exception] = shared[0] if shared else type(error)
    return found


def _show(outcome: Outcome) -> str:
    if outcome.error is not None:
        return f"{type(outcome.error).__name__}: {outcome.error}"
    return _text(outcome.value)


def _differences(first: Any, second: Any) -> tuple[str, str]:
    """Each side's answer, cut down to what the other has not."""
    if isinstance(first, str) and isinstance(second, str):
        return _only(first.splitlines(), second.splitlines()), _only(second.splitlines(), first.splitlines())
    if isinstance(first, Sequence) and isinstance(second, Sequence) and not isinstance(first, bytes):
        return _only(first, second), _only(second, first)
    if isinstance(first, dict) and isinstance(second, dict):
        return _only(list(first.items()), list(second.items())), _only(
            list(second.items()), list(first.items())
        )
    return _text(first), _text(second)


def _only(mine: Sequence[Any], others: Sequence[Any]) -> str:
    # Messages cannot be hashed; their text can.
    known = {repr(item) for item in others}
    extra = [item for item in mine if repr(item) not in known]
    shown = ", ".join(_text(item) for item in extra[:_SHOWN_MAX])
    more = f" and {len(extra) - _SHOWN_MAX} more" if len(extra) > _SHOWN_MAX else ""
    return f"{len(mine)} in all, only here: {shown or 'none'}{more}"


def _text(value: Any) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}..."
