"""A location in an object store, reached through delta-rs and its storage options.

Files go through delta-rs' file system. A commit is a delta-rs transaction on a table handle at exactly
the version before, without retries: the store's conditional put decides who wins, there is no lock of ours.
delta-rs renders the commit, so that its checksum covers what it says and not how it is spelled.

An object is there entirely or not at all, and durable once it is put. A put whose answer was lost is
settled by whoever retries it, through the commit's own ID.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import CommitProperties, DeltaTable, PostCommitHookProperties, Schema, Transaction
from deltalake._internal import DeltaFileSystemHandler, RemoveAction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyarrow.fs import FileType

from hermit.persist import commit as commits
from hermit.persist.commit import Commit, DataFile
from hermit.persist.errors import TransientError, corrupt
from hermit.persist.storage.abc import BlobInfo, Storage, StoredCommit, commit_key, poll
from hermit.persist.storage.memory import Pieces

POLL_S = 0.25
_EXISTS = "already exists"


class ObjectBlob:
    """Objects below the location's URL."""

    def __init__(self, location: str, options: dict[str, str] | None) -> None:
        self._files: Any = DeltaFileSystemHandler(location, options)

    def get(self, key: str) -> bytes | None:
        try:
            file = self._files.open_input_file(key)
            return bytes(file.read(file.size()))
        except FileNotFoundError:
            return None
        except (OSError, DeltaError) as error:
            raise _transient(error) from error

    def put(self, items: Mapping[str, bytes]) -> None:
        for key, data in items.items():
            self.replace(key, data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Not atomic, and need not be: only the writer who committed a version writes its checkpoint."""
        if self.exists(key):
            return False
        self.replace(key, data)
        return True

    def replace(self, key: str, data: bytes) -> None:
        try:
            file = self._files.open_output_stream(key)
            file.write(bytes(data))
            file.close()
        except (OSError, DeltaError) as error:
            raise _transient(error) from error

    def upload(self) -> Pieces:
        return Pieces(self)

    def delete(self, key: str) -> None:
        try:
            self._files.delete_file(key)
        except FileNotFoundError:
            return
        except (OSError, DeltaError) as error:
            raise _transient(error) from error

    def exists(self, key: str) -> bool:
        try:
            self._files.open_input_file(key)  # one HEAD; asking for its info would list the folder as well
        except FileNotFoundError:
            return False
        except (OSError, DeltaError) as error:
            raise _transient(error) from error
        return True

    def list(self, folder: str) -> Iterator[BlobInfo]:
        try:
            found = self._files.get_file_info_selector(folder, True, True)
        except (OSError, DeltaError) as error:
            raise _transient(error) from error
        for info in sorted(found, key=lambda info: info.path):
            if info.type == FileType.File:
                yield BlobInfo(info.path, info.size, (info.mtime_ns or 0) // 1_000_000)


class ObjectLog:
    """Delta's log in an object store."""

    def __init__(self, location: str, options: dict[str, str] | None, blob: ObjectBlob) -> None:
        self._location = location
        self._options = options
        self._blob = blob
        self._table: DeltaTable | None = None
        self._schema = Schema.from_json(commits.SCHEMA)

    def read(self, version: int) -> StoredCommit | None:
        key = commit_key(version)
        raw = self._blob.get(key)
        if raw is None:
            return None
        try:
            actions = [json.loads(line) for line in raw.splitlines() if line]
            commit = commits.commit_of(actions)
            stored = next(
                action["commitInfo"]["hermit"]["checksum"] for action in actions if "commitInfo" in action
            )
        except (ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
            raise corrupt(self._location, key, f"not a commit of hermit: {error}") from error
        if commits.meaning(commit) != stored:
            raise corrupt(self._location, key, "its checksum does not fit")
        return StoredCommit(commit, stored)

    def exists(self, version: int) -> bool:
        return self._blob.exists(commit_key(version))

    def is_gone(self) -> None:
        """Only a call could tell."""

    def append(self, version: int, commit: Commit) -> str | None:
        digest = commits.meaning(commit)
        ours = {**commits.hermit_info(commit), "checksum": digest}
        ours |= {"timestamp": commit.timestamp_ms, "operation": commit.operation}
        properties = CommitProperties(
            custom_metadata={"hermit": ours},
            max_commit_retries=0,
            app_transactions=[Transaction(*moved) for moved in commit.transactions()],
        )
        # Checkpoints and the removal of old entries are ours to do.
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        try:
            won = (
                self._create(commit, properties, hooks)
                if version == 0
                else self._write(version, commit, properties, hooks)
            )
        except CommitFailedError:
            return None
        except (OSError, DeltaError) as error:
            raise _transient(error) from error
        if not won or (version and not self.exists(version - 1)):
            return None
        return digest

    def _create(self, commit: Commit, properties: CommitProperties, hooks: PostCommitHookProperties) -> bool:
        try:
            create_table_with_add_actions(
                self._location,
                self._schema,
                [_add(file, commit) for file in commit.adds],
                mode="error",
                partition_by=["collection"],
                configuration=commits.CONFIGURATION,
                storage_options=self._options,
                commit_properties=properties,
                post_commithook_properties=hooks,
            )
        except DeltaError as error:
            if _EXISTS in str(error):
                return False
            raise
        return True

    def _write(
        self, version: int, commit: Commit, properties: CommitProperties, hooks: PostCommitHookProperties
    ) -> bool:
        """Commit on a handle that is exactly at the version before; not at all if it is elsewhere."""
        table = self._handle()
        if table.version() != version - 1:
            return False
        actions: list[Any] = [_add(file, commit) for file in commit.adds]
        actions += [
            RemoveAction(
                file.path,
                commit.data_change,
                commit.timestamp_ms,
                file.bytes,
                {"collection": file.collection},
            )
            for file in commit.removes
        ]
        table.create_write_transaction(
            actions,
            "append",
            self._schema,
            partition_by=["collection"],
            commit_properties=properties,
            post_commithook_properties=hooks,
        )
        return True

    def _handle(self) -> DeltaTable:
        if self._table is None:
            self._table = DeltaTable(self._location, storage_options=self._options)
        else:
            self._table.update_incremental()
        return self._table

    def sync(self) -> None:
        """What can be read from an object store is durable."""

    def wait(self, version: int, timeout_s: float) -> bool:
        return poll(lambda: self.exists(version), timeout_s, POLL_S)

    def delete(self, version: int) -> None:
        self._blob.delete(commit_key(version))


def _add(file: DataFile, commit: Commit) -> AddAction:
    fields = commits.add_action(file, commit.timestamp_ms, commit.data_change)
    return AddAction(
        path=fields["path"],
        size=fields["size"],
        partition_values=fields["partitionValues"],
        modification_time=fields["modificationTime"],
        data_change=fields["dataChange"],
        stats=fields["stats"],
    )


def _transient(error: Exception) -> TransientError:
    return TransientError(f"the object store did not answer as it should: {error}")


def object_storage(location: str, options: dict[str, str] | None = None) -> Storage:
    """The storage of a location in an object store, or anywhere that delta-rs reaches."""
    location = location.rstrip("/")
    blob = ObjectBlob(location, options)
    return Storage(location, blob, ObjectLog(location, options, blob))
