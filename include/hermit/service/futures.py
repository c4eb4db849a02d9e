"""Telling a future its outcome, whether or not whoever asked has cancelled it meanwhile."""

from __future__ import annotations

from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")


def succeed(future: Future[T], result: T) -> None:
    """Give a future its result."""
    with suppress(InvalidStateError):
        future.set_result(result)


def fail(future: Future[T], error: BaseException) -> None:
    """Give a future its error."""
    with suppress(InvalidStateError):
        future.set_exception(error)
