"""Notes stay beside the contents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hermit.rows import Row
from hermit.stash import Stash
from hermit.stash.bulk import create_side, digests, replace_from_side
from hermit.stash.notes import read_note, write_note

from .conftest import ClosingClient, nothing

A = Row("items", b"a", b"1")


def test_a_note_is_kept_with_the_transaction_that_it_speaks_of(client: ClosingClient) -> None:
    assert read_note(client, "n") is None
    stash, _ = client.open(lambda t: write_note(t, "n", "opened"))
    assert (read_note(client, "n"), read_note(client, "other")) == ("opened", None)
    assert stash.confirm().version == 0
    stash.write(lambda t: (t.append([(A, 1)]), write_note(t, "n", "written äß")))
    assert read_note(client, "n") == "written äß"

    def fail(transaction: object) -> None:
        write_note(transaction, "n", "failed")  # type: ignore[arg-type]
        raise LookupError

    for operation in (client.open, stash.write):
        with pytest.raises(LookupError):
            operation(fail)
    assert read_note(client, "n") == "written äß"


def test_a_note_is_no_part_of_the_contents_and_outlives_them(
    client: ClosingClient, stash: Stash, connect: Callable[..., ClosingClient]
) -> None:
    before = digests(stash)
    stash = client.open(lambda t: write_note(t, "n", "mine"))[0]
    assert digests(stash) == before
    create_side(stash, "x")
    replace_from_side(stash, "x", config={})
    assert read_note(client, "n") == "mine"
    other = connect(component="storage")
    other.open(nothing)
    assert read_note(other, "n") is None


def test_a_dry_run_notes_nothing(client: ClosingClient, stash: Stash) -> None:
    stash.write(lambda t: (t.append([(A, 1)]), write_note(t, "n", "kept")))
    dry, _ = client.open_savepoint(nothing)
    dry.write(lambda t: write_note(t, "n", "tried"))
    # The owner does not wait for the dry run, which is still open.
    stash.write(lambda t: (t.append([(A, -1)]), write_note(t, "n", "kept too")))
    dry.close()
    assert read_note(client, "n") == "kept too"
