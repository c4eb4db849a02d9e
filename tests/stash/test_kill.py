"""PostgreSQL is killed, again and again, under a writer."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hermit.embedded.postgres import EmbeddedPostgres
from hermit.errors import HermitError
from hermit.rows import Row
from hermit.stash import RetryPolicy, Stash, StashTransaction
from hermit.stash.errors import OutcomeUnknown

from .conftest import ClosingClient, nothing

TRANSACTIONS = 1000
KILLS = 8
SEED = 20_240_611


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    made = EmbeddedPostgres(tmp_path / "pg")
    made.start()
    yield made
    made.release()


def kill(server: EmbeddedPostgres) -> None:
    """SIGKILL to the postmaster and all of its children, as a power cut of the process would be."""
    postmaster = int((server.data / "postmaster.pid").read_text().split()[0])
    # A postmaster that was stopped starts no child that would be missed here and outlive it.
    os.kill(postmaster, signal.SIGSTOP)
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    processes = (postmaster, *map(int, children))
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    # Until its parent has noticed, a dead process still counts as a running server.
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{process}").exists() for process in processes):
        assert time.monotonic() < deadline, "a killed process is still there"
        threading.Event().wait(0.01)


def transaction_body(number: int, generator: random.Random) -> Callable[[StashTransaction], None]:
    """Several collections and sizes; every row says which transaction it is of, and how many it has."""
    sizes = [(name, generator.randrange(1, 4)) for name in generator.sample(["items", "roles", "schemas"], 2)]
    if generator.random() < 0.1:
        sizes.append(("audit_log", 400))
    total = sum(size for _, size in sizes)
    payload = generator.randbytes(generator.randrange(200))

    def body(transaction: StashTransaction) -> None:
        for name, size in sizes:
            rows = (Row(name, b"%d %d %d" % (number, total, n), payload) for n in range(size))
            transaction.append((row, 1) for row in rows)

    return body


def rows_by_transaction(stash: Stash) -> tuple[Counter[int], dict[int, int]]:
    """How many rows of each transaction are there, and how many it should have."""
    there: Counter[int] = Counter()
    wanted: dict[int, int] = {}

    def body(transaction: StashTransaction) -> None:
        for name in transaction.collections():
            for key, _ in transaction.rows(name):
                number, total, _ = map(int, key.split())
                there[number] += 1
                wanted[number] = total

    stash.read(body)
    return there, wanted


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_what_was_acknowledged_survives_kills_and_what_failed_is_not_there(
    server: EmbeddedPostgres, connect: Callable[..., ClosingClient]
) -> None:
    generator = random.Random(SEED)
    policies = {"patient": RetryPolicy(), "hasty": RetryPolicy(attempts_max=2, delay_s_first=0.001)}
    client = connect(server.url())
    token = client.open(nothing)[0].token
    handles = {name: connect(server.url(), retry=policy).resume(token) for name, policy in policies.items()}
    outcomes: dict[int, str] = {}
    done = threading.Semaphore(0)

    def keep_killing() -> None:
        for _ in range(KILLS):
            for _ in range(TRANSACTIONS // (KILLS + 1)):
                done.acquire()
            kill(server)
            server.start()

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as leaving:
        killing = pool.submit(keep_killing)
        # If the writer fails, the killer must not wait for it.
        leaving.callback(done.release, TRANSACTIONS)
        for number in range(TRANSACTIONS):
            stash = handles[generator.choice(["patient", "hasty"])]
            try:
                stash.write(transaction_body(number, generator))
                outcomes[number] = "acknowledged"
            except OutcomeUnknown:
                outcomes[number] = "unknown"
            except HermitError:
                outcomes[number] = "failed"
            done.release()
            # A killer that failed must not leave the writer without a server for ever.
            if killing.done():
                killing.result()
        killing.result(timeout=120)
    there, wanted = rows_by_transaction(handles["patient"])
    halves = {number: found for number, found in there.items() if found != wanted[number]}
    assert halves == {}
    by_outcome = {
        outcome: {number for number, told in outcomes.items() if told == outcome}
        for outcome in ("acknowledged", "failed", "unknown")
    }
    assert by_outcome["acknowledged"] <= there.keys()
    assert not by_outcome["failed"] & there.keys()
    assert len(by_outcome["acknowledged"]) > TRANSACTIONS // 2
    applied = len(there)
    assert handles["patient"].confirm().version == applied
