"""The package build runs the guard over the frozen formats first, and packs the Spark jobs with the provider.

Everything else is in pyproject.toml. The jobs are scripts that Spark is handed by path: in a checkout they
lie in `spark_jobs/`, in a wheel in `hermit_airflow/spark_jobs/`.

An editable installation skips it: whoever edits a proto needs a working `hermit formats freeze`.
"""

import sys
from pathlib import Path

from setuptools import find_packages, setup
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


PACKAGES = [
    *find_packages(ROOT / "include"),
    *find_packages(ROOT / "plugins"),
    "hermit_airflow.spark_jobs",
]

setup(packages=PACKAGES, cmdclass={"build_py": GuardedBuild})
