"""Finds Chromium, in which the page in Airflow's UI is tested; as root on Debian, installs it."""

from __future__ import annotations

import shutil
from pathlib import Path

from hermit.embedded import apt
from hermit.errors import Unavailable

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_FONTS = "fonts-dejavu-core"


def chromium() -> Path:
    """The browser's program."""
    found = _find()
    if found is None and apt.can_install():
        apt.install_one_of(("chromium", _FONTS), ("chromium-browser", _FONTS))
        found = _find()
    if found is None:
        raise Unavailable(
            "chromium was not found on PATH", hint="install it (Debian and Ubuntu: apt install chromium)"
        )
    return found


def _find() -> Path | None:
    return next((Path(path) for name in _NAMES if (path := shutil.which(name))), None)
