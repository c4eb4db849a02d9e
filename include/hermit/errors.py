"""The one error tree.

Every error that a user may meet descends from `HermitError`. It carries its facts as fields, its
message is lowercase and says what happened to which catalog, and `hint` says what to do next. The CLI
prints message and hint on one line each and never a traceback. Rooms add their own branches in
`hermit/<room>/errors.py`; what more than one room raises stands here.
"""

from __future__ import annotations

from typing import Any, NoReturn


class HermitError(Exception):
    """Root of the tree. `facts` become attributes, so that callers need not parse the message."""

    hint: str | None = None

    def __init__(self, message: str, *, hint: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.facts = facts
        if hint is not None:
            self.hint = hint
        for name, value in facts.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class InvariantViolation(HermitError):
    """Something that must always hold does not: a bug in Hermit, never the user's mistake."""

    hint = "this is a bug in hermit; nothing more was written"


class InvalidInput(HermitError):
    """What the user gave cannot be used: an identifier, a URL, a file, a flag."""


class Unavailable(HermitError):
    """A store cannot be reached, or not written to, right now. Trying again may help."""


class Fenced(HermitError):
    """Another opener raised the epoch: this handle may neither read nor write any more.

    `epoch` is what this handle holds, `current` what the store holds now.
    """

    epoch: int
    current: int | None


class NotInitialized(HermitError):
    """The catalog was never opened for writing, so that there is nothing to read."""


class ReadOnly(HermitError):
    """A mutation was asked of a handle that was opened to read only."""


class CorruptData(HermitError):
    """Stored bytes are not what was written: a checksum or an encoding does not fit."""


def invariant(condition: object, message: str, **facts: Any) -> None:
    """Check what must hold. Unlike `assert`, it survives `python -O`."""
    if not condition:
        violated(message, **facts)


def violated(message: str, **facts: Any) -> NoReturn:
    """Report that something which must always hold does not."""
    raise InvariantViolation(f"invariant violated: {message}", **facts)
