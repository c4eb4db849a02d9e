"""Notes: a few texts that a component keeps beside its contents.

A note is written in the transaction that it speaks of, and is there exactly if that was committed. It is
no part of the contents: no move takes it along, and it does not raise the version. A transaction that
writes nothing else is rolled back, and its notes with it, unless it opens the stash.

The table is made with the first note, so that a stash from before there were notes needs no change.
"""

from __future__ import annotations

from hermit.stash.client import StashClient
from hermit.stash.schema import render
from hermit.stash.transaction import StashTransaction

_CREATE = """
CREATE TABLE IF NOT EXISTS {schema}.notes (
    component text NOT NULL, name text NOT NULL, note text NOT NULL, PRIMARY KEY (component, name)
)
"""
_WRITE = """
INSERT INTO {schema}.notes (component, name, note) VALUES ({component}, %s, %s)
ON CONFLICT (component, name) DO UPDATE SET note = excluded.note
"""
_EXISTS = b"SELECT count(*) FROM information_schema.tables WHERE table_schema = %s AND table_name = 'notes'"
_READ = "SELECT note FROM {schema}.notes WHERE component = {component} AND name = %s"


def write_note(transaction: StashTransaction, name: str, note: str) -> None:
    """Keep a note, in place of any of this name. A dry run, which must lock nothing, writes none."""
    if transaction.is_dry:
        return
    transaction.execute(_render(_CREATE, transaction))
    transaction.execute(_render(_WRITE, transaction), [name, note])


def read_note(client: StashClient, name: str) -> str | None:
    """The note of this name, or None."""

    def look(transaction: StashTransaction | None) -> str | None:
        if transaction is None or transaction.execute(_EXISTS, [client.schema]).fetchone() == (0,):
            return None
        found = transaction.execute(_render(_READ, transaction), [name]).fetchone()
        return None if found is None else str(found[0])

    return client.look(look)


def _render(template: str, transaction: StashTransaction) -> bytes:
    return render(template, schema=transaction.schema, component=transaction.component)
