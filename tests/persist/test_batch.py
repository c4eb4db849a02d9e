"""Batches: staged where nobody looks, then made the contents by one commit."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from hermit.errors import CorruptData, InvalidInput
from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter, drop_staged, list_staged, read_file
from hermit.persist.commit import DataFile
from hermit.persist.errors import CommitConflict, ReadBeforeSince, StagedFileMissing, WriteBehindUpper
from hermit.persist.frontier import Frontier
from hermit.persist.storage.disk import OsDisk
from hermit.persist.storage.local import local_storage


def stage(location: str, batch_id: str, rows: dict[str, list[bytes]], time: int = 0) -> list[DataFile]:
    writer = BatchWriter(location, batch_id, time=time)
    for collection, keys in rows.items():
        writer.write(collection, pa.record_batch({"key": keys, "value": keys}))
    return writer.finish()


def seed(client: PersistClient) -> int:
    state = client.compare_and_append(
        {"a": [(b"old", b"old", 3, 1)], "fence": [(b"epoch", b"1", 0, 1)]},
        expected={"a": 0, "fence": 0},
        new_upper={"a": 4, "fence": 4},
    )
    return state.version


def keys(client: PersistClient, name: str) -> list[bytes]:
    return sorted(key for _, key, _, _ in client.snapshot([name]))


def test_a_staged_batch_is_invisible_until_a_commit_names_it(client: PersistClient, location: str) -> None:
    version = seed(client)
    stage(location, "move-1", {"a": [b"1", b"2"]})
    assert client.is_current(version)
    assert keys(client, "a") == [b"old"]
    assert list(list_staged(location)) == ["move-1"]


def test_replacing_drops_what_was_there_and_keeps_other_collections(
    client: PersistClient, location: str
) -> None:
    version = seed(client)
    files = stage(location, "move-1", {"a": [b"1", b"2"]})
    state = client.replace_with_batch(
        files,
        collections=["a", "empty"],
        version=version,
        new_upper={"a": 5, "empty": 5, "fence": 5},
        updates={"fence": [(b"epoch", b"1", 4, -1), (b"epoch", b"2", 4, 1)], "a": [(b"3", b"3", 4, 1)]},
    )
    assert state.frontier("a") == Frontier(4, 5)
    assert state.frontier("fence") == Frontier(0, 5)
    assert keys(client, "a") == [b"1", b"2", b"3"]
    assert list(client.snapshot(["fence"])) == [("fence", b"epoch", b"2", 1)]
    assert list(client.snapshot(["empty"])) == []
    with pytest.raises(ReadBeforeSince):
        list(client.snapshot(["a"], 3))
    assert list_staged(location) == {}


def test_replacing_an_unknown_collection_makes_its_rows_readable(
    client: PersistClient, location: str
) -> None:
    files = stage(location, "first", {"a": [b"1"]})
    state = client.replace_with_batch(files, collections=["a"], version=-1, new_upper={"a": 1})
    assert state.frontier("a") == Frontier(0, 1)
    assert keys(client, "a") == [b"1"]


def test_replacing_is_conditional_on_the_version(client: PersistClient, location: str) -> None:
    version = seed(client)
    files = stage(location, "move-1", {"a": [b"1"]})
    client.compare_and_append({}, expected={"fence": 4}, new_upper={"fence": 5})
    with pytest.raises(CommitConflict):
        client.replace_with_batch(files, collections=["a"], version=version, new_upper={"a": 5})
    assert keys(client, "a") == [b"old"]


def test_a_batch_can_be_appended(client: PersistClient, location: str) -> None:
    seed(client)
    files = stage(location, "more", {"a": [b"1"]}, time=4)
    client.compare_and_append_batch(files, expected={"a": 4}, new_upper={"a": 5})
    assert keys(client, "a") == [b"1", b"old"]
    late = stage(location, "late", {"a": [b"2"]}, time=4)
    with pytest.raises(WriteBehindUpper):
        client.compare_and_append_batch(late, expected={"a": 5}, new_upper={"a": 6})


def test_a_commit_cannot_name_a_file_that_is_not_there(client: PersistClient, location: str) -> None:
    version = seed(client)
    files = stage(location, "gone", {"a": [b"1"]})
    assert drop_staged(location, "gone") == [file.path for file in files]
    with pytest.raises(StagedFileMissing):
        client.replace_with_batch(files, collections=["a"], version=version, new_upper={"a": 5})
    assert client.is_current(version)


def test_a_batch_that_a_commit_names_cannot_be_dropped(client: PersistClient, location: str) -> None:
    files = stage(location, "first", {"a": [b"1"]})
    client.replace_with_batch(files, collections=["a"], version=-1, new_upper={"a": 1})
    with pytest.raises(InvalidInput):
        drop_staged(location, "first")
    assert keys(client, "a") == [b"1"]


def test_a_replaced_collection_is_consolidated_until_something_is_appended(
    client: PersistClient, location: str
) -> None:
    writers = [BatchWriter(location, "two", file_bytes=1) for _ in range(2)]
    for number, writer in enumerate(writers):
        for part in range(2):
            row = [b"%d-%d" % (number, part)]
            writer.write("a", pa.record_batch({"key": row, "value": row}))
    files = [file for writer in writers for file in writer.finish()]
    assert len(files) == 4
    client.replace_with_batch(files, collections=["a"], version=-1, new_upper={"a": 1})
    assert client.is_consolidated(["a"])
    assert client.files(["a"]) == files
    client.compare_and_append({"a": [(b"0-0", b"0-0", 1, -1)]}, expected={"a": 1}, new_upper={"a": 2})
    assert not client.is_consolidated(["a"])
    assert keys(client, "a") == [b"0-1", b"1-0", b"1-1"]


def test_a_file_is_verified_when_an_executor_reads_it(client: PersistClient, location: str) -> None:
    (file,) = stage(location, "first", {"a": [b"1", b"2"]})
    assert read_file(location, file, ["key"]).to_pydict() == {"key": [b"1", b"2"]}
    wrong = DataFile.from_json({**file.to_json(), "path": file.path.replace(file.checksum, "0" * 32)})
    blob = client._table.storage.blob
    blob.put({wrong.path: blob.get(file.path) or b""})
    with pytest.raises(CorruptData) as caught:
        read_file(location, wrong)
    assert (caught.value.facts["path"], caught.value.facts["collection"]) == (wrong.path, "a")


def test_a_snapshot_in_pieces_holds_the_same_rows(client: PersistClient, location: str) -> None:
    files = stage(location, "large", {"a": [b"%03d" % number for number in range(100)]})
    client.replace_with_batch(files, collections=["a"], version=-1, new_upper={"a": 1})
    client.compare_and_append(
        {"a": [(b"007", b"007", 1, -1), (b"050", b"new", 1, 1), (b"100", b"100", 1, 1)]},
        expected={"a": 1},
        new_upper={"a": 2},
    )
    for as_of in (0, 1):
        pieces = [table for _, table in client.snapshot_tables(["a"], as_of, batch_rows=8)]
        assert max(table.num_rows for table in pieces) <= 8
        rows = [tuple(row.values()) for table in pieces for row in table.to_pylist()]
        assert sorted(rows) == sorted(row[1:] for row in client.snapshot(["a"], as_of))


@pytest.mark.parametrize("damage", [b"", None])
def test_a_snapshot_in_pieces_notices_damage_before_the_first_row(
    tmp_path: Path, damage: bytes | None
) -> None:
    client = PersistClient.open(tmp_path, cache_bytes=0)
    files = stage(str(tmp_path), "large", {"a": [b"%03d" % number for number in range(100)]})
    client.replace_with_batch(files, collections=["a"], version=-1, new_upper={"a": 1})
    path = tmp_path / files[0].path
    if damage is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + damage)
    with pytest.raises(CorruptData) as caught:
        next(client.snapshot_tables(["a"], 0, batch_rows=8))
    assert caught.value.facts["path"] == files[0].path
    assert caught.value.facts["collection"] == "a"


class CountingDisk(OsDisk):
    """Remembers which files were read, written and looked for."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.bytes = 0

    def read(self, path: str) -> bytes | None:
        data = super().read(path)
        self.calls["read"] += 1
        self.bytes += len(data or b"")
        return data

    def write(self, path: str, data: bytes, *, append: bool = False) -> None:
        self.calls["write"] += 1
        self.bytes += len(data)
        super().write(path, data, append=append)

    def exists(self, path: str) -> bool:
        self.calls["exists"] += 1
        return super().exists(path)


@pytest.mark.parametrize("replacing", [True, False])
def test_naming_a_batch_does_the_same_work_whatever_the_number_of_rows(
    tmp_path: Path, replacing: bool
) -> None:
    """Also in the place of as many rows: neither the old nor the new ones are looked at."""
    work = []
    for rows in (10, 20_000):
        location = str(tmp_path / str(rows))
        disk = CountingDisk()
        client = PersistClient.open("", storage=local_storage(location, disk))
        numbers = [b"%d" % number for number in range(rows)]
        first = stage(location, "first", {"a": numbers})
        client.replace_with_batch(first, collections=["a"], version=-1, new_upper={"a": 1})
        second = stage(location, "second", {"a": numbers}, time=0 if replacing else 1)
        disk.calls.clear()
        disk.bytes = 0
        if replacing:
            client.replace_with_batch(second, collections=["a"], version=0, new_upper={"a": 2})
        else:
            client.compare_and_append_batch(second, expected={"a": 1}, new_upper={"a": 2})
        work.append((disk.calls, disk.bytes))
        assert client.files(["a"])[-1].rows == rows
    (few_calls, few_bytes), (many_calls, many_bytes) = work
    assert many_calls == few_calls
    assert many_bytes <= few_bytes + 64, "a commit has a few more digits in it"
