"""Where a location keeps its bytes: two small protocols and their implementations."""

from __future__ import annotations

from hermit.persist.storage.abc import Blob, BlobInfo, Log, Storage, StoredCommit, Upload

__all__ = ["Blob", "BlobInfo", "Log", "Storage", "StoredCommit", "Upload"]
