"""Bad input gets one clear line and a non-zero exit, never a traceback, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_ORGANIZATION = "6f1c0f0e-53f9-4f0f-8c1a-0a5f3c0f9b1d"


def _hermit(home: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The launcher as a user starts it, with a home of its own."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HERMIT_")}
    return subprocess.run(
        [_ROOT / "hermit", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, "HERMIT_HOME": str(home), **environment},
    )


def _assert_refused(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode not in (0, None)
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("hermit: ")
    assert all(word in lines[0] for word in words), lines[0]
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["migrate", "--protocol", "triple"], ["unknown protocol 'triple'", "single, double"]),
        (["rollback", "--protocol", ""], ["unknown protocol"]),
        (["migrate", "--organization-id", "not-a-uuid"], ["'not-a-uuid'", "version 4 uuid"]),
        (["status", "--organization-id", "6f1c0f0e-53f9-1f0f-8c1a-0a5f3c0f9b1d"], ["version 4 uuid"]),
        (["status", "--organization-id", f"{{{_ORGANIZATION}}}"], ["version 4 uuid"]),
        (["migrate", "--conf", "dry_run"], ["name=value"]),
        (["migrate", "--conf", "dry_run=perhaps"], ["dry_run is 'perhaps'", "true or false"]),
        (["migrate", "--conf", "max_rows_per_secnd=100"], ["'max_rows_per_secnd'", "max_rows_per_second"]),
        (["rollback", "--conf", "rows_per_partition=-1"], ["rows_per_partition is -1"]),
        (["rollback", "--conf", "max_parallelism=many"], ["max_parallelism is 'many'"]),
        (["migrate", "--conf", "protocol=[1]"], ["protocol is [1]"]),
        (["migrate", "--conf", "organization_id=not-a-uuid"], ["'not-a-uuid'", "version 4 uuid"]),
        (["generate", "--objects", "0"], ["--objects"]),
        (["generate", "--format-version", "13"], ["no format version 13"]),
        (["bench", "nothing"], ["unknown area 'nothing'"]),
        (["sideways"], ["No such command 'sideways'"]),
        (["status", "--sideways"], ["No such option"]),
    ],
)
def test_what_cannot_be_used_is_refused_before_anything_is_touched(
    tmp_path: Path, arguments: list[str], words: list[str]
) -> None:
    home = tmp_path / "home"
    _assert_refused(_hermit(home, *arguments), *words)
    assert not home.exists() or not any(path.is_dir() for path in home.iterdir())


@pytest.mark.parametrize("command", ["migrate", "rollback", "status"])
def test_a_stash_that_does_not_answer_is_named_and_its_password_is_not(tmp_path: Path, command: str) -> None:
    result = _hermit(tmp_path, command, HERMIT_STASH_URL="postgresql://hermit:s3cret@127.0.0.1:1/hermit")
    _assert_refused(result, "127.0.0.1")
    assert "s3cret" not in result.stderr
    assert not (tmp_path / "shards").exists()


@pytest.mark.parametrize("command", ["migrate", "status", "up"])
def test_a_home_that_cannot_be_written_is_named(command: str) -> None:
    home = Path("/proc/hermit")
    _assert_refused(_hermit(home, command), str(home), "HERMIT_HOME")


def test_what_the_machine_refuses_is_named(tmp_path: Path) -> None:
    (tmp_path / "organization_id").mkdir()
    _assert_refused(_hermit(tmp_path, "status"), "Is a directory", str(tmp_path / "organization_id"))


def test_missing_java_says_what_to_install(tmp_path: Path) -> None:
    # A path with everything that the launcher needs but Java, nor the means to install it.
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("bash", "env", "dirname", "readlink", "cat", "cksum", "id", "unshare", "setpriv", "true"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    home = tmp_path / "home"
    result = _hermit(home, "migrate", PATH=str(tools), JAVA_HOME="")
    _assert_refused(result, "java 17", "openjdk-17-jre-headless", "JAVA_HOME")
    assert not (home / "shards").exists()
