"""System variables move out of `settings` into `system_configurations`.

`settings` held two things that are read at different times and by different people: the settings of the
catalog itself, which bootstrapping needs, and what ALTER SYSTEM SET stored. A flag in the key told them
apart. Each has a collection now, and the flag goes away. The rows that stay keep their bytes: the flag
was false, and false is not written.
"""

from __future__ import annotations

from collections.abc import Iterator

from hermit.formats.actions import Action, Delete, Insert, Old
from hermit.formats.gen import objects_v19_pb2 as v19
from hermit.formats.gen import objects_v20_pb2 as v20


def upgrade(old: Old) -> Iterator[Action]:
    """Move the rows with the flag."""
    for row in old.messages("settings", v19.SettingKey, v19.SettingValue):
        if row.key.system_variable:
            yield Delete(row)
            yield Insert(
                "system_configurations",
                v20.SystemConfigurationKey(name=row.key.name),
                v20.SystemConfigurationValue(value=row.value.value),
            )
