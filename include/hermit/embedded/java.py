"""Finds Java 17 or newer, which Spark needs; as root on Debian, installs it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from hermit.embedded import apt
from hermit.errors import Unavailable

_VERSION_MIN = 17
_PACKAGES = ("openjdk-17-jre-headless", "openjdk-21-jre-headless", "default-jre-headless")


def java_home() -> Path:
    """The directory to hand to Spark as JAVA_HOME."""
    found = _find()
    if found is None and apt.can_install():
        apt.install_one_of(*((package,) for package in _PACKAGES))
        found = _find()
    if found is None:
        raise Unavailable(
            f"java {_VERSION_MIN} or newer was not found through JAVA_HOME or PATH",
            hint="install it (Debian and Ubuntu: apt install openjdk-17-jre-headless) or set JAVA_HOME",
        )
    return found


def _find() -> Path | None:
    configured = os.environ.get("JAVA_HOME")
    candidates = [Path(configured) / "bin" / "java"] if configured else []
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path))
    for java in candidates:
        if _version(java) >= _VERSION_MIN:
            return java.resolve().parent.parent
    return None


def _version(java: Path) -> int:
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    except OSError:
        return 0
    match = re.search(r'version "(\d+)', result.stderr)
    return int(match.group(1)) if match else 0
