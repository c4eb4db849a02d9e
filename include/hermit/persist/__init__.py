"""Persist: named, definite collections on Delta Lake.

Importing this package is cheap: Arrow is loaded by the first read or write, Spark never.
"""

from __future__ import annotations

from hermit.persist import errors
from hermit.persist.client import PersistClient
from hermit.persist.codec import BytesCodec, Codec, StringCodec, UnitCodec
from hermit.persist.commit import DataFile, StagedFile
from hermit.persist.frontier import Frontier
from hermit.persist.handles import MultiWriteHandle, ReadHandle, WriteHandle
from hermit.persist.state import State

__all__ = [
    "BytesCodec",
    "Codec",
    "DataFile",
    "Frontier",
    "MultiWriteHandle",
    "PersistClient",
    "ReadHandle",
    "StagedFile",
    "State",
    "StringCodec",
    "UnitCodec",
    "WriteHandle",
    "errors",
]
