"""Listening: the snapshot, then each sealed step exactly once, one time at a time."""

from __future__ import annotations

import asyncio
import threading

import pytest

from hermit.persist import PersistClient, StringCodec
from hermit.persist.errors import HistoryCompacted, ReadBeyondUpper, Stopped
from hermit.persist.listen import Listener, Step
from hermit.rows import Update


def append(
    client: PersistClient, time: int, *rows: tuple[bytes, int], name: str = "a", since: int = 0
) -> None:
    client.compare_and_append(
        {name: [(key, b"v", time, diff) for key, diff in rows]},
        expected={name: client.state().upper(name)},
        new_upper={name: time + 1},
        since={name: since} if since else None,
    )


def drain(listener: Listener) -> list[Step]:
    steps: list[Step] = []
    while more := listener.poll(0):
        steps += more
    return steps


def test_the_snapshot_comes_first_then_each_time_on_its_own(client: PersistClient, location: str) -> None:
    append(client, 0, (b"1", 1), (b"2", 1))
    append(client, 1, (b"1", -1))
    listener = PersistClient.open(location, mode="ro").listen(["a"], 0)
    client.compare_and_append(
        {"a": [(b"3", b"v", 5, 1), (b"4", b"v", 3, 1)]}, expected={"a": 2}, new_upper={"a": 9}
    )
    assert drain(listener) == [
        Step(0, 1, [Update("a", b"1", b"v", 0, 1), Update("a", b"2", b"v", 0, 1)], is_snapshot=True),
        Step(1, 2, [Update("a", b"1", b"v", 1, -1)]),
        Step(3, 4, [Update("a", b"4", b"v", 3, 1)]),
        Step(5, 6, [Update("a", b"3", b"v", 5, 1)]),
        Step(8, 9, []),
    ]
    assert drain(listener) == []


def test_an_unsealed_write_is_not_delivered_before_its_seal(client: PersistClient) -> None:
    write, _ = client.create_or_load("a")
    write.write([((b"0", b"v"), 0, 1)])
    write.seal(1).result(60)
    listener = client.listen(["a"], 0)
    drain(listener)
    write.write([((b"5", b"v"), 5, 1)]).result(60)
    assert drain(listener) == []
    write.seal(5).result(60)
    assert drain(listener) == [Step(4, 5, [])]
    write.seal(6).result(60)
    assert drain(listener) == [Step(5, 6, [Update("a", b"5", b"v", 5, 1)])]
    client.stop()


@pytest.mark.row("P-18")
@pytest.mark.row("P-21")
def test_a_listener_far_behind_and_merges_in_between_lose_and_repeat_nothing(
    client: PersistClient, location: str
) -> None:
    append(client, 0, (b"0", 1))
    listener = PersistClient.open(location, mode="ro").listen(["a"], 0)
    steps = drain(listener)
    for time in range(1, 150):
        append(client, time, (b"%d" % time, 1))
        if time == 70:
            steps += drain(listener)
    client.compact()
    client.vacuum(retention_s=0)
    append(client, 150, (b"150", 1))
    steps += drain(listener)
    assert client.metrics["compactions"] > 0
    assert [(step.time, [update.key for update in step.updates]) for step in steps] == [
        (time, [b"%d" % time]) for time in range(151)
    ]


def test_a_listener_resumes_at_its_frontier(client: PersistClient, location: str) -> None:
    for time in range(4):
        append(client, time, (b"%d" % time, 1))
    first = client.listen(["a"], 1)
    seen = drain(first)
    append(client, 4, (b"4", 1))
    assert first.frontier == 4
    second = PersistClient.open(location, mode="ro").listen(["a"], first.frontier - 1, resume=True)
    seen += drain(second)
    assert [step.time for step in seen] == [1, 2, 3, 4]


def test_a_listener_whose_steps_were_folded_says_so(client: PersistClient) -> None:
    append(client, 0, (b"0", 1))
    behind = client.listen(["a"], 0)
    ahead = client.listen(["a"], 0)
    drain(behind)
    append(client, 1, (b"1", 1))
    append(client, 2, (b"2", 1))
    drain(ahead)
    append(client, 3, (b"3", 1), since=2)
    client.compact()
    assert [step.time for step in drain(ahead)] == [3]
    with pytest.raises(HistoryCompacted) as caught:
        drain(behind)
    assert (caught.value.since, caught.value.upper, caught.value.requested) == (2, 4, 1)


def test_replaced_contents_end_a_listener_with_an_error(client: PersistClient) -> None:
    append(client, 0, (b"0", 1))
    listener = client.listen(["a"], 0)
    drain(listener)
    client.replace_with_batch([], collections=["a"], version=client.state().version, new_upper={"a": 2})
    with pytest.raises(HistoryCompacted):
        drain(listener)


def test_listening_beyond_upper_is_an_error(client: PersistClient) -> None:
    append(client, 0, (b"0", 1))
    with pytest.raises(ReadBeyondUpper):
        drain(client.listen(["a"], 1))


def test_several_collections_advance_together(client: PersistClient) -> None:
    append(client, 0, (b"a0", 1), name="a")
    append(client, 0, (b"b0", 1), name="b")
    listener = client.listen(["a", "b"], 0)
    drain(listener)
    append(client, 1, (b"a1", 1), name="a")
    assert drain(listener) == []
    append(client, 1, (b"b1", 1), name="b")
    (step,) = drain(listener)
    assert [update.key for update in step.updates] == [b"a1", b"b1"]


@pytest.mark.row("P-44")
@pytest.mark.row("P-48")
def test_a_waiting_listener_is_told_of_a_commit(client: PersistClient, location: str) -> None:
    append(client, 0, (b"0", 1))
    listener = PersistClient.open(location, mode="ro").listen(["a"], 0)
    drain(listener)
    got: list[Step] = []
    thread = threading.Thread(target=lambda: got.extend(listener.poll(60)))
    thread.start()
    append(client, 1, (b"1", 1))
    thread.join(60)
    assert [step.time for step in got] == [1]


def test_iteration_ends_when_the_client_stops_or_the_listener_is_closed(
    client: PersistClient, location: str
) -> None:
    append(client, 0, (b"0", 1))
    reader = PersistClient.open(location, mode="ro")
    _, read = reader.create_or_load("a", StringCodec(), StringCodec())
    steps = iter(read.listen(0))
    assert next(steps).updates == [(("0", "v"), 0, 1)]
    reader.stop()
    with pytest.raises(Stopped):
        next(steps)
    listener = client.listen(["a"], 0)
    closing = iter(listener)
    assert next(closing).is_snapshot
    listener.close()
    assert list(closing) == []


def test_a_listener_can_be_iterated_asynchronously(client: PersistClient) -> None:
    append(client, 0, (b"0", 1))
    append(client, 1, (b"1", 1))

    async def body() -> list[int]:
        listener = client.listen(["a"], 0)
        times = []
        async for step in listener:
            times.append(step.time)
            if len(times) == 2:
                listener.close()
        return times

    assert asyncio.run(body()) == [0, 1]
