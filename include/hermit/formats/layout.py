"""Where the files of this room live, below any root, so that the guard can also check a scratch copy.

Imports nothing but the standard library: the package build loads it before anything is installed.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

_SNAPSHOT = re.compile(r"objects_v(\d+)\.proto")
_STEP = re.compile(r"v(\d+)_to_v(\d+)\.py")


@dataclass(frozen=True)
class Layout:
    """The files of the formats room in one checkout (or installed package)."""

    formats: Path

    @classmethod
    def here(cls) -> Layout:
        return cls(Path(__file__).resolve().parent)

    @classmethod
    def of_checkout(cls, root: Path) -> Layout:
        return cls(root / "include" / "hermit" / "formats")

    @property
    def current(self) -> Path:
        return self.formats / "proto" / "objects.proto"

    @property
    def old(self) -> Path:
        return self.formats / "proto" / "old"

    @property
    def hashes(self) -> Path:
        return self.formats / "hashes.json"

    @property
    def versions(self) -> Path:
        return self.formats / "versions.py"

    @property
    def generated(self) -> Path:
        return self.formats / "gen"

    @property
    def upgrades(self) -> Path:
        return self.formats / "upgrades"

    @property
    def arms(self) -> Path:
        return self.upgrades / "__init__.py"

    def snapshot(self, version: int) -> Path:
        return self.old / f"objects_v{version}.proto"

    def snapshots(self) -> dict[int, Path]:
        """Every snapshot by version, oldest first."""
        found = {int(m[1]): path for path in self.old.glob("*") if (m := _SNAPSHOT.fullmatch(path.name))}
        return dict(sorted(found.items()))

    def step(self, version: int) -> Path:
        return self.upgrades / f"v{version}_to_v{version + 1}.py"

    def steps(self) -> dict[int, Path]:
        """Every step's module by the version that it starts from."""
        found = {int(m[1]): path for path in self.upgrades.glob("*") if (m := _STEP.fullmatch(path.name))}
        return dict(sorted(found.items()))

    def constants(self) -> dict[str, int]:
        """The integer constants of versions.py, read without importing it."""
        found: dict[str, int] = {}
        for node in ast.parse(self.versions.read_text()).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                value = node.value
                if isinstance(value, ast.Constant) and isinstance(value.value, int):
                    found[node.target.id] = value.value
        return found
