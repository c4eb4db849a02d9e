"""The runtime: mutations are futures, applied in call order, few commits, durable when resolved."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import TypeVar

import pytest

from hermit.errors import ReadOnly
from hermit.persist import BytesCodec, PersistClient, StringCodec, UnitCodec
from hermit.persist.errors import (
    CompactionBackwards,
    CompactionBeyondUpper,
    Locked,
    LockLost,
    PersistError,
    SealBackwards,
    Stopped,
    WriteBehindUpper,
)
from hermit.persist.frontier import Frontier
from tests.persist.waiting import wait_until

T = TypeVar("T")


@pytest.fixture
def writer(location: str) -> Iterator[PersistClient]:
    with PersistClient.open(location, reentrance_id="test") as client:
        yield client


def done(future: Future[T]) -> T:
    return future.result(timeout=60)


@pytest.mark.row("P-13")
@pytest.mark.row("P-19")
@pytest.mark.row("P-14")
@pytest.mark.row("P-15")
@pytest.mark.row("P-16")
@pytest.mark.row("P-30")
def test_a_write_is_durable_before_it_is_sealed_and_readable_after(
    writer: PersistClient, location: str
) -> None:
    write, read = writer.create_or_load("a", StringCodec(), StringCodec())
    done(write.write([(("k", "v"), 5, 1)]))
    other = PersistClient.open(location, mode="ro")
    assert other.state().upper("a") == 0
    assert [file.rows for file in other.files(["a"])] == [1]
    future = write.seal(10)
    done(future)
    assert list(read.snapshot(9)) == [(("k", "v"), 1)]
    _, again = other.create_or_load("a", StringCodec(), StringCodec())
    assert list(again.snapshot()) == [(("k", "v"), 1)]
    assert list(again.snapshot(4)) == []


@pytest.mark.row("P-29")
@pytest.mark.row("P-31")
@pytest.mark.row("P-33")
def test_calls_are_applied_in_call_order_and_share_commits(writer: PersistClient) -> None:
    write, read = writer.create_or_load("a")
    before = writer.metrics["commits"]
    futures = []
    for time in range(300):
        futures.append(write.write([((b"k%d" % time, b"v"), time, 1)]))
        futures.append(write.seal(time + 1))
    for future in futures:
        done(future)
    assert read.frontier() == Frontier(0, 300)
    assert writer.metrics["commits"] - before < 300
    assert [len(list(read.snapshot(time))) for time in (0, 150, 299)] == [1, 151, 300]


def test_a_refused_call_changes_nothing_and_the_others_go_on(writer: PersistClient) -> None:
    write, read = writer.create_or_load("a")
    sealed = write.seal(5)
    late = write.write([((b"late", b""), 4, 1), ((b"in time", b""), 5, 1)])
    back = write.seal(4)
    forth = write.write([((b"k", b""), 5, 1)])
    beyond = write.allow_compaction(6)
    allowed = write.allow_compaction(3)
    back_again = write.allow_compaction(2)
    done(write.seal(6))
    for future in (sealed, forth, allowed):
        done(future)
    for future, error in (
        (late, WriteBehindUpper),
        (back, SealBackwards),
        (beyond, CompactionBeyondUpper),
        (back_again, CompactionBackwards),
    ):
        with pytest.raises(error) as caught:
            done(future)
        assert isinstance(caught.value, PersistError)
        assert caught.value.facts["collection"] == "a"
    assert list(read.snapshot()) == [((b"k", b""), 1)]
    assert read.frontier() == Frontier(3, 6)


@pytest.mark.row("P-17")
def test_allowing_compaction_is_durable_and_changes_no_contents(writer: PersistClient, location: str) -> None:
    write, read = writer.create_or_load("a")
    write.write([((b"k", b"1"), 0, 1), ((b"k", b"1"), 3, -1), ((b"k", b"2"), 3, 1)])
    done(write.seal(10))
    before = {time: sorted(read.snapshot(time)) for time in (3, 5, 9)}
    done(write.allow_compaction(3))
    writer.compact()
    other = PersistClient.open(location, mode="ro")
    assert other.frontier("a") == Frontier(3, 10)
    _, again = other.create_or_load("a")
    assert {time: sorted(again.snapshot(time)) for time in (3, 5, 9)} == before


@pytest.mark.row("P-34")
@pytest.mark.row("P-60")
def test_several_collections_change_at_once_or_not_at_all(writer: PersistClient) -> None:
    handles = [writer.create_or_load(name)[0] for name in ("a", "b")]
    multi = writer.multi_write_handle(handles)
    done(multi.write_and_seal({"a": [((b"1", b""), 0, 1)], "b": [((b"2", b""), 0, 1)]}, 1))
    refused = multi.write({"a": [((b"3", b""), 1, 1)], "b": [((b"4", b""), 0, 1)]})
    with pytest.raises(WriteBehindUpper):
        done(refused)
    done(multi.seal({"a": 2, "b": 3}))
    assert [key for _, key, _, _ in writer.snapshot(["a", "b"])] == [b"1", b"2"]
    done(multi.allow_compaction(1))
    assert writer.state().frontiers["b"] == Frontier(1, 3)
    with pytest.raises(PersistError):
        multi.write({"c": []})
    with pytest.raises(PersistError):
        writer.multi_write_handle([handles[0], handles[0]])


@pytest.mark.row("P-12")
def test_futures_can_be_awaited(writer: PersistClient) -> None:
    write, _ = writer.create_or_load("a", StringCodec(), UnitCodec())

    async def body() -> int:
        await asyncio.gather(write.write([(("k", ()), 0, 1)]), write.seal(1))
        return (await write.seal(2)).upper("a")

    assert asyncio.run(body()) == 2


@pytest.mark.row("P-25")
@pytest.mark.row("P-26")
def test_a_codec_reads_what_an_older_one_wrote(writer: PersistClient) -> None:
    class Newer:
        """Since version 2 there is a marker in front; before it there was plain UTF-8."""

        def encode(self, value: str) -> bytes:
            return b"\x02" + value.encode("utf-16-le")

        def decode(self, data: bytes) -> str:
            return data[1:].decode("utf-16-le") if data[:1] == b"\x02" else data.decode()

    old, _ = writer.create_or_load("a", BytesCodec(), StringCodec())
    new, read = writer.create_or_load("a", BytesCodec(), Newer())
    old.write([((b"1", "old"), 0, 1)])
    new.write([((b"2", "new"), 0, 1)])
    done(new.seal(1))
    assert sorted(read.snapshot()) == [((b"1", "old"), 1), ((b"2", "new"), 1)]


@pytest.mark.row("P-4")
def test_a_lookup_agrees_with_the_scan(writer: PersistClient) -> None:
    write, read = writer.create_or_load("a", StringCodec(), StringCodec())
    for time in range(5):
        write.write([((f"k{number}", f"v{time}"), time, 1) for number in range(4)])
        if time:
            write.write([((f"k{number}", f"v{time - 1}"), time, -1) for number in range(4)])
    done(write.seal(5))
    for time in (1, 4):
        scan = dict(row for row, _ in read.snapshot(time))
        assert {key: read.get(key, time) for key in scan} == {key: [(scan[key], 1)] for key in scan}
    assert read.get("nobody") == []


@pytest.mark.row("P-43")
@pytest.mark.row("P-45")
@pytest.mark.row("P-46")
@pytest.mark.row("P-47")
def test_another_writer_is_refused_by_name_and_the_same_id_reenters(location: str) -> None:
    first = PersistClient.open(location, reentrance_id="one")
    write, _ = first.create_or_load("a")
    with pytest.raises(Locked) as caught:
        PersistClient.open(location, reentrance_id="two").create_or_load("a")
    assert "reentrance ID one" in str(caught.value)
    with pytest.raises(Locked):
        PersistClient.open(location).create_or_load("a")  # without an ID of its own
    # As after a crash: nobody released the lock.
    second = PersistClient.open(location, reentrance_id="one")
    again, read = second.create_or_load("a")
    done(again.write([((b"k", b"v"), 0, 1)]))
    with pytest.raises(LockLost):
        done(write.write([((b"l", b"v"), 0, 1)]))
    done(again.seal(1))
    assert list(read.snapshot()) == [((b"k", b"v"), 1)]
    second.stop()
    first.stop()


def test_a_broken_lock_stops_its_holder_and_lets_another_in(location: str) -> None:
    first = PersistClient.open(location)
    write, _ = first.create_or_load("a")
    done(write.seal(1))
    operator = PersistClient.open(location)
    holder = operator.lock_holder()
    assert holder is not None
    assert operator.break_lock() == holder
    assert operator.lock_holder() is None
    with pytest.raises(LockLost):
        done(write.seal(2))
    with PersistClient.open(location, reentrance_id="next") as other:
        done(other.create_or_load("a")[0].seal(3))
    assert operator.lock_holder() is None  # a graceful stop gives it back
    first.stop()


def test_compare_and_append_needs_no_lock_and_a_runtime_takes_notice(location: str) -> None:
    with PersistClient.open(location) as holder:
        write, _ = holder.create_or_load("a")
        done(write.seal(3))
        catalog = PersistClient.open(location)
        catalog.compare_and_append({"a": [(b"k", b"v", 3, 1)]}, expected={"a": 3}, new_upper={"a": 7})
        with pytest.raises(WriteBehindUpper):
            done(write.write([((b"l", b""), 6, 1)]))
        done(write.write([((b"l", b""), 7, 1)]))
        assert done(write.seal(8)) == holder.state()


@pytest.mark.row("P-54")
@pytest.mark.row("P-55")
def test_stopping_any_clone_finishes_pending_work_and_refuses_new_work(location: str) -> None:
    client = PersistClient.open(location)
    clone = client.clone()
    write, _ = client.create_or_load("a")
    futures = [write.write([((b"%d" % n, b""), 0, 1)]) for n in range(200)]
    sealed = write.seal(1)
    clone.stop()
    assert all(future.done() for future in [*futures, sealed])
    assert len(list(PersistClient.open(location, mode="ro").snapshot(["a"]))) == 200
    for work in (lambda: write.seal(2), client.state, clone.compact, lambda: clone.listen(["a"], 0)):
        with pytest.raises(Stopped):
            work()


@pytest.mark.row("P-53")
def test_the_runtime_ends_when_the_last_clone_is_gone(location: str) -> None:
    client = PersistClient.open(location)
    clone = client.clone()
    client.create_or_load("a")
    runtime = client._slot.get()
    del client
    gc.collect()
    assert runtime.is_running
    done(clone.create_or_load("a")[0].seal(1))
    del clone
    gc.collect()
    wait_until(lambda: not runtime.is_running)
    assert PersistClient.open(location, mode="ro").lock_holder() is None


@pytest.mark.row("P-8")
def test_clones_are_used_from_many_threads(writer: PersistClient) -> None:
    clones = [writer.clone() for _ in range(4)]

    def work(number: int) -> None:
        write, _ = clones[number].create_or_load(f"c{number}")
        for time in range(20):
            write.write([((b"%d" % time, b""), time, 1)])
        done(write.seal(20))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(list(writer.snapshot([f"c{number}"]))) for number in range(4)] == [20] * 4


def test_a_read_only_client_hands_out_handles_that_refuse_to_write(
    writer: PersistClient, location: str
) -> None:
    write, _ = writer.create_or_load("a")
    done(write.seal(1))
    refused, read = PersistClient.open(location, mode="ro").create_or_load("a")
    with pytest.raises(ReadOnly):
        refused.seal(2)
    with pytest.raises(ReadOnly):
        refused.write([])
    with pytest.raises(ReadOnly):
        refused.allow_compaction(1)
    assert list(read.snapshot()) == []
