"""Two openers race: one survives, and of the other nothing is seen."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from hermit.errors import Fenced
from hermit.rows import Row
from hermit.stash import Stash, StashTransaction

from .conftest import ClosingClient, raw

RACES = 1000


class Racer:
    """Opens, writes who it is, and reports what it was told."""

    def __init__(self, client: ClosingClient, name: bytes) -> None:
        self.client = client
        self.name = name
        self.stash: Stash | None = None
        self.written = False

    def run(self, race: int, start: threading.Barrier) -> None:
        start.wait(30)
        self.stash = self.client.open(self.bootstrap)[0]
        try:
            self.stash.write(lambda t: t.append([(self.row(race), 1)]))
            self.written = True
        except Fenced:
            self.written = False

    def row(self, race: int) -> Row:
        assert self.stash is not None
        return Row("items", b"%d %s" % (race, self.name), b"%d" % self.stash.epoch)

    def bootstrap(self, transaction: StashTransaction) -> None:
        """Initialize, if nobody has."""
        if not transaction.upper("config"):
            transaction.append([(Row("config", b"initialized", b""), 1)])

    def survived(self) -> bool:
        assert self.stash is not None
        try:
            self.stash.confirm()
        except Fenced:
            return False
        finally:
            self.stash.close()
        return True


@pytest.mark.slow
@pytest.mark.row("D-20")
@pytest.mark.timeout(600)
def test_of_two_openers_that_race_a_thousand_times_one_survives_each_time(
    connect: Callable[..., ClosingClient],
) -> None:
    clients = [connect(), connect()]
    last_epoch, visible = 0, set()
    for race in range(RACES):
        start = threading.Barrier(2)
        racers = [Racer(client, name) for client, name in zip(clients, (b"one", b"two"), strict=True)]
        threads = [threading.Thread(target=racer.run, args=[race, start]) for racer in racers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        epochs = sorted(racer.stash.epoch for racer in racers if racer.stash is not None)
        assert last_epoch < epochs[0] < epochs[1]
        last_epoch = epochs[1]
        survivors = [racer for racer in racers if racer.survived()]
        assert [racer.stash.epoch for racer in survivors if racer.stash is not None] == [last_epoch]
        assert survivors[0].written
        visible |= {(racer.row(race).key, racer.row(race).value) for racer in racers if racer.written}
    reader = connect().open_read_only()
    assert set(reader.read(lambda t: list(t.rows("items")))) == visible
    assert reader.read(lambda t: list(t.rows("config"))) == [(b"initialized", b"")]
    assert raw(clients[0], "select epoch from {schema}.fence") == [(last_epoch,)]


@pytest.mark.slow
def test_many_first_openers_make_one_stash(connect: Callable[..., ClosingClient]) -> None:
    start = threading.Barrier(8)
    racers = [Racer(connect(), b"%d" % number) for number in range(8)]
    threads = [threading.Thread(target=racer.run, args=[0, start]) for racer in racers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(racer.stash.epoch for racer in racers if racer.stash is not None) == list(range(1, 9))
    assert sum(racer.survived() for racer in racers) == 1


@pytest.mark.slow
def test_an_opener_gets_in_beside_a_writer_that_never_rests(connect: Callable[..., ClosingClient]) -> None:
    client = connect()
    busy = client.open(lambda t: None)[0]
    writes, told = [0], []

    def work() -> None:
        try:
            while True:
                busy.write(lambda t: t.append([(Row("items", b"%d" % writes[0], b""), 1)]))
                writes[0] += 1
        except Fenced as error:
            told.append(error)

    working = threading.Thread(target=work)
    working.start()
    owner = client.open(lambda t: None)[0]
    working.join(60)
    assert len(told) == 1
    assert owner.confirm().version == writes[0]
    assert owner.read(lambda t: sum(1 for _ in t.rows("items"))) == writes[0]
