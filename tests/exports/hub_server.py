"""A hub on this machine that speaks what huggingface_hub's commits ask: no part of the real one, and told so in docs.

It knows repositories, a check of cards' metadata, how files are to be sent (all of them within the commit, none by LFS
or Xet), commits and pull requests, and reading a file. What was sent stands in ``files``, who asked in ``asked``.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHA = "0123456789abcdef0123456789abcdef01234567"
TOKEN = "hf_quaggaquaggaquagga"


class Hub:
    """What the server holds."""

    def __init__(self) -> None:
        self.files: dict[tuple[str, str], bytes] = {}
        self.created: dict[str, dict] = {}
        self.commits: list[dict] = []
        self.asked: list[tuple[str, str, str | None]] = []
        self.refuse = 0
        self.url = ""


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, *_: object) -> None:
        pass

    def answer(self, status: int, content: object = None, headers: dict[str, str] | None = None) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content or {}).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def note(self) -> tuple[list[str], bytes]:
        path = self.path.partition("?")[0].strip("/").split("/")
        self.hub.asked.append((self.command, self.path, self.headers.get("Authorization")))
        return path, self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def do_POST(self) -> None:
        path, body = self.note()
        if self.hub.refuse:
            self.answer(self.hub.refuse, {"error": f"no right, {self.headers.get('Authorization')}"})
        elif path == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked.get('organization') or 'me'}/{asked['name']}"
            self.hub.created[name] = asked
            self.answer(200, {"url": f"{self.hub.url}/datasets/{name}"})
        elif path == ["api", "validate-yaml"]:
            self.answer(200, {"errors": [], "warnings": []})
        elif path[4:5] == ["preupload"]:
            files = json.loads(body)["files"]
            self.answer(200, {"files": [
                {"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files
            ]})  # fmt: skip
        elif path[4:5] == ["commit"]:
            name, head = "/".join(path[2:4]), {}
            for line in body.decode().splitlines():
                said = json.loads(line)
                if said["key"] == "header":
                    head = said["value"]
                else:
                    content = base64.b64decode(said["value"]["content"])
                    self.hub.files[name, said["value"]["path"]] = content
            self.hub.commits.append({"repo": name, "kind": path[1], "pull request": "create_pr=1" in self.path, **head})
            answer = {"success": True, "commitOid": SHA, "commitUrl": f"{self.hub.url}/{name}/commit/{SHA}"}
            is_proposed = self.hub.commits[-1]["pull request"]
            self.answer(
                200, answer | ({"pullRequestUrl": f"{self.hub.url}/{name}/discussions/1"} if is_proposed else {})
            )
        else:
            self.answer(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        path, _ = self.note()
        if path[2:3] == ["resolve"]:
            content = self.hub.files.get(("/".join(path[:2]), "/".join(path[4:])))
            if content is None:
                self.answer(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            else:
                self.answer(200, content, {"ETag": f'"{SHA}"', "X-Repo-Commit": SHA})
        elif path[:2] == ["api", "models"] and "/".join(path[2:4]) in self.hub.created:
            self.answer(200, {"id": "/".join(path[2:4]), "sha": SHA})
        else:
            self.answer(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})


@contextmanager
def hub_server() -> Iterator[Hub]:
    """Serve a hub until it is left."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Serving", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
