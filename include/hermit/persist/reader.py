"""Reading contents at a time, and single updates, from the files of a state.

Contents at a time in `[since, upper)` are the same in every state, so that any state will do in which
the time is readable. Files of older states disappear by vacuum. A reader notes which files it is about to
read so that a vacuum in this process spares them; against one in another process its retention protects,
and if a file is gone all the same, the reader starts again from the latest state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from hermit.errors import HermitError, NotInitialized
from hermit.persist import check
from hermit.persist.commit import DataFile
from hermit.persist.errors import FilesVacuumed, corrupt
from hermit.persist.pins import pin
from hermit.persist.state import State
from hermit.persist.storage.abc import Blob
from hermit.persist.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


class Reader:
    """Reads one location."""

    def __init__(self, table: Table, blob: Blob) -> None:
        self._table = table
        self._blob = blob
        self._location = table.storage.location

    def tables(
        self,
        names: Sequence[str],
        as_of: int | None,
        *,
        key: bytes | None = None,
        batch_rows: int | None = None,
    ) -> Iterator[tuple[str, pa.Table]]:
        """The consolidated contents per collection, all or of one key, as tables of key, value and diff.

        With `batch_rows`, large files are decoded so many rows at a time.
        """
        state = self.state_at(names, as_of)
        for _ in range(3):
            begun = False
            try:
                for item in self._tables(state, names, as_of, key, batch_rows):
                    begun = True
                    yield item
            except FilesVacuumed:
                if begun:
                    raise
                state = self._table.refresh()
            else:
                return
        raise FilesVacuumed(f"files of {self._location} are vacuumed faster than they can be read")

    def _tables(
        self,
        state: State,
        names: Sequence[str],
        as_of: int | None,
        key: bytes | None,
        batch_rows: int | None,
    ) -> Iterator[tuple[str, pa.Table]]:
        from hermit.persist import snapshot

        pieces = None if batch_rows is None else partial(self.stream, batch_rows=batch_rows)
        load = self.load if key is None else lambda file: snapshot.of_key(self.load(file), key)
        times = {name: state.upper(name) - 1 if as_of is None else as_of for name in names}
        for name, at in times.items():
            check.readable(name, state.frontier(name), at)
        with pin(self._location, state.files(names)):
            for name, at in times.items():
                for table in snapshot.tables(state.files([name]), at, load, pieces):
                    if table.num_rows:
                        yield name, table

    def updates(self, state: State, name: str, lower: int, upper: int) -> Iterator[pa.Table]:
        """The updates of a collection with `lower <= time < upper`, as they are stored."""
        from hermit.persist import snapshot

        for file in state.files([name]):
            if file.time_max >= lower and file.time_min < upper:
                yield snapshot.between(self.load(file), lower, upper)

    def state_at(self, names: Sequence[str], as_of: int | None) -> State:
        """A state at which the time is readable, the latest if it must be."""
        state = self._table.cached
        if as_of is None or state.version < 0 or any(as_of >= state.upper(name) for name in names):
            state = self._table.refresh()
        if state.version < 0:
            raise NotInitialized(f"{self._location} does not exist", location=self._location)
        return state

    def load(self, file: DataFile) -> pa.Table:
        """The verified table of a file."""
        from hermit.persist import files

        try:
            return files.load(self._blob, self._location, file)
        except FileNotFoundError as error:
            raise self._missing(file) from error

    def stream(self, file: DataFile, batch_rows: int) -> Iterator[pa.Table]:
        """The verified table of a file in pieces."""
        from hermit.persist import files

        try:
            yield from files.stream(self._blob, self._location, file, batch_rows)
        except FileNotFoundError as error:
            raise self._missing(file) from error

    def _missing(self, file: DataFile) -> HermitError:
        if file.path in self._table.refresh().live:
            return corrupt(self._location, file.path, "the file is missing", collection=file.collection)
        return FilesVacuumed(f"{file.path} of {self._location} was vacuumed", path=file.path)
