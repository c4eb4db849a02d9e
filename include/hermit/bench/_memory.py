"""Memory as a server has it that has been up for a day: none of it free, most of it files once read.

A virtual machine may get memory from its host only when it is touched, and give back what is free. There a
write into the kernel's cache pays for new memory, several times what the copy costs; a small one finds pages
that were used a moment ago. Seconds per row then grow with size on any program, the limits included.

So free memory is filled, before anything is timed, with pages of files that have a length and no contents.
The kernel drops those as soon as somebody needs room, and the machine keeps the memory under them.
"""

from __future__ import annotations

import itertools
from pathlib import Path

_STEP = 256 << 20
_CHUNK = 1 << 20
_FACTS = Path("/proc/meminfo")


class Filler:
    """Fills what is free. Its files take no room on disk, and stay until their folder goes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names = itertools.count()

    def fill(self) -> int:
        """Read new pages for as long as free memory becomes less by it; gives the bytes read."""
        self.folder.mkdir(parents=True, exist_ok=True)
        total, done, before = _fact("MemTotal"), 0, _fact("MemFree")
        path = self.folder / str(next(self._names))
        with path.open("wb") as file:
            file.truncate(total)
        buffer = bytearray(_CHUNK)
        with path.open("rb", buffering=0) as file:
            while done < total:
                for _ in range(_STEP // _CHUNK):
                    done += file.readinto(buffer) or 0
                after = _fact("MemFree")
                if before - after < _STEP // 2:
                    break
                before = after
        return done


def _fact(name: str) -> int:
    """Bytes, as the kernel tells them; 0 where it tells nothing, so that nothing is filled."""
    if not _FACTS.exists():
        return 0
    for line in _FACTS.read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return 0
