"""`hermit persist …`: what an operator sees and does."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from hermit.cli.persist import app
from hermit.errors import InvalidInput, NotInitialized
from hermit.persist import PersistClient
from hermit.persist.errors import LockLost, UnknownEncoding
from tests.persist.encodings import rewrite_encoding


def run(*args: str, answer: str | None = None, code: int = 0) -> str:
    result = CliRunner().invoke(app, args, input=answer)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def location(tmp_path: Path) -> str:
    path = str(tmp_path / "location")
    client = PersistClient.open(path)
    for time in range(3):
        client.compare_and_append(
            {"a": [(b"%d" % time, b"v", time, 1)]},
            expected={"a": time},
            new_upper={"a": time + 1},
            since={"a": time},
        )
    return path


def test_show_lists_collections_with_their_frontiers(location: str) -> None:
    output = run("show", location)
    assert "version 2, not locked" in output
    assert "a [2, 3): 3 files, 3 updates" in output


def test_verify_is_silent_about_a_sound_location_and_names_damage(location: str) -> None:
    assert "3 commits, 3 files, 3 updates" in run("verify", location)
    damaged = next((Path(location) / "data").iterdir())
    damaged.write_bytes(damaged.read_bytes()[:-1])
    output = run("verify", location, code=1)
    assert f"data/{damaged.name}" in output
    assert "collection a" in output


def test_unlock_asks_before_it_breaks_a_lock(location: str) -> None:
    assert "is not locked" in run("unlock", location)
    with PersistClient.open(location, reentrance_id="somebody") as holder:
        write, _ = holder.create_or_load("b")
        assert "locked by process" in run("show", location)
        run("unlock", location, answer="n\n", code=1)
        write.seal(1).result(60)
        assert "reentrance ID somebody" in run("unlock", location, answer="y\n")
        with pytest.raises(LockLost):
            write.seal(2).result(60)
    with PersistClient.open(location, reentrance_id="next") as following:
        following.create_or_load("b")
        assert "broke the lock" in run("unlock", location, "--yes")


def test_compact_and_vacuum_say_what_they_did(location: str) -> None:
    assert "3 files became 1" in run("compact", location)
    assert "would delete 3 files" in run("vacuum", location, "--retention-hours", "0", "--dry-run")
    assert "deleted 3 files" in run("vacuum", location, "--retention-hours", "0")
    assert len(list(PersistClient.open(location).snapshot(["a"]))) == 3


def test_a_location_that_does_not_exist_is_an_error_and_stays_so(tmp_path: Path) -> None:
    for command in ("show", "unlock", "compact", "vacuum"):
        with pytest.raises(NotInitialized):
            run(command, str(tmp_path / "none"))
    with pytest.raises(InvalidInput):
        run("show", "s3://bucket/x", "--storage-option", "nonsense")
    assert not (tmp_path / "none").exists()


@pytest.mark.row("P-57")
def test_an_unknown_encoding_is_refused_and_wiped_only_when_asked(location: str) -> None:
    rewrite_encoding(location, 99)
    for command in ("show", "open"):
        with pytest.raises(UnknownEncoding) as caught:
            run(command, location)
        assert (caught.value.found, caught.value.known) == (99, 1)
    with pytest.raises(UnknownEncoding):
        PersistClient.open(location).compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})
    output = run("open", location, "--wipe-on-version-change")
    assert "wiped 4 files" in output
    assert "encoding 99" in output
    assert "version -1" in output
    assert "version -1" in run("open", location, "--wipe-on-version-change")
    client = PersistClient.open(location, wipe_on_version_change=True)
    client.compare_and_append({}, expected={"a": 0}, new_upper={"a": 1})
    assert PersistClient.open(location, wipe_on_version_change=True).state().upper("a") == 1
