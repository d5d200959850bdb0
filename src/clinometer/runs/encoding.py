"""Encoding: the embeddings that are missing, and none twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np

from clinometer.errors import RunNotFoundError
from clinometer.models.abilities import BeginsPrepared, PreparesImages, ReadsTexts, offers
from clinometer.models.protocols import Encoder
from clinometer.runs.failures import named
from clinometer.runs.progress import Progress
from clinometer.runs.store import Run
from clinometer.runs.vectors import NO_VECTORS, PROBED, NoVectorsError, require_same, require_vectors
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
    prepare, embed = _halves(encoder)
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with (
        forgotten(run, name),
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as reader,
        one_behind() as write,
    ):
        ahead = deque(reader.submit(_read_images, run, part, prepare, decoders) for part in missing[:1])
        with named("encoder", name):
            _encode_texts(run, encoder)
        width = next((len(vector) for vector in run.texts(name).values()), None)
        begun: deque[_Begun] = deque()
        at_once = 1 if offers(encoder, BeginsPrepared) else 0

        def finish_one() -> None:
            nonlocal width
            part, ids, vectors = begun.popleft()
            with named("encoder", name):
                found = require_vectors(vectors(), name, ids, width) if ids else NO_VECTORS
            width = found.shape[1] if ids else width
            write(run.write_embeddings, name, part, ids, found)
            progress.advance(len(parts[part]))

        for index, part in enumerate(missing):
            with named("encoder", name):
                ids, images = ahead.popleft().result()
            if index + 1 < len(missing):
                ahead.append(reader.submit(_read_images, run, missing[index + 1], prepare, decoders))
            with named("encoder", name):
                vectors = embed(images) if images else list
                if index == 0 and images:
                    _require_steady(encoder, embed, ids, images, vectors(), width)
            begun.append((part, ids, vectors))
            if len(begun) > at_once:  # the next one is in the device's hands while this one is fetched and written
                finish_one()
        while begun:
            finish_one()
    run.finish_encoder(encoder.card)
    run.end_stage()
    progress.finish()


def require_drawn(run: Run, then: str = "") -> None:
    """Refuse a run of which images are still to be drawn.

    Raises
    ------
    RunNotFoundError
        The message names the way out, and what comes ``then``.
    """
    undrawn = sum(len(run.undrawn(part)) for part in run.parts)
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


_Begun = tuple[int, list[str], Callable[[], Any]]
"""A part in the encoder's hands: its number, the ids of its images, and what waits for their vectors."""


def _require_steady(
    encoder: Encoder,
    embed: Callable[[list[Any]], Callable[[], np.ndarray]],
    ids: list[str],
    images: list[Any],
    found: Any,
    width: int | None,
) -> None:
    """Refuse an encoder that gives the first images other vectors when it is asked again."""
    name = encoder.card.name
    first = require_vectors(found, name, ids, width)
    again = require_vectors(embed(images[:PROBED])(), name, ids[:PROBED], first.shape[1])
    require_same(first[:PROBED], again, encoder.card, "image")


def _halves(
    encoder: Any,
) -> tuple[Callable[[list[Any]], list[Any]], Callable[[list[Any]], Callable[[], np.ndarray]]]:
    """What an encoder does to images before its model, and with it; one that does not tell them apart does all last.

    What it does with its model it may only begin; the vectors are there when what it returns is called.
    """
    prepares = offers(encoder, PreparesImages)
    prepare = encoder.prepare_images if prepares else list
    if prepares and offers(encoder, BeginsPrepared):
        return prepare, encoder.begin_prepared
    encode = encoder.encode_prepared if prepares else encoder.encode_images

    def begin(images: list[Any]) -> Callable[[], np.ndarray]:
        vectors = encode(images)
        return lambda: vectors

    return prepare, begin


def _read_images(
    run: Run, part: int, prepare: Callable[[list[Any]], list[Any]], decoders: Executor
) -> tuple[list[str], list[Any]]:
    """The images of a part that are there: ids and what an encoder's model takes of each."""
    rows = [row for row in run.read_images(part) if row["status"] == "ok"]
    ids, taken = [row["id"] for row in rows], sum(len(row["image"]["bytes"]) for row in rows)
    give_back(taken)  # what it took to read them

    def prepared(chunk: list[dict[str, Any]]) -> list[Any]:
        return prepare([run.decoded(row["id"], row["image"].pop("bytes")) for row in chunk])

    # A few at a time: each call of an image processor, and each that waits for a thread, costs some of Python's time.
    size = min(AT_ONCE, max(1, len(rows) // (2 * WORKERS)))
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    items = list(chain.from_iterable(decoders.map(prepared, chunks)))
    give_back(taken)
    return ids, items


def _encode_texts(run: Run, encoder: Encoder) -> None:
    if run.has_texts(encoder.card.name):
        return
    reads_text = offers(encoder, ReadsTexts)
    texts = run.suite.texts() if reads_text else []
    name = encoder.card.name
    vectors = require_vectors(encoder.encode_texts(texts), name, texts) if texts else NO_VECTORS
    if texts:
        again = require_vectors(encoder.encode_texts(texts[:PROBED]), name, texts[:PROBED], vectors.shape[1])
        require_same(vectors[:PROBED], again, encoder.card, "text")
    run.write_texts(name, texts, vectors)
