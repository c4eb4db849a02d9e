"""A proxy in front of PostgreSQL that loses things at the worst moment.

It speaks TCP to the client and reaches the server by its Unix socket. What the client sends passes
through, until the bytes that it is armed for come by. From there on, up to the end of the client's batch:

    BEFORE   nothing reaches the server, and both ends are cut off
    AFTER    everything reaches the server, and the client is cut off when the server has committed
    LATE     the client is cut off at once; the server gets the rest when `deliver` is called, or never
    HANG     nothing more reaches the server, and the client waits until it goes away

New connections wait at the `gate`, so that something can be made to happen before the client is back.
"""

from __future__ import annotations

import contextlib
import enum
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from psycopg.conninfo import conninfo_to_dict, make_conninfo

# Where a loss begins: at the COMMIT, or at the statement before it, which changes the fence.
COMMIT = b"COMMIT\0"
FENCE = b"SET version = "

_COMMITTED = b"C\0\0\0\x0bCOMMIT\0"
_SSL_REQUEST = struct.pack("!ii", 8, 80877103)
_SYNC = b"S\0\0\0\4"


class Fault(enum.Enum):
    """What is lost."""

    BEFORE = enum.auto()
    AFTER = enum.auto()
    LATE = enum.auto()
    HANG = enum.auto()


class Message(NamedTuple):
    """A message that a client sent: its kind, as PostgreSQL's protocol writes it, and its size."""

    kind: str
    size_bytes: int
    parameters: int


def parse(data: bytes) -> Iterator[Message]:
    """The messages of a connection, after the first one, which has no kind."""
    (position,) = struct.unpack_from("!i", data)
    while position < len(data):
        kind = chr(data[position])
        (length,) = struct.unpack_from("!i", data, position + 1)
        yield Message(kind, length, _parameters(data, position + 5) if kind == "B" else 0)
        position += 1 + length


def _parameters(data: bytes, position: int) -> int:
    """How many parameters a Bind message carries: after two names and the formats."""
    for _ in range(2):
        position = data.index(b"\0", position) + 1
    (formats,) = struct.unpack_from("!h", data, position)
    (parameters,) = struct.unpack_from("!H", data, position + 2 + 2 * formats)
    return int(parameters)


class _Line:
    """One client's connection to the server."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.client = client
        self.server = server
        self.muted = False
        self.sent = bytearray()
        self.seen = 0
        self.over = threading.Event()

    def cut(self, end: socket.socket) -> None:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class Proxy:
    """Relays connections, and has at most one accident at a time."""

    def __init__(self, url: str, *, tls: ssl.SSLContext | None = None) -> None:
        parts = conninfo_to_dict(url)
        self._server = str(Path(str(parts["host"])) / f".s.PGSQL.{parts.get('port', 5432)}")
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._armed: tuple[Fault, bytes] | None = None
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._lines: list[_Line] = []
        self._held: tuple[_Line, bytes] | None = None
        self._refusing = False
        self.faults = 0
        self.lost = threading.Event()
        self.gate = threading.Event()
        self.gate.set()
        host, port = self._listener.getsockname()
        self.url = make_conninfo(url, host=host, port=port, sslmode="disable", gssencmode="disable")

    def __enter__(self) -> Proxy:
        self._start(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refuse()
        for line in self._lines:
            line.cut(line.client)
            line.cut(line.server)
        for thread in self._threads:
            thread.join(timeout=30)
            assert not thread.is_alive()
        for line in self._lines:
            line.client.close()
            line.server.close()
        self._listener.close()

    def arm(self, fault: Fault, at: bytes = COMMIT) -> None:
        """Have the accident the next time that these bytes come by."""
        with self._lock:
            self._armed = (fault, at)
            self.lost.clear()

    def messages(self) -> list[Message]:
        """What clients sent since the last call."""
        found = []
        for line in self._lines:
            everything = list(parse(bytes(line.sent)))
            found += everything[line.seen :]
            line.seen = len(everything)
        return found

    def refuse(self) -> None:
        """Take no more connections, those at the gate included."""
        self._refusing = True
        self.gate.set()
        # Closing a listener does not wake the thread in accept; shutting it down does.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def deliver(self) -> None:
        """Let the server have what was held back, and wait until it has dealt with it."""
        held, self._held = self._held, None
        assert held is not None
        line, data = held
        line.server.sendall(data)
        line.server.shutdown(socket.SHUT_WR)
        assert line.over.wait(30)

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
            assert self.gate.wait(30)
            if self._refusing:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            if self._tls is not None and (client := self._handshake(client)) is None:
                server.close()
                continue
            line = _Line(client, server)
            self._lines.append(line)
            self._start(self._requests, line)
            self._start(self._answers, line)

    def _handshake(self, client: socket.socket) -> socket.socket | None:
        """What a server with TLS does: take the request for it, agree, and shake hands."""
        assert self._tls is not None
        try:
            assert client.recv(8) == _SSL_REQUEST
            client.sendall(b"S")
            return self._tls.wrap_socket(client, server_side=True)
        except OSError:
            client.close()
            return None

    def _requests(self, line: _Line) -> None:
        while data := _receive(line.client):
            line.sent += data
            accident = self._accident(data)
            if accident is not None and accident[0] is not Fault.AFTER:
                self._lose(*accident, line, data)
                return
            line.muted = line.muted or accident is not None
            if not _send(line.server, data):
                break
        with contextlib.suppress(OSError):
            line.server.shutdown(socket.SHUT_WR)

    def _accident(self, data: bytes) -> tuple[Fault, bytes] | None:
        with self._lock:
            if self._armed is None or self._armed[1] not in data:
                return None
            accident, self._armed = self._armed, None
            self.faults += 1
            return accident

    def _lose(self, fault: Fault, at: bytes, line: _Line, data: bytes) -> None:
        if fault in (Fault.HANG, Fault.LATE):
            start = _start_of_message(data, at)
            _send(line.server, data[:start])
            data = data[start:]
        if fault is Fault.HANG:
            self.lost.set()
        # A batch ends in a sync message, unless it is a simple query, which stands alone.
        while fault is Fault.HANG or not (_SYNC in data or data.startswith(b"Q")):
            more = _receive(line.client)
            if not more:
                break
            data += more
        if fault is not Fault.LATE:
            line.cut(line.server)
        else:
            self._held = (line, data)
        line.muted = True
        line.cut(line.client)
        self.lost.set()

    def _answers(self, line: _Line) -> None:
        while data := _receive(line.server):
            if not line.muted:
                if not _send(line.client, data):
                    break
            elif _COMMITTED in data:
                line.cut(line.client)
                self.lost.set()
        line.over.set()
        line.cut(line.client)


def _start_of_message(data: bytes, text: bytes) -> int:
    """Where the message begins that holds this text, in data that begins with a message."""
    position = 0
    while True:
        (length,) = struct.unpack_from("!i", data, position + 1)
        if data.index(text) < position + 1 + length:
            return position
        position += 1 + length


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
