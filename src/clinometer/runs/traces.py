"""Stored traces: vectors and pictures of what a run's images were taken for on the way.

::

    RUN/trace/<encoder>/part-00000.parquet   id, step, vector: of every image that is there and every step looked at
    RUN/strips/part-00000.parquet            id, step, image: of a few images of each concept, small
    RUN/latents/part-00000.parquet           id, step, latents, shape: of every image, where they were asked for

run.json says under ``trace`` which steps were looked at, of how many.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from clinometer.errors import RunCorruptError, RunMismatchError
from clinometer.runs.ledger import LATENTS, STRIPS, Ledger, always, part_name, require_shape, trace_name
from clinometer.runs.plan import StoredPlan
from clinometer.runs.storage import REDO

STRIP_IMAGES: Final = 2
"""Images of each concept whose way is kept as pictures."""


TRACE_SCHEMA: Final = pa.schema({"id": pa.string(), "step": pa.int32()})
"""What a row of a trace is of; its vector follows, of as many numbers as its encoder has."""

STRIP_SHAPE: Final = always(
    TRACE_SCHEMA.append(pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()})))
)


class StoredTraces:
    """What was seen on the way to a run's images: ``run.traces``."""

    def __init__(self, ledger: Ledger, planned: StoredPlan) -> None:
        self._ledger, self._planned = ledger, planned

    @property
    def record(self) -> Mapping[str, Any]:
        """Which ``steps`` were looked at, of how many in ``total``, and by which ``decoder``; empty where none were."""
        record: Mapping[str, Any] = self._ledger.record.get("trace") or {}
        return record

    def begin(self, asked: Mapping[str, Any]) -> None:
        """Record what is looked at.

        Raises
        ------
        RunMismatchError
            Other steps were looked at before, or by another decoder.
        """
        before = self.record
        for name in ("steps", "total", "decoder"):
            if before and before[name] != asked[name]:
                raise RunMismatchError(
                    f"{self._ledger.directory.url}: it was traced with {name} {before[name]}, not {asked[name]}; give "
                    "that, or delete its folders trace and strips and the key trace of run.json",
                    field="trace_steps" if name != "decoder" else "trace_decoder",
                )
        if before != asked:
            self._ledger.update(lambda record: {"trace": dict(asked)})

    def missing(self, encoders: Collection[str]) -> list[int]:
        """List the parts that lack the trace of one of these encoders, or the latents where they were asked for."""
        directory = self._ledger.directory
        with directory.listed_once():
            return [
                part
                for part in self._planned.parts
                if not all(directory.exists(trace_name(name, part)) for name in encoders)
                or (self.record.get("latents") and not directory.exists(part_name(LATENTS, part)))
            ]

    def at(self, encoder: str, step: int) -> dict[str, np.ndarray]:
        """Read the vectors of one step by sample id, of all parts.

        Raises
        ------
        RunCorruptError
            A file is damaged, or its rows are not each of its images at each of the steps of run.json, once.
        """
        vectors: dict[str, np.ndarray] = {}
        for part in self._planned.parts:
            name, planned = trace_name(encoder, part), self._planned.parts[part].column("id").to_pylist()
            table = self._ledger.read_table(name, ["id", "step", "vector"], shape=partial(self._require_rows, planned))
            column, rows = table["vector"].combine_chunks(), np.flatnonzero(table["step"].to_numpy() == step)
            values = np.asarray(column.flatten(), np.float32).reshape(len(table), column.type.list_size)[rows]
            if not np.isfinite(values).all():
                place = self._ledger.directory.path(name)
                raise RunCorruptError(f"{place}: its vectors hold NaN or infinity, expected finite numbers. {REDO}")
            vectors |= zip(table["id"].take(rows).to_pylist(), values, strict=True)
        return vectors

    def _require_rows(self, planned: Collection[str], table: pa.Table) -> None:
        """Refuse a trace that is not one vector of each image at each step, of images of its part."""
        kind = table.schema.field("vector").type
        floats = pa.types.is_fixed_size_list(kind) and pa.types.is_floating(kind.value_type) and kind.list_size > 0
        vector = pa.field("vector", kind if floats else pa.list_(pa.float32(), 1), nullable=False)
        require_shape(table, always(TRACE_SCHEMA).append(vector))
        ids, steps = table["id"].to_pylist(), sorted(self.record["steps"])
        strangers = set(ids) - set(planned)
        if strangers:
            raise pa.ArrowInvalid(f"it has vectors of {min(strangers)!r}, which is no image of this part")
        at_steps = zip(ids, table["step"].to_pylist(), strict=True)
        keys = sorted(key for key in at_steps if key[1] in steps)  # runs put together share some steps
        if keys != [(key, step) for key in sorted(set(ids)) for step in steps]:
            raise pa.ArrowInvalid(f"its rows are not each of its images at each of the steps {steps}, once")

    def strips(self) -> dict[str, dict[int, bytes]]:
        """Read the pictures of the way, by sample id and step; of a run without any, none."""
        strips: dict[str, dict[int, bytes]] = {}
        for part in self._planned.parts if self.record else ():
            name = part_name(STRIPS, part)
            if self._ledger.directory.exists(name):
                for row in self._ledger.read_table(name, STRIP_SHAPE.names, like=STRIP_SHAPE).to_pylist():
                    strips.setdefault(row["id"], {})[row["step"]] = row["image"]["bytes"]
        return strips

    def write(
        self,
        part: int,
        keys: Sequence[tuple[str, int]],
        vectors: Mapping[str, np.ndarray],
        pictures: Sequence[bytes | None],
        latents: Sequence[np.ndarray] | None,
    ) -> None:
        """Write what was seen of a part, a row an id and step: vectors by encoder, some pictures, and latents."""
        about = {
            "id": pa.array([key for key, _ in keys], pa.string()),
            "step": pa.array([step for _, step in keys], pa.int32()),
        }
        if latents is not None:
            values = pa.array([array.ravel() for array in latents], pa.list_(pa.float32()))
            shapes = pa.array([list(array.shape) for array in latents], pa.list_(pa.int32()))
            table = pa.table(about | {"latents": values, "shape": shapes})
            self._ledger.write_table(part_name(LATENTS, part), table)
        shown = [(*key, content) for key, content in zip(keys, pictures, strict=True) if content is not None]
        if shown:
            images = [{"bytes": content, "path": f"{key}-{step}.png"} for key, step, content in shown]
            steps = pa.array([step for _, step, _ in shown], pa.int32())
            table = pa.table({"id": [key for key, *_ in shown], "step": steps, "image": images})
            self._ledger.write_table(part_name(STRIPS, part), table)
        for name, rows in vectors.items():  # last: a part whose vectors are there is done
            flat = pa.array(np.ascontiguousarray(rows, np.float32).ravel())
            column = pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])
            self._ledger.write_table(trace_name(name, part), pa.table(about | {"vector": column}))

    def shown(self, part: int) -> set[str]:
        """Find the images of a part whose way is kept as pictures: the first of each concept."""
        first: dict[str, list[str]] = {}
        for key, concept, role in self._planned.plan.rows("id", "concept", "role"):
            if role == "target" and len(shown_of_concept := first.setdefault(concept, [])) < STRIP_IMAGES:
                shown_of_concept.append(key)
        here = {sample.id for sample in self._planned.parts[part]}
        return here & {key for shown_of_concept in first.values() for key in shown_of_concept}
