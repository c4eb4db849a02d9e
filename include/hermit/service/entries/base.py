"""What an update entry is.

`apply` is pure: from a catalog and the time at which the version becomes active to the next catalog. It
checks no rules, because the command that produced the entry did so, against this very catalog. It does
insist that what it changes is there: if not, the log is not the one that this catalog came from.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, TypeVar

from hermit.errors import violated
from hermit.service.catalog import Catalog
from hermit.service.clock import HybridTimestamp
from hermit.service.descriptors import CatalogObjectDescriptor
from hermit.service.marshallable import MarshalledType

if TYPE_CHECKING:
    from hermit.service.events import CatalogEvent

O = TypeVar("O", bound=CatalogObjectDescriptor)  # noqa: E741


class UpdateEntry(ABC):
    """One change to a catalog."""

    __slots__ = ()

    marshalled_type: ClassVar[MarshalledType]

    @abstractmethod
    def apply(self, catalog: Catalog, timestamp: HybridTimestamp) -> Catalog:
        """The catalog after this change."""

    def event(self, before: Catalog, after: Catalog) -> CatalogEvent | None:
        """What listeners are told, once the version is readable; None for mere bookkeeping."""
        return None


def existing(catalog: Catalog, id: int, type_: type[O]) -> O:
    """An object that the entry needs."""
    found = catalog.object_by_id(id)
    if not isinstance(found, type_):
        violated("what an entry changes exists", id=id, expected=type_.__name__, version=catalog.version)
    return found
