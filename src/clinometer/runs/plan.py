"""The plan: every image of a run, decided before the first is drawn.

A sample's id is a hash of what makes it what it is: the prompt, how many times that prompt came before, the run's seed
and the model's card. Its noise comes from a hash of the same without the card. So the same question put to the same
model draws the same image, in whatever run, order, batch or process, and two models, or one at two settings, start
from the same noise: their runs are paired.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa

from clinometer.runs.planned import PLAN_SCHEMA, Parts, Plan, Sample
from clinometer.suites import PromptSpec

__all__ = [
    "PART_BYTES",
    "PLAN_SCHEMA",
    "Plan",
    "Sample",
    "build_plan",
    "noise_seed",
    "parts_of",
    "plan_to_table",
    "sample_id",
    "table_to_plan",
]

PART_BYTES: Final = 2**28
"""Bytes of finished images in a part, decoded: 64 of 1024 x 1024 pixels. A part is held in memory as a whole."""


def build_plan(
    questions: Iterable[PromptSpec],
    *,
    seed: int,
    model_fingerprint: str,
    part_size: int,
    after: Sequence[Sample] = (),
    bytes_of: Callable[[PromptSpec], int] | None = None,
) -> Plan:
    """Every sample of a run, cut into parts of at most ``part_size``; or those that follow ``after``, in new parts.

    Of finished images ``bytes_of`` says what they take in memory: a part of several holds at most `PART_BYTES`.

    A prompt that two questions share (an attribute prompt may also be a target) goes on counting, so that no two
    samples of a run are the same image.
    """
    before = Plan.of(after)
    counts: Counter[str] = Counter(file or prompt for file, prompt in before.rows("file", "prompt"))
    parts = _Parts(max((part for (part,) in before.rows("part")), default=-1) + 1, part_size)

    def samples() -> Iterator[Sample]:
        for question in questions:
            size = 0 if bytes_of is None else bytes_of(question)
            for _ in range(question.images):
                source = question.file or question.prompt
                key = (source, counts[source], seed)
                counts[source] += 1
                yield Sample(
                    id=sample_id("sample", *key, model_fingerprint),
                    part=parts.next(size),
                    prompt=question.prompt,
                    concept=question.concept,
                    role=question.role,
                    group=question.group,
                    category=question.category,
                    seed=noise_seed("noise", *key),
                    file=question.file,
                )

    return Plan.of(samples())


class _Parts:
    """Numbers of parts: a new one where the last is full."""

    def __init__(self, first: int, part_size: int) -> None:
        self._part, self._part_size = first, part_size
        self._images = self._bytes = 0

    def next(self, size: int) -> int:
        """The part of the next image, which takes ``size`` bytes."""
        if self._images == self._part_size or (self._images and self._bytes + size > PART_BYTES):
            self._part += 1
            self._images = self._bytes = 0
        self._images += 1
        self._bytes += size
        return self._part


def sample_id(*key: str | float) -> str:
    """An id of 16 hexadecimal digits that follows from a key."""
    return _digest(*key).hex()


def noise_seed(*key: str | float) -> int:
    """A seed of 63 bits, what an int64 column holds, that follows from a key."""
    return int.from_bytes(_digest(*key)) >> 1


def _digest(*key: str | float) -> bytes:
    """Eight bytes that follow from a key."""
    return hashlib.sha256(json.dumps(key).encode()).digest()[:8]


def plan_to_table(samples: Sequence[Sample]) -> pa.Table:
    """The plan as a table, one row a sample."""
    return Plan.of(samples).table()


def table_to_plan(table: pa.Table) -> Plan:
    """The plan read back."""
    return Plan(table)


def parts_of(samples: Iterable[Sample]) -> Mapping[int, Plan]:
    """The samples of each part, in plan order."""
    return Parts(Plan.of(samples))
