"""An object store for tests: the part of S3's protocol that delta-rs uses, in memory, over HTTP.

What matters is that `PUT` with `If-None-Match: *` is atomic, as it is in S3. It runs in a process of its own,
because delta-rs holds the interpreter's lock while it waits for an answer. Tests can make the next call
of a method fail, and count calls.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape


class S3Server:
    """The server's process, on a free port of this machine."""

    def __init__(self) -> None:
        root = Path(__file__).parents[2]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.persist.s3_server"], cwd=root, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "test",
            "AWS_ALLOW_HTTP": "true",
            "AWS_CONDITIONAL_PUT": "etag",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def fail_next(self, method: str, status: int) -> None:
        """The next call of this method gets this status, after which things go on as usual."""
        self._control(f"fail?method={method}&status={status}")

    def calls(self) -> list[tuple[str, str]]:
        """Method and path of every call so far."""
        return [(method, path) for method, path in json.loads(self._control("calls"))]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    def _control(self, what: str) -> bytes:
        with urllib.request.urlopen(f"{self.url}/_control/{what}") as answer:
            return bytes(answer.read())


class _Store:
    """What the server's threads share."""

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.lock = threading.Lock()
        self.failures: list[tuple[str, int]] = []
        self.calls: list[tuple[str, str]] = []
        self.parts: dict[str, dict[int, bytes]] = {}  # of uploads in pieces


class _Handler(BaseHTTPRequestHandler):
    store = _Store()
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        """Tests are quiet."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        query = parse_qs(url.query)
        if url.path.startswith("/_control/"):
            self._control(url.path, query)
            return
        if self._failed():
            return
        if "list-type" in query:
            self._list(query)
            return
        found = self.store.objects.get(unquote(url.path))
        if found is None:
            self._reply(404, b"<Error><Code>NoSuchKey</Code></Error>")
            return
        data, stored_s = found
        wanted = self.headers.get("Range")
        if wanted:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start = int(first)
            stop = min(int(last) + 1, len(data)) if last else len(data)
            content = f"bytes {start}-{stop - 1}/{len(data)}"
            self._reply(206, data[start:stop], stored_s, {"Content-Range": content}, etag_of=data)
        else:
            self._reply(200, data, stored_s, etag_of=data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_PUT(self) -> None:
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._failed():
            return
        url = urlsplit(self.path)
        key, query = unquote(url.path), parse_qs(url.query)
        with self.store.lock:
            if "partNumber" in query:
                self.store.parts[query["uploadId"][0]][int(query["partNumber"][0])] = data
                self._reply(200, b"", etag_of=data)
                return
            if self.headers.get("If-None-Match") == "*" and key in self.store.objects:
                self._reply(412, b"<Error><Code>PreconditionFailed</Code></Error>")
                return
            self.store.objects[key] = (data, time.time())
        self._reply(200, b"", etag_of=data)

    def do_DELETE(self) -> None:
        if not self._failed():
            self.store.objects.pop(unquote(urlsplit(self.path).path), None)
            self._reply(204, b"")

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        if self._failed():
            return
        url = urlsplit(self.path)
        query = parse_qs(url.query, keep_blank_values=True)
        if "uploads" in query:
            upload = uuid.uuid4().hex
            self.store.parts[upload] = {}
            self._reply(200, _result("InitiateMultipartUpload", f"<UploadId>{upload}</UploadId>"))
            return
        if "uploadId" in query:
            parts = self.store.parts.pop(query["uploadId"][0])
            data = b"".join(parts[number] for number in sorted(parts))
            self.store.objects[unquote(url.path)] = (data, time.time())
            self._reply(200, _result("CompleteMultipartUpload", f"<ETag>{escape(_etag(data))}</ETag>"))
            return
        bucket = unquote(url.path).rstrip("/")
        keys = [part.partition("</Key>")[0] for part in body.split("<Key>")[1:]]
        for key in keys:
            self.store.objects.pop(f"{bucket}/{key}", None)
        self._reply(200, _result("Delete", "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)))

    def _list(self, query: dict[str, list[str]]) -> None:
        bucket = unquote(urlsplit(self.path).path).strip("/")
        prefix = query.get("prefix", [""])[0]
        after = query.get("start-after", [""])[0]
        delimiter = query.get("delimiter", [""])[0]
        rows, folders = [], set()
        for path, (data, stored_s) in sorted(self.store.objects.items()):
            key = path.removeprefix(f"/{bucket}/")
            if not key.startswith(prefix) or key <= after:
                continue
            rest = key.removeprefix(prefix)
            if delimiter and delimiter in rest:
                folders.add(prefix + rest.partition(delimiter)[0] + delimiter)
                continue
            modified = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(stored_s))
            rows.append(
                f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
                f"<LastModified>{modified}</LastModified><ETag>{_etag(data)}</ETag></Contents>"
            )
        rows += [f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders]
        self._reply(200, _result("ListBucket", f"<IsTruncated>false</IsTruncated>{''.join(rows)}"))

    def _control(self, path: str, query: dict[str, list[str]]) -> None:
        if path == "/_control/fail":
            self.store.failures.append((query["method"][0], int(query["status"][0])))
        self._reply(200, json.dumps(self.store.calls).encode())

    def _failed(self) -> bool:
        self.store.calls.append((self.command, self.path))
        for failure in self.store.failures:
            if failure[0] == self.command:
                self.store.failures.remove(failure)
                self._reply(failure[1], b"<Error><Code>Injected</Code></Error>")
                return True
        return False

    def _reply(
        self,
        status: int,
        body: bytes,
        modified_s: float | None = None,
        headers: dict[str, str] | None = None,
        etag_of: bytes = b"",
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", _etag(etag_of))
        self.send_header("Last-Modified", formatdate(modified_s, usegmt=True))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def _result(name: str, body: str) -> bytes:
    return f"<{name}Result>{body}</{name}Result>".encode()


def _etag(data: bytes) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    print(server.server_address[1], flush=True)
    parent = os.getppid()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while os.getppid() == parent:  # do not outlive the tests
        time.sleep(1)


if __name__ == "__main__":
    main()
