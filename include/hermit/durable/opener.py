"""Who opens a catalog, in words for the one that finds itself fenced."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path


def opener() -> str:
    """This process: program, host and process number."""
    program = Path(sys.argv[0]).name or "python"
    return f"{program} on {socket.gethostname()}, pid {os.getpid()}"
