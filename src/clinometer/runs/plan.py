"""The plan: every image of a run, decided before the first is drawn.

A sample's id is a hash of what makes it what it is: the prompt, how many times that prompt came before, the run's seed
and the model's card. Its noise comes from a hash of the same without the card. So the same question put to the same
model draws the same image, in whatever run, order, batch or process, and two models, or one at two settings, start
from the same noise: their runs are paired.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

import pyarrow as pa

from clinometer.suites import PromptSpec

PART_BYTES: Final = 2**28
"""Bytes of finished images in a part, decoded: 64 of 1024 x 1024 pixels. A part is held in memory as a whole."""

_ROWS: Final = 4096
"""Rows of a plan that become Python objects at once."""

_SHARED: Final = ("prompt", "concept", "role", "group", "category", "source")
"""Columns of texts that many samples have in common."""

PLAN_SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "part": pa.int32(),
        "prompt": pa.string(),
        "concept": pa.string(),
        "role": pa.string(),
        "group": pa.string(),
        "category": pa.string(),
        "seed": pa.int64(),
        "file": pa.string(),
        "source": pa.string(),
        "strength": pa.float64(),
    }
)


@dataclass(frozen=True, slots=True)
class Sample:
    """One planned image.

    Attributes
    ----------
    id : 16 hexadecimal digits, unique in the run.
    part : the work unit it belongs to.
    role, concept, category, group : what its question asked for, see ``clinometer.suites.Question``.
    seed : seed of its noise.
    file : for imported images, the file's place in its folder; else empty.
    source, strength : for an edit, the id of the sample it is made from, and how strongly; else empty and 0.
    """

    id: str
    part: int
    prompt: str
    concept: str
    role: str
    group: str
    category: str
    seed: int
    file: str = ""
    source: str = ""
    strength: float = 0.0


def build_plan(
    questions: Iterable[PromptSpec],
    *,
    seed: int,
    model_fingerprint: str,
    part_size: int,
    after: Sequence[Sample] = (),
    bytes_of: Callable[[PromptSpec], int] | None = None,
) -> list[Sample]:
    """Every sample of a run, cut into parts of at most ``part_size``; or those that follow ``after``, in new parts.

    Of finished images ``bytes_of`` says what they take in memory: a part of several holds at most `PART_BYTES`.

    A prompt that two questions share (an attribute prompt may also be a target) goes on counting, so that no two
    samples of a run are the same image.
    """
    asked: Counter[str] = Counter(sample.file or sample.prompt for sample in after)
    parts = _Parts(max((sample.part for sample in after), default=-1) + 1, part_size)
    samples: list[Sample] = []
    for question in questions:
        size = 0 if bytes_of is None else bytes_of(question)
        for _ in range(question.images):
            source = question.file or question.prompt
            key = (source, asked[source], seed)
            asked[source] += 1
            samples.append(
                Sample(
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
            )
    return samples


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
    columns = {name: [getattr(sample, name) for sample in samples] for name in PLAN_SCHEMA.names}
    return pa.table(columns, schema=PLAN_SCHEMA)


def table_to_plan(table: pa.Table) -> list[Sample]:
    """The plan read back. Samples share their texts: a million would else hold a prompt each."""
    columns = [map(sys.intern, column) if name in _SHARED else column for name, column in _columns(table)]
    return list(map(Sample, *columns))


def _columns(table: pa.Table) -> Iterator[tuple[str, Iterator[Any]]]:
    for name in PLAN_SCHEMA.names:
        batches = (chunk.slice(at, _ROWS) for chunk in table[name].chunks for at in range(0, len(chunk), _ROWS))
        yield name, chain.from_iterable(batch.to_pylist() for batch in batches)


def parts_of(samples: Iterable[Sample]) -> dict[int, list[Sample]]:
    """The samples of each part, in plan order."""
    parts: dict[int, list[Sample]] = {}
    for sample in samples:
        parts.setdefault(sample.part, []).append(sample)
    return parts
