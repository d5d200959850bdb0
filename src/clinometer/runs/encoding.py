"""Encoding: the embeddings that are missing, and none twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any

from clinometer.errors import RunNotFoundError
from clinometer.models.protocols import Encoder
from clinometer.runs.failures import named
from clinometer.runs.part_encoder import PartEncoder
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.runs.vectors import NoVectorsError
from clinometer.runs.workers import WORKERS, give_back, one_behind

AT_ONCE = 8
"""Images that a thread decodes in one go, at most."""


def encode(run: Run, encoder: Encoder, progress: Progress) -> None:
    """Embed the texts of the suite and the images that this encoder has not seen.

    While texts or a part are embedded, the next part's images are decoded and resized, and the last one's vectors are
    written.

    Raises
    ------
    RunNotFoundError
        Images are still to be drawn.
    RunMismatchError
        The run holds embeddings of another encoder of that name.
    """
    name = encoder.card.name
    parts = run.parts
    missing = [part for part in parts if not run.has_embeddings(name, part)]
    require_drawn(run, f"clinometer score {run.url} --encoder {name}")
    run.begin_encoder(encoder.card)
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with (
        forgotten(run, name),
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as reader,
        one_behind() as write,
    ):
        hands = PartEncoder(run, encoder, write, lambda part: progress.advance(len(parts[part])))
        ahead = deque(reader.submit(_read_images, run, part, hands.prepare, decoders) for part in missing[:1])
        hands.read_texts()
        for index, part in enumerate(missing):
            with named("encoder", name):
                ids, images = ahead.popleft().result()
            if index + 1 < len(missing):
                ahead.append(reader.submit(_read_images, run, missing[index + 1], hands.prepare, decoders))
            hands.embed(part, ids, images, probe=index == 0)
        hands.finish()
    run.finish_encoder(encoder.card)
    progress.finish()


def require_drawn(run: Run, then: str = "") -> None:
    """Refuse a run of which images are still to be drawn; of some of its parts, who has it whole did so.

    Raises
    ------
    RunNotFoundError
        The message names the way out, and what comes ``then``.
    """
    undrawn = sum(len(run.undrawn(part)) for part in run.parts) if run.is_whole else 0
    if undrawn:
        after = f", and then: {then}" if then else ""
        raise RunNotFoundError(
            f"{run.url}: {undrawn} of {len(run.plan)} images are not drawn yet; give the command that began the run "
            f"again{after}"
        )


@contextmanager
def forgotten(run: Run, encoder: str) -> Iterator[None]:
    """Keep nothing of an encoder that gives no vectors: with one that cannot finish, a run would have no scores.

    Of a run that shows some of its parts, who has it whole does so.
    """
    try:
        yield
    except NoVectorsError as error:
        if not run.is_whole:
            raise
        run.forget_encoder(encoder)
        raise NoVectorsError(f"{error}; mend it, or name another encoder: what is drawn is kept") from error


def _read_images(
    run: Run, part: int, prepare: Callable[[list[Any]], list[Any]], decoders: Executor
) -> tuple[list[str], list[Any]]:
    """The images of a part that are there: ids and what an encoder's model takes of each."""
    rows = [row for row in run.read_images(part) if row["status"] == "ok"]
    ids, n_bytes = [row["id"] for row in rows], sum(len(row["image"]["bytes"]) for row in rows)
    give_back(n_bytes)  # what it took to read them

    def prepared(chunk: list[dict[str, Any]]) -> list[Any]:
        return prepare([run.decoded(row["id"], row["image"].pop("bytes")) for row in chunk])

    # A few at a time: each call of an image processor, and each that waits for a thread, costs some of Python's time.
    size = min(AT_ONCE, max(1, len(rows) // (2 * WORKERS)))
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    items = list(chain.from_iterable(decoders.map(prepared, chunks)))
    give_back(n_bytes)
    return ids, items
