"""A map that never changes: setting or removing gives another map that shares almost everything with it.

Two layers. The base is any mapping that nobody changes; it comes from a snapshot and may decode its
values when they are asked for. The overlay is a hash trie that holds what changed since, and a marker for
what was removed. So loading a snapshot inserts nothing anywhere, and a change costs a few nodes of a trie
whatever the size of either layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar, overload

from rpds import HashTrieMap

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")

_ABSENT: Final = object()
_REMOVED: Final = object()
_EMPTY_OVERLAY: Final[HashTrieMap[Any, Any]] = HashTrieMap()
_EMPTY_BASE: Final[Mapping[Any, Any]] = {}


class PersistentMap(Generic[K, V]):
    """An immutable map with cheap successors."""

    __slots__ = ("_base", "_growth", "_overlay")

    def __init__(self, base: Mapping[K, V] = _EMPTY_BASE) -> None:
        """Take over a mapping; the caller must not change it any more."""
        self._base = base
        self._overlay: HashTrieMap[K, Any] = _EMPTY_OVERLAY
        self._growth = 0

    @overload
    def get(self, key: K) -> V | None: ...
    @overload
    def get(self, key: K, default: D) -> V | D: ...
    def get(self, key: K, default: Any = None) -> Any:
        """The value under a key."""
        found = self._overlay.get(key, _ABSENT)
        if found is _ABSENT:
            return self._base.get(key, default) if self._base else default
        return default if found is _REMOVED else found

    def __getitem__(self, key: K) -> V:
        found: Any = self.get(key, _ABSENT)
        if found is _ABSENT:
            raise KeyError(key)
        result: V = found
        return result

    def __contains__(self, key: object) -> bool:
        found: Any = self._overlay.get(key, _ABSENT)  # type: ignore[arg-type]
        return key in self._base if found is _ABSENT else found is not _REMOVED

    def __len__(self) -> int:
        return len(self._base) + self._growth

    def __iter__(self) -> Iterator[K]:
        overlay = self._overlay
        yield from (key for key in self._base if key not in overlay)
        yield from (key for key, value in overlay.items() if value is not _REMOVED)

    def items(self) -> Iterator[tuple[K, V]]:
        """Every key with its value, in no particular order."""
        return ((key, self[key]) for key in self)

    def values(self) -> Iterator[V]:
        """Every value, in no particular order."""
        return (self[key] for key in self)

    def set(self, key: K, value: V) -> PersistentMap[K, V]:
        """The map with this value under the key."""
        overlay = self._overlay
        found = overlay.get(key, _ABSENT)
        is_new = found is _REMOVED or (found is _ABSENT and not (self._base and key in self._base))
        return self._next(overlay.insert(key, value), is_new)

    def remove(self, key: K) -> PersistentMap[K, V]:
        """The map without the key, which must be there."""
        if key not in self:
            raise KeyError(key)
        if key in self._base:
            return self._next(self._overlay.insert(key, _REMOVED), -1)
        return self._next(self._overlay.remove(key), -1)

    def unchanged(self, key: K) -> bool:
        """Whether the key still has the value that the base gave it."""
        return key not in self._overlay and key in self._base

    @property
    def base(self) -> Mapping[K, V]:
        """The layer below."""
        return self._base

    def _next(self, overlay: HashTrieMap[K, Any], growth: int) -> PersistentMap[K, V]:
        successor: PersistentMap[K, V] = object.__new__(PersistentMap)
        successor._base = self._base
        successor._overlay = overlay
        successor._growth = self._growth + growth
        return successor


class LazyMap(Mapping[K, V]):
    """A mapping that is worked out when somebody first asks for something in it."""

    __slots__ = ("_found", "_make")

    def __init__(self, make: Callable[[], Mapping[K, V]]) -> None:
        self._make = make
        self._found: Mapping[K, V] | None = None

    def _made(self) -> Mapping[K, V]:
        # Two threads may work it out at once. Both get the same, and either may stay.
        found = self._found
        if found is None:
            found = self._found = self._make()
        return found

    def __getitem__(self, key: K) -> V:
        return self._made()[key]

    def get(self, key: K, default: Any = None) -> Any:
        """The value under a key; without the detour over an exception."""
        return self._made().get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._made()

    def __iter__(self) -> Iterator[K]:
        return iter(self._made())

    def __len__(self) -> int:
        return len(self._made())
