"""A hub of datasets, as the filesystem of huggingface_hub asks it: one repository, which is a folder here."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

REPOSITORY = "somebody/audits"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
_API = re.compile(rf"/api/datasets/{REPOSITORY}(?:/(revision|tree|paths-info)/([^/]+)(?:/(.*))?)?")
_FILE = re.compile(rf"/datasets/{REPOSITORY}/resolve/([^/]+)/(.*)")


class _Handler(BaseHTTPRequestHandler):
    """One connection to the hub."""

    protocol_version = "HTTP/1.1"
    server: Hub

    def do_GET(self) -> None:
        place = unquote(urlsplit(self.path).path)
        self.server.requests.append((self.command, place))
        if found := _FILE.fullmatch(place):
            self._file(self.server.root / found[2])
        elif found := _API.fullmatch(place):
            if found[1] == "tree":
                self._tree(found[3] or "", parse_qs(urlsplit(self.path).query))
            else:
                self._json({"id": REPOSITORY, "sha": COMMIT, "private": False, "siblings": []})
        else:
            self._missing("RepoNotFound")

    do_HEAD = do_GET

    def do_POST(self) -> None:
        asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        place = unquote(urlsplit(self.path).path)
        self.server.requests.append((self.command, place))
        found = _API.fullmatch(place)
        if found is None or found[1] != "paths-info":
            self._missing("RepoNotFound")
        else:
            paths = [self.server.root / name for name in asked.get("paths", [])]
            self._json([self._entry(path) for path in paths if path.exists()])

    def _tree(self, folder: str, query: dict[str, list[str]]) -> None:
        place = self.server.root / folder
        if not place.is_dir():
            self._missing("EntryNotFound")
            return
        is_deep = query.get("recursive", ["False"])[0].lower() == "true"
        self._json([self._entry(path) for path in sorted(place.rglob("*") if is_deep else place.iterdir())])

    def _entry(self, path: Path) -> dict[str, Any]:
        name = path.relative_to(self.server.root).as_posix()
        if path.is_dir():
            return {"type": "directory", "oid": "0" * 40, "size": 0, "path": name}
        return {"type": "file", "oid": "1" * 40, "size": path.stat().st_size, "path": name}

    def _file(self, path: Path) -> None:
        if not path.is_file():
            self._missing("EntryNotFound")
            return
        content, status = path.read_bytes(), 200
        headers = {"ETag": '"1"', "X-Repo-Commit": COMMIT, "Accept-Ranges": "bytes"}
        if asked := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
            start, size = int(asked[1]), len(content)
            stop = min(size, int(asked[2] or size - 1) + 1)
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{size}"
            content, status = content[start:stop], 206
        self._answer(status, content, headers)

    def _json(self, content: Any) -> None:
        self._answer(200, json.dumps(content).encode(), {"Content-Type": "application/json"})

    def _missing(self, code: str) -> None:
        self._answer(404, b'{"error": "not found"}', {"X-Error-Code": code, "X-Error-Message": "not found"})

    def _answer(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"Content-Length": str(len(content))}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Hub(ThreadingHTTPServer):
    """Answers for one repository of datasets."""

    daemon_threads = True

    def __init__(self, root: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.requests: list[tuple[str, str]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


@contextmanager
def hub(root: Path) -> Iterator[Hub]:
    """A hub whose repository holds a folder's files, and a client that asks it and no other."""
    from huggingface_hub import HfFileSystem, constants

    server = Hub(root)
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", url)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", url + "/{repo_id}/resolve/{revision}/{filename}")
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setenv("HF_ENDPOINT", url)
        HfFileSystem.clear_instance_cache()
        yield server
        HfFileSystem.clear_instance_cache()
    server.shutdown()
    server.server_close()
