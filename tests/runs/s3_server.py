"""An S3 endpoint over HTTP, by moto, and a proxy before it that loses, delays and refuses what it is told to."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest

KEY, SECRET = "AKIAOFTHETESTS", "a-secret-of-the-tests"
BUSY = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
Fault = Callable[[str, str, int], str]
"""(method, path, number of the request) → what befalls it: nothing (""), "busy", "drop", "lost answer" or "half"."""


class _Handler(BaseHTTPRequestHandler):
    """One connection to the proxy."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the second half of an answer waits 40 ms for the receipt of the first
    server: FaultyProxy

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        befallen = self.server.note(self.command, self.path)
        if befallen == "busy":
            self._answer(503, {"Content-Type": "application/xml"}, BUSY)
        elif befallen == "drop":
            self._drop()
        else:
            self._pass_on(body, befallen)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any

    def _pass_on(self, body: bytes, befallen: str) -> None:
        behind = http.client.HTTPConnection(*self.server.behind, timeout=600)
        behind.request(self.command, self.path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        content = answer.read()
        behind.close()
        if befallen == "lost answer":
            self._drop()
            return
        hop = ("connection", "transfer-encoding", "content-length", "server", "date")
        headers = {name: value for name, value in answer.getheaders() if name.lower() not in hop}
        if self.command == "HEAD":
            headers["Content-Length"] = answer.getheader("Content-Length") or "0"
        self._answer(answer.status, headers, content, half=befallen == "half")

    def _answer(self, status: int, headers: dict[str, str], content: bytes, *, half: bool = False) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if half else content)
        if half:
            self._drop()

    def _drop(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class FaultyProxy(ThreadingHTTPServer):
    """Passes requests on to a server, or does to them what ``fault`` says."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = host, port
        self.fault: Fault = lambda method, path, number: ""
        self.requests: list[tuple[str, str, str]] = []
        self._lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def note(self, method: str, path: str) -> str:
        """Keep a request, and say what befalls it."""
        with self._lock:
            befallen = self.fault(method, path, len(self.requests))
            self.requests.append((method, path, befallen))
            return befallen

    def handle_error(self, *_: object) -> None:
        """Connections that are dropped are what this is for."""

    def close(self) -> None:
        """Listen no more."""
        self.shutdown()
        self.server_close()


@contextmanager
def bucket() -> Iterator[FaultyProxy]:
    """A bucket named "bucket" behind a proxy, and an environment that leads there."""
    import s3fs
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    httpx.post(f"http://{host}:{port}/moto-api/reset").raise_for_status()  # a process has one store, whatever serves it
    proxy = FaultyProxy(host, port)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (
            ("AWS_ACCESS_KEY_ID", KEY),
            ("AWS_SECRET_ACCESS_KEY", SECRET),
            ("AWS_DEFAULT_REGION", "us-east-1"),
            ("AWS_ENDPOINT_URL", proxy.url),
            ("AWS_MAX_ATTEMPTS", "1"),  # so that what is tried again is tried by the filesystem
        ):
            patch.setenv(name, value)
        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem().mkdir("bucket")
        yield proxy
        s3fs.S3FileSystem.clear_instance_cache()
    proxy.close()
    server.stop()
