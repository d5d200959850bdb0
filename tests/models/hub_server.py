"""A local server that speaks the part of the Hugging Face hub's protocol that a download needs."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse


@dataclass
class Repository:
    """A repository of one commit: its files, the names that mean the commit, and whom it lets in.

    ``gated``: only with ``token``. ``broken``: how often a weights file breaks off half-way before it is whole.
    """

    folder: Path
    commit: str
    names: tuple[str, ...] = ("main",)
    gated: bool = False
    token: str = ""
    broken: int = 0


@dataclass
class Asked:
    """A request: method, path, whether it carried a token."""

    method: str
    path: str
    token: str = field(repr=False, default="")


class HubServer:
    """Serves repositories by their ids, ``owner/name``."""

    def __init__(self, repositories: dict[str, Repository]) -> None:
        self.repositories = repositories
        self.asked: list[Asked] = []
        handler = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> HubServer:
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return self

    def __exit__(self, *arguments: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def downloaded(self, repository: str) -> set[str]:
        """Names of the files of a repository that were asked for, not only looked up."""
        pattern = re.compile(f"/{re.escape(repository)}/resolve/[^/]+/(.+)")
        found = [pattern.fullmatch(each.path) for each in self.asked if each.method == "GET"]
        return {match[1] for match in found if match}


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else the second half of an answer waits 40 ms for the receipt of the first

    def do_GET(self) -> None:
        path = unquote(urlparse(self.path).path)
        token = (self.headers["Authorization"] or "").removeprefix("Bearer ")
        self.hub.asked.append(Asked(self.command, path, token))
        api = re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/(?:revision|tree)/([^/]+))?/?", path)
        file = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        found = api or file
        if not found:
            return self._refuse(404, "")
        repository = self.hub.repositories.get(found[1])
        if repository is None:
            return self._refuse(401, "RepoNotFound")
        if (found[2] or "main") not in (repository.commit, *repository.names):
            return self._refuse(404, "RevisionNotFound")
        if file:
            return self._file(repository, repository.folder / file[3], token)
        return self._json(_listing(repository, tree="/tree/" in path, name=found[1]))

    do_HEAD = do_GET

    def _file(self, repository: Repository, path: Path, token: str) -> None:
        if repository.gated and token != repository.token:
            return self._refuse(403, "GatedRepo")
        if not path.is_file():
            return self._refuse(404, "EntryNotFound", {"X-Repo-Commit": repository.commit})
        content = path.read_bytes()
        start = int((self.headers["Range"] or "bytes=0-").removeprefix("bytes=").split("-")[0])
        self.send_response(206 if start else 200)
        for name, value in {
            "X-Repo-Commit": repository.commit, "ETag": f'"{hashlib.sha1(content).hexdigest()}"',
            "Content-Length": str(len(content) - start), "Accept-Ranges": "bytes",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return None
        if repository.broken and path.suffix == ".safetensors":
            repository.broken -= 1
            self.wfile.write(content[start : start + (len(content) - start) // 2])
            self.close_connection = True
            return None
        self.wfile.write(content[start:])
        return None

    def _json(self, body: object) -> None:
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _refuse(self, status: int, code: str, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"X-Error-Code": code, "X-Error-Message": code, **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


def _listing(repository: Repository, *, tree: bool, name: str) -> object:
    files = sorted(path for path in repository.folder.rglob("*") if path.is_file())
    names = [path.relative_to(repository.folder).as_posix() for path in files]
    if tree:
        return [
            {"type": "file", "path": each, "size": path.stat().st_size, "oid": hashlib.sha1(each.encode()).hexdigest()}
            for each, path in zip(names, files, strict=True)
        ]
    return {
        "_id": "0", "id": name, "modelId": name, "sha": repository.commit, "private": False, "disabled": False,
        "gated": "manual" if repository.gated else False, "tags": [], "downloads": 0, "likes": 0,
        "siblings": [{"rfilename": each} for each in names],
    }  # fmt: skip
