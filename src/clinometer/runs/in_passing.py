"""Encoding in passing: finished images are embedded while their pixels are at hand, so that none is decoded twice.

It is a short cut, and changes no vector. What it leaves out, the stage that encodes makes up for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from itertools import chain
from typing import Any, Final

from PIL.Image import Image

from clinometer.errors import ModelError
from clinometer.models.abilities import EmbedsInPassing, offers
from clinometer.models.images import BYTES_A_PIXEL
from clinometer.models.protocols import GenerationResult, Generator
from clinometer.runs.encoding import forgotten
from clinometer.runs.failures import named
from clinometer.runs.part_encoder import PartEncoder
from clinometer.runs.plan import Sample
from clinometer.runs.store import Run
from clinometer.runs.workers import WeightGate

MOST_AT_ONCE: Final = 32
"""Images that a thread prepares in one go: each call of an image processor costs some of Python's time."""

MOST_BYTES: Final = 2**24
"""Of their pixels; one that is larger is prepared alone."""


class InPassing:
    """Embeds the images of part after part with the encoders of a generator that reads finished images.

    Parameters
    ----------
    pool, room : where images are prepared, and how many of them wait.
    threads : of the pool.
    write : as of :class:`~clinometer.runs.part_encoder.PartEncoder`.
    """

    def __init__(
        self,
        run: Run,
        generator: Generator | None,
        pool: Executor,
        room: WeightGate,
        threads: int,
        write: Callable[..., None],
    ) -> None:
        self._run, self._pool, self._room, self._threads = run, pool, room, threads
        self._encoders: list[PartEncoder] = []
        self._proven: set[str] = set()
        if offers(generator, EmbedsInPassing):
            self._proven = generator.proven
            for encoder in generator.encoders:
                run.begin_encoder(encoder.card)
                with forgotten(run, encoder.card.name):
                    part_encoder = PartEncoder(run, encoder, write)
                    part_encoder.read_texts()
                self._encoders.append(part_encoder)
        self._chunk: list[tuple[str, Image]] = []
        self._bytes = 0
        self._ids: list[str] = []
        self._prepared: dict[str, list[Future[list[Any]]]] = {}

    def see(self, result: GenerationResult, of: int) -> None:
        """Take an image, one ``of`` so many of its part, on its way to where it is stored."""
        if not self._encoders or result.status != "ok" or result.image is None:
            return
        # Another thread may be storing its pixels, and an encoder may write into what it is given.
        self._chunk.append((result.id, result.image.copy() if result.content is None else result.image))
        self._bytes += result.image.width * result.image.height * BYTES_A_PIXEL
        if self._bytes >= MOST_BYTES or len(self._chunk) >= min(MOST_AT_ONCE, max(1, of // (2 * self._threads))):
            self._hand_over()

    def _hand_over(self) -> None:
        """Have images prepared, for each encoder; what one does to them in place, the next must not see."""
        ids, images = [identifier for identifier, _ in self._chunk], [image for _, image in self._chunk]
        for encoder in self._encoders if images else ():
            own = images if encoder is self._encoders[-1] else [image.copy() for image in images]
            task = self._room.submit(self._pool, self._bytes, encoder.prepare, own)
            self._prepared.setdefault(encoder.name, []).append(task)
        self._ids += ids
        self._chunk, self._bytes = [], 0

    def embed(self, part: int, samples: Sequence[Sample]) -> None:
        """Embed what was seen of a part, which is written by now; of one that held some images before, nothing."""
        self._hand_over()
        ids, prepared = self._ids, self._prepared
        self._ids, self._prepared = [], {}
        if len(samples) != len(self._run.parts[part]):
            return
        for encoder in list(self._encoders):
            with self._in_passing(encoder):
                with named("encoder", encoder.name):
                    items = chain.from_iterable(task.result() for task in prepared.pop(encoder.name, ()))
                    by_id = dict(zip(ids, items, strict=True))
                sample_ids = [sample.id for sample in samples if sample.id in by_id]
                probe = bool(sample_ids) and encoder.name not in self._proven
                encoder.embed(part, sample_ids, [by_id.pop(identifier) for identifier in sample_ids], probe=probe)
                if probe:
                    self._proven.add(encoder.name)

    def finish(self) -> None:
        """Write what encoders have begun and not handed on."""
        for encoder in list(self._encoders):
            with self._in_passing(encoder):
                encoder.finish()

    @contextmanager
    def _in_passing(self, encoder: PartEncoder) -> Iterator[None]:
        """Go on without an encoder that fails: images are read all the same, and encoding meets its error."""
        try:
            yield
        except ModelError:
            self._encoders.remove(encoder)
