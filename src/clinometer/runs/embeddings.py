"""The embeddings of a run: which encoders embedded it, and their vectors part by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.models.protocols import Card
from clinometer.runs.ledger import (
    LATENTS,
    STRIPS,
    Ledger,
    always,
    embeddings_name,
    folder_name,
    part_name,
    require_shape,
    saved_again_name,
    trace_name,
    vectors_name,
)
from clinometer.runs.plan import StoredPlan
from clinometer.runs.record import card_record, difference_between
from clinometer.runs.samples import Samples
from clinometer.runs.scratch import VectorFile
from clinometer.runs.storage import REDO
from clinometer.stats.repeats import SAVED_AGAIN, TOLERANCE

STRIP_IMAGES: Final = 2
"""Images of each concept whose way is kept as pictures."""


TRACE_SCHEMA: Final = pa.schema({"id": pa.string(), "step": pa.int32()})
"""What a row of a trace is of; its vector follows, of as many numbers as its encoder has."""

STRIP_SHAPE: Final = always(
    TRACE_SCHEMA.append(pa.field("image", pa.struct({"bytes": pa.binary(), "path": pa.string()})))
)

LEAVES_OUT: Final = "leaves_out"
"""The setting in an encoder's card that says which images it has no vector of, such as those without a face."""


class ModelCards:
    """The cards of a run's encoders, or of its readers, as run.json holds them, each by its name."""

    kind: ClassVar = "encoder"
    leaves: ClassVar = "embeddings"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._directory, self._url = ledger, ledger.directory, ledger.directory.url

    @staticmethod
    def place(name: str) -> str:
        """Say where what a model leaves lies."""
        return embeddings_name(name)

    def _read_cards(self, which: str = "") -> dict[str, dict[str, Any]]:
        return dict(self._ledger.record.get(f"{which}{self.kind}s", {}))

    @property
    def cards(self) -> dict[str, dict[str, Any]]:
        """The cards of those that have finished once, by name: those that scores are made of."""
        return self._read_cards()

    @property
    def begun(self) -> dict[str, dict[str, Any]]:
        """The cards of those that may have left something and have never finished, by name."""
        return self._read_cards("begun_")

    @property
    def dropped(self) -> dict[str, dict[str, Any]]:
        """The cards of those that were taken out of the scores and whose files are kept, by name."""
        return self._read_cards("dropped_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left something."""
        return self.cards | self.begun | self.dropped

    def begin_anew(self) -> None:
        """Record that none has seen the whole run: more is about to be drawn."""
        self._update("", {}, begun=self.begun | self.cards)

    def _update(self, which: str, records: Mapping[str, Any], **others: Mapping[str, Any]) -> None:
        keys = {f"{which}{self.kind}s": records} | {f"{name}_{self.kind}s": other for name, other in others.items()}
        self._ledger.update(lambda record: keys)

    def begin(self, card: Card, **asked: Any) -> None:
        """Record who is about to leave something, or check that it is the one recorded under that name.

        It counts as one of the run once it has finished: one that fails, or that nobody waits for, must not keep the
        others from being scored. ``asked`` : what else its record says; where that changes, it has to finish anew.
        """
        if self._ledger.worker is not None:  # the driver has recorded it
            return
        self.require(card)
        record = card_record(card) | asked
        known = self.cards.get(card.name, {})
        if known.get("fingerprint") != card.fingerprint or any(known.get(key) != value for key, value in asked.items()):
            finished = {name: other for name, other in self.cards.items() if name != card.name}
            dropped = {name: other for name, other in self.dropped.items() if name != card.name}
            self._update("", finished, begun=self.begun | {card.name: record}, dropped=dropped)

    def finish(self, card: Card) -> None:
        """Record that one has seen the whole run, and list what it wrote; a worker leaves that to the driver."""
        if self._ledger.worker is not None:
            return
        begun = self.begun
        record = begun.pop(card.name, None)
        with self._ledger.together():
            if record is not None:
                self._update("", self.cards | {card.name: record | {"notes": card.notes}}, begun=begun)
            self._ledger.list_files()

    def forget(self, name: str) -> None:
        """Remove one and what it left."""
        # Files first: without its card they would be taken for those of the next one of that name.
        files = self._directory.names(self.place(name), ".parquet")
        self._ledger.unlist(files)
        for file in files:
            self._ledger.remove(file)
        finished, begun = self.cards, self.begun
        finished.pop(name, None)
        begun.pop(name, None)
        self._update("", finished, begun=begun)

    def require(self, card: Card) -> None:
        """Refuse one whose files would mix with those of another: of its name, or in its folder.

        Raises
        ------
        RunMismatchError
            The message says what differs.
        """
        record = (self.cards | self.begun | self.dropped).get(card.name)
        is_used = bool(self._directory.names(self.place(card.name), ".parquet"))
        if record is not None and record["fingerprint"] != card.fingerprint and is_used:
            own = card_record(card)
            difference = difference_between({key: record.get(key) for key in own}, own)
            raise RunMismatchError(
                f"{self._url}: holds {self.leaves} of another {self.kind} named {card.name!r} ({difference}); give "
                f"another --out, or delete {self.place(card.name)}"
            )
        cards = self.all_cards()
        for name in cards if card.name not in cards else ():
            if folder_name(name).lower() == folder_name(card.name).lower():  # one folder on many systems
                raise RunMismatchError(
                    f"{self._url}: {self.kind} {card.name!r} would share {self.place(name)} with {self.kind} {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )


class EncoderCards(ModelCards):
    """The cards of a run's encoders: ``run.encoders``."""

    @property
    def own(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return self._read_cards("own_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left embeddings."""
        return super().all_cards() | self.own

    def drop(self, names: Sequence[str]) -> None:
        """Drop encoders from the scores; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        cards = self.cards
        for name in names:
            if name not in cards:
                raise RunNotFoundError(
                    f"{self._url} has no scores of {name!r}; it has those of {', '.join(cards) or 'none'}",
                    field="drop_encoder",
                )
        if not names:
            return
        rest = {name: card for name, card in cards.items() if name not in names}
        if not rest:
            raise RunNotFoundError(
                f"{', '.join(cards)} is all that {self._url} is scored with; add another first: "
                f"clinometer score {self._url} --encoder NAME",
                field="drop_encoder",
            )
        self._update("", rest, dropped=self.dropped | {name: cards[name] for name in names})

    def add_own(self, card: Card) -> None:
        """Record a text encoder or the prior of the model itself; the model's card already tells two of them apart.

        A worker reports it to the driver.
        """
        if self._ledger.worker is not None:
            self._ledger.worker.own_encoders.append(card)
        elif card.name not in self.own:
            self._update("own_", {**self.own, card.name: card_record(card)})


class Vectors:
    """The vectors of a run, of its images part by part and of its texts: ``run.vectors``."""

    def __init__(self, ledger: Ledger, planned: StoredPlan, drawn: Samples) -> None:
        self._ledger, self.directory, self.planned, self.drawn = ledger, ledger.directory, planned, drawn

    def has(self, encoder: str, part: int) -> bool:
        """Return whether a part's images are embedded."""
        return self.directory.exists(vectors_name(encoder, part))

    def write(self, encoder: str, part: int, ids: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of a part's images; one that is NaN throughout, of an image without one, is empty."""
        self._ledger.write_table(vectors_name(encoder, part), _vector_table("id", ids, vectors))

    def each_part(
        self, encoder: str, parts: Collection[int] | None = None, width: int = 0
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the image vectors of an encoder by sample id, part by part, of those that are embedded.

        ``parts`` : those that are looked at, all by default; ``width`` : of vectors that were read before, if any.
        """
        part_numbers = self.planned.parts if parts is None else parts
        self._ledger.require_there(vectors_name(encoder, part) for part in part_numbers)
        for part in self.parts_there(encoder, part_numbers):
            vectors = self.of_part(encoder, part)
            part_width = next(map(len, vectors.values()), width)
            width = width or part_width
            if part_width != width:
                name = self.directory.path(vectors_name(encoder, part))
                raise RunCorruptError(
                    f"{name}: its vectors have {part_width} numbers, those of other parts {width}. {REDO}"
                )
            yield part, vectors

    def parts_there(self, encoder: str, parts: Collection[int] | None = None) -> list[int]:
        """Return the parts whose images are embedded; of ``parts``, where those are given."""
        with self.directory.listed_once():
            return [part for part in (self.planned.parts if parts is None else parts) if self.has(encoder, part)]

    def of_part(self, encoder: str, part: int) -> dict[str, np.ndarray]:
        """Return the image vectors of one part, by sample id."""
        return self._read(vectors_name(encoder, part), "id")

    def require(self, encoder: str, vectors: Collection[str], parts: Iterable[int] | None = None) -> None:
        """Refuse embeddings of an encoder that lack an image: without it a score would be one of fewer, unseen.

        ``parts`` : those that are looked at; all by default. Those that the encoder left out are not lacking.

        Raises
        ------
        RunCorruptError
            The message names the file.
        """
        for part in self.planned.parts if parts is None else parts:
            rows = self.drawn.part(part, ["id", "status"]).to_pylist()
            lacking = [row for row in rows if row["status"] == "ok" and row["id"] not in vectors]
            left_out = self.left_out(encoder, [part]) if lacking else ()
            for row in lacking:
                if row["id"] not in left_out:
                    name = self.directory.path(vectors_name(encoder, part))
                    raise RunCorruptError(f"{name}: it has no vector of image {row['id']}. {REDO}")

    def left_out(self, encoder: str, parts: Iterable[int]) -> frozenset[str]:
        """Return the images of some parts that an encoder saw and has no vector of."""
        tables = (self._ledger.read_table(vectors_name(encoder, part), ["id", "vector"]) for part in parts)
        return frozenset(key for t in tables for key in t.filter(pc.is_null(t["vector"]))["id"].to_pylist())

    def require_finished(self, encoder: str) -> None:
        """Refuse an encoder that has not embedded every part and the texts.

        Raises
        ------
        RunNotFoundError
            The message names the way out.
        """
        unfinished = len(self.planned.parts) - len(self.parts_there(encoder))
        if unfinished or not self.has_texts(encoder):
            url = self.directory.url
            raise RunNotFoundError(
                f"{url}: encoder {encoder} has not finished (parts to go: {unfinished}); give: clinometer score {url} "
                f"--encoder {encoder}"
            )

    def rows(self, encoder: str, ids: Sequence[str], width: int) -> np.ndarray:
        """Return vectors of some images as rows; NaN for an image without one, or an empty id.

        ``width`` : of the array where there is no image at all.

        Raises
        ------
        RunCorruptError
            A file is damaged, or lacks an image.
        """
        rows = {key: row for row, key in enumerate(ids) if key}
        vectors = np.full((len(ids), width), np.nan, np.float32)
        for part, by_id in self.each_part(encoder):
            self.require(encoder, by_id, [part])
            for key in by_id.keys() & rows.keys():
                if vectors.shape[1] != len(by_id[key]):  # the first of all
                    vectors = np.full((len(ids), len(by_id[key])), np.nan, np.float32)
                vectors[rows[key]] = by_id[key]
        return vectors

    def has_texts(self, encoder: str) -> bool:
        """Return whether the suite's texts are embedded (or known to have no embedding)."""
        return self.directory.exists(f"{embeddings_name(encoder)}/texts.parquet")

    def write_texts(self, encoder: str, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of texts."""
        self._ledger.write_table(f"{embeddings_name(encoder)}/texts.parquet", _vector_table("text", texts, vectors))

    def texts(self, encoder: str, asked: Iterable[str] = ()) -> dict[str, np.ndarray]:
        """Return every text vector of an encoder, by text; none of one that reads no text.

        Each that was ``asked`` must be there.
        """
        name = f"{embeddings_name(encoder)}/texts.parquet"
        vectors = self._read(name, "text")
        lost = [text for text in asked if text.strip() and text not in vectors]
        if vectors and lost:
            raise RunCorruptError(f"{self.directory.path(name)}: it has no vector of {lost[0]!r}. {REDO}")
        return vectors

    def has_saved_again(self, encoder: str) -> bool:
        """Return whether somebody has measured how far saving a picture again moves its vector."""
        return self.directory.exists(saved_again_name(encoder))

    def write_saved_again(self, encoder: str, rows: Sequence[tuple[str, str, float]]) -> None:
        """Write the distances: image, what was done to it, and how far its unit vector moved."""
        ids, changes, distances = zip(*rows, strict=True) if rows else ((), (), ())
        columns = {"id": pa.array(ids, pa.string()), "change": pa.array(changes, pa.string())}
        self._ledger.write_table(
            saved_again_name(encoder), pa.table(columns | {"distance": pa.array(distances, pa.float64())})
        )

    def saved_again(self, encoder: str) -> float:
        """Return the 95 % quantile of these distances; ``SAVED_AGAIN`` where no picture had any.

        In a run of an earlier version nobody measured them. There only identical pictures are one, as they were then,
        so that numbers which may be published stay what they are.
        """
        if not self.has_saved_again(encoder):
            return TOLERANCE
        distances = self._ledger.read_table(saved_again_name(encoder), ["distance"])["distance"].to_numpy()
        if not len(distances) or not np.isfinite(distances).all():
            return SAVED_AGAIN
        return max(float(np.quantile(distances, 0.95)), TOLERANCE)

    def _read(self, name: str, key: str) -> dict[str, np.ndarray]:
        table = self._ledger.read_table(name, [key, "vector"])
        column = table["vector"].combine_chunks()
        fault = "no lists of one length"
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_floating(column.type.value_type):
            vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(-1, column.type.list_size)
            keys = table.filter(column.is_valid())[key].to_pylist() if column.null_count else table[key].to_pylist()
            if len(vectors) == len(keys) and np.isfinite(vectors).all():
                return dict(zip(keys, vectors, strict=True))
            fault = "NaN or infinity"
        raise RunCorruptError(f"{self.directory.path(name)}: its vectors hold {fault}, expected finite numbers. {REDO}")


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
        own, steps = table["id"].to_pylist(), sorted(self.record["steps"])
        strangers = set(own) - set(planned)
        if strangers:
            raise pa.ArrowInvalid(f"it has vectors of {min(strangers)!r}, which is no image of this part")
        at_steps = zip(own, table["step"].to_pylist(), strict=True)
        keys = sorted(key for key in at_steps if key[1] in steps)  # runs put together share some steps
        if keys != [(key, step) for key in sorted(set(own)) for step in steps]:
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
            values = pa.array([own.ravel() for own in latents], pa.list_(pa.float32()))
            shapes = pa.array([list(own.shape) for own in latents], pa.list_(pa.int32()))
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
            if role == "target" and len(own := first.setdefault(concept, [])) < STRIP_IMAGES:
                own.append(key)
        here = {sample.id for sample in self._planned.parts[part]}
        return here & {key for own in first.values() for key in own}


def _vector_table(key: str, keys: Sequence[str], vectors: np.ndarray) -> pa.Table:
    width = vectors.shape[1]
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    empty = np.isnan(vectors).all(axis=1)
    mask = pa.array(empty) if empty.any() else None
    lists = pa.FixedSizeListArray.from_arrays(values, width, mask=mask)
    return pa.table({key: pa.array(keys, pa.string()), "vector": lists})


# --- The vectors of a run's images by what these were drawn for, outside memory --------------------------------------


Owner = tuple[str, str]
"""The concept and the group of an image, as the plan has them."""

Name = TypeVar("Name", bound=Hashable)


class ImageVectors:
    """The vectors of one encoder, of images by concept and group. Those that were read wait in a temporary file.

    Parameters
    ----------
    keep : seeds of the images that are looked at; all by default. Then an image that is, byte for byte, another one of
        its owner again is left out, and counted in ``repeats``.
    left_out : images of which another encoder has no vector.
    """

    def __init__(
        self, vectors: Vectors, encoder: str, keep: Collection[int] | None = None, left_out: Collection[str] = ()
    ) -> None:
        vectors.require_finished(encoder)
        self._vectors, self._encoder, self.keep = vectors, encoder, keep
        self._repeats = vectors.drawn.repeats() if keep is None else {}
        self._left_out = left_out
        self.repeats = Counter[Owner]()
        self._file, self._were_read = VectorFile(), set[int]()
        self._parts: dict[Owner, dict[int, None]] = {}
        for identifier, part, concept, group in vectors.planned.plan.rows("id", "part", "concept", "group"):
            self._parts.setdefault((concept, group), {})[part] = None
            self.repeats[concept, group] += identifier in self._repeats and identifier not in left_out

    def read(self, owners: Collection[Owner] | None = None) -> None:
        """Read the parts that hold images of some owners, or all parts, once.

        Raises
        ------
        RunCorruptError
            A file is damaged, or lacks an image.
        """
        wanted = {part for owner in (self._parts if owners is None else owners) for part in self._parts.get(owner, ())}
        parts = self._vectors.planned.parts
        missing = [part for part in parts if part in wanted - self._were_read]
        if not missing:
            return
        with self._vectors.directory.listed_once():
            for part, vectors in self._vectors.each_part(self._encoder, missing, self._file.width):
                self._vectors.require(self._encoder, vectors, [part])
                rows = [
                    (((concept, group), part), vectors[key])
                    for key, seed, concept, group in parts[part].rows("id", "seed", "concept", "group")
                    if key in vectors
                    and key not in self._repeats
                    and key not in self._left_out
                    and (self.keep is None or seed in self.keep)
                ]
                if rows:
                    keys, own = zip(*rows, strict=True)
                    self._file.add(keys, np.stack(own))
        self._were_read.update(missing)

    def of(self, owner: Owner) -> np.ndarray:
        """Return those of an owner whose parts were read, (n × dim) in the plan's order; n may be 0."""
        return self._file.rows([(owner, part) for part in self._parts.get(owner, ())], max(self._file.width, 1))


class NamedVectors(Mapping[Name, np.ndarray]):
    """Vectors of owners by other names, each read from the file whenever it is asked for."""

    def __init__(self, vectors: ImageVectors, owners: Mapping[Name, Owner]) -> None:
        self._vectors, self._owners = vectors, owners

    def __getitem__(self, name: Name) -> np.ndarray:
        return self._vectors.of(self._owners[name])

    def __iter__(self) -> Iterator[Name]:
        return iter(self._owners)

    def __len__(self) -> int:
        return len(self._owners)
