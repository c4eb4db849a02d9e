"""What the last upgrade of a store did, for whoever asks later.

The opener that upgrades writes it down in the commit that upgrades: it is there exactly if the upgrade is.
It belongs to the store and not to the catalog: a move leaves it where it is, and neither digests nor the
content version know of it. The stash keeps it as a note, the shard as a row beside its fence.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hermit.errors import CorruptData
from hermit.formats.metrics import UpgradeReport

UPGRADE_NOTE = "last_upgrade"


@dataclass(frozen=True)
class LastUpgrade:
    """The report of an upgrade, and when the opener that ran it began."""

    at_ms: int
    report: UpgradeReport

    def to_json(self) -> dict[str, Any]:
        return {"at_ms": self.at_ms, **self.report.to_json()}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> LastUpgrade:
        return cls(int(value["at_ms"]), UpgradeReport.from_json(value))

    def encode(self) -> str:
        return json.dumps(self.to_json(), sort_keys=True, separators=(",", ":"))

    @classmethod
    def decode(cls, text: str | bytes) -> LastUpgrade:
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise CorruptData(
                f"the note on the last upgrade is damaged: {text[:64]!r}",
                hint="nothing depends on it; the next upgrade writes another",
            ) from error
