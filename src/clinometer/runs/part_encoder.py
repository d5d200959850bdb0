"""An encoder at work on part after part of a run: the device has one part while another is fetched and written."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from clinometer.models.abilities import BeginsPrepared, PreparesImages, ReadsTexts, offers
from clinometer.models.protocols import Encoder
from clinometer.runs.failures import named
from clinometer.runs.store import Run
from clinometer.runs.vectors import NO_VECTORS, PROBED, require_same, require_vectors

Embed = Callable[[list[Any]], Callable[[], np.ndarray]]
"""Begins to embed what was prepared; the vectors are there when what it returns is called."""


class PartEncoder:
    """Embeds parts and hands their vectors on to be written.

    Parameters
    ----------
    write : called with a function and its arguments, as of :func:`clinometer.runs.workers.one_behind`.
    done : told of each part whose vectors are handed on.
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
        with named("encoder", self.name):
            _encode_texts(self._run, self._encoder)
        self._width = next((len(vector) for vector in self._run.texts(self.name).values()), None)

    def embed(self, part: int, ids: Sequence[str], prepared: list[Any], *, probe: bool) -> None:
        """Begin with a part, and hand on what is no longer awaited.

        Raises
        ------
        NoVectorsError
            What it gives cannot be used. ``probe`` : or is not the same twice.
        """
        with named("encoder", self.name):
            vectors = self._embed(prepared) if prepared else list
            if probe and prepared:
                self._require_steady(ids, prepared, vectors())
        self._begun.append((part, ids, vectors))
        if len(self._begun) > self._at_once:  # the next one is in the device's hands while this one is fetched
            self._hand_on()

    def finish(self) -> None:
        """Hand on all that was begun."""
        while self._begun:
            self._hand_on()

    def _hand_on(self) -> None:
        part, ids, vectors = self._begun.popleft()
        with named("encoder", self.name):
            embeddings = require_vectors(vectors(), self.name, ids, self._width) if ids else NO_VECTORS
        self._width = embeddings.shape[1] if ids else self._width
        self._write(self._run.write_embeddings, self.name, part, ids, embeddings)
        self._done(part)

    def _require_steady(self, ids: Sequence[str], prepared: list[Any], output: Any) -> None:
        """Refuse an encoder that gives the first images other vectors when it is asked again."""
        first = require_vectors(output, self.name, ids, self._width)
        again = require_vectors(self._embed(prepared[:PROBED])(), self.name, ids[:PROBED], first.shape[1])
        require_same(first[:PROBED], again, self._encoder.card, "image")


def _halves(encoder: Any) -> tuple[Callable[[list[Any]], list[Any]], Embed]:
    """What an encoder does to images before its model, and with it; one that does not tell them apart does all last."""
    prepares = offers(encoder, PreparesImages)
    prepare = encoder.prepare_images if prepares else list
    if prepares and offers(encoder, BeginsPrepared):
        return prepare, encoder.begin_prepared
    encode = encoder.encode_prepared if prepares else encoder.encode_images

    def begin(images: list[Any]) -> Callable[[], np.ndarray]:
        vectors = encode(images)
        return lambda: vectors

    return prepare, begin


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
