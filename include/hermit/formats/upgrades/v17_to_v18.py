"""Numbers that stood for one of several things become types: an item's type, and a cluster's variant.

An item's type was a number that only a comment explained; it becomes an enum. A cluster's variant was 0
or 1, and with 0 its size, replication factor and zones were stored but meant nothing; it becomes a oneof
whose arms hold exactly what they need. A number without a meaning stops the upgrade: guessing would lose
what the object was.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Old, Update, carry
from hermit.formats.errors import CannotConvert
from hermit.formats.gen import objects_v17_pb2 as v17
from hermit.formats.gen import objects_v18_pb2 as v18

_UNMANAGED = 0
_MANAGED = 1

_ITEM_TYPES: dict[int, v18.ItemType.ValueType] = {
    0: v18.ITEM_TYPE_TABLE,
    1: v18.ITEM_TYPE_VIEW,
    2: v18.ITEM_TYPE_MATERIALIZED_VIEW,
    3: v18.ITEM_TYPE_SOURCE,
    4: v18.ITEM_TYPE_SINK,
    5: v18.ITEM_TYPE_INDEX,
    6: v18.ITEM_TYPE_TYPE,
    7: v18.ITEM_TYPE_FUNCTION,
    8: v18.ITEM_TYPE_SECRET,
    9: v18.ITEM_TYPE_CONNECTION,
}


def upgrade(old: Old) -> Iterator[Action]:
    """Convert every cluster and every item."""
    for cluster in old.messages("clusters", v17.ClusterKey, v17.ClusterValue):
        yield Update(cluster, _cluster(cluster.value))
    for item in old.messages("items", v17.ItemKey, v17.ItemValue):
        value = carry(item.value, v18.ItemValue)
        item_type = _ITEM_TYPES.get(item.value.item_type)
        if item_type is None:
            raise CannotConvert("items", item.key.id, f"{item.value.item_type} is no type of an item")
        value.item_type = item_type
        yield Update(item, value)


def _cluster(old: v17.ClusterValue) -> v18.ClusterValue:
    new = carry(old, v18.ClusterValue)
    if old.variant == _UNMANAGED:
        new.unmanaged.SetInParent()
    elif old.variant == _MANAGED:
        new.managed.size = old.size
        new.managed.replication_factor = old.replication_factor
        new.managed.availability_zones.extend(old.availability_zones)
        new.managed.SetInParent()
    else:
        raise CannotConvert("clusters", old.name, f"{old.variant} is no variant of a cluster")
    return new
