"""Two catalogs as one: every call goes to both, and the answers must be the same.

Meant for rehearsing a move: whatever the application does is done on the store that it knows and on the
one that it will move to, and the first difference, in a result, an error or a dump, is an error that
shows both sides. The primary answers; it is asked first.

The methods are not written out: they are those of the interface, forwarded by name, so that a method that
is added there cannot be forgotten here. What is not equal by nature (numbers that each store counts for
itself) is compared by what it says, see `_ESSENCE`.

Two stores cannot be written in one atomic step. A crash between the two writes leaves the secondary
behind, and the next comparison says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Self, cast

from hermit.durable.abc import CatalogInspection, DurableCatalogState, UnopenedCatalogState
from hermit.durable.compare import Outcome, compare
from hermit.durable.errors import ShadowMismatch, TransactionFinished
from hermit.durable.subscription import ChangeBatch
from hermit.durable.token import FenceToken
from hermit.durable.transaction import CatalogTransaction, TableView
from hermit.errors import InvalidInput
from hermit.rows import Update, consolidate

STORE = "shadow"
_SEPARATOR = "/"


def init_shadow_catalog_state(
    primary_state: UnopenedCatalogState, secondary_state: UnopenedCatalogState
) -> UnopenedCatalogState:
    """Two unopened catalogs as one, which began when the primary did. Neither is opened by this."""
    secondary_state.adopt_boot_ts(primary_state.boot_ts)
    return cast(UnopenedCatalogState, ShadowUnopened(primary_state, secondary_state))


def _public_methods(protocol: type) -> list[str]:
    return [name for name, member in vars(protocol).items() if not name.startswith("_") and callable(member)]


def _same_contents(updates: Iterable[Update]) -> Any:
    return sorted(consolidate(updates).items())


_ESSENCE: dict[str, Callable[[Any], Any]] = {
    # Each store merges its history when it likes; what the history sums to is the same.
    "snapshot_unconsolidated": _same_contents,
    "token": lambda token: (token.epoch, token.deploy_generation),
    # The names that the stores keep may differ, whether there is one may not.
    "holder": lambda holder: holder is None,
}
_ITERATORS = frozenset({"snapshot", "snapshot_unconsolidated"})


class _Both:
    """Two sides of anything."""

    def __init__(self, primary: Any, secondary: Any) -> None:
        self.primary = primary
        self.secondary = secondary

    def _both(
        self, method: str, call: Callable[[Any], Any], essence: Callable[[Any], Any] | None = None
    ) -> Any:
        first = Outcome.of(lambda: call(self.primary))
        second = Outcome.of(lambda: call(self.secondary))
        return compare(method, first, second, essence)


class ShadowUnopened(_Both):
    """Two unopened catalogs."""

    store = STORE

    @property
    def boot_ts(self) -> int:
        return int(self._both("boot_ts", lambda side: side.boot_ts))

    def open(self, *, epoch_min: int = 1, **options: Any) -> ShadowCatalog:
        """Open both at one epoch, above what either has stored."""
        stored = max(self.primary.epoch() or 0, self.secondary.epoch() or 0)
        return self._open("open", lambda side: side.open(epoch_min=max(epoch_min, stored + 1), **options))

    def resume(self, token: FenceToken, **options: Any) -> ShadowCatalog:
        first, separator, second = token.nonce.partition(_SEPARATOR)
        if token.store != STORE or not separator:
            raise InvalidInput(f"not a fencing token of a shadow catalog: {token}")
        tokens = {
            id(side): FenceToken(side.store, token.epoch, nonce, token.deploy_generation)
            for side, nonce in ((self.primary, first), (self.secondary, second))
        }
        return self._open("resume", lambda side: side.resume(tokens[id(side)], **options))

    def open_read_only(self, **options: Any) -> ShadowCatalog:
        return self._open("open_read_only", lambda side: side.open_read_only(**options))

    def open_savepoint(self, **options: Any) -> ShadowCatalog:
        return self._open("open_savepoint", lambda side: side.open_savepoint(**options))

    def inspect(self) -> ShadowInspection:
        first, second = (Outcome.of(side.inspect) for side in (self.primary, self.secondary))
        compare("inspect", first, second, lambda inspection: None)
        return ShadowInspection(first.value, second.value)

    def _open(self, method: str, call: Callable[[Any], Any]) -> ShadowCatalog:
        first = Outcome.of(lambda: call(self.primary))
        second = Outcome.of(lambda: call(self.secondary))
        try:
            compare(method, first, second, lambda side: (side.epoch, side.boot_ts))
        except Exception:
            for outcome in (first, second):
                if outcome.error is None:
                    outcome.value.close()
            raise
        return ShadowCatalog(first.value, second.value)


class _Handles(_Both):
    """Two handles that are closed together."""

    def __init__(self, primary: Any, secondary: Any) -> None:
        super().__init__(primary, secondary)
        self._versions: tuple[int, int] | None = None

    def content_version(self) -> int:
        """Each side counts for itself; whether the number moved since the last call must be the same."""
        first, second = (Outcome.of(side.content_version) for side in (self.primary, self.secondary))
        before = self._versions or (first.value, second.value)
        compare(
            "content_version",
            first._replace(value=first.value != before[0]),
            second._replace(value=second.value != before[1]),
        )
        self._versions = (first.value, second.value)
        return int(first.value)

    def close(self) -> None:
        self.primary.close()
        self.secondary.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ShadowInspection(_Handles):
    """Two catalogs as they are stored."""


class ShadowCatalog(_Handles):
    """Two opened catalogs."""

    store = STORE

    @property
    def boot_ts(self) -> int:
        return int(self._both("boot_ts", lambda side: side.boot_ts))

    @property
    def epoch(self) -> int:
        return int(self._both("epoch", lambda side: side.epoch))

    @property
    def is_read_only(self) -> bool:
        return bool(self._both("is_read_only", lambda side: side.is_read_only))

    @property
    def token(self) -> FenceToken:
        first = self._both("token", lambda side: side.token, _ESSENCE["token"])
        nonce = f"{first.nonce}{_SEPARATOR}{self.secondary.token.nonce}"
        return FenceToken(STORE, first.epoch, nonce, first.deploy_generation)

    def subscribe(self) -> ShadowSubscription:
        first, second = (Outcome.of(side.subscribe) for side in (self.primary, self.secondary))
        compare("subscribe", first, second, lambda subscription: None)
        return ShadowSubscription(first.value, second.value)

    def transaction(self) -> ShadowTransaction:
        first, second = (Outcome.of(side.transaction) for side in (self.primary, self.secondary))
        try:
            compare("transaction", first, second, lambda transaction: None)
        except ShadowMismatch:
            for outcome in (first, second):
                if outcome.error is None:
                    outcome.value.discard()
            raise
        return ShadowTransaction(first.value, second.value)

    def commit_transaction(self, transaction: CatalogTransaction) -> None:
        if not isinstance(transaction, ShadowTransaction):
            raise TransactionFinished("this transaction belongs to another handle, or is over")
        sides = {id(self.primary): transaction.primary, id(self.secondary): transaction.secondary}
        self._both("commit_transaction", lambda side: side.commit_transaction(sides[id(side)]))


class ShadowTransaction(CatalogTransaction, _Both):
    """Two transactions."""

    def table(self, name: str) -> TableView[Any, Any]:
        first = Outcome.of(lambda: self.primary.table(name))
        second = Outcome.of(lambda: self.secondary.table(name))
        compare(f"table({name})", first, second, lambda table: None)
        return cast(TableView[Any, Any], ShadowTable(name, first.value, second.value))

    def discard(self) -> None:
        self._both("discard", lambda side: side.discard())


class ShadowTable(_Both):
    """One kind in two transactions."""

    def __init__(self, name: str, primary: Any, secondary: Any) -> None:
        super().__init__(primary, secondary)
        self.name = name

    def __getattr__(self, method: str) -> Callable[..., Any]:
        if method.startswith("_"):
            raise AttributeError(method)
        return lambda *arguments: self._both(
            f"{self.name}.{method}", lambda side: getattr(side, method)(*arguments)
        )


class ShadowSubscription(_Both):
    """Two subscriptions: the same commits in the same order, at times that each store counts for itself."""

    def poll(self) -> list[ChangeBatch]:
        found: list[ChangeBatch] = self._both("subscription", lambda side: side.poll(), _steps)
        return found

    def next(self, timeout_s: float | None = None) -> ChangeBatch | None:
        found: ChangeBatch | None = self._both(
            "subscription", lambda side: side.next(timeout_s), lambda batch: _steps([batch] if batch else [])
        )
        return found

    def close(self) -> None:
        self.primary.close()
        self.secondary.close()

    def __iter__(self) -> Iterator[ChangeBatch]:
        while (batch := self.next()) is not None:
            yield batch


def _steps(batches: Iterable[ChangeBatch]) -> list[Any]:
    return [_same_contents(update._replace(time=0) for update in batch.updates) for batch in batches]


def _forward(method: str) -> Callable[..., Any]:
    def forwarded(self: _Both, *arguments: Any, **options: Any) -> Any:
        def call(side: Any) -> Any:
            result = getattr(side, method)(*arguments, **options)
            return list(result) if method in _ITERATORS else result

        result = self._both(method, call, _ESSENCE.get(method))
        return iter(result) if method in _ITERATORS else result

    forwarded.__name__ = method
    forwarded.__doc__ = f"`{method}` on both sides."
    return forwarded


for _class, _protocol in (
    (ShadowUnopened, UnopenedCatalogState),
    (ShadowInspection, CatalogInspection),
    (ShadowCatalog, DurableCatalogState),
):
    for _name in _public_methods(_protocol):
        if not hasattr(_class, _name):
            setattr(_class, _name, _forward(_name))
