"""Runs to look at, and a server over them without a network."""

from __future__ import annotations

import io
import re
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
from argon2 import PasswordHasher
from fastapi.testclient import TestClient
from PIL import Image

import clinometer as cm
from clinometer.models.images import sha256
from clinometer.runs.ledger import samples_name
from clinometer.runs.samples import SAMPLE_SCHEMA
from clinometer.web.app import create_app
from clinometer.web.runs_index import Comparing
from clinometer.web.sample_index import RunIndices
from clinometer.web.security import ServerSettings
from tests import quick
from tests.toys import Eye, Painter, toy_suite

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>"


PASSWORD = "correct horse battery"
HASH = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
"""Of a hasher that takes no time; a password is checked by the parameters that its hash names."""


def serve(folder: Path, url: str, cache: Path, port: int | str = 0) -> tuple[subprocess.Popen[str], str]:
    """Start the command in a process of its own, with its ratings at ``url``; the process, and where it listens."""
    command = [sys.executable, "-m", "clinometer", "serve", str(folder), "--port", str(port), "--cache", str(cache)]
    server = subprocess.Popen([*command, "--database", url], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    said = re.search(r"http://[^ ]+", server.stdout.readline())
    assert said is not None
    return server, said[0]


def make_runs(folder: Path) -> Path:
    """Two checkpoints of one model that began from the same noise; the second refuses a concept, and one is flagged."""
    suite = toy_suite()
    quick.audit(Painter(name="step-900"), suite, folder / "step-900", encoder=Eye(), report=True)
    painter = Painter(name="step-1000", refuse="0.80", flag="0.40")
    quick.audit(painter, suite, folder / "step-1000", encoder=Eye(), report=True)
    return folder


def client(*places: Path, cache: Path, **settings: Any) -> TestClient:
    """A browser of a server over some places, which waits for runs to be read or compared, however long that takes."""
    given = {"hosts": ("testserver",), "requests_a_second": 100_000, "data": cache} | settings
    app = create_app(ServerSettings(runs=tuple(map(str, places)), cache=cache, **given))
    app.state.shelf = RunIndices(cache / "samples", patience=600)
    app.state.comparing = Comparing(patience=600)
    return TestClient(app, follow_redirects=False)


def ids(browser: TestClient) -> dict[str, str]:
    """The ids of the runs in the index, by name."""
    rows = re.findall(r'name="run" value="(\w+)" aria-label="Choose ([^"]+)"', browser.get("/runs").text)
    return {name: identifier for identifier, name in rows}


def pictures(page: str) -> list[str]:
    """Addresses of the pictures of a page."""
    return re.findall(r'src="(/pictures/[^"]+)"', page)


def replace_image(run: cm.Run, row: int, content: bytes) -> str:
    """Put other bytes in the place of a stored image, sealed and hashed as if they had been drawn; return its id."""
    table = run.ledger.read_table(samples_name(0))
    rows = table.to_pylist()
    rows[row] |= {"image": {"bytes": content, "path": None}, "sha256": sha256(content), "status": "ok"}
    run.ledger.write_table(samples_name(0), pa.Table.from_pylist(rows, schema=SAMPLE_SCHEMA))
    run.ledger.list_files()
    return rows[row]["id"]


def bomb(side: int = 50_000) -> bytes:
    """A PNG of a few kilobytes whose head says that it has side × side pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)
    lines = zlib.compress(bytes(1 + side // 8) * 1000)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", lines) + chunk(b"IEND", b"")


def with_message(text: bytes) -> bytes:
    """A small PNG that carries a text beside its pixels."""
    from PIL.PngImagePlugin import PngInfo

    info, buffer = PngInfo(), io.BytesIO()
    info.add_text("Comment", text.decode())
    Image.new("RGB", (300, 200), (200, 30, 30)).save(buffer, "PNG", pnginfo=info)
    return buffer.getvalue()
