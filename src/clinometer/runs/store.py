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
:mod:`~clinometer.runs.drawn_run`, :mod:`~clinometer.runs.encoded_run`, and here what is scored.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa

from clinometer._csv import csv_text
from clinometer.errors import RunMismatchError, RunNotFoundError
from clinometer.runs.encoded_run import EncodedRun
from clinometer.runs.old_scores import with_parts, with_verdicts_as_data
from clinometer.runs.plan import PLAN_SCHEMA, Sample, plan_to_table
from clinometer.runs.record import with_checksum
from clinometer.runs.shapes import require_numbers
from clinometer.runs.storage import Directory

SCORE_AGAIN = "Score the run again: clinometer score RUN"


class Run(EncodedRun):
    """A run directory, opened. Everything is read from disk when asked for."""

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
