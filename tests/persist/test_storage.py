"""The storage protocols: one suite for every implementation; cache and retries in front of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hermit.errors import Unavailable
from hermit.persist import PersistClient
from hermit.persist.commit import Commit
from hermit.persist.errors import SyncFailed, TransientError, UpperMismatch
from hermit.persist.storage.abc import Storage, StoredCommit
from hermit.persist.storage.disk import OsDisk
from hermit.persist.storage.local import local_storage
from hermit.persist.storage.memory import memory_storage
from hermit.persist.storage.open import open_storage
from hermit.persist.storage.retry import RetryPolicy
from tests.persist.s3_server import S3Server

QUICK = RetryPolicy(attempts_max=4, sleep=lambda seconds: None)


@pytest.fixture
def storage(location: str) -> Storage:
    return open_storage(location)


def first(previous: str = "") -> Commit:
    return Commit(previous=previous, timestamp_ms=1, upper={"a": 1}, table_id="t", encoding=1)


@pytest.mark.row("P-10")
def test_a_blob_gives_back_what_was_put(storage: Storage) -> None:
    large = os.urandom(1 << 20) * 11
    blob = storage.blob
    assert blob.get("data/none") is None
    blob.put({"data/one": b"1", "data/empty": b"", "data/deep/er": large})
    assert [blob.get(key) for key in ("data/one", "data/empty", "data/deep/er")] == [b"1", b"", large]
    blob.replace("data/one", b"2")
    assert blob.get("data/one") == b"2"
    assert not blob.put_if_absent("data/one", b"3")
    assert blob.put_if_absent("data/two", b"4")
    found = {info.key: info.bytes for info in blob.list("data")}
    assert found == {"data/one": 1, "data/two": 1, "data/empty": 0, "data/deep/er": len(large)}
    assert list(blob.list("nothing")) == []
    blob.delete("data/one")
    blob.delete("data/one")
    assert blob.get("data/one") is None


def test_an_upload_has_no_name_before_it_is_finished(storage: Storage) -> None:
    upload = storage.blob.upload()
    upload.write(b"half ")
    assert list(storage.blob.list("batches")) == []
    upload.write(b"whole")
    upload.finish("batches/one/file")
    assert storage.blob.get("batches/one/file") == b"half whole"
    storage.blob.upload().abort()
    assert [info.key for info in storage.blob.list("batches")] == ["batches/one/file"]


def test_a_log_takes_one_commit_per_version(storage: Storage) -> None:
    log = storage.log
    assert log.read(0) is None
    assert not log.exists(0)
    mine = first()
    checksum = log.append(0, mine)
    assert checksum is not None
    assert log.append(0, first()) is None
    stored = log.read(0)
    assert stored is not None
    assert (stored.commit.id, stored.checksum) == (mine.id, checksum)
    following = Commit(previous=checksum, timestamp_ms=2, upper={"a": 2}, metadata={"who": "me"})
    assert log.append(1, following) is not None
    assert log.read(1) == StoredCommit(following, log.read(1).checksum)  # type: ignore[union-attr]
    assert log.wait(1, 0)
    assert not log.wait(2, 0.01)
    log.sync()


@pytest.mark.row("P-7")
def test_the_same_name_in_two_locations_is_two_collections(tmp_path: Path) -> None:
    one, two = (PersistClient.open(tmp_path / name) for name in ("one", "two"))
    one.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    assert two.state().version == -1
    assert PersistClient.open(f"file://{tmp_path}/one").state() == one.state()


class Faulty:
    """Storage whose calls fail on demand, before or after they took effect."""

    def __init__(self, storage: Storage) -> None:
        self._inner = storage
        self.failures: list[tuple[str, bool]] = []  # call, and whether it takes effect all the same
        self.storage = Storage(storage.location, _Proxy(storage.blob, self), _Proxy(storage.log, self))  # type: ignore[arg-type]


class _Proxy:
    def __init__(self, inner: object, faults: Faulty) -> None:
        self._inner = inner
        self._faults = faults

    def __getattr__(self, name: str) -> Callable[..., object]:
        call = getattr(self._inner, name)

        def wrapped(*args: object) -> object:
            for fault in self._faults.failures:
                if fault[0] == name:
                    self._faults.failures.remove(fault)
                    if fault[1]:
                        call(*args)
                    raise TransientError("the wire was cut")
            return call(*args)

        return wrapped


@pytest.fixture
def faulty(tmp_path: Path) -> Faulty:
    return Faulty(local_storage(tmp_path / "location"))


@pytest.mark.row("P-9")
@pytest.mark.row("P-35")
@pytest.mark.row("P-36")
def test_transient_errors_are_retried_and_counted(faulty: Faulty) -> None:
    client = PersistClient.open("", storage=faulty.storage, retry=QUICK, cache_bytes=0)
    faulty.failures = [("put", False), ("append", False), ("read", False), ("read", True)]
    client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    faulty.failures += [("get", False), ("get", True)]
    assert list(client.snapshot(["a"])) == [("a", b"k", b"v", 1)]
    assert client.metrics["retries"] == 6
    assert faulty.failures == []


def test_a_commit_whose_answer_was_lost_counts_once(faulty: Faulty) -> None:
    client = PersistClient.open("", storage=faulty.storage, retry=QUICK)
    faulty.failures = [("append", True), ("append", False)]
    state = client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    assert (state.version, state.upper("a")) == (0, 1)
    assert list(client.snapshot(["a"])) == [("a", b"k", b"v", 1)]


def test_a_lost_answer_is_not_mistaken_for_somebody_elses_commit(faulty: Faulty) -> None:
    client = PersistClient.open("", storage=faulty.storage, retry=QUICK)
    client.state()
    other = PersistClient.open("", storage=faulty._inner)
    other.compare_and_append({"a": [(b"x", b"", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    faulty.failures = [("append", False)]
    with pytest.raises(UpperMismatch):
        client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    assert [key for _, key, _, _ in client.snapshot(["a"])] == [b"x"]


@pytest.mark.row("P-59")
def test_errors_that_do_not_pass_reach_the_caller_after_a_bounded_number_of_attempts(faulty: Faulty) -> None:
    client = PersistClient.open("", storage=faulty.storage, retry=QUICK)
    faulty.failures = [("put", False)] * 4
    with pytest.raises(Unavailable):
        client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    assert client.metrics["retries"] == 3
    assert client.state().version == -1


def test_an_object_store_that_answers_with_errors_is_asked_again(s3: S3Server) -> None:
    client = PersistClient.open("s3://bucket/flaky", retry=QUICK)
    s3.fail_next("PUT", 400)
    s3.fail_next("HEAD", 400)
    client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    assert client.metrics["retries"] >= 1
    assert list(client.snapshot(["a"])) == [("a", b"k", b"v", 1)]


def test_a_leadership_check_is_one_call_to_the_store(s3: S3Server, tmp_path: Path) -> None:
    client = PersistClient.open("s3://bucket/leader")
    state = client.compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})
    before = len(s3.calls())
    assert client.is_current(state.version)
    assert len(s3.calls()) == before + 1

    class Counting(OsDisk):
        calls = 0

        def exists(self, path: str) -> bool:
            Counting.calls += 1
            return super().exists(path)

        def read(self, path: str) -> bytes | None:
            Counting.calls += 1
            return super().read(path)

    local = PersistClient.open("", storage=local_storage(tmp_path / "location", Counting()))
    state = local.compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})
    before = Counting.calls
    assert local.is_current(state.version)
    assert Counting.calls == before + 1


@pytest.mark.row("P-52")
def test_the_cache_spares_reads_and_its_size_counts(tmp_path: Path) -> None:
    writer = PersistClient.open(tmp_path / "location")
    for time in range(3):
        writer.compare_and_append(
            {"a": [(b"%d" % time, b"v", time, 1)]}, expected={"a": time}, new_upper={"a": time + 1}
        )
    reads = {}
    for size in (0, 1 << 20):
        reader = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=size)
        contents = [sorted(reader.snapshot(["a"])) for _ in range(3)]
        assert contents[0] == contents[1] == contents[2]
        reads[size] = reader.metrics["blob_reads"]
    assert reads[0] - reads[1 << 20] == 6
    small = PersistClient.open(tmp_path / "location", mode="ro", cache_bytes=4 * 700)
    for _ in range(3):
        assert len(list(small.snapshot(["a"]))) == 3
    assert small.metrics["cache_hits"] > 0


def test_after_a_failed_sync_nothing_more_is_acknowledged(tmp_path: Path) -> None:
    class Failing(OsDisk):
        fails = False

        def sync(self, path: str) -> None:
            if self.fails:
                raise OSError(errno.EIO, "input/output error")
            super().sync(path)

    disk = Failing()
    client = PersistClient.open("", storage=local_storage(tmp_path / "location", disk))
    client.compare_and_append({"a": [(b"k", b"v", 0, 1)]}, expected={"a": 0}, new_upper={"a": 1})
    disk.fails = True
    with pytest.raises(SyncFailed):
        client.compare_and_append({"a": [(b"l", b"v", 1, 1)]}, expected={"a": 1}, new_upper={"a": 2})
    disk.fails = False  # the kernel may claim success the next time; it is not believed
    with pytest.raises(SyncFailed):
        client.compare_and_append({"a": [(b"l", b"v", 1, 1)]}, expected={"a": 1}, new_upper={"a": 2})
    assert PersistClient.open(tmp_path / "location").state().upper("a") == 1


def test_locations_in_memory_are_found_by_name_until_forgotten() -> None:
    from hermit.persist.storage.memory import forget

    client = PersistClient.open("memory:shared")
    client.compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})
    assert PersistClient.open("memory:shared").state().upper("a") == 1
    forget("memory:shared")
    assert memory_storage("memory:shared").log.read(0) is None
    forget("memory:shared")
