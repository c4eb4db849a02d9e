"""The catalog manager: executes commands, and keeps this node's versions up to date.

Every modification has two phases. Accept: the commands are validated against the newest version, become
entries, and are appended by compare-and-set; whoever loses the race does all of that again on the newer
version, a bounded number of times. Apply: the log brings the update back to this node as to every other.

One thread does it all, in steps: find the log, follow it, append what was asked for meanwhile, tell who
waits. Requests that arrive while a step commits go into the next one together, each with a version of its
own and all in one durable commit. Tests call `step` themselves.

What must hold, whatever fails in between:

- A command is in the log once, or not at all and then its future fails. When the answer of the store is
  lost, the request is in doubt: it stays queued until the log, read anew, shows its origin or a later
  commit of this node makes it impossible that it still arrives.
- A future is told its version only after this node has applied it, and `delay_duration_ms` after the
  version became active and durable: by then every node has applied it, or refuses to answer for the present.
- Refusals are told only when everything that they were based on is in the log.
- Nobody is forgotten: `_wake` is set after something was queued and cleared before a step looks for it.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from hermit.errors import Fenced, HermitError, InvalidInput, Unavailable
from hermit.service import accept
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridClock, HybridTimestamp, after_ms, monotonic_ms, physical_ms
from hermit.service.commands.base import CatalogCommand
from hermit.service.compaction import Compacted, compact
from hermit.service.errors import (
    AppliedHereOnly,
    NodeFailed,
    NotAccepted,
    OutcomeUnknown,
    Stopped,
    TooManyConflicts,
    UpdateTooLarge,
    VersionConflict,
)
from hermit.service.follower import Follower, Prepared
from hermit.service.futures import fail, succeed
from hermit.service.homes import Home
from hermit.service.link import Link
from hermit.service.log import LogTransaction, TimestampTaken, UpdateLog
from hermit.service.readers import Claim
from hermit.service.requests import Applied, Completions, Due, Request, RequestQueue
from hermit.service.settings import DELAY_DURATION, ServiceSettings
from hermit.service.tasks import Tasks
from hermit.service.update import Origin, VersionedUpdate
from hermit.service.wire.marshaller import UpdateLogMarshaller

T = TypeVar("T")


class CatalogManager(Follower):
    """A node of the service: reads like `CatalogService`, and executes commands."""

    def __init__(
        self,
        home: Home,
        *,
        clock: HybridClock | None = None,
        settings: ServiceSettings | None = None,
        now_ms: Callable[[], int] = monotonic_ms,
    ) -> None:
        super().__init__(clock or HybridClock(), now_ms)
        self.settings = settings or ServiceSettings()
        self.marshaller = UpdateLogMarshaller()
        self._delay_ms = self.settings.delay_duration_ms
        self._link = Link(home, self.settings, self.marshaller, now_ms)
        self._is_adopted = False
        self._queue = RequestQueue()
        self._awaited: dict[Origin, Request] = {}
        self._completions = Completions()
        self._held: list[tuple[int, tuple[Request, Applied]]] = []
        self._tasks = Tasks(self._answers)
        self._waiters: list[tuple[HybridTimestamp, Future[None]]] = []
        self._claim_due_ms = 0
        self._expected = 0
        self._step_s = 0.0
        self._step_lock = threading.Lock()
        self._wake = threading.Event()
        self._listeners.on_idle = self._wake.set
        self._stopping = False
        self._thread: threading.Thread | None = None
        self._fenced: Fenced | None = None
        self.trouble: HermitError | None = None
        """Why the log cannot be reached at the moment, if so."""

    # Asking

    def execute(self, command: CatalogCommand | Sequence[CatalogCommand]) -> Future[Applied]:
        """Change the catalog. Several commands become one version, or none of them does.

        The future is done when the version is available on every node: at the earliest
        `delay_duration_ms` after it became active.
        """
        commands = (command,) if isinstance(command, CatalogCommand) else tuple(command)
        request = self._queue.new(commands, self._now_ms() + self.settings.execute_timeout_ms)
        if (mistake := accept.mistake(commands)) is not None:
            fail(request.future, mistake)
            return request.future
        self._queue.put(request)
        self._wake.set()
        if (refusal := self._refusal()) is not None and self._queue.discard(request):
            # Nobody has taken it, and nobody will.
            fail(request.future, refusal)
        return request.future

    def wait_for_metadata_completeness(self, timestamp: HybridTimestamp) -> Future[None]:
        """Done when `catalog_at(timestamp=...)` is final for this time here, whatever happens later.

        No assumption about clocks is made: unless a later version is known, the time is promised in the log.
        """
        future: Future[None] = Future()
        if timestamp <= max(self._history.latest.time, self._safe_time):
            succeed(future, None)
            return future
        with self._ready_lock:
            self._waiters.append((timestamp, future))
        self._wake.set()
        if (refusal := self._refusal()) is not None:
            fail(future, refusal)
        return future

    def compact(self, low_watermark: HybridTimestamp | None = None) -> Compacted:
        """Replace the oldest versions by a snapshot, as far as nobody needs them."""
        return compact(self, self, self.marshaller, low_watermark)

    def ask(self, task: Callable[[UpdateLog], T]) -> Future[T]:
        """Run something on the log, between two steps; again when somebody else wrote first."""
        future = self._tasks.ask(task, self._now_ms() + self.settings.execute_timeout_ms)
        self._wake.set()
        if (refusal := self._refusal()) is not None:
            fail(future, refusal)
        return future

    def wait_for(self, future: Future[T]) -> T:
        """The result of a future of this node, stepping on by hand if no thread does."""
        while self._thread is None and not future.done():
            self.step()
        return future.result()

    @property
    def name(self) -> str:
        """This start of this node, as other nodes know it."""
        return self._queue.node_name

    @property
    def is_writable(self) -> bool:
        """Whether commands can be appended at the moment."""
        return self._link.writable

    @property
    def store(self) -> str | None:
        """The store that the log is read from at the moment."""
        return self._link.store

    # Life

    def start(self) -> Self:
        """Follow the log and execute commands in a thread, from now on."""
        if self._thread is not None or self._stopping:
            was = "stopped" if self._stopping else "started"
            raise InvalidInput(f"this node of the catalog service was {was} already", hint="make a new one")
        self._answers.start("hermit catalog answers")
        self._listeners.start()
        self._thread = threading.Thread(target=self._run, name="hermit catalog", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Execute nothing more, give up the claim to versions, and let go of the store.

        Listeners hear what there is to hear; those that take longer than `listener_patience_ms` are left
        behind. A listener or a callback may call this itself.
        """
        self._stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        with self._step_lock, suppress(HermitError):
            self._give_up_claim()
        self._link.lose()
        self._give_up(Stopped("this node of the catalog service was stopped"))
        patience_s = self.settings.listener_patience_ms / 1000
        self._listeners.stop(patience_s)
        self._answers.stop(patience_s)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        while not self._stopping and self._failure is None:
            begun_s = time.monotonic()
            self.step()
            self._step_s = time.monotonic() - begun_s
            self._wake.wait(self._pause_ms() / 1000)
            self._linger()
            self._wake.clear()

    def _linger(self) -> None:
        """Let those who were just told come back, for no longer than a step takes: that is what it saves."""
        if len(self._queue):
            expected, self._expected = min(self._expected, self.settings.group_max), 0
            patience_s = self.settings.linger_ms / 1000
            self._queue.gather(expected, patience_s, max(self._step_s, patience_s))

    def _pause_ms(self) -> float:
        settings = self.settings
        if self.trouble is not None or not self._link.writable:
            return settings.search_interval_ms
        if len(self._queue):
            return 0
        due = self._completions.next_due
        if due is None:
            return settings.poll_interval_ms
        left_ms = physical_ms(due.time) - self.clock.physical_ms()
        return min(max(left_ms, 0), settings.poll_interval_ms)

    # One step

    def step(self) -> None:
        """Find the log, follow it, append what was asked for, tell who waits."""
        with self._step_lock:
            if self._refusal() is not None:
                return
            requests = self._queue.take(self.settings.group_max) if self._link.writable else []
            self.trouble = self._attempt(requests)
            self._fenced = None if self._link.writable else self._fenced
            self._queue.put_back(request for request in requests if not request.is_settled)
            if isinstance(self.trouble, Fenced):
                self._fenced = self.trouble
                self._link.lose()
            elif self.trouble is not None and not isinstance(self.trouble, Unavailable):
                self._give_up(self.trouble)
            self._expire()
            self._complete()
            self._answers.relieve(self.settings.listener_patience_ms / 1000)

    def _attempt(self, requests: list[Request]) -> HermitError | None:
        """Do what there is to do; what kept us from it, if anything."""
        try:
            self._work(requests)
        except HermitError as error:
            return error
        except Exception as error:
            failure = NodeFailed(f"following the log failed: {type(error).__name__}: {error}")
            failure.__cause__ = error
            return failure
        return None

    def _work(self, requests: list[Request]) -> None:
        begun, begun_ms = self.clock.now(), self._now_ms()
        if self._link.improve():
            self._is_adopted = False
        log = self._link.log
        if log is None:
            return
        self._follow(log)
        self.forget()
        # Whatever was in the log when this step began has been applied.
        self._heard(begun, begun_ms, self._delay_ms)
        if self._link.writable:
            self._accept(log, requests)
            if self._tasks.run(log):
                self._follow(log)
            self._renew_claim(log)
            self._keep_promises(log)

    def _follow(self, log: UpdateLog) -> None:
        commits = log.poll() if self._is_adopted else None
        if commits is None:
            self._load_settings(log)
            self.adopt(log.read())
            self._is_adopted = True
            if self._link.writable and not self._history.latest.version:
                first = self._queue.new(self.settings.first_commands, sys.maxsize)
                self._queue.put_back([first])
        for commit in commits or ():
            self.follow(commit)
            if commit.is_reconfigured:
                self._load_settings(log)

    # Accept

    def _accept(self, log: UpdateLog, requests: list[Request]) -> None:
        for _ in range(self.settings.conflicts_max):
            waiting = [request for request in requests if not request.is_settled]
            if not waiting:
                return
            bytes_max = self.settings.update_bytes_max
            plan = accept.plan(self._history.latest, waiting, self.clock.now, self._encode, bytes_max)
            try:
                self._append(log, plan)
            except VersionConflict as conflict:
                if isinstance(conflict, TimestampTaken):
                    self.clock.update(conflict.safe_time)
                # The log has moved on, so that nothing sent before can arrive any more. Look what did.
                self._follow(log)
                for request in waiting:
                    request.in_doubt = False
                continue
            self._settle(plan)
            self._follow(log)
            return
        for request in requests:
            if not request.is_settled:
                attempts = self.settings.conflicts_max
                self._refuse(
                    request,
                    TooManyConflicts(
                        f"other nodes appended first, {attempts} times in a row", attempts=attempts
                    ),
                )

    def _append(self, log: UpdateLog, plan: accept.Plan[Request]) -> None:
        """Append what was planned; and if something is in doubt, write in any case, so that it is not."""
        appends = plan.appends
        in_doubt = any(outcome.request.in_doubt for outcome in plan.outcomes)
        if not appends and not in_doubt:
            return
        for outcome in plan.outcomes:
            if outcome.update is not None:
                outcome.request.in_doubt = True
                self._awaited[outcome.request.origin] = outcome.request
        log.append(appends, None if appends else self.clock.now())

    def _settle(self, plan: accept.Plan[Request]) -> None:
        """Everything planned is in the log."""
        for outcome in plan.outcomes:
            request, catalog = outcome.request, outcome.catalog
            request.in_doubt = False
            request.is_settled = True
            if outcome.error is not None:
                self._refuse(request, outcome.error)
            elif outcome.update is None:
                applied = Applied(catalog.version, catalog.time, changed=False)
                self._completions.add(self._due(catalog.time), request, applied)
            else:
                self._prepared[catalog.version] = Prepared(outcome.data, outcome.update, catalog)

    def _encode(self, update: VersionedUpdate) -> bytes:
        data = self.marshaller.marshal(update)
        limit = self.settings.update_bytes_max
        if len(data) > limit:
            raise UpdateTooLarge(
                f"the entries of one version take {len(data)} bytes, and {limit} fit",
                size_bytes=len(data),
                limit_bytes=limit,
            )
        return data

    def _applied(self, update: VersionedUpdate, catalog: Catalog) -> None:
        request = self._awaited.pop(update.origin, None)
        if request is not None:
            request.is_settled = True
            applied = Applied(catalog.version, catalog.time)
            self._completions.add(self._due(self.clock.now()), request, applied)

    def _due(self, since: HybridTimestamp) -> Due:
        delay_ms = self._delay_ms + self.settings.clock_skew_ms_max
        return Due(after_ms(since, delay_ms), since, self._now_ms() + delay_ms + 1)

    def _complete(self) -> None:
        due = self._completions.take_due(self.clock, self._now_ms())
        if due:
            self._held += [(self._now_ms() + self.settings.listener_patience_ms, each) for each in due]
        if self._held and (self._listeners.are_idle or self._held[0][0] <= self._now_ms()):
            # Whoever is told may ask again at once, and go into one commit with those who wait already.
            self._expected = len(self._held) + len(self._queue)
            # All in one call: waking the other thread for each would cost more than telling them.
            self._answers.submit(partial(_tell, [each for _, each in self._held]))
            self._held = []

    # What else there is to do

    def _renew_claim(self, log: UpdateLog) -> None:
        """Tell the other nodes which versions this one needs."""
        now_ms = self._now_ms()
        if now_ms < self._claim_due_ms:
            return
        version = self._history.latest.version
        pinned = self._pins.lowest()
        claim = Claim(
            version if pinned is None else min(version, pinned),
            self.clock.physical_ms() + self.settings.claim_ms,
        )
        with suppress(VersionConflict):
            log.transact(self._write_claim(claim))
            self._claim_due_ms = now_ms + self.settings.claim_ms // 3

    def _write_claim(self, claim: Claim | None) -> Callable[[LogTransaction], None]:
        def change(log: LogTransaction) -> None:
            now_ms = self.clock.physical_ms()
            log.set_readers(log.readers.with_claim(self.name, claim, now_ms))

        return change

    def _give_up_claim(self) -> None:
        """Let others compact what only this node needed; it would expire anyway."""
        log = self._link.log
        for _ in range(self.settings.conflicts_max):
            if log is None or not self._link.writable:
                return
            with suppress(VersionConflict):
                log.transact(self._write_claim(None))
                return

    def _keep_promises(self, log: UpdateLog) -> None:
        """Make the times final that somebody waits for and that have come."""
        self._promised()
        now = self.clock.now()
        with self._ready_lock:
            wanted = [timestamp for timestamp, _ in self._waiters if timestamp <= now]
        if wanted:
            with suppress(VersionConflict):
                log.append([], max(wanted))
            self._follow(log)

    def _promised(self) -> None:
        final = max(self._history.latest.time, self._safe_time)
        with self._ready_lock:
            done = [future for timestamp, future in self._waiters if timestamp <= final]
            self._waiters = [waiter for waiter in self._waiters if waiter[0] > final]
        for future in done:
            self._answers.submit(partial(succeed, future, None))

    def _load_settings(self, log: UpdateLog) -> None:
        """Take the delay from the catalog, where it is set, so that all nodes have the same."""
        found = log.state.get_system_configuration_by_name(DELAY_DURATION)
        self._delay_ms = self.settings.delay_duration_ms if found is None else _delay_ms(found.value.value)

    # The end

    def _expire(self) -> None:
        """Fail what could not be appended in time."""
        now_ms = self._now_ms()
        cause = self.trouble or self._fenced
        why = f": {cause.message}" if cause else ""
        for request in self._queue.overdue(now_ms):
            error: HermitError = NotAccepted(f"the command was not appended in time{why}")
            if request.in_doubt:
                error = OutcomeUnknown(f"the answer to the append of a command got lost{why}")
            self._refuse(request, error)
        self._tasks.expire(now_ms, NotAccepted(f"the log could not be written in time{why}"))

    def _refuse(self, request: Request, error: HermitError) -> None:
        request.is_settled = True
        self._awaited.pop(request.origin, None)
        self._answers.submit(partial(fail, request.future, error))

    def _refusal(self) -> HermitError | None:
        if self._stopping:
            return Stopped("this node of the catalog service was stopped")
        return self._failure

    def _give_up(self, error: HermitError) -> None:
        """Stop for good, as the log cannot be read or the node was stopped. Memory stays readable."""
        for future in self._fail_ready(error):
            self._answers.submit(partial(fail, future, error))
        for request in self._queue.take_all():
            doubt = OutcomeUnknown(f"the answer to the append of a command got lost: {error.message}")
            self._refuse(request, doubt if request.in_doubt else error)
        held, self._held = [each for _, each in self._held], []
        for request, applied in [*held, *self._completions.take_all()]:
            here = f"version {applied.version} is in the log, but not on every node for sure"
            self._refuse(request, AppliedHereOnly(f"{here}: {error.message}", version=applied.version))
        self._tasks.fail_all(error)
        with self._ready_lock:
            waiters, self._waiters = self._waiters, []
        for _, waiter in waiters:
            self._answers.submit(partial(fail, waiter, error))


def _tell(due: Sequence[tuple[Request, Applied]]) -> None:
    for request, applied in due:
        succeed(request.future, applied)


def _delay_ms(text: str) -> int:
    if not text.isdecimal():
        raise InvalidInput(f"the system variable {DELAY_DURATION} is {text!r}", hint="give it in ms")
    return int(text)
