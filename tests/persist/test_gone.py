"""A location that is deleted under a client: never an answer from memory as if nothing had happened."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hermit.persist import PersistClient
from hermit.persist import table as tables
from hermit.persist.errors import LocationGone
from hermit.persist.storage.abc import Storage
from hermit.persist.storage.memory import MemoryBlob, MemoryLog


def _append(client: PersistClient, time: int = 0) -> int:
    return client.compare_and_append(
        {"a": [(b"k%d" % time, b"v", time, 1)]}, expected={"a": time}, new_upper={"a": time + 1}
    ).version


def _calls(client: PersistClient, version: int) -> dict[str, Callable[[], object]]:
    return {
        "is_current": lambda: client.is_current(version),
        "state": client.state,
        "snapshot": lambda: list(client.snapshot(["a"])),
        "compare_and_append": lambda: _append(client, 1),
        "listen": lambda: client.listen(["a"], 0, resume=True).poll(),
        "compact": client.compact,
        "vacuum": client.vacuum,
    }


@pytest.mark.parametrize("call", sorted(_calls(PersistClient.open("memory:names"), 0)))
@pytest.mark.parametrize("opened", ["before", "after"])
def test_a_deleted_location_is_a_named_error_and_not_the_past(tmp_path: Path, call: str, opened: str) -> None:
    """Whether the client itself created the location or found it."""
    location = tmp_path / "location"
    creator = PersistClient.open(location)
    version = _append(creator)
    client = creator if opened == "before" else PersistClient.open(location)
    assert client.is_current(client.state().version)
    shutil.rmtree(location)
    with pytest.raises(LocationGone) as caught:
        _calls(client, version)[call]()
    assert caught.value.location == str(location)
    assert not location.exists(), "nothing is brought back to life"


def test_another_location_in_the_same_place_is_not_taken_for_the_deleted_one(tmp_path: Path) -> None:
    client = PersistClient.open(tmp_path / "location")
    version = _append(client)
    shutil.rmtree(tmp_path / "location")
    other = PersistClient.open(tmp_path / "location")
    for time in range(3):
        _append(other, time)
    for call in (lambda: client.is_current(version) or client.state(), lambda: _append(client, 1)):
        with pytest.raises(LocationGone):
            call()
    assert len(list(other.snapshot(["a"]))) == 3


class _Distant(MemoryLog):
    """A log that only a call can tell about, as in an object store."""

    def is_gone(self) -> None:  # type: ignore[override]
        """Unknown."""


def test_where_only_a_call_can_tell_a_deletion_is_noticed_within_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1000.0
    monkeypatch.setattr(tables, "_uptime_s", lambda: now_s)
    blob = MemoryBlob()
    client = PersistClient.open("", storage=Storage("far", blob, _Distant(blob, "far")))
    version = _append(client)
    checks = client.metrics["log_checks"]
    assert client.is_current(version)
    assert client.metrics["log_checks"] == checks + 1, "one call"
    blob.files.clear()
    now_s += tables.LOOK_AGAIN_S
    with pytest.raises(LocationGone):
        assert client.is_current(version) or client.state()
