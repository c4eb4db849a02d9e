"""Other processes, seen from a test: any of them may end at any moment."""

from __future__ import annotations

import psutil


def words_of(process: psutil.Process) -> list[str]:
    """Its command line, empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def is_running(process: psutil.Process, program: str) -> bool:
    """Whether the command line names the program."""
    return any(program in word for word in words_of(process))


def above(process: psutil.Process) -> list[psutil.Process]:
    """Its parents up to the first process, none if it has ended."""
    try:
        return process.parents()
    except psutil.Error:
        return []
