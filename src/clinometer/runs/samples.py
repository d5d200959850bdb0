"""The samples of a run: a part of images is written whole, kept, drawn again or forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from clinometer.errors import RunCorruptError, in_hand
from clinometer.models.images import decode_stored, sha256
from clinometer.models.protocols import Status
from clinometer.runs.ledger import (
    CLASSIFICATIONS,
    LATENTS,
    STRIPS,
    UNFINISHED,
    Ledger,
    always,
    part_name,
    samples_name,
    trace_name,
    vectors_name,
)
from clinometer.runs.plan import PLAN_SCHEMA, Sample, StoredPlan, gathered
from clinometer.runs.storage import REDO

if TYPE_CHECKING:
    from PIL.Image import Image

IMAGE_TYPE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
SAMPLE_FIELDS = {
    **{field.name: field.type for field in PLAN_SCHEMA if field.name not in ("part", "file")},
    "status": pa.string(),
    "reason": pa.string(),
    "image": IMAGE_TYPE,
    "sha256": pa.string(),
    "seconds": pa.float32(),
    "flagged": pa.bool_(),
    "batch": pa.string(),
}
WITHOUT_PIXELS = [name for name in SAMPLE_FIELDS if name != "image"]
REPORTED = [name for name in WITHOUT_PIXELS if name != "sha256"]
"""What a report reads of each sample."""
SHARED = ("prompt", "concept", "role", "group", "category", "source", "status", "reason")
"""Columns of texts that many samples have in common."""
_FEATURES = {name: {"dtype": str(kind), "_type": "Value"} for name, kind in SAMPLE_FIELDS.items() if name != "image"}
_FEATURES["seconds"]["dtype"] = "float32"  # Arrow calls it float
SAMPLE_SCHEMA = pa.schema(
    SAMPLE_FIELDS,
    # `datasets` reads this and shows the column as images
    metadata={"huggingface": json.dumps({"info": {"features": _FEATURES | {"image": {"_type": "Image"}}}})},
)
SAMPLE_SHAPE = always(SAMPLE_SCHEMA, empty=("reason", "image", "sha256", "seconds", "flagged", "batch"))
ADDED = pa.schema([SAMPLE_SCHEMA.field("flagged"), SAMPLE_SCHEMA.field("batch")], metadata={})
"""Columns that earlier versions did not write: of their runs these are empty."""

_ASKED_FOR = ("id", "concept", "group", "prompt", "strength")


class Samples:
    """The samples of a run, part by part: ``run.drawn``.

    Parameters
    ----------
    encoder_names : returns the encoders that may have left vectors, which must not outlive their images.
    """

    def __init__(self, ledger: Ledger, planned: StoredPlan, encoder_names: Callable[[], Iterable[str]]) -> None:
        self._ledger, self._directory = ledger, ledger.directory
        self._planned, self._encoder_names = planned, encoder_names
        self.to_redraw: dict[int, set[str]] = {}
        """The samples that are to be drawn again, by part."""
        self.only: pa.Array | None = None
        """Ids of the samples that are looked at, where the others are left out."""

    def has(self, part: int) -> bool:
        """Return whether a part's images are there, with none that is to be drawn again."""
        return part not in self.to_redraw and self._directory.exists(samples_name(part))

    def missing(self, part: int) -> Sequence[Sample]:
        """Return the samples of a part that are still to be drawn."""
        if self.has(part):
            return []
        if part in self.to_redraw:
            return [sample for sample in self._planned.parts[part] if sample.id in self.to_redraw[part]]
        ids = {row["id"] for row in self._partial_rows(part, ["id"])}
        planned = self._planned.parts[part]
        return [sample for sample in planned if sample.id not in ids] if ids else planned

    def write(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of a part's undrawn samples, in plan order, beside those that it keeps."""
        redrawn, worker = part in self.to_redraw, self._ledger.worker
        if redrawn and worker is not None:
            worker.replaced.add(samples_name(part))
        earlier_rows = self.rows(part) if redrawn else self._partial_rows(part, list(SAMPLE_FIELDS))
        by_id = {row["id"]: row for row in (*earlier_rows, *rows)}
        self.forget_made_of(part)
        ordered = [by_id[sample.id] for sample in self._planned.parts[part]]
        self._ledger.write_table(samples_name(part), pa.Table.from_pylist(ordered, schema=SAMPLE_SCHEMA))
        self.to_redraw.pop(part, None)
        if earlier_rows:
            self._ledger.remove(part_name(UNFINISHED, part))
        if worker is not None and samples_name(part) in worker.created and len(rows) == len(ordered):
            worker.drawn[part] = [(row["id"], row["status"], row["reason"]) for row in rows]

    def keep(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Store rows of a part's undrawn samples until the others are drawn too; a part that exists stays whole."""
        if not rows:
            return
        if part in self.to_redraw or len(rows) == len(self.missing(part)):
            self.write(part, rows)
        else:
            kept = [*self._partial_rows(part, list(SAMPLE_FIELDS)), *rows]
            self._ledger.write_table(part_name(UNFINISHED, part), pa.Table.from_pylist(kept, schema=SAMPLE_SCHEMA))

    def part(self, part: int, columns: list[str]) -> pa.Table:
        """Read some columns, ``id`` among them, of a part that is there."""
        name = samples_name(part)
        table = self._ledger.read_table(name, columns, like=SAMPLE_SHAPE, added=ADDED)
        if not table["id"].equals(self._planned.all_parts[part].column("id")):
            raise RunCorruptError(
                f"{self._directory.path(name)}: its images are not those of the plan's part {part}. {REDO}"
            )
        return table if self.only is None else table.filter(pc.is_in(table["id"], self.only))

    def _partial_rows(self, part: int, columns: list[str]) -> list[dict[str, Any]]:
        """Return the rows of a part that was stopped halfway."""
        name, worker = part_name(UNFINISHED, part), self._ledger.worker
        if worker is not None and worker.unfinished is None:
            worker.unfinished = frozenset(self._directory.names(UNFINISHED, ".parquet"))
        if (worker is not None and name not in (worker.unfinished or ())) or not self._directory.exists(name):
            return []
        table = self._ledger.read_table(name, columns, like=SAMPLE_SHAPE, added=ADDED)
        rows: list[dict[str, Any]] = self._with_images(name, table) if "image" in columns else table.to_pylist()
        return rows

    def _with_images(self, name: str, table: pa.Table) -> list[dict[str, Any]]:
        """Return rows whose images are those that were written, by their hashes.

        Raises
        ------
        RunCorruptError
            An image is not: the message names it, its file and the way out.
        """
        path, rows = self._directory.path(name), list[dict[str, Any]](table.to_pylist())
        for row in rows:
            if row.get("status") == "ok" and not (row["image"] or {}).get("bytes"):
                raise RunCorruptError(f"{path}: image {row['id']} is missing from it. {REDO}")
            checked_image(row, path)
        return rows

    def forget_made_of(self, part: int) -> None:
        """Remove what was made of a part's images, before it is written: an embedding must not outlive its image.

        A worker does so for a part that is drawn again; of a part that was missing, the driver has.
        """
        if self._ledger.worker is not None and part not in self.to_redraw:
            return
        files = [vectors_name(encoder, part) for encoder in self._encoder_names()]
        files += [trace_name(encoder, part) for encoder in self._encoder_names()]
        files += [part_name(folder, part) for folder in (CLASSIFICATIONS, STRIPS, LATENTS)]
        self._ledger.unlist(files)  # once, as each time writes run.json
        for name in files:
            self._ledger.remove(name)

    def has_image(self, *, edited: bool) -> bool:
        """Return whether any image was drawn or edited; one of a part that was stopped counts, too."""
        names = (*self._directory.names("samples", ".parquet"), *self._directory.names(UNFINISHED, ".parquet"))
        tables = (self._ledger.read_table(name, ["status", "source"]).to_pylist() for name in names)
        return any(row["status"] == "ok" and bool(row["source"]) == edited for rows in tables for row in rows)

    def read(self, part: int) -> list[dict[str, Any]]:
        """Return a part's images as they are stored: ``id``, ``status``, and ``image`` with its bytes, or None."""
        return self._with_images(samples_name(part), self.part(part, ["id", "status", "image", "sha256"]))

    def rows(self, part: int) -> list[dict[str, Any]]:
        """Return the rows of a part that is there, with their images."""
        return self._with_images(samples_name(part), self.part(part, list(SAMPLE_FIELDS)))

    def redraw(self, ids_by_part: Mapping[int, Collection[str]]) -> None:
        """Mark samples to be drawn again, beside the others of their part."""
        for part, ids in ids_by_part.items():
            self.to_redraw.setdefault(part, set()).update(ids)

    def redraw_failures(self) -> int:
        """Mark failed images to be drawn again, beside the others of their part. Returns their number.

        All others stay: a refusal is the model's answer, and an image that is there may be paid for, or edited.
        """
        failed = [identifier for identifier, status in self.each(["id", "status"]) if status == "failed"]
        for identifier, part in zip(failed, self._planned.plan.parts_of(failed), strict=True):
            self.to_redraw.setdefault(part, set()).add(identifier)
        return len(failed)

    def forget_failed_parts(self, parts: Iterable[int]) -> None:
        """Remove those of some parts in which every image failed."""
        for part in parts:
            if self._directory.exists(samples_name(part)):
                statuses = self.part(part, ["id", "status"])["status"].to_pylist()
                if set(statuses) == {"failed"}:
                    self.forget_made_of(part)
                    self._ledger.remove(samples_name(part))

    @property
    def table(self) -> pd.DataFrame:
        """Every finished sample without its pixels, in plan order."""
        return _frame(self._all_parts(WITHOUT_PIXELS), WITHOUT_PIXELS)

    @property
    def lost(self) -> pd.DataFrame:
        """Those of them that have no image; the others are never held together."""
        parts = self._all_parts(WITHOUT_PIXELS)
        return _frame((part.filter(pc.not_equal(part["status"], "ok")) for part in parts), WITHOUT_PIXELS)

    def each(self, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of every finished sample, in plan order; only one part is held at a time."""
        for table in self._all_parts(list(dict.fromkeys(["id", *columns]))):
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)

    def _all_parts(self, columns: list[str]) -> Iterator[pa.Table]:
        with self._directory.listed_once():
            self._ledger.require_there(samples_name(part) for part in self._planned.parts)
            yield from (self.part(part, columns) for part in self._drawn_parts())

    def repeats(self) -> dict[str, str]:
        """Find images that are, byte for byte, an earlier one of the same question: each id, and the earlier one's.

        A fixed seed gives them, or a cache. What they were asked for is a concept and a group, of a group alone its
        prompt, and of edits the strength. Of all other images eight bytes are held.
        """

        def parts() -> Iterator[tuple[int, pa.Table]]:
            with self._directory.listed_once():
                for part in self._drawn_parts():
                    table = self.part(part, ["id", "sha256", "status"])
                    yield part, table.filter(pc.equal(table["status"], "ok"))

        heads = [np.array([int(s[:16], 16) for s in t["sha256"].to_pylist()], np.uint64) for _, t in parts()]
        different, counts = np.unique(np.concatenate([*heads, np.zeros(0, np.uint64)]), return_counts=True)
        again = set(different[counts > 1].tolist())
        firsts, repeats = dict[tuple[Any, ...], str](), dict[str, str]()
        for part, table in parts() if again else ():
            shas = dict(zip(table["id"].to_pylist(), table["sha256"].to_pylist(), strict=True))
            for identifier, concept, group, prompt, strength in self._planned.all_parts[part].rows(*_ASKED_FOR):
                sha = shas.get(identifier)
                if sha is not None and int(sha[:16], 16) in again:
                    first = firsts.setdefault((sha, concept, group, "" if concept else prompt, strength), identifier)
                    if first != identifier:
                        repeats[identifier] = first
        return repeats

    def whole(self, damage: list[str]) -> pd.DataFrame:
        """Return every finished sample but those of damaged parts, each of which is added to ``damage``.

        In little memory: without hashes, and with categories in place of the texts that samples share.
        """

        def whole() -> Iterator[pa.Table]:
            for part in self._drawn_parts():
                try:
                    yield self.part(part, REPORTED)
                except RunCorruptError as error:
                    damage.append(self._directory.without_place(error))

        return _frame(whole(), REPORTED, SHARED)

    def statuses(self) -> Iterator[tuple[str, Status, str | None]]:
        """Yield id, status and reason of each drawn sample; what this worker wrote is not read back."""
        written = self._ledger.worker.drawn if self._ledger.worker is not None else {}
        for part in self._planned.parts:
            if part in written:
                yield from written[part]
            elif self._directory.exists(samples_name(part)):
                table = self.part(part, ["id", "status", "reason"])
                yield from zip(*(table[name].to_pylist() for name in ("id", "status", "reason")), strict=True)

    def _drawn_parts(self) -> list[int]:
        if self._ledger.worker is not None:  # of few parts: each is asked for, and not the folder of all
            return [part for part in self._planned.parts if self._directory.exists(samples_name(part))]
        there = set(self._directory.names("samples", ".parquet"))
        return [part for part in self._planned.parts if samples_name(part) in there]

    def images(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Yield the image files of samples, part by part; None where there is no image."""
        all_ids, ids_by_part = list(ids), dict[int, set[str]]()
        for identifier, part in zip(all_ids, self._planned.plan.parts_of(all_ids), strict=True):
            ids_by_part.setdefault(part, set()).add(identifier)
        for part, chosen in sorted(ids_by_part.items()):
            for row in self.read(part):
                if row["id"] in chosen:
                    yield row["id"], (row["image"] or {}).get("bytes")

    def decode(self, identifier: str, content: bytes) -> Image:
        """Decode what is stored of a sample.

        Raises
        ------
        RunCorruptError
            It is damaged: the message names the part's file and the way out.
        """
        try:
            with in_hand(f"image {identifier}"):
                return decode_stored(content)
        except Exception as error:  # decoders raise many unrelated kinds; none is the encoder's fault
            name = samples_name(self._planned.plan.find(identifier).part)
            raise RunCorruptError(
                f"{self._directory.path(name)}: image {identifier} is damaged ({error}). "
                "Delete the file and give the same command again: only this part is done again"
            ) from error


def checked_image(row: Mapping[str, Any], path: str) -> bytes | None:
    """Return the image file of a stored row, with its ``id`` and ``sha256``; None where there is no image.

    Raises
    ------
    RunCorruptError
        It is not the one that was written: the message names it, its file ``path`` and the way out.
    """
    content: bytes | None = (row["image"] or {}).get("bytes")
    if (content and sha256(content)) != row["sha256"]:
        raise RunCorruptError(
            f"{path}: image {row['id']} is not the one that was written (its sha256 does not fit). {REDO}"
        )
    return content


def _frame(tables: Iterable[pa.Table], columns: Sequence[str], shared: Collection[str] = ()) -> pd.DataFrame:
    """Join tables of samples into one frame; the texts of ``shared`` columns become categories."""
    schema = pa.schema({name: SAMPLE_FIELDS[name] for name in columns})
    frame: pd.DataFrame = gathered(tables, schema, shared).to_pandas()
    return frame
