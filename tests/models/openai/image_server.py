"""A local server that speaks OpenAI's images API, well or badly as a test asks it to."""

from __future__ import annotations

import base64
import io
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from email import message_from_bytes
from email.policy import HTTP
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tests.toys import paint

Answer = tuple[int, dict[str, Any] | bytes | Iterator[bytes], dict[str, str]]


class ImageServer:
    """Answers every request by ``behaviour(number, asked)``: a status, a body and headers, or None to hang up.

    ``asked`` is what each request brought along: its body, and the key under "key". What lies at an address is fetched
    by GET, and answered by ``lying(number)``. A body may be an iterator of pieces, without an end if need be; ``sent``
    counts their bytes. With the header ``X-Head: open`` the pieces go on with the answer's head.
    """

    def __init__(self, behaviour: Callable[[int, dict[str, Any]], Answer | None] | None = None) -> None:
        self.behaviour = behaviour or (lambda number, asked: drawn(asked))
        self.lying: Callable[[int], Answer | None] = lambda number: (200, png("by address", 1), {})
        self.fetched = 0
        self.sent = 0
        self.asked: list[dict[str, Any]] = []
        self.at_once = self.most_at_once = 0
        lock = threading.Lock()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else half an answer waits 40 ms for the receipt of the other

            def do_POST(self) -> None:
                asked = _read(self.rfile.read(int(self.headers["Content-Length"])), self.headers["Content-Type"])
                asked["path"] = self.path
                key = self.headers["Authorization"] or self.headers["x-goog-api-key"] or ""
                asked["key"] = key.removeprefix("Bearer ")
                with lock:
                    server.asked.append(asked)
                    number = len(server.asked)
                    server.at_once += 1
                    server.most_at_once = max(server.most_at_once, server.at_once)
                try:
                    self._answer(server.behaviour(number, asked))
                finally:
                    with lock:
                        server.at_once -= 1

            def _answer(self, answer: Answer | None) -> None:
                if answer is None:
                    self.close_connection = True
                    self.connection.shutdown(2)
                    return
                status, body, headers = answer
                if isinstance(body, Iterator):
                    self._stream(status, body, headers)
                    return
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                length = {"Content-Length": str(len(content))}
                for name, value in {"Content-Type": "application/json", **length, **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)
                self.close_connection |= "Content-Length" in headers  # it told more than it sent

            def _stream(self, status: int, chunks: Iterator[bytes], headers: dict[str, str]) -> None:
                """Send pieces of a body of unknown length until nobody listens, and close."""
                self.close_connection = True
                lines = [f"HTTP/1.1 {status} OK", "Content-Type: application/json"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                end = "\r\n" if headers.get("X-Head") == "open" else "\r\n\r\n"
                with suppress(OSError):
                    self.wfile.write(("\r\n".join(lines) + end).encode())
                    for chunk in chunks:
                        self.wfile.write(chunk)
                        server.sent += len(chunk)

            def do_GET(self) -> None:
                server.fetched += 1
                self._answer(server.lying(server.fetched))

            def log_message(self, *arguments: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.root = f"http://127.0.0.1:{self._server.server_port}"
        self.url = f"{self.root}/v1"

    def __enter__(self) -> ImageServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _read(body: bytes, kind: str) -> dict[str, Any]:
    """The fields of a request: a generation comes as JSON, an edit as a form with the image's bytes."""
    if kind.startswith("application/json"):
        return dict(json.loads(body))
    form = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + body, policy=HTTP)
    parts = {part.get_param("name", header="content-disposition"): part for part in form.iter_parts()}
    return {
        str(name): part.get_content() if part.get_filename() else cast(bytes, part.get_payload(decode=True)).decode()
        for name, part in parts.items()
    }


def png(prompt: str, seed: int) -> bytes:
    buffer = io.BytesIO()
    paint(prompt, seed).save(buffer, "PNG")
    return buffer.getvalue()


def drawn(asked: dict[str, Any], **more: Any) -> Answer:
    content = base64.b64encode(png(asked["prompt"], int(asked.get("seed", 0)))).decode()
    return 200, {"created": 1, "data": [{"b64_json": content, **more}]}, {}


def error(status: int, code: str | None, message: str, kind: str = "invalid_request_error", **headers: str) -> Answer:
    return status, {"error": {"message": message, "type": kind, "code": code, "param": None}}, headers


def slowly(seconds: float) -> Callable[[int, dict[str, Any]], Answer]:
    def behaviour(number: int, asked: dict[str, Any]) -> Answer:
        time.sleep(seconds)
        return drawn(asked)

    return behaviour


def together(count: int) -> Callable[[int, dict[str, Any]], Answer]:
    """Answer the first requests once so many are there: fewer at a time would never end."""
    all_there = threading.Barrier(count, timeout=600)

    def behaviour(number: int, asked: dict[str, Any]) -> Answer:
        if number <= count:
            all_there.wait()
        return drawn(asked)

    return behaviour
