"""A run directory: the truth of a run, written once and read by everything after.

::

    RUN/run.json                              what was asked and by what
    RUN/plan.parquet                          a row a sample
    RUN/samples/part-00000.parquet            the images, as the Hugging Face Image struct, and what became of each
    RUN/unfinished/part-00000.parquet         the same of a part that was stopped halfway, of a model with a price
    RUN/embeddings/<encoder>/part-00000.parquet   id, vector: one file for each part of samples
    RUN/embeddings/<encoder>/texts.parquet    text, vector
    RUN/ratings/part-00000.parquet            what people answered about the images, a row an answer
    RUN/scores.parquet, scores.csv            every number
    RUN/curves.parquet                        curves fitted to the scores, for figures
    RUN/report.html

A part that exists is whole, and is read back only if it is what was written (:mod:`clinometer.runs.ledger`). ``Run``
opens a directory; ``create_run`` makes one. A run's class grows as the run does: :mod:`~clinometer.runs.asked_run`,
:mod:`~clinometer.runs.drawn_run`, and here what is embedded and scored.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer._csv import csv_text
from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.models.protocols import Card
from clinometer.runs.drawn_run import DrawnRun
from clinometer.runs.ledger import embeddings_name, require_numbers, same_place, vectors_name
from clinometer.runs.plan import PLAN_SCHEMA, Sample, plan_to_table
from clinometer.runs.record import card_record, difference_between, with_checksum
from clinometer.runs.scores import with_parts, with_verdicts_as_data
from clinometer.runs.storage import REDO, Directory

SCORE_AGAIN = "Score the run again: clinometer score RUN"


class Run(DrawnRun):
    """A run directory, opened. Everything is read from disk when asked for."""

    # --- embeddings --------------------------------------------------------------------------------------------------

    def begin_encoder(self, card: Card) -> None:
        """Record whose embeddings are about to be written, or check that it is the one recorded under that name.

        It counts as an encoder of the run once it has finished: one that fails, or that nobody waits for, must not keep
        the others from being scored.
        """
        self.require_encoder(card)
        if self.encoder_cards.get(card.name, {}).get("fingerprint") != card.fingerprint:
            finished = {name: record for name, record in self.encoder_cards.items() if name != card.name}
            begun = self.begun_encoder_cards | {card.name: card_record(card)}
            dropped = {name: record for name, record in self.dropped_encoder_cards.items() if name != card.name}
            self._update_record(encoders=finished, begun_encoders=begun, dropped_encoders=dropped)

    def finish_encoder(self, card: Card) -> None:
        """Record that an encoder has embedded the whole run, and list what it wrote."""
        begun = self.begun_encoder_cards
        record = begun.pop(card.name, None)
        with self.ledger.together():
            if record is not None:
                self._update_record(encoders=self.encoder_cards | {card.name: record}, begun_encoders=begun)
            self.end_stage()

    def drop_encoders(self, names: Sequence[str]) -> None:
        """Take encoders out of what scores are made of; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        cards = self.encoder_cards
        for name in names:
            if name not in cards:
                raise RunNotFoundError(
                    f"{self.url} has no scores of {name!r}; it has those of {', '.join(cards) or 'none'}",
                    field="drop_encoder",
                )
        if not names:
            return
        rest = {name: card for name, card in cards.items() if name not in names}
        if not rest:
            raise RunNotFoundError(
                f"{', '.join(cards)} is all that {self.url} is scored with; add another first: "
                f"clinometer score {self.url} --encoder NAME",
                field="drop_encoder",
            )
        dropped = self.dropped_encoder_cards | {name: cards[name] for name in names}
        self._update_record(encoders=rest, dropped_encoders=dropped)

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
        record = (self.encoder_cards | self.begun_encoder_cards | self.dropped_encoder_cards).get(card.name)
        is_used = bool(self.directory.names(embeddings_name(card.name), ".parquet"))
        if record is not None and record["fingerprint"] != card.fingerprint and is_used:
            raise RunMismatchError(
                f"{self.url}: holds embeddings of another encoder named {card.name!r} "
                f"({difference_between(record, card_record(card))}); give another --out, or delete "
                f"{embeddings_name(card.name)}"
            )
        cards = self._all_encoder_cards()
        for name in cards if card.name not in cards else ():
            if same_place(name, card.name):
                raise RunMismatchError(
                    f"{self.url}: encoder {card.name!r} would share {embeddings_name(name)} with encoder {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )

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

    def embedding_parts(
        self, encoder: str, parts: Collection[int] | None = None, width: int = 0
    ) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """The same part by part, of those that are embedded.

        ``parts`` : those that are looked at, all by default; ``width`` : of vectors that were read before, if any.
        """
        part_numbers = self.parts if parts is None else parts
        self.ledger.require_there(vectors_name(encoder, part) for part in part_numbers)
        for part in self.embedded_parts(encoder, part_numbers):
            vectors = self.part_vectors(encoder, part)
            part_width = next(map(len, vectors.values()), width)
            width = width or part_width
            if part_width != width:
                name = self.directory.path(vectors_name(encoder, part))
                raise RunCorruptError(
                    f"{name}: its vectors have {part_width} numbers, those of other parts {width}. {REDO}"
                )
            yield part, vectors

    def embedded_parts(self, encoder: str, parts: Collection[int] | None = None) -> list[int]:
        """The parts whose images are embedded; of ``parts``, where those are given."""
        with self.directory.listed_once():
            return [part for part in (self.parts if parts is None else parts) if self.has_embeddings(encoder, part)]

    def part_vectors(self, encoder: str, part: int) -> dict[str, np.ndarray]:
        """The image vectors of one part, by sample id."""
        return self._vectors(vectors_name(encoder, part), "id")

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
        fault = "no lists of one length"
        if pa.types.is_fixed_size_list(column.type) and pa.types.is_floating(column.type.value_type):
            vectors = np.asarray(column.flatten(), dtype=np.float32).reshape(-1, column.type.list_size)
            if len(vectors) == len(table) and np.isfinite(vectors).all():
                return dict(zip(table[key].to_pylist(), vectors, strict=True))
            fault = "NaN or infinity"
        raise RunCorruptError(f"{self.directory.path(name)}: its vectors hold {fault}, expected finite numbers. {REDO}")

    # --- scores ------------------------------------------------------------------------------------------------------

    def write_scores(self, scores: pd.DataFrame, curves: pd.DataFrame, made_of: str | None = None) -> None:
        """Write every number, as Parquet and as CSV; ``made_of`` is the fingerprint of what they were computed from."""
        self.ledger.unlist(["curves.parquet", "scores.csv", "scores.parquet"])
        self.ledger.write_table("curves.parquet", pa.Table.from_pandas(curves, preserve_index=False))
        self.ledger.write_bytes("scores.csv", csv_text(scores).encode("utf-8", "backslashreplace"))
        self.ledger.write_table("scores.parquet", pa.Table.from_pandas(scores, preserve_index=False))
        with self.ledger.together():
            self.ledger.list_files()
            self.ledger.note_made_of("scores.parquet", made_of)

    @property
    def is_scored(self) -> bool:
        """Whether the scores are there."""
        return self.directory.exists("scores.parquet")

    @property
    def scores(self) -> pd.DataFrame:
        """Every number of the run: one row an estimate, its columns documented in ``clinometer.metrics.Score``."""
        return with_parts(with_verdicts_as_data(self._scored("scores.parquet")))

    @property
    def curves(self) -> pd.DataFrame:
        """Curves fitted to the scores: curve, x, y, low, high."""
        return self._scored("curves.parquet")

    def _scored(self, name: str) -> pd.DataFrame:
        if not self.directory.exists(name):
            what = f"{name} is missing" if name in (self.record.get("files") or {}) else "not scored yet"
            raise RunNotFoundError(f"{self.url}: {what}; give: clinometer score {self.url}")
        # without what pandas wrote about it, which says nothing more and of a run without checksums may be damaged
        table: pd.DataFrame = self.ledger.read_table(name, way_out=SCORE_AGAIN, shape=require_numbers).to_pandas(
            ignore_metadata=True
        )
        return table

    def __repr__(self) -> str:
        with self.directory.listed_once():
            done = sum(self.has_samples(part) for part in self.parts)
        return (
            f"Run({self.directory.shown!r}: {self.model_card['name']} × suite {self.suite.name}, "
            f"{len(self.plan)} images, {done} of {len(self.parts)} parts drawn, "
            f"encoders: {', '.join(self.encoder_cards) or 'none'})"
        )


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
