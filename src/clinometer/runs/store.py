"""A run directory: the truth of a run, written once and read by everything after.

::

    RUN/run.json                              what was asked and by what
    RUN/plan.parquet                          a row a sample
    RUN/samples/part-00000.parquet            the images, as the Hugging Face Image struct, and what became of each
    RUN/unfinished/part-00000.parquet         the same of a part that was stopped in its midst, of a model with a price
    RUN/embeddings/<encoder>/part-00000.parquet   id, vector: one file for each part of samples
    RUN/embeddings/<encoder>/texts.parquet    text, vector
    RUN/ratings/part-00000.parquet            what people answered about the images, a row an answer
    RUN/scores.parquet, scores.csv            every number
    RUN/curves.parquet                        curves fitted to the scores, for figures
    RUN/report.html

A part that exists is whole, and is read back only if it is what was written (:mod:`clinometer.runs.ledger`). ``Run``
opens a directory; ``create_run`` makes one.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer._csv import csv_text
from clinometer._in_hand import in_hand
from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.models.images import decode_stored, sha256
from clinometer.models.protocols import Card
from clinometer.runs.ledger import Ledger
from clinometer.runs.old_scores import with_verdicts_as_data
from clinometer.runs.plan import PLAN_SCHEMA, Sample, parts_of, plan_to_table, table_to_plan
from clinometer.runs.record import card_record, difference_between, question_of, with_checksum
from clinometer.runs.storage import REDO, Directory
from clinometer.runs.suite_options import changes_of, with_changes
from clinometer.suites import Suite, suite_from_mapping

if TYPE_CHECKING:
    from PIL.Image import Image

SCORE_AGAIN = "Score the run again: clinometer score RUN"
PLAN_LOST = "Restore it, or start a new run: what was drawn hangs on it"
IMAGE_TYPE = pa.struct({"bytes": pa.binary(), "path": pa.string()})
SAMPLE_FIELDS = {
    **{field.name: field.type for field in PLAN_SCHEMA if field.name not in ("part", "file")},
    "status": pa.string(),
    "reason": pa.string(),
    "image": IMAGE_TYPE,
    "sha256": pa.string(),
    "seconds": pa.float32(),
}
WITHOUT_PIXELS = [name for name in SAMPLE_FIELDS if name != "image"]
_FEATURES = {name: {"dtype": str(kind), "_type": "Value"} for name, kind in SAMPLE_FIELDS.items() if name != "image"}
_FEATURES["seconds"]["dtype"] = "float32"  # Arrow calls it float
SAMPLE_SCHEMA = pa.schema(
    SAMPLE_FIELDS,
    # `datasets` reads this and shows the column as images
    metadata={"huggingface": json.dumps({"info": {"features": _FEATURES | {"image": {"_type": "Image"}}}})},
)


class Run:
    """A run directory, opened. Everything is read from disk when asked for."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self.directory = Directory(url)
        self.ledger = Ledger(self.directory)
        self._to_redraw: dict[int, set[str]] = {}
        if not self.directory.exists("run.json"):
            raise RunNotFoundError(
                f"{self.directory.url}: not a run directory, it has no run.json; give the --out of an audit"
            )

    @property
    def is_whole(self) -> bool:
        """Whether it shows all its parts."""
        return True

    @property
    def url(self) -> str:
        """Where the run is."""
        return self.directory.url

    @property
    def record(self) -> dict[str, Any]:
        """The contents of run.json."""
        return self.ledger.record

    @cached_property
    def suite(self) -> Suite:
        """The suite that was asked, with what was changed since for the scores."""
        asked = suite_from_mapping(self.record["suite"], source=self.directory.path("run.json"))
        return with_changes(asked, self.record.get("suite_options") or [])

    @property
    def model_card(self) -> dict[str, Any]:
        """The card of the model audited."""
        return dict(self.record["model"])

    @property
    def encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the encoders that have finished once, by name: those that scores are made of."""
        return dict(self.record["encoders"])

    @property
    def begun_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of encoders that may have left embeddings and have never finished, by name."""
        return dict(self.record.get("begun_encoders", {}))

    @property
    def dropped_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of encoders that were taken out of the scores and whose embeddings are kept, by name."""
        return dict(self.record.get("dropped_encoders", {}))

    @property
    def own_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return dict(self.record.get("own_encoders", {}))

    @cached_property
    def plan(self) -> list[Sample]:
        """Every planned sample, in order."""
        return table_to_plan(self.ledger.read_table("plan.parquet", PLAN_SCHEMA.names, way_out=PLAN_LOST))

    def extend_plan(self, samples: Sequence[Sample]) -> None:
        """Plan more samples, in parts of their own. No encoder has embedded the whole run any more."""
        self._update_record(encoders={}, begun_encoders=self.begun_encoder_cards | self.encoder_cards)
        plan = [*self.plan, *samples]
        self.ledger.write_table("plan.parquet", plan_to_table(plan))
        self.__dict__["plan"] = plan
        for derived in ("_all_parts", "_part_of"):
            self.__dict__.pop(derived, None)

    @property
    def parts(self) -> dict[int, list[Sample]]:
        """The samples of each part."""
        return self._all_parts

    @cached_property
    def _all_parts(self) -> dict[int, list[Sample]]:
        return parts_of(self.plan)

    # --- samples -----------------------------------------------------------------------------------------------

    def has_samples(self, part: int) -> bool:
        """Whether a part's images are there, with none that is to be drawn anew."""
        return part not in self._to_redraw and self.directory.exists(samples_name(part))

    def undrawn(self, part: int) -> list[Sample]:
        """The samples of a part that are still to be drawn."""
        if self.has_samples(part):
            return []
        if part in self._to_redraw:
            return [sample for sample in self.parts[part] if sample.id in self._to_redraw[part]]
        kept = {row["id"] for row in self._kept(part, ["id"])}
        return [sample for sample in self.parts[part] if sample.id not in kept]

    def write_samples(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Write the rows of a part's undrawn samples, in plan order, beside those that it keeps."""
        if part in self._to_redraw:
            kept = self._with_images(samples_name(part), self._part(part, list(SAMPLE_FIELDS)))
        else:
            kept = self._kept(part, list(SAMPLE_FIELDS))
        by_id = {row["id"]: row for row in (*kept, *rows)}
        self.forget_made_of(part)
        self._write_rows(samples_name(part), [by_id[sample.id] for sample in self.parts[part]])
        self._to_redraw.pop(part, None)
        if kept:
            self.ledger.remove(unfinished_name(part))

    def keep_samples(self, part: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Keep rows of a part's undrawn samples until the others are drawn too; a part that exists stays whole."""
        if not rows:
            return
        if part in self._to_redraw or len(rows) == len(self.undrawn(part)):
            self.write_samples(part, rows)
        else:
            self._write_rows(unfinished_name(part), [*self._kept(part, list(SAMPLE_FIELDS)), *rows])

    def _part(self, part: int, columns: list[str]) -> pa.Table:
        """Some columns, ``id`` among them, of a part that is there."""
        name = samples_name(part)
        table = self.ledger.read_table(name, columns)
        if table["id"].to_pylist() != [sample.id for sample in self._all_parts[part]]:
            raise RunCorruptError(
                f"{self.directory.path(name)}: its images are not those of the plan's part {part}. {REDO}"
            )
        return table

    def _kept(self, part: int, columns: list[str]) -> list[dict[str, Any]]:
        """The rows of a part that was stopped in its midst."""
        kept: list[dict[str, Any]] = []
        if self.directory.exists(unfinished_name(part)):
            table = self.ledger.read_table(unfinished_name(part), columns)
            kept = self._with_images(unfinished_name(part), table) if "image" in columns else table.to_pylist()
        return kept

    def _with_images(self, name: str, table: pa.Table) -> list[dict[str, Any]]:
        """Rows whose images are those that were written, by their hashes.

        Raises
        ------
        RunCorruptError
            An image is not: the message names it, its file and the way out.
        """
        rows: list[dict[str, Any]] = table.to_pylist()
        for row in rows:
            content = (row["image"] or {}).get("bytes")
            if (content and sha256(content)) != row["sha256"]:
                raise RunCorruptError(
                    f"{self.directory.path(name)}: image {row['id']} is not the one that was written (its sha256 does "
                    f"not fit). {REDO}"
                )
        return rows

    def _write_rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        self.ledger.write_table(name, pa.Table.from_pylist(list(rows), schema=SAMPLE_SCHEMA))

    def forget_made_of(self, part: int) -> None:
        """Remove what was made of a part's images, before it is written: an embedding must not outlive its image."""
        made = [vectors_name(encoder, part) for encoder in self._all_encoder_cards()]
        made.append(classifications_name(part))
        self.ledger.unlist(made)  # once, as each time writes run.json
        for name in made:
            self.ledger.remove(name)

    def has_image(self, *, edited: bool) -> bool:
        """Whether a single image is there that was drawn, or edited; one of a part that was stopped counts, too."""
        names = (*self.directory.names("samples", ".parquet"), *self.directory.names("unfinished", ".parquet"))
        tables = (self.ledger.read_table(name, ["status", "source"]).to_pylist() for name in names)
        return any(row["status"] == "ok" and bool(row["source"]) == edited for rows in tables for row in rows)

    def read_images(self, part: int) -> list[dict[str, Any]]:
        """A part's images as they are stored: ``id``, ``status``, and ``image`` with its bytes, or None."""
        return self._with_images(samples_name(part), self._part(part, ["id", "status", "image", "sha256"]))

    @property
    def to_redraw(self) -> dict[int, set[str]]:
        """The samples that are to be drawn anew, by part."""
        return {part: set(ids) for part, ids in self._to_redraw.items()}

    def redraw(self, wanted: Mapping[int, Collection[str]]) -> None:
        """Have samples drawn anew, beside the others of their part."""
        for part, ids in wanted.items():
            self._to_redraw.setdefault(part, set()).update(ids)

    def note_redrawn(self, parts: Iterable[int]) -> None:
        """Take note that others have drawn anew what was to be of some parts."""
        for part in parts:
            self._to_redraw.pop(part, None)

    def redraw_failures(self) -> int:
        """Have failed images drawn anew, beside the others of their part. Returns their number.

        All others stay: a refusal is the model's answer, and an image that is there may be paid for, or edited.
        """
        failed = [identifier for identifier, status in self.samples[["id", "status"]].to_numpy() if status == "failed"]
        for identifier in failed:
            self._to_redraw.setdefault(self._part_of[identifier], set()).add(identifier)
        return len(failed)

    def forget_failed_parts(self, parts: Iterable[int]) -> None:
        """Remove those of some parts in which every image failed."""
        for part in parts:
            if self.directory.exists(samples_name(part)):
                statuses = self._part(part, ["id", "status"])["status"].to_pylist()
                if set(statuses) == {"failed"}:
                    self.forget_made_of(part)
                    self.ledger.remove(samples_name(part))

    @property
    def samples(self) -> pd.DataFrame:
        """Every finished sample without its pixels, in plan order."""
        self.ledger.require_there(samples_name(part) for part in self.parts)
        return self._joined([self._part(part, WITHOUT_PIXELS) for part in self._drawn_parts()])

    def samples_that_are_whole(self, damage: list[str]) -> pd.DataFrame:
        """The same without the parts that are damaged, each of which is added to ``damage``."""
        tables = []
        for part in self._drawn_parts():
            try:
                tables.append(self._part(part, WITHOUT_PIXELS))
            except RunCorruptError as error:
                damage.append(self.directory.without_place(error))
        return self._joined(tables)

    def _drawn_parts(self) -> list[int]:
        there = set(self.directory.names("samples", ".parquet"))
        return [part for part in self.parts if samples_name(part) in there]

    @staticmethod
    def _joined(tables: list[pa.Table]) -> pd.DataFrame:
        joined: pd.DataFrame = pa.concat_tables(
            [pa.schema(SAMPLE_FIELDS).empty_table().select(WITHOUT_PIXELS), *tables]
        ).to_pandas()
        return joined

    @cached_property
    def _part_of(self) -> dict[str, int]:
        return {sample.id: sample.part for sample in self.plan}

    def sample(self, identifier: str) -> Sample:
        """The planned sample of an id."""
        return next(each for each in self._all_parts[self._part_of[identifier]] if each.id == identifier)

    def images(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """The image files of samples, part by part; None where there is no image."""
        wanted: dict[int, set[str]] = {}
        for identifier in ids:
            wanted.setdefault(self._part_of[identifier], set()).add(identifier)
        for part, chosen in sorted(wanted.items()):
            for row in self.read_images(part):
                if row["id"] in chosen:
                    yield row["id"], (row["image"] or {}).get("bytes")

    def decoded(self, identifier: str, content: bytes) -> Image:
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
            raise RunCorruptError(
                f"{self.directory.path(samples_name(self._part_of[identifier]))}: image {identifier} is damaged "
                f"({error}). Delete the file and give the same command again: only this part is done anew"
            ) from error

    # --- embeddings --------------------------------------------------------------------------------------------

    def begin_encoder(self, card: Card) -> None:
        """Record whose embeddings are about to be written, or check that it is the one recorded under that name.

        It counts as an encoder of the run once it has finished: one that fails, or that nobody waits for, must not keep
        the others from being scored.
        """
        self.require_encoder(card)
        if self.encoder_cards.get(card.name, {}).get("fingerprint") != card.fingerprint:
            finished = {name: held for name, held in self.encoder_cards.items() if name != card.name}
            begun = self.begun_encoder_cards | {card.name: card_record(card)}
            dropped = {name: held for name, held in self.dropped_encoder_cards.items() if name != card.name}
            self._update_record(encoders=finished, begun_encoders=begun, dropped_encoders=dropped)

    def finish_encoder(self, card: Card) -> None:
        """Record that an encoder has embedded the whole run."""
        begun = self.begun_encoder_cards
        held = begun.pop(card.name, None)
        if held is not None:
            self._update_record(encoders=self.encoder_cards | {card.name: held}, begun_encoders=begun)

    def drop_encoders(self, names: Sequence[str]) -> None:
        """Take encoders out of what scores are made of; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        held = self.encoder_cards
        for name in names:
            if name not in held:
                raise RunNotFoundError(
                    f"drop_encoder: {self.url} has no scores of {name!r}; it has those of {', '.join(held) or 'none'}"
                )
        if not names:
            return
        kept = {name: card for name, card in held.items() if name not in names}
        if not kept:
            raise RunNotFoundError(
                f"drop_encoder: {', '.join(held)} is all that {self.url} is scored with; add another first: clinometer "
                f"score {self.url} --encoder NAME"
            )
        dropped = self.dropped_encoder_cards | {name: held[name] for name in names}
        self._update_record(encoders=kept, dropped_encoders=dropped)

    def forget_encoder(self, name: str) -> None:
        """Remove an encoder and what it embedded."""
        # Files first: without its card they would be taken for those of the next encoder of that name.
        files = self.directory.names(embeddings_name(name), ".parquet")
        self.ledger.unlist(files)
        for file in files:
            self.ledger.remove(file)
        finished, begun = self.encoder_cards, self.begun_encoder_cards
        finished.pop(name, None)
        begun.pop(name, None)
        self._update_record(encoders=finished, begun_encoders=begun)

    def require_encoder(self, card: Card) -> None:
        """Refuse an encoder whose embeddings would mix with those of another: of its name, or in its folder.

        Raises
        ------
        RunMismatchError
            The message says what differs.
        """
        known = (self.encoder_cards | self.begun_encoder_cards | self.dropped_encoder_cards).get(card.name)
        is_used = bool(self.directory.names(embeddings_name(card.name), ".parquet"))
        if known is not None and known["fingerprint"] != card.fingerprint and is_used:
            raise RunMismatchError(
                f"{self.url}: holds embeddings of another encoder named {card.name!r} "
                f"({difference_between(known, card_record(card))}); give another --out, or delete "
                f"{embeddings_name(card.name)}"
            )
        held = self._all_encoder_cards()
        for name in held if card.name not in held else ():
            if same_place(name, card.name):
                raise RunMismatchError(
                    f"{self.url}: encoder {card.name!r} would share {embeddings_name(name)} with encoder {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )

    def _all_encoder_cards(self) -> dict[str, dict[str, Any]]:
        dropped = self.dropped_encoder_cards
        return self.encoder_cards | self.begun_encoder_cards | dropped | self.own_encoder_cards

    def add_own_encoder(self, card: Card) -> None:
        """Record a text encoder or the prior of the model itself; the model's card already tells two of them apart."""
        if card.name not in self.own_encoder_cards:
            self._update_record(own_encoders={**self.own_encoder_cards, card.name: card_record(card)})

    def has_embeddings(self, encoder: str, part: int) -> bool:
        """Whether a part's images are embedded."""
        return self.directory.exists(vectors_name(encoder, part))

    def write_embeddings(self, encoder: str, part: int, ids: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of a part's images."""
        self.ledger.write_table(vectors_name(encoder, part), _vector_table("id", ids, vectors))

    def embeddings(self, encoder: str) -> dict[str, np.ndarray]:
        """Every image vector of an encoder, by sample id."""
        return {key: vector for _, vectors in self.embedding_parts(encoder) for key, vector in vectors.items()}

    def embedding_parts(self, encoder: str) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The same part by part, of those that are embedded."""
        self.ledger.require_there(vectors_name(encoder, part) for part in self.parts)
        for part in self.parts:
            if self.has_embeddings(encoder, part):
                yield part, self._vectors(vectors_name(encoder, part), "id")

    def require_embedded(self, encoder: str, vectors: Collection[str], parts: Iterable[int] | None = None) -> None:
        """Refuse embeddings of an encoder that lack an image: without it a score would be one of fewer, unseen.

        ``parts`` : those that are looked at; all by default.

        Raises
        ------
        RunCorruptError
            The message names the file.
        """
        for part in self.parts if parts is None else parts:
            for row in self._part(part, ["id", "status"]).to_pylist():
                if row["status"] == "ok" and row["id"] not in vectors:
                    name = self.directory.path(vectors_name(encoder, part))
                    raise RunCorruptError(f"{name}: it has no vector of image {row['id']}. {REDO}")

    def has_texts(self, encoder: str) -> bool:
        """Whether the suite's texts are embedded (or known to have no embedding)."""
        return self.directory.exists(f"{embeddings_name(encoder)}/texts.parquet")

    def write_texts(self, encoder: str, texts: Sequence[str], vectors: np.ndarray) -> None:
        """Write the vectors of texts."""
        self.ledger.write_table(f"{embeddings_name(encoder)}/texts.parquet", _vector_table("text", texts, vectors))

    def texts(self, encoder: str) -> dict[str, np.ndarray]:
        """Every text vector of an encoder, by text; none of one that reads no text."""
        name = f"{embeddings_name(encoder)}/texts.parquet"
        vectors = self._vectors(name, "text")
        lost = [text for text in self.suite.texts() if text.strip() and text not in vectors]
        if vectors and lost:
            raise RunCorruptError(f"{self.directory.path(name)}: it has no vector of {lost[0]!r}. {REDO}")
        return vectors

    def _vectors(self, name: str, key: str) -> dict[str, np.ndarray]:
        table = self.ledger.read_table(name, [key, "vector"])
        column = table["vector"].combine_chunks()
        found = "no lists of one length"
        if pa.types.is_fixed_size_list(column.type):
            vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(-1, column.type.list_size)
            if np.isfinite(vectors).all():
                return dict(zip(table[key].to_pylist(), vectors, strict=True))
            found = "NaN or infinity"
        raise RunCorruptError(f"{self.directory.path(name)}: its vectors hold {found}, expected finite numbers. {REDO}")

    # --- scores ------------------------------------------------------------------------------------------------

    def write_scores(self, scores: pd.DataFrame, curves: pd.DataFrame) -> None:
        """Write every number, as Parquet and as CSV."""
        self.ledger.unlist(["curves.parquet", "scores.csv", "scores.parquet"])
        self.ledger.write_table("curves.parquet", pa.Table.from_pandas(curves, preserve_index=False))
        self.ledger.write_bytes("scores.csv", csv_text(scores).encode("utf-8", "backslashreplace"))
        self.ledger.write_table("scores.parquet", pa.Table.from_pandas(scores, preserve_index=False))
        self.ledger.list_files()

    @property
    def is_scored(self) -> bool:
        """Whether the scores are there."""
        return self.directory.exists("scores.parquet")

    @property
    def scores(self) -> pd.DataFrame:
        """Every number of the run: one row an estimate, its columns documented in ``clinometer.metrics.Score``."""
        return with_verdicts_as_data(self._scored("scores.parquet"))

    @property
    def curves(self) -> pd.DataFrame:
        """Curves fitted to the scores: curve, x, y, low, high."""
        return self._scored("curves.parquet")

    def _scored(self, name: str) -> pd.DataFrame:
        if not self.directory.exists(name):
            raise RunNotFoundError(f"{self.url}: not scored yet; give: clinometer score {self.url}")
        # without what pandas wrote about it, which says nothing more and of a run without checksums may be damaged
        table: pd.DataFrame = self.ledger.read_table(name, way_out=SCORE_AGAIN).to_pandas(ignore_metadata=True)
        return table

    # --- record ------------------------------------------------------------------------------------------------

    def record_batch_size(self, batch_size: int) -> None:
        """Record how many images the model draws at once from now on."""
        self._update_record(batch_size=batch_size)

    def record_protocol(self, protocol: Mapping[str, Any]) -> None:
        """Record under which protocol the run stands, and where it departs from it."""
        if self.record.get("protocol") != protocol:
            self._update_record(protocol=dict(protocol))

    def _update_record(self, **changes: Any) -> None:
        self.ledger.update(lambda record: changes)

    def change_suite(self, given: Sequence[str]) -> None:
        """Have the suite's settings that scoring alone reads be others from now on, and note what they were.

        ``given`` as a user types it, ``margin=0.2``.

        Raises
        ------
        SuiteError
            The suite's study has no such setting, or does not take the value; or the images hang on it.
        """
        changed = changes_of(self.suite, given, until=self.record.get("until") is not None)
        if changed:
            self._update_record(suite_options=[*(self.record.get("suite_options") or []), *changed])
            self.__dict__.pop("suite", None)

    def end_stage(self) -> None:
        """List what a stage has written, with its checksums."""
        self.ledger.list_files()

    def require_same_question(self, record: Mapping[str, Any]) -> None:
        """Refuse, by name, to go on with a run that was asked something else."""
        ours, theirs = question_of(self.record), question_of(record)
        for field, found in ours.items():
            if found != theirs[field]:
                detail = ""
                if field == "model":
                    detail = f" ({difference_between(self.model_card, record['model'])})"
                raise RunMismatchError(
                    f"{self.url}: holds a run of {field} {found}, not of {field} {theirs[field]}{detail}; "
                    "give another --out, or delete that directory"
                )

    def require_same_plan(self, plan: Sequence[Sample]) -> None:
        """Refuse a plan that does not begin with these samples: of a mended manifest, whose images are the same.

        Raises
        ------
        RunMismatchError, RunCorruptError
            The message says what differs.
        """
        for held, asked in zip_longest(self.plan[: len(plan)], plan):
            if held and asked and replace(held, part=asked.part) == asked:
                continue
            if not (asked or held).file:
                raise RunCorruptError(
                    f"{self.directory.path('plan.parquet')}: not the plan of what run.json asks. {PLAN_LOST}"
                )
            said = "in another order"
            if held and asked and held.file == asked.file:
                one, other = asdict(held), asdict(asked)
                field = next(name for name in one if name != "part" and one[name] != other[name])
                said = f"{asked.file} with the {field} {one[field] or '(none)'!r}, not {other[field] or '(none)'!r}"
            raise RunMismatchError(
                f"{self.url}: holds a run of another manifest ({said}); give another --out, or delete that directory"
            )

    def __repr__(self) -> str:
        done = sum(self.has_samples(part) for part in self.parts)
        return (
            f"Run({self.url!r}: {self.model_card['name']} × suite {self.suite.name}, {len(self.plan)} images, "
            f"{done} of {len(self.parts)} parts drawn, encoders: {', '.join(self.encoder_cards) or 'none'})"
        )


def samples_name(part: int) -> str:
    """Where a part's samples lie."""
    return f"samples/part-{part:05d}.parquet"


def unfinished_name(part: int) -> str:
    """Where those of a part's samples lie that were drawn before it was stopped."""
    return f"unfinished/part-{part:05d}.parquet"


def classifications_name(part: int) -> str:
    """Where the denoising errors of a part's samples lie."""
    return f"classifications/part-{part:05d}.parquet"


def embeddings_name(encoder: str) -> str:
    """Where an encoder's embeddings lie. Characters that a path cannot hold become hyphens."""
    place = re.sub(r"[^A-Za-z0-9._-]+", "-", encoder)
    return f"embeddings/{place if place.strip('.') else '-' * len(place) or '-'}"  # ".." is another folder


def same_place(encoder: str, other: str) -> bool:
    """Whether two encoders' embeddings would lie in one place: of names that differ in case, on many systems."""
    return embeddings_name(encoder).lower() == embeddings_name(other).lower()


def vectors_name(encoder: str, part: int) -> str:
    """Where an encoder's embeddings of a part's images lie."""
    return f"{embeddings_name(encoder)}/part-{part:05d}.parquet"


def create_run(url: str | os.PathLike[str], record: Mapping[str, Any], plan: Sequence[Sample]) -> Run:
    """Make a run directory, or open the one that is there if it was asked the same.

    Raises
    ------
    RunMismatchError
        The directory holds something else.
    """
    directory = Directory(url)
    if directory.exists("run.json"):
        run = Run(url)
        run.require_same_question(record)
        run.require_same_plan(plan)
        run.ledger.forget_missing()  # what is gone is done anew
        directory.remove_leftovers()
        return run
    require_run_or_nothing(directory)
    directory.remove_leftovers()
    files = {"plan.parquet": directory.write_table("plan.parquet", plan_to_table(plan))}
    # last: a directory with run.json has its plan
    directory.write_json("run.json", with_checksum(dict(record) | {"files": files}))
    return Run(url)


def require_run_or_nothing(directory: Directory) -> None:
    """Refuse a directory of other things: nothing is written into it, not even a lock.

    Raises
    ------
    RunMismatchError
        It holds something, and no run.
    """
    if directory.contents() and not (directory.exists("run.json") or _only_planned(directory)):
        raise RunMismatchError(
            f"{directory.url}: not empty and not a run directory: it has no run.json; give another --out"
        )


def _only_planned(directory: Directory) -> bool:
    """Whether a process was killed in here between the plan and run.json."""
    if directory.contents() != ["plan.parquet"]:
        return False
    return bool(directory.read_table("plan.parquet").schema.equals(PLAN_SCHEMA))


def _vector_table(key: str, keys: Sequence[str], vectors: np.ndarray) -> pa.Table:
    width = vectors.shape[1]
    values = pa.array(np.ascontiguousarray(vectors, dtype=np.float32).ravel())
    return pa.table({key: pa.array(keys, pa.string()), "vector": pa.FixedSizeListArray.from_arrays(values, width)})
