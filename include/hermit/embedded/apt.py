"""Installs a Debian package, where this is Debian and we may."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence


def can_install() -> bool:
    """Whether trying makes sense: as root, with apt."""
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install_one_of(*choices: Sequence[str]) -> bool:
    """Install the first set of packages that this release of the system has."""
    apt_get("update", "-qq")
    return any(apt_get("install", "-y", "-qq", "--no-install-recommends", *packages) for packages in choices)


def apt_get(*arguments: str) -> bool:
    """Run apt-get without questions; whether it worked."""
    result = subprocess.run(
        ["apt-get", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive"},
        check=False,
    )
    return result.returncode == 0
