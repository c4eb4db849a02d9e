"""Integrity: a flipped, missing or cut byte anywhere is an error that names the file, never other rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pyarrow as pa
import pytest

from hermit.errors import CorruptData
from hermit.persist import PersistClient
from hermit.persist.batch import BatchWriter
from hermit.persist.storage import memory
from hermit.persist.storage.abc import Storage
from hermit.persist.storage.memory import MemoryBlob, memory_storage
from hermit.persist.verify import verify


@pytest.fixture
def storage() -> Iterator[Storage]:
    """A small location with everything in it: commits, a batch, a merge, a checkpoint, commits after it."""
    name = f"memory:{uuid.uuid4().hex}"
    client = PersistClient.open(name, now_ms=lambda: 1)
    append(client, 0)
    writer = BatchWriter(name, "batch")
    writer.write("a", pa.record_batch({"key": [b"x", b"y"], "value": [b"1", b"2"]}))
    version = client.state().version
    client.replace_with_batch(writer.finish(), collections=["a"], version=version, new_upper={"a": 2})
    append(client, 2)
    client.compact(["b"])
    append(client, 3)
    yield memory_storage(name)
    memory.forget(name)


def append(client: PersistClient, time: int) -> None:
    rows = [(b"%d" % time, b"value", time, 1)]
    uppers = {name: client.state().upper(name) for name in ("a", "b")}
    client.compare_and_append(
        {"a": rows, "b": rows}, expected=uppers, new_upper=dict.fromkeys(uppers, time + 1), since={"b": time}
    )


def read(storage: Storage) -> tuple[object, ...]:
    client = PersistClient.open("", storage=storage, mode="ro", cache_bytes=0)
    state = client.state()
    return state.frontiers, sorted(client.snapshot(["a", "b"]))


def files_of(storage: Storage) -> dict[str, bytes]:
    assert isinstance(storage.blob, MemoryBlob)
    return storage.blob.files


def damage_is_noticed(storage: Storage, key: str, whole: object) -> bool:
    """Reading gives an error that names the file, or, if it does not need the file, the very same rows."""
    error: CorruptData | None = None
    try:
        assert read(storage) == whole
    except CorruptData as caught:
        error = caught
    if error is None:
        return False
    assert error.facts["path"] == key
    assert key in str(error)
    if key.startswith(("data/", "batches/")):
        assert error.facts["collection"] in ("a", "b")
    return True


def needed(storage: Storage) -> set[str]:
    """The files that a reader of the latest state reads."""
    state = PersistClient.open("", storage=storage).state()
    log = {key for key in files_of(storage) if key.startswith("_")}
    checkpoint = next(int(key[11:31]) for key in log if key.endswith(".parquet"))
    old = {key for key in log if key.endswith(".json") and int(key[11:31]) <= checkpoint}
    return (log - old) | set(state.live)


@pytest.mark.row("P-37")
@pytest.mark.row("P-38")
@pytest.mark.slow
def test_each_byte_flipped_in_turn_never_gives_a_wrong_row(
    storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = files_of(storage)
    must_notice = needed(storage)
    asked_for: set[str] = set()
    with monkeypatch.context() as patch:
        patch.setattr(storage.blob, "get", lambda key: (asked_for.add(key), files.get(key))[1])
        whole = read(storage)
    assert must_notice <= asked_for
    for key, data in list(files.items()):
        if key not in asked_for:
            continue  # Nobody looks into it: none of its bytes can matter.
        for position in range(len(data)):
            flipped = bytearray(data)
            flipped[position] ^= 1 << position % 8
            files[key] = bytes(flipped)
            noticed = damage_is_noticed(storage, key, whole)
            assert noticed or key not in must_notice, (key, position)
        files[key] = data
    assert read(storage) == whole


@pytest.mark.row("P-37")
@pytest.mark.slow
def test_verification_names_every_file_with_a_flipped_byte(storage: Storage) -> None:
    files = files_of(storage)
    state = PersistClient.open("", storage=storage).state()
    assert verify(storage).is_sound
    for key, data in list(files.items()):
        if not (key.startswith("_") or key in state.live):
            continue  # no longer part of the location
        for position in range(position_step := 17, len(data), position_step):
            flipped = bytearray(data)
            flipped[position] ^= 1 << position % 8
            files[key] = bytes(flipped)
            assert key in {error.facts["path"] for error in verify(storage).damage}, (key, position)
        files[key] = data


def test_a_truncated_file_is_noticed(storage: Storage) -> None:
    whole = read(storage)
    files = files_of(storage)
    must_notice = needed(storage)
    for key, data in list(files.items()):
        for length in (0, 1, len(data) // 2, len(data) - 1):
            files[key] = data[:length]
            noticed = damage_is_noticed(storage, key, whole)
            assert noticed or key not in must_notice, (key, length)
        files[key] = data


def test_a_missing_file_is_noticed_unless_it_was_the_last_commit(storage: Storage) -> None:
    whole = read(storage)
    files = files_of(storage)
    # Without the pointer, the log is read from its beginning; without the last commit, it just ends earlier.
    spared = {"_delta_log/_last_checkpoint", max(key for key in files if key.endswith(".json"))}
    for key in needed(storage) - spared:
        data = files.pop(key)
        assert damage_is_noticed(storage, key, whole), key
        files[key] = data


def test_a_location_without_its_beginning_is_not_taken_for_an_empty_one(storage: Storage) -> None:
    files = files_of(storage)
    for key in ("_delta_log/_last_checkpoint", "_delta_log/00000000000000000000.json"):
        del files[key]
    client = PersistClient.open("", storage=storage)
    with pytest.raises(CorruptData):
        client.state()
    with pytest.raises(CorruptData):
        client.compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})


def test_a_commit_of_another_history_is_recognised(storage: Storage) -> None:
    """Each commit names the one before it, so that a whole, well-formed commit cannot be slipped in."""
    other = PersistClient.open(f"memory:{uuid.uuid4().hex}", now_ms=lambda: 1)
    last = max(int(key[11:31]) for key in files_of(storage) if key.endswith(".json"))
    for _ in range(last + 1):
        append(other, other.state().upper("a"))
    key = f"_delta_log/{last:020d}.json"
    foreign = other._table.storage.blob.get(key)
    assert foreign is not None
    files_of(storage)[key] = foreign
    with pytest.raises(CorruptData) as caught:
        read(storage)
    assert caught.value.facts["path"] == key


def test_a_commit_that_hermit_did_not_write_is_refused(storage: Storage) -> None:
    last = max(int(key[11:31]) for key in files_of(storage) if key.endswith(".json"))
    files_of(storage)[f"_delta_log/{last + 1:020d}.json"] = b'{"commitInfo":{"operation":"WRITE"}}\n'
    with pytest.raises(CorruptData, match="not a commit of hermit"):
        read(storage)


def test_every_page_carries_a_checksum_for_readers_that_skip_the_whole_file_check(storage: Storage) -> None:
    import pyarrow.parquet as pq

    files = files_of(storage)
    key = next(key for key in files if key.startswith("data/"))
    sound = pq.ParquetFile(pa.BufferReader(files[key]), page_checksum_verification=True)
    rows = sound.read()
    column = sound.metadata.row_group(0).column(0)
    damaged = bytearray(files[key])
    damaged[column.data_page_offset + column.total_compressed_size - 1] ^= 1
    with pytest.raises(OSError, match=r"(?i)crc"):
        pq.ParquetFile(pa.BufferReader(bytes(damaged)), page_checksum_verification=True).read()
    assert rows.num_rows > 0
