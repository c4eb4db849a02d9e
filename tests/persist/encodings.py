"""A location as a release with another encoding would have written it."""

from __future__ import annotations

from dataclasses import replace

from hermit.persist import commit as commits
from hermit.persist.storage.local import local_storage


def rewrite_encoding(location: str, encoding: int) -> None:
    """Leave only the first commit, well-formed but in another encoding."""
    storage = local_storage(location)
    stored = storage.log.read(0)
    assert stored is not None
    version = 0
    while storage.log.exists(version):
        storage.log.delete(version)
        version += 1
    data, _ = commits.render(replace(stored.commit, encoding=encoding), 0)
    storage.blob.replace("_delta_log/00000000000000000000.json", data)
