"""A move onto a small disk of its own, which is then made larger: a program for a namespace of its own.

`python -m tests.migration.full_disk STASH_URL DISK ORGANIZATION_ID` prints, as JSON, how the first attempt
failed, and where the truth was after it and after the second.
"""

from __future__ import annotations

import json
import subprocess
import sys
from uuid import UUID

from hermit.formats.generate import rows
from hermit.migration import in_process
from hermit.migration.load import load_rows
from hermit.migration.protocol import Direction
from tests.migration.driver import stores_for, truth


def main(stash_url: str, disk: str, organization_id: str) -> None:
    """Move, make room, move."""
    _mount(disk, "size=256k")
    stores = stores_for(stash_url, disk, UUID(organization_id))
    load_rows(stores, rows(3000, 1))
    before = truth(stores)[1]
    try:
        in_process.run(stores, Direction.MIGRATE)
        error = ""
    except OSError as failure:
        error = str(failure)
    full = truth(stores)
    _mount(disk, "remount,size=512m")
    in_process.run(stores, Direction.MIGRATE)
    moved = truth(stores)
    same = full[1] == moved[1] == before
    print(json.dumps({"error": error, "full": full[0], "moved": moved[0], "same": same}))


def _mount(disk: str, options: str) -> None:
    # What is mounted is named also when it is mounted again: otherwise mount would ask for the owner whom it
    # finds in the kernel's list, and who does not exist in this namespace.
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", disk], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
