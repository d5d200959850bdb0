"""Finished images, and encoders that embed them while they are decoded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from clinometer.models.abilities import Converts
from clinometer.models.protocols import Encoder, GenerationRequest, GenerationResult


class EmbeddedSource:
    """Finished images and their encoders as one generator, so that a worker has both at hand."""

    def __init__(self, source: Converts, encoders: Sequence[Encoder]) -> None:
        self.card, self.batch_size, self.conversions = source.card, source.batch_size, source.conversions
        self.encoders, self.proven = tuple(encoders), set[str]()
        self._source = source

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read images."""
        return self._source.generate(requests)
