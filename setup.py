"""The package build runs the guard over the frozen formats first. Everything else is in pyproject.toml.

An editable installation skips it: whoever edits a proto needs a working `hermit formats freeze`.
"""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent


class GuardedBuild(build_py):
    """Packs modules only if the formats are as frozen."""

    def run(self) -> None:
        """Check, then build."""
        if not self.editable_mode:
            sys.path.insert(0, str(ROOT / "include"))
            from hermit.errors import HermitError
            from hermit.formats import guard
            from hermit.formats.layout import Layout

            try:
                guard.check(Layout.of_checkout(ROOT))
            except HermitError as mistake:
                sys.exit(f"hermit: {mistake}")
        super().run()


setup(cmdclass={"build_py": GuardedBuild})
