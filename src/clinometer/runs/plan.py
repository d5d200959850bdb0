"""The plan: every image of a run, decided before the first is drawn.

A sample's id is a hash of what makes it what it is: the prompt, how many times that prompt came before, the run's seed
and the model's card. Its noise comes from a hash of the same without the card. So the same prompt put to the same
model draws the same image, in whatever run, order, batch or process, and two models, or one at two settings, start
from the same noise: their runs are paired.

Planned samples are held as columns: a million of them take some 70 MB, and a `Sample` is made of one that is looked at.
See decision 28.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Final, Self, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clinometer._messages import composed, did_you_mean, first_and_more, quoted
from clinometer.errors import ImportManifestError, RunCorruptError
from clinometer.models.files import ManifestRow
from clinometer.runs.ledger import Ledger, always, samples_name
from clinometer.runs.record import COUNTED, is_checked
from clinometer.suites import PromptSpec, Suite

PART_BYTES: Final = 2**28
"""Bytes of finished images in a part, decoded: 64 of 1024 x 1024 pixels. A part is held in memory as a whole."""


_ROWS: Final = 4096
"""Rows of a plan that become Python objects at once."""

PLAN_SCHEMA: Final = pa.schema(
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

_SHARED: Final = frozenset(("prompt", "concept", "role", "group", "category", "source"))
"""Columns of texts that many samples have in common: each text is held once."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One planned image.

    Attributes
    ----------
    id : 16 hexadecimal digits, unique in the run.
    part : the work unit it belongs to.
    role, concept, category, group : what its prompt spec asked for, see ``clinometer.suites.PromptSpec``.
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


class Plan(Sequence[Sample]):
    """Samples in order. What is cut out of a plan shares its columns."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, table: pa.Table) -> None:
        """Create it from a table of `PLAN_SCHEMA`."""
        self._table = _compact([table])

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Plan:
        """Return the plan of some samples; a plan is its own."""
        if isinstance(samples, Plan):
            return samples
        stream, names = iter(samples), PLAN_SCHEMA.names
        tables = (
            pa.table({name: [getattr(sample, name) for sample in some] for name in names}, schema=PLAN_SCHEMA)
            for some in iter(lambda: list(islice(stream, 16 * _ROWS)), [])
        )
        return cls._hold(_compact(tables))

    @classmethod
    def joined(cls, plans: Iterable[Plan]) -> Plan:
        """Return plans one after the other."""
        return cls._hold(_compact(plan._table for plan in plans))

    @classmethod
    def _hold(cls, table: pa.Table) -> Self:
        plan = cls.__new__(cls)
        plan._table = table
        return plan

    def __len__(self) -> int:
        return int(self._table.num_rows)

    @overload
    def __getitem__(self, at: int) -> Sample: ...
    @overload
    def __getitem__(self, at: slice) -> Plan: ...
    def __getitem__(self, at: int | slice) -> Sample | Plan:
        if isinstance(at, slice):
            first, stop, step = at.indices(len(self))
            if step == 1:
                return self._hold(self._table.slice(first, max(0, stop - first)))
            return self.take(np.arange(first, stop, step))
        position = range(len(self))[at]
        return next(iter(self._hold(self._table.slice(position, 1))))

    def __iter__(self) -> Iterator[Sample]:
        return (Sample(*cells) for cells in self.rows(*PLAN_SCHEMA.names))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Plan):
            return self._equals(other, PLAN_SCHEMA.names)
        if isinstance(other, Sequence):
            return len(self) == len(other) and all(one == another for one, another in zip(self, other, strict=True))
        return NotImplemented

    def asks_the_same(self, other: Plan) -> bool:
        """Return whether these are the same samples, in whatever parts."""
        return self._equals(other, [name for name in PLAN_SCHEMA.names if name != "part"])

    def _equals(self, other: Plan, names: Iterable[str]) -> bool:
        kinds = {name: PLAN_SCHEMA.field(name).type for name in names}
        # a column at a time, as both are large
        return all(self._table[name].cast(kind).equals(other._table[name].cast(kind)) for name, kind in kinds.items())

    def __repr__(self) -> str:
        return f"Plan of {len(self)} samples"

    def table(self) -> pa.Table:
        """Return the samples as a table of `PLAN_SCHEMA`."""
        return self._table.cast(PLAN_SCHEMA)

    def column(self, name: str) -> pa.Array | pa.ChunkedArray:
        """Return a column as Arrow holds it."""
        return self._table[name]

    def rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of every sample: it takes a tenth of the time that making the samples does."""
        for first in range(0, len(self), _ROWS):
            piece = self._table.slice(first, _ROWS)
            yield from zip(*(_values(piece[name], name) for name in names), strict=True)

    def take(self, positions: np.ndarray) -> Plan:
        """Return the samples at some positions, in the order of these."""
        return self._hold(_compact([self._table.take(pa.array(positions, pa.int64()))]))

    def shifted(self, parts: int) -> Plan:
        """Return the same samples in parts of numbers that are so many higher."""
        at = self._table.schema.get_field_index("part")
        numbers = pc.add(self._table["part"], pa.scalar(parts, pa.int32()))
        return self._hold(self._table.set_column(at, self._table.schema.field("part"), numbers))

    def find(self, identifier: str) -> Sample:
        """Return the sample of an id.

        Raises
        ------
        KeyError
            There is none.
        """
        order, ids = self._sorted
        at = bisect_right(ids, identifier, key=lambda cell: cell.as_py()) - 1  # the last of an id that stands twice
        if at < 0 or ids[at].as_py() != identifier:
            raise KeyError(identifier)
        return self[int(order[at])]

    @cached_property
    def _sorted(self) -> tuple[np.ndarray, Any]:
        """Positions by id, and the ids in that order."""
        ids = self._table["id"].combine_chunks()
        order = pc.sort_indices(ids)
        return order.to_numpy(), ids.take(order)

    def parts_of(self, ids: Collection[str]) -> list[int]:
        """Return the part of each id.

        Raises
        ------
        KeyError
            An id is not planned.
        """
        identifiers = pa.array(list(ids), pa.string())
        positions = pc.index_in(identifiers, self._table["id"])
        if positions.null_count:
            raise KeyError(identifiers.filter(positions.is_null())[0].as_py())
        numbers: list[int] = self._table["part"].take(positions).to_pylist()
        return numbers


class Parts(Mapping[int, Plan]):
    """The samples of each part, in plan order."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        numbers = plan.column("part").to_numpy()
        starts = np.flatnonzero(np.diff(numbers, prepend=numbers[:1] - 1))
        self._spans: dict[int, list[tuple[int, int]]] = {}
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(numbers)], strict=False):
            self._spans.setdefault(int(numbers[start]), []).append((start, stop))

    def __getitem__(self, part: int) -> Plan:
        pieces = [self._plan[start:stop] for start, stop in self._spans[part]]
        return pieces[0] if len(pieces) == 1 else Plan.joined(pieces)

    def __iter__(self) -> Iterator[int]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


def _compact(tables: Iterable[pa.Table]) -> pa.Table:
    """Join tables, each column in one chunk."""
    return gathered(tables, PLAN_SCHEMA, _SHARED).combine_chunks()


def _values(column: pa.ChunkedArray, name: str) -> Iterable[Any]:
    values: list[Any] = []
    for chunk in column.chunks:
        plain = chunk.dictionary_decode() if name in _SHARED else chunk
        values += plain.to_numpy(zero_copy_only=False).tolist()
    return map(sys.intern, values) if name in _SHARED else values


def build_plan(
    prompt_specs: Iterable[PromptSpec],
    *,
    seed: int,
    model_fingerprint: str,
    part_size: int,
    after: Sequence[Sample] = (),
    bytes_of: Callable[[PromptSpec], int] | None = None,
) -> Plan:
    """Cut the samples of a run into parts of at most ``part_size``; or those that follow ``after``, in new parts.

    Of finished images ``bytes_of`` says what they take in memory: a part of several holds at most `PART_BYTES`.

    A prompt that two specs share (an attribute prompt may also be a target) goes on counting, so that no two
    samples of a run are the same image; where they start from other prompts' noises, each from the first of these. See
    decision 27.
    """
    before = Plan.of(after)
    counts: Counter[str] = Counter(file or prompt for file, prompt in before.rows("file", "prompt"))
    earlier, noises = Counter(counts), Counter[tuple[str, str]]()
    first_part = max((part for (part,) in before.rows("part")), default=-1) + 1

    def samples() -> Iterator[Sample]:
        part, n_images, n_bytes = first_part, 0, 0
        for spec in prompt_specs:
            size = 0 if bytes_of is None else bytes_of(spec)
            for _ in range(spec.images):
                source = spec.file or spec.prompt
                key = (source, counts[source], seed)
                noise = (spec.noise or source, earlier[source] + noises[source, spec.noise or source], seed)
                counts[source] += 1
                noises[source, spec.noise or source] += 1
                if n_images == part_size or (n_images and n_bytes + size > PART_BYTES):  # it is full
                    part, n_images, n_bytes = part + 1, 0, 0
                n_images, n_bytes = n_images + 1, n_bytes + size
                yield Sample(
                    id=sample_id("sample", *key, model_fingerprint),
                    part=part,
                    prompt=spec.prompt,
                    concept=spec.concept,
                    role=spec.role,
                    group=spec.group,
                    category=spec.category,
                    seed=noise_seed("noise", *noise),
                    file=spec.file,
                )

    return Plan.of(samples())


def sample_id(*key: str | float) -> str:
    """Return an id of 16 hexadecimal digits that follows from a key."""
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()[:16]


def noise_seed(*key: str | float) -> int:
    """Return a seed of 63 bits, what an int64 column holds, that follows from a key."""
    return int(sample_id(*key), 16) >> 1


PLAN_LOST: Final = "Restore it, or start a new run: the images depend on it"
_PART: Final = re.compile(r"samples/part-\d{5,}\.parquet")


class StoredPlan:
    """The plan of a run as it is stored: ``run.planned``."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._directory = ledger, ledger.directory

    @cached_property
    def plan(self) -> Plan:
        """Every planned sample, in order."""
        table = self._ledger.read_table("plan.parquet", PLAN_SCHEMA.names, way_out=PLAN_LOST, like=always(PLAN_SCHEMA))
        plan = Plan(table)
        # A plan that lacks images that are there would give scores of fewer, unnoticed. A seal shows it, too.
        if not plan and self._ledger.record["origin"] != COUNTED:
            raise RunCorruptError(f"{self._directory.path('plan.parquet')}: it plans no image. {PLAN_LOST}")
        if is_checked(self._ledger.record):
            return plan
        parts = set(map(samples_name, Parts(plan)))
        for name in self._directory.names("samples", ".parquet"):
            if _PART.fullmatch(name) and name not in parts:
                raise RunCorruptError(
                    f"{self._directory.path('plan.parquet')}: it does not plan the images of {name}. {PLAN_LOST}"
                )
        return plan

    def extend(self, samples: Sequence[Sample]) -> None:
        """Plan more samples, in parts of their own."""
        plan = Plan.joined([self.plan, Plan.of(samples)])
        self._ledger.write_table("plan.parquet", plan.table())
        self.plan = plan
        self.__dict__.pop("all_parts", None)

    @property
    def parts(self) -> Mapping[int, Plan]:
        """The samples of each part; in a worker's hands, of each of its own."""
        worker = self._ledger.worker
        return self.all_parts if worker is None else {part: self.all_parts[part] for part in worker.parts}

    @cached_property
    def all_parts(self) -> Mapping[int, Plan]:
        """The samples of each part."""
        return Parts(self.plan)


_AT_ONCE: Final = 256
"""Tables that are held apart at most: one of 64 rows takes more for its bookkeeping than for its cells."""


def gathered(tables: Iterable[pa.Table], schema: pa.Schema, shared: Collection[str] = ()) -> pa.Table:
    """Join tables, with the columns of a schema; each text of ``shared`` columns is held once."""
    stream, pieces = iter(tables), [_encode_dictionaries(schema.empty_table(), shared)]
    while some := list(islice(stream, _AT_ONCE)):
        pieces.append(_encode_dictionaries(pa.concat_tables(some).select(schema.names).combine_chunks(), shared))
    return pa.concat_tables(pieces).unify_dictionaries()


def _encode_dictionaries(table: pa.Table, shared: Collection[str]) -> pa.Table:
    for at, name in enumerate(table.column_names):
        if name in shared and not pa.types.is_dictionary(table.schema.field(at).type):
            table = table.set_column(at, name, table[name].dictionary_encode())
    return table.replace_schema_metadata(None)


# --- Plans of finished images: every row of a manifest belongs to one of the suite's prompt specs, or is refused -----


def manifest_prompt_specs(rows: Sequence[ManifestRow], suite: Suite, source: str) -> Iterator[PromptSpec]:
    """Yield the prompt spec of each row, with the row's file and one image.

    A row is matched by its concept and its group. The images of a group alone are nested in its prompts, and the
    intervals depend on that, so the prompt must be one of them. A concept's images may come from any prompt. A row that
    has only a prompt is matched by it, and it must be one of the suite's.

    Raises
    ------
    ImportManifestError
        A row names a concept, group or prompt that the suite does not have.
    """
    by_owner: dict[tuple[str, str], list[PromptSpec]] = {}
    for spec in suite.prompt_specs():
        by_owner.setdefault((composed(spec.concept), composed(spec.group)), []).append(spec)
    by_prompt: dict[str, list[PromptSpec]] = {}  # usually one
    if any(row.concept is None and row.group is None for row in rows):
        for spec in suite.every_prompt_spec():
            by_prompt.setdefault(composed(spec.prompt), []).append(spec)
    for row in rows:
        owner = (composed(row.concept or ""), composed(row.group or ""))
        if row.concept is None and row.group is None:
            spec = _spec_of_prompt(row, by_prompt, suite, source)
        elif owner not in by_owner:
            raise _unknown_owner(source, row, list(by_owner), suite)
        else:
            specs = by_owner[owner]
            prompts = [each.prompt for each in specs]
            if (same := composed(row.prompt or "")) in (known := list(map(composed, prompts))):
                spec = specs[known.index(same)]
            elif specs[0].concept:  # the images of a concept are one pool, whatever the words
                spec = replace(specs[0], prompt=row.prompt or specs[0].prompt)
            elif len(specs) == 1 and not row.prompt:
                spec = specs[0]
            else:
                raise _unknown(source, row, "prompt", row.prompt or "(empty)", prompts, suite)
        yield replace(spec, images=1, file=row.file)


def rows_named_by_prompts(folder: Path, suite: Suite) -> list[ManifestRow]:
    """Find the images that FAIRBench saved, which are named after their prompts: 16 digits of the MD5 of each.

    A prompt that is drawn again replaces its earlier image, so each has at most one.
    """
    by_name: dict[str, str] = {}
    for spec in suite.every_prompt_spec():
        name = hashlib.md5(spec.prompt.encode(), usedforsecurity=False).hexdigest()[:16]
        by_name.setdefault(f"{name}.png", spec.prompt)
    return [
        ManifestRow(name, None, None, "target", prompt, line)
        for line, (name, prompt) in enumerate(by_name.items(), start=1)
        if (folder / name).is_file()
    ]


def groups_by_prompt(suite: Suite) -> dict[str, str]:
    """Return the group of each prompt that draws a group's pictures by itself, such as its portraits."""
    return {spec.prompt: spec.group for spec in suite.every_prompt_spec() if spec.group and not spec.concept}


def _spec_of_prompt(row: ManifestRow, by_prompt: dict[str, list[PromptSpec]], suite: Suite, source: str) -> PromptSpec:
    """Return the only prompt spec that has a row's prompt."""
    where = f"{source}, line {row.line}, prompt: {row.prompt!r}"
    specs = by_prompt.get(composed(str(row.prompt)), [])
    if len(specs) == 1:
        return specs[0]
    if specs:
        owners = " and ".join(" with ".join(filter(None, (spec.concept, spec.group))) for spec in specs)
        raise ImportManifestError.missing(
            f"{where} is asked in suite {suite.name} for {owners}; add the column concept or group, which says which"
        )
    hint = did_you_mean(str(row.prompt), by_prompt) or "it asks others."
    raise ImportManifestError.unknown_name(
        f"{where} is no prompt of suite {suite.name}; {hint} Fix it, add the column concept or group, or give the "
        "--suite it was made for"
    )


def _unknown_owner(
    source: str, row: ManifestRow, owners: Sequence[tuple[str, str]], suite: Suite
) -> ImportManifestError:
    """Name the field that the suite does not have: the concept, the group, or the two together."""
    concepts = list(dict.fromkeys(concept for concept, _ in owners if concept))
    groups = list(dict.fromkeys(group for _, group in owners if group))
    if row.concept and composed(row.concept) not in concepts:
        return _unknown(source, row, "concept", row.concept, concepts, suite)
    if row.group and composed(row.group) not in groups:
        return _unknown(source, row, "group", row.group, groups, suite)
    owner = " with ".join(part for part in (row.concept, row.group) if part)
    terms = [" with ".join(part for part in pair if part) for pair in owners if not row.concept or row.concept in pair]
    return _unknown(source, row, "concept and group", owner, terms, suite)


def _unknown(
    source: str, row: ManifestRow, field: str, term: str | None, terms: Sequence[str], suite: Suite
) -> ImportManifestError:
    hint = did_you_mean(str(term), terms) or f"expected {first_and_more(terms, 10)}."
    return ImportManifestError.unknown_name(
        f"{source}, line {row.line}, {field}: {quoted(term)} is not in suite {suite.name}; {hint} "
        "Fix the manifest, or give the --suite it was made for"
    )
