"""Compute the embeddings that are missing, each once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final

import numpy as np

from clinometer._cores import WORKERS, one_behind, one_thread
from clinometer._memory import give_back
from clinometer.errors import ModelError, RunNotFoundError
from clinometer.models.images import saved_again
from clinometer.models.protocols import (
    BeginsPrepared,
    Card,
    Encoder,
    PreparesImages,
    ReadsTexts,
    offers,
)
from clinometer.runs.embeddings import (
    NO_VECTORS,
    PROBED,
    NoVectorsError,
    checked_vectors,
    require_same,
    require_vectors,
    shaped_vectors,
)
from clinometer.runs.progress import Progress, naming_errors
from clinometer.runs.run import Run

_PICTURE: Final = ["id", "status", "sha256"]
"""Columns of a run's samples that say which picture each has."""

MEASURED: Final = 16
"""Pictures that are saved again, to see how far their vectors move."""

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
    missing = [part for part in parts if not run.vectors.has(name, part)]
    require_drawn(run, f"clinometer score {run.url} --encoder {name}")
    run.encoders.begin(encoder.card)
    done = len(run.plan) - sum(len(parts[part]) for part in missing)
    progress.start(f"encoding with {name}", len(run.plan), done)
    with (
        forget_on_failure(run, name),
        ThreadPoolExecutor(WORKERS) as decoders,
        ThreadPoolExecutor(1) as reader,
        one_behind() as write,
    ):
        hands = PartEncoder(run, encoder, write, lambda part: progress.advance(len(parts[part])))
        ahead = deque(reader.submit(prepared_images, run, part, hands.prepare, decoders) for part in missing[:1])
        hands.read_texts()
        for index, part in enumerate(missing):
            with naming_errors("encoder", name):
                ids, images = ahead.popleft().result()
            if index + 1 < len(missing):
                ahead.append(reader.submit(prepared_images, run, missing[index + 1], hands.prepare, decoders))
            hands.embed(part, ids, images, probe=index == 0)
        hands.finish()
    if run.is_whole or not parts:
        hands.measure_saving()
    run.encoders.finish(encoder.card)
    progress.finish()


def take_vectors(run: Run, others: Sequence[Run], card: Card) -> int:
    """Copy the vectors of the parts whose every picture other runs have embedded, and return how many pictures that is.

    A picture is the same where its id and the hash of its file are, an encoder where the fingerprint of its card is.
    """
    others = [each for each in others if each.encoder_cards.get(card.name, {}).get("fingerprint") == card.fingerprint]
    missing = [part for part in run.parts if not run.vectors.has(card.name, part)] if others else []
    planned = [set(other.plan.column("id").to_pylist()) for other in others] if missing else []
    taken = 0
    for part in missing:
        rows = run.drawn.part(part, _PICTURE).to_pylist()
        wanted = {row["id"]: row["sha256"] for row in rows if row["status"] == "ok"}
        vectors = dict[str, np.ndarray]()
        for other, there in zip(others, planned, strict=True):
            for number in sorted(set(other.plan.parts_of([key for key in wanted if key in there]))):
                hashes = {row["id"]: row["sha256"] for row in other.drawn.part(number, _PICTURE).to_pylist()}
                same = other.vectors.of_part(card.name, number).items()
                vectors |= {key: vector for key, vector in same if key in wanted and hashes[key] == wanted[key]}
        if wanted and vectors.keys() == wanted.keys():
            run.encoders.begin(card)
            run.vectors.write(card.name, part, list(wanted), np.stack([vectors[key] for key in wanted]))
            taken += len(wanted)
    return taken


def remaining_images(run: Run) -> int:
    """Count the images that are still to be drawn; those that are read from files cost nothing."""
    return sum(not sample.file for part in run.parts for sample in run.drawn.missing(part))


def require_drawn(run: Run, then: str = "") -> None:
    """Refuse a run of which images are still to be drawn; of some of its parts, who has it whole did so.

    Raises
    ------
    RunNotFoundError
        The message names the way out, and what comes ``then``.
    """
    undrawn = sum(len(run.drawn.missing(part)) for part in run.parts) if run.is_whole else 0
    if undrawn:
        after = f", and then: {then}" if then else ""
        raise RunNotFoundError.incomplete(
            f"{run.url}: {undrawn} of {len(run.plan)} images are not drawn yet; give the command that began the run "
            f"again{after}"
        )


@contextmanager
def forget_on_failure(run: Run, encoder: str) -> Iterator[None]:
    """Drop the card of an encoder that gives no vectors: with one that cannot finish, a run would have no scores.

    In a worker the error is raised again as it is; the driver drops the card.
    """
    try:
        yield
    except NoVectorsError as error:
        if not run.is_whole:
            raise
        run.encoders.forget(encoder)
        problem = f"{error}; fix it, or name another encoder: what is drawn is kept"
        raise NoVectorsError(problem, code=error.code) from error


def prepared_images(
    run: Run, part: int, prepare: Callable[[list[Any]], list[Any]], decoders: Executor
) -> tuple[list[str], list[Any]]:
    """Decode the images of a part that are there: ids and what a model takes of each."""
    rows = [row for row in run.drawn.read(part) if row["status"] == "ok"]
    ids, n_bytes = [row["id"] for row in rows], sum(len(row["image"]["bytes"]) for row in rows)
    give_back(n_bytes)  # what it took to read them

    def prepared(chunk: list[dict[str, Any]]) -> list[Any]:
        return prepare([run.drawn.decode(row["id"], row["image"].pop("bytes")) for row in chunk])

    # A few at a time: each call of an image processor, and each that waits for a thread, costs some of Python's time.
    size = min(AT_ONCE, max(1, len(rows) // (2 * WORKERS)))
    chunks = [rows[start : start + size] for start in range(0, len(rows), size)]
    items = list(chain.from_iterable(decoders.map(prepared, chunks)))
    give_back(n_bytes)
    return ids, items


# --- An encoder at work on part after part of a run: the device has one part while another is fetched and written ----


Embed = Callable[[list[Any]], Callable[[], np.ndarray]]
"""Begins to embed what was prepared; the vectors are there when what it returns is called."""


class PartEncoder:
    """Embeds parts and passes their vectors on to be written.

    Parameters
    ----------
    write : called with a function and its arguments, like that of :func:`clinometer._cores.one_behind`.
    done : called with each part whose vectors are passed on to be written.
    """

    def __init__(
        self,
        run: Run,
        encoder: Encoder,
        write: Callable[..., None],
        done: Callable[[int], None] = lambda part: None,
    ) -> None:
        self.prepare, self._embed = _halves(encoder)
        self.name = encoder.card.name
        self._run, self._encoder, self._write, self._done = run, encoder, write, done
        self._width: int | None = None
        self._begun: deque[tuple[int, Sequence[str], Callable[[], Any]]] = deque()
        self._at_once = 1 if offers(encoder, BeginsPrepared) else 0

    def read_texts(self) -> None:
        """Embed the texts of the suite unless they are; images are then to have vectors as long as theirs."""
        with naming_errors("encoder", self.name), one_thread():
            if not self._run.vectors.has_texts(self.name):
                texts, vectors = self._run.suite.texts() if offers(self._encoder, ReadsTexts) else [], NO_VECTORS
                if texts:
                    vectors = require_vectors(self._encoder.encode_texts(texts), self.name, texts)
                    again = self._encoder.encode_texts(texts[:PROBED])
                    again = require_vectors(again, self.name, texts[:PROBED], vectors.shape[1])
                    require_same(vectors[:PROBED], again, self._encoder.card, "text")
                self._run.vectors.write_texts(self.name, texts, vectors)
        self._width = next((len(vector) for vector in self._run.texts(self.name).values()), None)

    def measure_saving(self) -> None:
        """Measure how far saving a picture again moves its vector, of some pictures spread over the plan; once.

        Two pictures that are closer may be one (:mod:`clinometer.stats.dependence`). It comes after the parts: it is
        left out while those of these pictures are still to be embedded, and a picture that the encoder fails on, once
        it has embedded them all, is passed over.
        """
        plan, vectors = self._run.plan, self._run.vectors
        some = sorted({int(at) for at in np.linspace(0, len(plan) - 1, MEASURED)}) if len(plan) else []
        ids = [plan[at].id for at in some]
        parts = set(plan.parts_of(ids))
        if vectors.has_saved_again(self.name) or not all(vectors.has(self.name, part) for part in parts):
            return
        rows = list[tuple[str, str, float]]()
        for key, content in self._run.drawn.images(ids):
            if content is not None:
                with suppress(ModelError), naming_errors("encoder", self.name):
                    rows += self._moved(key, content)
        vectors.write_saved_again(self.name, rows)

    def _moved(self, key: str, content: bytes) -> list[tuple[str, str, float]]:
        """Measure how far each way of saving a picture again moves its vector; empty where it has no direction."""
        image = self._run.drawn.decode(key, content).convert("RGB")
        changed = saved_again(image)
        seen = self._embed(self.prepare([image, *changed.values()]))()
        seen = shaped_vectors(seen, self.name, [key] * (1 + len(changed)), self._width).astype(float)
        seen[~np.isfinite(seen).all(axis=1)] = np.nan
        lengths = np.linalg.norm(seen, axis=1, keepdims=True)  # a blank picture may have no direction
        units = np.divide(seen, lengths, out=np.full_like(seen, np.nan), where=lengths > 0)
        apart = np.round(np.linalg.norm(units[1:] - units[0], axis=1), 4)
        moved = zip(changed, apart.tolist(), strict=True)
        return [(key, change, distance) for change, distance in moved if np.isfinite(distance)]

    def embed(self, part: int, ids: Sequence[str], prepared: list[Any], *, probe: bool) -> None:
        """Begin to embed a part, and write what has been fetched.

        Raises
        ------
        NoVectorsError
            What it gives cannot be used. ``probe`` : or is not the same twice.
        """
        with naming_errors("encoder", self.name):
            vectors = self._embed(prepared) if prepared else list
            if probe and prepared:
                card = self._encoder.card
                first = checked_vectors(vectors(), card, ids, self._width)
                again = checked_vectors(self._embed(prepared[:PROBED])(), card, ids[:PROBED], first.shape[1])
                require_same(first[:PROBED], again, card, "image")
        self._begun.append((part, ids, vectors))
        if len(self._begun) > self._at_once:  # the next one is in the device's hands while this one is fetched
            self._hand_on()

    def finish(self) -> None:
        """Fetch and write all that was begun."""
        while self._begun:
            self._hand_on()

    def _hand_on(self) -> None:
        part, ids, vectors = self._begun.popleft()
        with naming_errors("encoder", self.name):
            embeddings = checked_vectors(vectors(), self._encoder.card, ids, self._width) if ids else NO_VECTORS
        self._width = embeddings.shape[1] if ids else self._width
        self._write(self._run.vectors.write, self.name, part, ids, embeddings)
        self._done(part)


def _halves(encoder: Any) -> tuple[Callable[[list[Any]], list[Any]], Embed]:
    """Split an encoder into preprocessing and model; one that does not tell them apart does all in the second."""
    prepares = offers(encoder, PreparesImages)
    prepare = encoder.prepare_images if prepares else list
    if prepares and offers(encoder, BeginsPrepared):
        return prepare, encoder.begin_prepared
    encode = encoder.encode_prepared if prepares else encoder.encode_images

    def begin(images: list[Any]) -> Callable[[], np.ndarray]:
        vectors = encode(images)
        return lambda: vectors

    return prepare, begin
