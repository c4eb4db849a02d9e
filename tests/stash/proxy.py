"""A proxy in front of PostgreSQL that loses things at the worst moment.

It speaks TCP to the client and reaches the server by its Unix socket. What the client sends passes
through, until the bytes of a COMMIT come by and a fault is armed. The faults:

    BEFORE   the client is cut off, and the COMMIT never reaches the server
    AFTER    the server commits, and the client is cut off before it hears of it
    LATE     the client is cut off; the server gets the COMMIT only when `deliver` is called

Statements before the COMMIT may be in the same packet; with `split`, these reach the server in any case.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import threading
from pathlib import Path
from types import TracebackType
from typing import Any

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# COMMIT as the extended protocol sends it: a Parse message, or the simple protocol's Query.
_COMMITS = (b"\0COMMIT\0", b"COMMIT\0")
_COMMITTED = b"C\0\0\0\x0bCOMMIT\0"


class Fault(enum.Enum):
    """When the connection is lost."""

    BEFORE = enum.auto()
    AFTER = enum.auto()
    LATE = enum.auto()


class Proxy:
    """Relays connections; loses the next COMMIT as armed."""

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self._server = str(Path(str(parts["host"])) / f".s.PGSQL.{parts.get('port', 5432)}")
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._fault: Fault | None = None
        self._split = False
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._held: tuple[socket.socket, bytes] | None = None
        self.faults = 0
        self.lost = threading.Event()
        host, port = self._listener.getsockname()
        self.url = make_conninfo(url, host=host, port=port, sslmode="disable", gssencmode="disable")

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Closing a listener does not wake the thread in accept; shutting it down does.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.drop()
        for thread in list(self._threads):
            thread.join(timeout=30)
            assert not thread.is_alive()

    def arm(self, fault: Fault, *, split: bool = False) -> None:
        """Lose the next COMMIT."""
        with self._lock:
            self._fault, self._split = fault, split
            self.lost.clear()

    def deliver(self) -> None:
        """Let the server have the COMMIT that was held back, and wait until it answered."""
        held, self._held = self._held, None
        assert held is not None
        server, data = held
        server.sendall(data)
        server.shutdown(socket.SHUT_WR)
        while server.recv(65536):
            pass
        server.close()

    def drop(self) -> None:
        """Throw away what was held back."""
        held, self._held = self._held, None
        if held is not None:
            held[0].close()

    def _start(self, target: Any, *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            self._start(self._requests, client, server)
            self._start(self._answers, client, server)

    def _requests(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(client):
            fault, split = self._take(data)
            if fault is None:
                if not _send(server, data):
                    break
                continue
            self._lose(fault, split, data, client, server)
            return
        _shut(server, socket.SHUT_WR)

    def _take(self, data: bytes) -> tuple[Fault | None, bool]:
        with self._lock:
            if self._fault is None or not any(commit in data for commit in _COMMITS):
                return None, False
            fault, self._fault = self._fault, None
            self.faults += 1
            return fault, self._split

    def _lose(
        self, fault: Fault, split: bool, data: bytes, client: socket.socket, server: socket.socket
    ) -> None:
        if split:
            # The message before COMMIT's Parse ends where its type byte and length begin.
            cut = data.index(b"COMMIT\0") - len(b"P\0\0\0\0\0")
            server.sendall(data[:cut])
            data = data[cut:]
        if fault is Fault.AFTER:
            self._answered(client)
            server.sendall(data)
            return  # `_answers` cuts the client off when the server says that it committed.
        if fault is Fault.LATE:
            self._held = (server.dup(), data)
        _shut(client, socket.SHUT_RDWR)
        if fault is Fault.BEFORE:
            _shut(server, socket.SHUT_RDWR)
        self.lost.set()

    def _answered(self, client: socket.socket) -> None:
        with self._lock:
            self._muted = client

    _muted: socket.socket | None = None

    def _answers(self, client: socket.socket, server: socket.socket) -> None:
        while data := _receive(server):
            if self._muted is client:
                if _COMMITTED in data:
                    self._muted = None
                    _shut(client, socket.SHUT_RDWR)
                    _shut(server, socket.SHUT_RDWR)
                    self.lost.set()
                continue
            if not _send(client, data):
                break
        _shut(client, socket.SHUT_WR)
        with contextlib.suppress(OSError):
            client.close()
        with contextlib.suppress(OSError):
            server.close()


def _receive(source: socket.socket) -> bytes:
    try:
        return source.recv(65536)
    except OSError:
        return b""


def _send(sink: socket.socket, data: bytes) -> bool:
    try:
        sink.sendall(data)
    except OSError:
        return False
    return True


def _shut(end: socket.socket, how: int) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(how)
