"""A run directory: the truth of a run, written once and read by everything after.

::

    RUN/run.json                              what was asked and by what
    RUN/plan.parquet                          one row per sample
    RUN/samples/part-00000.parquet            the images, as the Hugging Face Image struct, and what became of each
    RUN/unfinished/part-00000.parquet         the same of a part that was stopped halfway, of a model with a price
    RUN/embeddings/<encoder>/part-00000.parquet   id, vector: one file for each part of samples
    RUN/embeddings/<encoder>/texts.parquet    text, vector
    RUN/embeddings/<encoder>/saved-again.parquet    id, change, distance
    RUN/trace, RUN/strips, RUN/latents        predictions on the way to the images (:mod:`clinometer.runs.traces`)
    RUN/readings/<reader>/part-00000.parquet  what a reader answered about each image, a row an image and question
    RUN/ratings/part-00000.parquet            what people answered about the images, a row an answer
    RUN/counts.parquet                        of a run without images, the counts that were imported
    RUN/scores.parquet, scores.csv            every number
    RUN/curves.parquet                        curves fitted to the scores, for figures
    RUN/report.html

A part that exists is whole, and is read back only if it is what was written (:mod:`clinometer.runs.ledger`). ``Run``
opens a directory; ``create_run`` makes one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import cached_property
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from clinometer._csv import csv_text
from clinometer._messages import nearest
from clinometer.errors import RunCorruptError, RunMismatchError, RunNotFoundError
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import Verdict
from clinometer.runs.answers import Answers
from clinometer.runs.embeddings import LEAVES_OUT, Vectors
from clinometer.runs.ledger import UNCHECKED, EncoderCards, Ledger, ReaderCards, Worker, require_numbers
from clinometer.runs.plan import PLAN_LOST, PLAN_SCHEMA, Plan, Sample, StoredPlan
from clinometer.runs.record import (
    COUNTED,
    Departure,
    difference_between,
    identity_of,
    is_checked,
    protocol_record,
    suite_changes,
    suite_with_changes,
    with_checksum,
)
from clinometer.runs.samples import Samples
from clinometer.runs.storage import Directory
from clinometer.runs.traces import StoredTraces
from clinometer.suites import Suite, suite_from_mapping


class Run:
    """A run directory, opened. Everything is read from disk when asked for.

    Attributes
    ----------
    directory, ledger : its files, and the list of them in run.json with their checksums.
    planned : the plan as it is stored; ``run.plan`` reads it.
    encoders : those that embedded it.
    drawn : its samples, part by part; ``run.samples`` is the table of all.
    vectors : of its images and texts.
    traces : predictions at steps on the way to its images.
    readers, answers : those that read it, and what each answered.
    """

    def __init__(self, url: str | os.PathLike[str], worker: Worker | None = None) -> None:
        """Open a run; a ``worker`` sees only its own parts, and reports to the driver what run.json should list."""
        directory = Directory(url)
        if not directory.exists("run.json"):
            hint = f"; {meant}" if (meant := _run_beside(directory)) else ""
            raise RunNotFoundError(
                f"{directory.url}: not a run directory, it has no run.json; give the --out of an audit{hint}"
            )
        ledger = Ledger(directory, worker)
        self._set_parts(ledger, StoredPlan(ledger))

    def _set_parts(self, ledger: Ledger, planned: StoredPlan) -> None:
        self.directory, self.ledger, self.planned = ledger.directory, ledger, planned
        self.encoders = EncoderCards(ledger)
        self.drawn = Samples(ledger, planned, self.encoders.all_cards)
        self.vectors = Vectors(ledger, planned, self.drawn)
        self.traces = StoredTraces(ledger, planned)
        self.readers = ReaderCards(ledger)
        self.answers = Answers(ledger, planned, self.drawn)

    @property
    def is_whole(self) -> bool:
        """Whether all its parts are at hand, and not a worker's alone."""
        return self.ledger.worker is None

    @property
    def url(self) -> str:
        """Where the run is."""
        return self.directory.url

    # --- what was asked ----------------------------------------------------------------------------------------------

    @property
    def record(self) -> dict[str, Any]:
        """The contents of run.json."""
        return self.ledger.record

    @property
    def unchecked(self) -> str:
        """The warning about a run without checksums; empty for every other."""
        return "" if is_checked(self.record) else UNCHECKED

    @cached_property
    def suite(self) -> Suite:
        """The suite that was asked, with what was changed since for the scores."""
        suite = suite_from_mapping(self.record["suite"], source=self.directory.path("run.json"))
        return suite_with_changes(suite, self.record.get("suite_options") or [])

    @property
    def model_card(self) -> dict[str, Any]:
        """The card of the model audited."""
        return dict(self.record["model"])

    @property
    def encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the encoders that have finished once, by name: those that scores are made of."""
        return self.encoders.cards

    @property
    def own_encoder_cards(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return self.encoders.own

    @property
    def plan(self) -> Plan:
        """Every planned sample, in order."""
        return self.planned.plan

    @property
    def parts(self) -> Mapping[int, Plan]:
        """The samples of each part."""
        return self.planned.parts

    def sample(self, identifier: str) -> Sample:
        """Return the planned sample of an id."""
        return self.plan.find(identifier)

    def extend_plan(self, samples: Sequence[Sample]) -> None:
        """Plan more samples, in parts of their own. No encoder or reader has seen the whole run any longer."""
        self.encoders.begin_anew()
        self.readers.begin_anew()
        self.planned.extend(samples)

    def record_batch_size(self, batch_size: int) -> None:
        """Record how many images the model draws at once from now on."""
        self.ledger.update(lambda record: {"batch_size": batch_size})

    def record_options(self, options: Mapping[str, Any]) -> None:
        """Record what is asked from now on of what may change while the images stay."""
        if self.record.get("options", {}) != options:
            self.ledger.update(lambda record: {"options": dict(options)})

    def record_protocol(self, protocol: Mapping[str, Any]) -> None:
        """Record under which protocol the run stands, and where it departs from it."""
        if self.record.get("protocol") != protocol:
            self.ledger.update(lambda record: {"protocol": dict(protocol)})

    def refresh_protocol(self) -> None:
        """Find the departures from the protocol again, for a run that may have gained encoders."""
        protocol = self.record.get("protocol")
        if protocol is not None:
            typed = [Departure(**departure) for departure in protocol["typed"]]
            self.record_protocol(protocol_record(self.record, list(self.encoder_cards), typed))

    def change_suite(self, options: Sequence[str]) -> None:
        """Change settings of the suite that scoring alone reads from now on, and note what they were.

        ``options`` as a user types them, ``margin=0.2``.

        Raises
        ------
        SuiteError
            The suite's study has no such setting, or does not take the value; or the images hang on it.
        """
        changed = suite_changes(self.suite, options, until=self.record.get("until") is not None)
        if changed:
            earlier = self.record.get("suite_options") or []
            self.ledger.update(lambda record: {"suite_options": [*earlier, *changed]})
            self.__dict__.pop("suite", None)

    def require_images(self, what: str) -> None:
        """Raise if the run holds counts and no images; ``what`` : what needs the images, for the message.

        Raises
        ------
        RunNotFoundError
            It has none.
        """
        if self.record["origin"] == COUNTED:
            raise RunNotFoundError.unsupported(
                f"{self.url}: it holds counts and no images, and {what} takes images; audit a model, or import its "
                "images"
            )

    def end_stage(self) -> None:
        """List what a stage has written, with its checksums."""
        self.ledger.list_files()

    # --- what was drawn, embedded and scored -------------------------------------------------------------------------

    @property
    def samples(self) -> pd.DataFrame:
        """Every finished sample without its pixels, in plan order."""
        return self.drawn.table

    def images(self, ids: Iterable[str]) -> Iterator[tuple[str, bytes | None]]:
        """Return the image files of samples, part by part; None where there is no image."""
        return self.drawn.images(ids)

    def embeddings(self, encoder: str) -> dict[str, np.ndarray]:
        """Return every image vector of an encoder, by sample id."""
        return {key: vector for _, vectors in self.vectors.each_part(encoder) for key, vector in vectors.items()}

    def embedded(self, encoder: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return the vectors of an encoder that has finished: of images by sample id, and of texts by text.

        Raises
        ------
        RunNotFoundError
            It has not finished.
        RunCorruptError
            A file is damaged, or lacks an image or a text.
        """
        with self.directory.listed_once():
            self.vectors.require_finished(encoder)
            vectors = self.embeddings(encoder)
            self.vectors.require(encoder, vectors)
            return vectors, self.texts(encoder)

    def left_out(self) -> frozenset[str]:
        """Return the images that one of the encoders has no vector of, as its card says: for all they are missing.

        So that averages over encoders are of the same images.
        """
        partial = [name for name, card in self.encoder_cards.items() if card["settings"].get(LEAVES_OUT)]
        ids_by_encoder = (self.vectors.left_out(name, self.vectors.parts_there(name)) for name in partial)
        return frozenset().union(*ids_by_encoder)

    def texts(self, encoder: str) -> dict[str, np.ndarray]:
        """Return every text vector of an encoder, by text; none of one that reads no text."""
        return self.vectors.texts(encoder, self.suite.texts())

    def readings(self, reader: str) -> pd.DataFrame:
        """Return every answer of a reader, a row an image and question, in plan order.

        Returns
        -------
        ``id``, ``concept``, ``category``, ``role``, ``group``, ``prompt`` of the image, and ``sha256`` of what was
        read; ``question``, ``answer`` (None with a ``reason``), ``probabilities``, ``words``; and ``truth``, of an
        attribute image the answer that its group shows, where the question has one, else None.

        Raises
        ------
        RunNotFoundError
            It has not read the whole run once; those that have are named.
        """
        record = self.readers.cards.get(reader)
        if record is None:
            known = ", ".join(self.readers.cards) or "none has"
            raise RunNotFoundError.unknown_name(
                f"{self.url}: no reader {reader!r} has read it; found {known}; give: clinometer read {self.url} "
                f"--reader {reader}"
            )
        return self.answers.table(record, self.readers.questions(reader), self.suite)

    def write_scores(self, scores: pd.DataFrame, curves: pd.DataFrame, made_of: str | None = None) -> None:
        """Write every number, as Parquet and as CSV; ``made_of`` is the fingerprint of what they were computed from."""
        ledger = self.ledger
        ledger.unlist(["curves.parquet", "scores.csv", "scores.parquet"])
        ledger.write_table("curves.parquet", pa.Table.from_pandas(curves, preserve_index=False))
        ledger.write_bytes("scores.csv", csv_text(scores).encode("utf-8", "backslashreplace"))
        ledger.write_table("scores.parquet", pa.Table.from_pandas(scores, preserve_index=False))
        pa.default_memory_pool().release_unused()
        with ledger.together():
            ledger.list_files()
            ledger.note_made_of("scores.parquet", made_of)

    @property
    def is_scored(self) -> bool:
        """Whether the scores are there."""
        return self.directory.exists("scores.parquet")

    @property
    def scores(self) -> pd.DataFrame:
        """Every number of the run: one row an estimate, its columns documented in ``clinometer.metrics.Score``."""
        return read_scores(self.ledger)

    @property
    def curves(self) -> pd.DataFrame:
        """Curves fitted to the scores: curve, x, y, low, high."""
        return read_scores(self.ledger, "curves.parquet")

    def __repr__(self) -> str:
        with self.directory.listed_once():
            done = sum(self.drawn.has(part) for part in self.parts)
        return (
            f"Run({self.directory.shown!r}: {self.model_card['name']} × suite {self.suite.name}, "
            f"{len(self.plan)} images, {done} of {len(self.parts)} parts drawn, "
            f"encoders: {', '.join(self.encoder_cards) or 'none'})"
        )


def _run_beside(directory: Directory) -> str:
    """Ask whether a run of a similar name was meant, of those in the same folder; empty where none is near."""
    place = Path(directory.url)
    if not directory.is_local or not place.parent.is_dir():
        return ""
    beside = sorted(record.parent.name for record in islice(place.parent.glob("*/run.json"), MOST_BESIDE))
    near = nearest(place.name, beside)
    return f"did you mean {place.parent / near[0]}?" if near else ""


MOST_BESIDE: Final = 1_000
"""Runs whose names are looked at where one is not found."""


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
        theirs = identity_of(record)
        for field, words in identity_of(run.record).items():
            if words != theirs[field]:
                detail = f" ({difference_between(run.model_card, record['model'])})" if field == "model" else ""
                raise RunMismatchError(
                    f"{run.url}: run.json is of a run of {field} {words}, not of {field} {theirs[field]}{detail}; "
                    "give another --out, or delete that directory"
                )
        _require_same_plan(run, plan)
        run.ledger.forget_missing()  # what is gone is done again
        directory.remove_leftovers()
        return run
    require_run_or_nothing(directory)
    directory.remove_leftovers()
    files = {"plan.parquet": directory.write_table("plan.parquet", Plan.of(plan).table())}
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
    contents = directory.contents()
    if contents and not (
        directory.exists("run.json")
        # or a process was killed in here between the plan and run.json
        or (contents == ["plan.parquet"] and directory.read_table("plan.parquet").schema.equals(PLAN_SCHEMA))
    ):
        raise RunMismatchError(
            f"{directory.url}: not empty and not a run directory: it has no run.json; give another --out"
        )


def _require_same_plan(run: Run, plan: Sequence[Sample]) -> None:
    """Refuse a plan that does not begin with these samples: of a corrected manifest, whose images are the same.

    Raises
    ------
    RunMismatchError, RunCorruptError
        The message says what differs.
    """
    first = run.plan[: len(plan)]
    if first.asks_the_same(Plan.of(plan)):
        return
    for ours, theirs in zip_longest(first, plan):
        if ours and theirs and replace(ours, part=theirs.part) == theirs:
            continue
        if not (theirs or ours).file:
            raise RunCorruptError(
                f"{run.directory.path('plan.parquet')}: not the plan of what run.json asks. {PLAN_LOST}"
            )
        detail = "in another order"
        if ours and theirs and ours.file == theirs.file:
            one, other = asdict(ours), asdict(theirs)
            field = next(name for name in one if name != "part" and one[name] != other[name])
            detail = f"{theirs.file} with the {field} {one[field] or '(none)'!r}, not {other[field] or '(none)'!r}"
        raise RunMismatchError(
            f"{run.url}: holds a run of another manifest ({detail}); give another --out, or delete that directory"
        )


# --- Stored scores, of an old run as they would be stored today ------------------------------------------------------
#
# Here alone a verdict is read out of a sentence, of runs that were scored before verdicts were data. Such a table says
# ``leans slightly to men`` where a new one has the verdict ``leans slightly`` and the side ``men``. It has no
# ``p_labels`` either: in its rows of MCAS, ``p`` is of permuted labels.
#
# Later ones have no parts of MCAS: their verdicts are of the sum, which may lean by its text alone. ``clinometer score
# RUN`` makes a new table of either.


SCORE_AGAIN = "Score the run again: clinometer score RUN"


def read_scores(ledger: Ledger, name: str = "scores.parquet") -> pd.DataFrame:
    """Read the scores, or the curves, in today's columns."""
    if not ledger.directory.exists(name):
        what = f"{name} is missing" if name in (ledger.record.get("files") or {}) else "not scored yet"
        raise RunNotFoundError.incomplete(
            f"{ledger.directory.url}: {what}; give: clinometer score {ledger.directory.url}"
        )
    # without what pandas wrote about it, which says nothing more and of a run without checksums may be damaged
    # Arrow keeps the memory of a table that is gone, which is as much again while another is read
    pa.default_memory_pool().release_unused()
    table = ledger.read_table(name, way_out=SCORE_AGAIN, shape=require_numbers).to_pandas(ignore_metadata=True)
    pa.default_memory_pool().release_unused()
    return with_parts(with_verdicts_as_data(table)) if name == "scores.parquet" else table


# --- Runs that were scored by an earlier version ---------------------------------------------------------------------

_SENTENCES: Final[tuple[tuple[re.Pattern[str], Verdict], ...]] = tuple(
    (re.compile(pattern), verdict)
    for pattern, verdict in (
        (r"leans slightly to (?P<side>.+?)(?:, .* more than .*)?", Verdict.LEANS_SLIGHTLY),
        (r"leans to (?P<side>.+?)(?:, .* more than .*)?", Verdict.LEANS),
        (r"(?:shown )?balanced within margin", Verdict.BALANCED),
        (r"undecided", Verdict.UNDECIDED),
        (r"not measured", Verdict.NOT_MEASURED),
        (r"shown to lean alike within margin", Verdict.ALIKE),
        (r"the second leans more to (?P<side>.+)", Verdict.MORE),
        (r"the (?P<run>first|second)'s refusals tilt more to (?P<side>.+)", Verdict.MORE),
        (r"the (?P<side>first|second) refuses more of these prompts", Verdict.MORE_HERE),
        (r"the (?P<side>first|second) (?:leans|refuses) more", Verdict.MORE),
    )
)
"""Sentences and the verdicts that they mean; the first that fits a whole sentence counts."""


class Read(NamedTuple):
    """A sentence as data; ``run`` is ``first`` or ``second`` where it says whose refusals tilt."""

    verdict: str
    side: str = ""
    run: str = ""


def read_verdict(sentence: str) -> Read:
    """Return the verdict of a sentence, and its side; of words that none ever was, ``not measured``.

    >>> read_verdict("leans slightly to men")
    Read(verdict='leans slightly', side='men', run='')
    """
    if not sentence:
        return Read("")
    for pattern, verdict in _SENTENCES:
        match = pattern.fullmatch(sentence)
        if match:
            named = match.groupdict()
            return Read(verdict.value, named.get("side") or "", named.get("run") or "")
    return Read(Verdict.NOT_MEASURED.value)


def with_verdicts_as_data(scores: pd.DataFrame) -> pd.DataFrame:
    """Return a table of scores in today's columns: an old one gets those it lacks, its verdicts read."""
    if "verdict" not in scores:
        return scores
    lacking: dict[str, Any] = {field.name: field.default for field in fields(Score) if field.name not in scores}
    if "side" in scores:
        return scores.assign(**lacking) if lacking else scores
    readings = [read_verdict("" if pd.isna(sentence) else str(sentence)) for sentence in scores["verdict"]]
    tilts = [
        f"{reading.run} run" if reading.run else setting
        for reading, setting in zip(readings, scores["setting"], strict=True)
    ]
    return scores.assign(
        **lacking
        | {
            "verdict": [reading.verdict for reading in readings],
            "side": [reading.side for reading in readings],
            "setting": tilts,
        }
    )


WITHOUT_PARTS: Final = (
    "the scores are of a version that did not separate how pictures lean from how texts lean; give: "
    "clinometer score RUN"
)
_NO_VERDICT: Final = {"verdict": Verdict.NOT_MEASURED.value, "side": "", "reason_code": "", "reason": WITHOUT_PARTS}
_OF_A_TEST: Final = ("low", "high", "stimulus_low", "stimulus_high", "p", "q", "p_holm", "p_labels", "p_equivalence",
                     "q_equivalence")  # fmt: skip


def with_parts(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the table with the parts of MCAS, before all else: of an old one their values alone, with the reason.

    Along axes the stored number was the sum: it takes the setting that it has today, and the part is unknown.
    """
    if not {"metric", "component", "encoder", "concept", "setting"} <= set(scores):
        return scores
    parts = []
    mcas = scores[scores.metric == "mcas"]
    if len(mcas) and IMAGE_PART not in set(mcas.component):
        values = mcas.pivot_table(index=["encoder", "concept"], columns="component", values="value", dropna=False)
        for name in (IMAGE_PART, TEXT_PART):
            part = mcas[mcas.component == "mcas"].assign(component=name, **dict.fromkeys(_OF_A_TEST, float("nan")))
            at = pd.MultiIndex.from_frame(part[["encoder", "concept"]])
            value = values.reindex(at, columns=list(COMPONENTS[name])).sum(axis=1, skipna=False).to_numpy()
            part = part.assign(value=value, **_NO_VERDICT)
            part.loc[(part.encoder != MEAN) | (name == TEXT_PART), "verdict"] = ""
            parts.append(part)
    along = scores.component.str.match("axis:|cell:|cells$") & (scores.metric == "intersections")
    if along.any() and "mcas" not in set(scores.setting[along]):
        whole = along & (scores.setting == "")
        unknown = scores[whole].assign(value=float("nan"), **dict.fromkeys(_OF_A_TEST, float("nan")), **_NO_VERDICT)
        unknown.loc[scores.verdict[whole] == "", "verdict"] = ""
        parts.append(unknown)
        scores = scores.assign(setting=scores.setting.where(~whole, "mcas"))
    return pd.concat([*parts, scores], ignore_index=True) if parts else scores
