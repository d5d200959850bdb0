"""What commands say to scripts under ``--json``: one kind of document for each kind of finding, and their schema.

A document names its schema and its kind. Within a version of the schema fields are only added, and a kind keeps its
fields; ``clinometer schema`` prints it as JSON Schema. A number that is not known is null, and has a reason beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from math import isfinite
from numbers import Real
from typing import Annotated, Any, Final, Literal, Self

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter

from clinometer.gates import Gate
from clinometer.pipeline.comparison_page import (
    comparison_caution,
    comparison_refusals,
    comparison_verdict,
    pairing_in_words,
)
from clinometer.report.differences import pair_names
from clinometer.runs import Run
from clinometer.runs.record import recorded_departures
from clinometer.runs.several import Comparison
from clinometer.runs.verification import lost_images
from clinometer.studies import study_of
from clinometer.studies.planning import Plan
from clinometer.studies.reporting import pictures_in_words
from clinometer.sweeps.sweep import Sweep

SCHEMA: Final = "clinometer/1"


def _plain(value: Any) -> Any:
    """Return a cell of a table as JSON has it: what is no number, or not there, is null."""
    if isinstance(value, np.ndarray | list | tuple):
        return [_plain(each) for each in value]
    if value is None or value is pd.NA or (isinstance(value, Real) and not isfinite(value)):
        return None
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    return float(value) if isinstance(value, Real) else str(value)


Scalar = bool | int | float | str | None
Cell = Annotated[Scalar | list[Scalar], BeforeValidator(_plain)]
Number = Annotated[float | None, BeforeValidator(_plain)]
Row = dict[str, Cell]


def _rows(table: pd.DataFrame) -> list[Row]:
    return [{str(name): value for name, value in row.items()} for row in table.to_dict("records")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Finding(_Part):
    """A number that was judged, as a row of ``scores.parquet`` has it."""

    metric: str
    component: str
    concept: str = Field(description="Empty of a number about a category or the whole suite.")
    category: str
    group: str
    setting: str
    encoder: str = Field(description="'mean' is the average over encoders.")
    value: Number
    low: Number = Field(description="Lower end of the 95 % interval over images.")
    high: Number
    stimulus_low: Number = Field(description="Lower end of the 95 % interval over prompts, where there is one.")
    stimulus_high: Number
    p: Number
    q: Number = Field(description="p, corrected over everything that was tested together.")
    n_target: int = Field(description="Images of the target that the number rests on.")
    n_decide: int | None = Field(description="About how many images would decide; null where nobody knows.")
    verdict: str
    side: str = Field(description="The group that it leans to; empty where it leans to none.")
    reason_code: str
    reason: str = Field(description="Why there is no number, or no verdict.")


def findings(scores: pd.DataFrame) -> list[Finding]:
    """Return the rows that have a verdict, and those that say from which step on a concept leans."""
    judged = scores[(scores.verdict.fillna("") != "") | (scores.component == "onset")]
    names = list(Finding.model_fields)
    counts = judged.reindex(columns=names).assign(n_target=judged.n_target.fillna(0).astype(int))
    texts = counts.select_dtypes(["object", "string"]).columns
    counts[texts] = counts[texts].fillna("")
    records = counts.to_dict("records")
    for record in records:
        record["n_decide"] = int(record["n_decide"]) if isfinite(record["n_decide"] or 0) else None
    return [Finding(**{str(name): value for name, value in record.items()}) for record in records]


class RunPlace(_Part):
    """A run, and what it is of."""

    place: str
    report: str | None = Field(description="Its page, where there is one.")
    suite: str
    study: str
    model: str
    encoders: list[str]
    seed: int
    created: str
    checksum: str | None = Field(description="It stands for every file of the run.")
    unchecked: str = Field(description="Why nothing tells whether its files are as written; empty where they are.")

    @classmethod
    def of(cls, run: Run) -> Self:
        """Describe a run."""
        record, report = run.record, "report.html"
        return cls(
            place=run.directory.shown,
            report=run.directory.path(report) if run.directory.exists(report) else None,
            suite=run.suite.name,
            study=run.suite.study,
            model=record["model"]["name"],
            encoders=list(run.encoder_cards),
            seed=record["seed"],
            created=record["created"],
            checksum=record.get("checksum"),
            unchecked=run.unchecked,
        )


PlaceOfRun = Annotated[RunPlace, BeforeValidator(lambda run: RunPlace.of(run) if isinstance(run, Run) else run)]


class Document(BaseModel):
    """What every document has."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True, protected_namespaces=())

    schema_: Literal["clinometer/1"] = Field(SCHEMA, alias="schema")
    clinometer: str = Field(default_factory=lambda: metadata.version("clinometer"), description="Its version.")

    def as_json(self) -> str:
        """Write it, in two columns of indentation; the same finding gives the same bytes."""
        return self.model_dump_json(by_alias=True, indent=2)


class RunDocument(Document):
    """A scored run: audit, score, import and read."""

    kind: Literal["run"] = "run"
    run: RunPlace
    planned: int = Field(description="Images that the run asked for.")
    images: dict[str, int] = Field(description="How many became what: ok, blank, refused, failed.")
    lost: int = Field(description="Images that were asked for and are not there.")
    scored: bool
    summary: str = Field(description="The verdicts, counted, in words.")
    verdicts: list[Finding]
    remarks: list[str] = Field(description="What of its pictures a reader should know.")
    departures: list[str] | None = Field(description="From its paper's protocol; null where it was not put under it.")
    answers: list[Row] = Field([], description="From clinometer read: what each reader said, counted.")

    @classmethod
    def of(cls, run: Run, answers: Sequence[Mapping[str, Any]] = ()) -> Self:
        """Describe a run and its verdicts."""
        departures = recorded_departures(run.record)
        scored = run.is_scored
        summary = study_of(run.suite).page(run.suite).summary(run.suite, run.scores).verdicts if scored else ""
        return cls(
            run=RunPlace.of(run),
            planned=len(run.plan),
            images={str(status): int(n) for status, n in run.samples.status.value_counts().items()},
            lost=len(lost_images(run)),
            scored=scored,
            summary=summary,
            verdicts=findings(run.scores) if scored else [],
            remarks=pictures_in_words(run),
            departures=None if departures is None else [each.sentence for each in departures],
            answers=list(map(dict, answers)),
        )


class ComparedRuns(_Part):
    """A run compared with the first."""

    first: PlaceOfRun
    second: PlaceOfRun
    paired: bool = Field(description="Whether images of one prompt and one noise were compared in pairs.")
    pairs: int
    dropped: int = Field(description="Images without a partner.")
    identical: int = Field(description="Pairs of which both images are one and the same.")
    said: str = Field(description="Which leans more, in words.")
    cautions: list[str]
    pairing: str
    verdicts: list[Finding] = Field(description="Differences, second less first.")

    @classmethod
    def of(cls, comparison: Comparison, names: tuple[str, str]) -> Self:
        """Describe a comparison."""
        cautions = (*comparison_caution(comparison, names), comparison_refusals(comparison, names))
        same = ("first", "second", "paired", "pairs", "dropped", "identical")
        return cls(
            **{name: getattr(comparison, name) for name in same},
            said=comparison_verdict(comparison, names),
            cautions=list(filter(None, cautions)),
            pairing=pairing_in_words(comparison),
            verdicts=findings(comparison.scores),
        )


class ComparisonDocument(Document):
    """Runs compared with the first of them: compare."""

    kind: Literal["comparison"] = "comparison"
    comparisons: list[ComparedRuns]
    report: str | None = None


class GateDocument(Document):
    """A run held to limits: gate."""

    kind: Literal["gate"] = "gate"
    outcome: Literal["holds", "broken", "undecided"]
    exit_code: int
    title: str | None
    unchecked: str = ""
    run: dict[str, Any] = Field(description="The run as the verdict names it: place, checksum, suite, model, versions.")
    baseline: dict[str, Any] | None
    history: dict[str, Any] | None = Field(
        None, description="Of rules against the history: its place, the runs, and those left out with reasons."
    )
    versions: dict[str, str]
    rules: list[dict[str, Any]] = Field(description="Each rule as requested, with its outcome and how many numbers.")
    rows: list[Row] = Field(description="A row a number that was held to a limit.")
    explanations: list[str] = Field(description="Why each row came out so.")


class PlanDocument(Document):
    """What an audit needs: plan."""

    kind: Literal["plan"] = "plan"
    images: int = Field(description="In the suite as it stands.")
    images_needed: Number = Field(description="To decide every concept that can be decided; null without a pilot.")
    attribute_images: Number = Field(description="Of an attribute prompt, in proportion; null without a pilot.")
    hours: Number
    gigabytes: Number
    cost: Number
    cost_needed: Number
    answers: int
    answers_cost: Number
    power: float
    alpha: float
    effect: Number
    margin: Number
    pilot: str
    rows: list[Row] = Field(description="A row a concept with a pilot, else a row a share of images.")


class SweepDocument(Document):
    """A grid of audits: sweep, and audit of several settings."""

    kind: Literal["sweep"] = "sweep"
    place: str
    report: str
    cells: int
    runs: dict[str, str] = Field(description="The finished runs, by their cells.")
    failed: dict[str, str] = Field(description="Cells that failed, and why.")
    rows: list[Row] = Field(description="A row a number of every setting, and a row a difference from the baseline.")
    split: list[Row] = Field(
        [], description="What the network learned and what guidance adds, a row a number, as in split.csv."
    )
    split_lacks: dict[str, str] = Field(
        {}, description="By suite, why there is no split by guidance, and how to get one; empty where there is one."
    )


class VerificationDocument(Document):
    """A run whose files are all as they were written: verify. What is damaged ends with status 2 and no document."""

    kind: Literal["verification"] = "verification"
    run: PlaceOfRun
    files: int = Field(description="Files that were read.")
    checked: bool = Field(description="Whether the run has checksums; without, files can be read and no more is known.")
    unlisted: list[str] = Field(description="Files that run.json does not list.")
    unfinished: str = Field(description="What is still to be done; empty of a finished run.")
    recomputed: bool = Field(description="Whether its numbers were computed again, and are those that are stored.")
    evidence: str | None = Field(description="The record that it was compared with.")
    attempts: list[str] = Field([], description="Every attempt under its registration, in words.")
    changes: list[str] | None = Field(
        None, description="What is not as registered, in words; null where it was compared with no registration."
    )


class FilesDocument(Document):
    """What was written, or sent: report, card, export, push, mitigate, questions, ratings, suites --dataset."""

    kind: Literal["files"] = "files"
    of: str = Field(description="The command.")
    place: str | None = Field(description="The folder or the file.")
    files: list[str]
    text: str | None = Field(None, description="What would have been written, where no file was asked for.")
    remarks: list[str] = []


class NamedTable(_Part):
    """A table, with what it is about."""

    title: str
    rows: list[Row]


def _tables(tables: Any) -> Any:
    """Accept tables by their titles, too: frames, or rows."""
    if not isinstance(tables, Mapping):
        return tables
    return [
        {"title": title, "rows": _rows(rows) if isinstance(rows, pd.DataFrame) else list(rows)}
        for title, rows in tables.items()
    ]


class TablesDocument(Document):
    """Tables of other commands: test, classify, read of a folder, suites, models, ratings, config, report --paper."""

    kind: Literal["tables"] = "tables"
    of: str = Field(description="The command.")
    tables: Annotated[list[NamedTable], BeforeValidator(_tables)]
    remarks: list[str] = []


AnyDocument = Annotated[
    RunDocument
    | ComparisonDocument
    | GateDocument
    | PlanDocument
    | SweepDocument
    | VerificationDocument
    | FilesDocument
    | TablesDocument,
    Field(discriminator="kind"),
]


def json_schema() -> dict[str, Any]:
    """Return the schema of all documents, as JSON Schema (draft 2020-12)."""
    schema = TypeAdapter(AnyDocument).json_schema(mode="serialization", by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{SCHEMA.replace('/', ':')}",
        "title": "What clinometer's commands found",
        **schema,
    }


def document_of(found: Any, **more: Any) -> Document:
    """Make the document of what a command found.

    Parameters
    ----------
    found : a run, comparisons with one first run, a gate, a plan, a sweep; or a kind, all of which is ``more``.
    more : what of it does not follow from what was found.
    """
    if isinstance(found, str):
        kinds: dict[str, type[Document]] = {
            "files": FilesDocument,
            "tables": TablesDocument,
            "verification": VerificationDocument,
        }
        return kinds[found].model_validate(more)
    if isinstance(found, Run):
        return RunDocument.of(found, **more)
    if isinstance(found, Gate):
        return GateDocument.model_validate(found.as_mapping() | more)
    if isinstance(found, Plan):
        fields = {name: getattr(found, name) for name in PlanDocument.model_fields if hasattr(found, name)}
        return PlanDocument(**fields, rows=_rows(found.table))
    if isinstance(found, Sweep):
        return SweepDocument(
            place=found.directory.shown,
            report=found.directory.path("sweep.html"),
            cells=len(found.cells),
            runs={name: run.directory.shown for name, run in found.runs.items()},
            failed=found.failed,
            rows=_rows(found.table),
            split=_rows(found.split),
            split_lacks=found.split_lacks,
        )
    compared = list(found)
    pairs = zip(compared, pair_names(compared), strict=True)
    return ComparisonDocument(comparisons=[ComparedRuns.of(*pair) for pair in pairs], **more)
