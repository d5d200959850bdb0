"""The formats in which a run's verdicts are exported for other tools, by name.

``eval-results`` are evaluation results of the Hub, ``.eval_results/*.yaml`` of a model's repository; their fields are
those of ``docs/hub/eval-results.md`` in hub-docs. ``every-eval-ever`` is the aggregate record of Every Eval Ever. Both
leave out what was not measured, or rests on too few images: they have no field for a reason. ``fairness`` is a
:mod:`Fairness Card <clinometer.exports.fairness_card>`, and ``cyclonedx`` an ML-BOM of CycloneDX.

A package brings another by an entry point in the group ``clinometer.formats``, which names a function of a scored run
that returns text. Numbers are those of the scores, without rounding.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from math import isfinite
from typing import Any, Final
from uuid import NAMESPACE_URL, uuid5

import yaml

from clinometer.errors import ClinometerError, InvalidInputError, RunCorruptError, SuiteError
from clinometer.exports.fairness_card import fairness_card
from clinometer.exports.model_cards import (
    REPOSITORY,
    CardDetails,
    card_input,
    is_served,
    judged,
    place_of,
    require_one_model,
)
from clinometer.models.weights import describe
from clinometer.report import wording
from clinometer.report.model_card import CardInput, one_line
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row
from clinometer.runs import Run
from clinometer.studies import study_of
from clinometer.suites import Suite


def yaml_text(content: Any) -> str:
    """Write YAML in the order of the content, with letters of every language."""
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))


def _json_text(content: Any) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _require_some(results: Sequence[Any], run: Run) -> None:
    """Refuse to pass on nothing, in a format that has no place for reasons.

    Raises
    ------
    InvalidInputError
        No verdict rests on enough images.
    """
    if not results:
        raise InvalidInputError.undefined(
            f"{run.url}: no verdict rests on enough images to be passed on; clinometer report {run.url} says why"
        )


def _measured_verdicts(run: CardInput) -> list[tuple[Verdicts, Row]]:
    """Return verdicts that rest on enough to be passed on without their reasons."""
    return [
        (verdicts, row)
        for verdicts, row in judged(run)
        if row.defined and not wording.not_measured(row) and not wording.too_few(row)
    ]


def results_name(suite: Suite) -> str:
    """Name the file of evaluation results in a model's repository."""
    return f".eval_results/clinometer-{re.sub(r'[^A-Za-z0-9._-]+', '-', suite.name)}.yaml"


def task_of(component: str, concept: str) -> str:
    """Name the task of a benchmark that a number answers, in letters that the Hub's names have.

    >>> task_of("image_part", "fire fighter"), task_of("axis:gender", "nurse")
    ('image_part-fire-fighter', 'axis-gender-nurse')

    Of names in other letters a hash tells them apart.

    >>> task_of("image_part", "Ärztin")
    'image_part--rztin-6ba838'
    """
    named = f"{component}-{concept}"
    slug = re.sub(r"[^A-Za-z0-9._-]+", "-", named).strip("-.")
    return slug if re.sub(r"[ :]", "-", named) == slug else f"{slug}-{hashlib.sha256(named.encode()).hexdigest()[:6]}"


def tasks_of(suite: Suite) -> list[str]:
    """Name the tasks of a benchmark made of a suite: one for each number that its study judges.

    Raises
    ------
    SuiteError
        What is judged follows from a run and not from the suite alone: of other studies, and of T2IAT without tests.
    """
    judged = study_of(suite).judged(suite)
    if not judged:
        raise SuiteError.unsupported(
            f"suite {suite.name}: what its study {suite.study!r} judges follows from a run; benchmarks are made of "
            "suites of the study leaning, and of t2iat with tests"
        )
    return [task_of(component, concept) for component, concept in judged]


def eval_results(run: Run, details: CardDetails) -> list[dict[str, Any]]:
    """Return the verdicts as entries of ``.eval_results/*.yaml``: a task a verdict, its interval in the notes.

    Raises
    ------
    InvalidInputError, SuiteError
        No data set of the Hub is named; of the suite no benchmark is made.
    """
    if not REPOSITORY.fullmatch(details.benchmark):
        raise InvalidInputError.malformed(
            f"found {details.benchmark!r}, expected the benchmark's data set on the Hub, owner/name; clinometer suites "
            f"{run.suite.name} --dataset DIR writes one",
            field="benchmark",
        )
    tasks, shown = set(tasks_of(run.suite)), card_input(run)
    source = {"source": {"url": details.source, "name": "clinometer report"}} if details.source else {}
    return [
        {
            "dataset": {"id": details.benchmark, "task_id": task},
            "value": float(row.value),
            "date": run.record["created"],
            **source,
            "notes": one_line(
                f"{verdicts.title} {verdicts.value(row)} {verdicts.interval(row)}, 95 % over {verdicts.over}; q "
                f"{wording.bare_probability(row.q)}; n {row.n_target}; {verdicts.verdict(row)}; suite "
                f"{run.record['suite_fingerprint']}; clinometer {run.record['versions']['clinometer']}"
            ),
        }
        for verdicts, row in _measured_verdicts(shown)
        if (task := task_of(row.component, row.concept)) in tasks
    ]


SCHEMA: Final = "0.3.0"
"""The version of Every Eval Ever's schema."""


def every_eval_ever(run: Run, details: CardDetails) -> dict[str, Any]:
    """Return a run as an aggregate record of Every Eval Ever: each verdict with its interval, n, and the run's hashes.

    A score that leans is best at 0 and its sign names a side; the schema knows only that lower or higher is better, so
    ``lower_is_better`` is said of its size, and ``metric_parameters`` say so.
    """
    record, card, shown = run.record, run.model_card, card_input(run)
    now, name = time.time(), str(card["name"])
    served = is_served(card)
    is_ours = record["origin"] == "generated" and not served
    hashes = {
        "suite_fingerprint": record["suite_fingerprint"],
        "run_checksum": record["checksum"],
        "scores_sha256": run.directory.sha256("scores.parquet"),
    }
    data = {"dataset_name": run.suite.name, "source_type": "other", "additional_details": hashes}
    if details.benchmark:
        data |= {"source_type": "hf_dataset", "hf_repo": details.benchmark, "hf_split": "test"}
    encoders = {f"encoder {key}": each["fingerprint"] for key, each in shown.report.encoder_cards.items()}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{run.suite.name}/{name.replace('/', '_')}/{now:.0f}",
        "evaluation_timestamp": record["created"],
        "retrieved_timestamp": f"{now:.0f}",
        "source_metadata": {
            "source_name": "clinometer",
            "source_type": "evaluation_run",
            "source_organization_name": details.by or "not stated",
            "evaluator_relationship": "other",
        },
        "eval_library": {
            "name": "clinometer",
            "version": record["versions"]["clinometer"],
            "additional_details": {key: str(value) for key, value in record["versions"].items()} | encoders,
        },
        "model_info": {
            "name": name,
            "id": name,
            "additional_details": {
                "deployment_type": "externally_managed" if served else "self_deployed" if is_ours else "unknown",
                "model_availability": "open_weights" if is_ours and card["weights_sha256"] else "unknown",
                "family": str(card["family"]),
                "fingerprint": str(record["model"]["fingerprint"]),
                **{key: str(card[key]) for key in ("revision", "weights_sha256") if card.get(key)},
            },
        },
        "evaluation_results": [
            _eval_result(run, verdicts, row, data, shown.command) for verdicts, row in _measured_verdicts(shown)
        ],
    }  # fmt: skip


def _eval_result(run: Run, verdicts: Verdicts, row: Row, data: Mapping[str, Any], command: str) -> dict[str, Any]:
    low, high = row.ends(verdicts.over)
    least, most = verdicts.reach or (None, None)
    resamples = run.record["options"].get("resamples")
    interval = {
        "confidence_interval": {
            "lower": float(low), "upper": float(high), "confidence_level": 0.95, "method": f"over {verdicts.over}",
        },
        "num_samples": int(row.n_target),
        **({"num_bootstrap_samples": resamples} if resamples else {}),
    }  # fmt: skip
    numbers = {key: repr(float(getattr(row, key))) for key in ("p", "q") if isfinite(getattr(row, key))}
    return {
        "evaluation_result_id": "/".join(
            filter(None, (row.metric, row.component, row.concept, row.group, row.setting))
        ),
        "evaluation_name": f"{run.suite.name}: {verdicts.name(row)}",
        "source_data": dict(data),
        "evaluation_timestamp": run.record["created"],
        "metric_config": {
            "evaluation_description": one_line(f"{verdicts.title}: {verdicts.meaning}"),
            "metric_id": f"clinometer.{row.metric}.{row.component}",
            "metric_name": verdicts.title,
            "metric_parameters": {"ideal": 0, "lower_is_better_of": "the size, without the sign"},
            "lower_is_better": True,
            "score_type": "continuous",
            "min_score": least,
            "max_score": most,
        },
        "score_details": {
            "score": float(row.value),
            "details": {"verdict": verdicts.verdict(row), "test": row.test, "encoder": row.encoder, **numbers},
            **({"uncertainty": interval} if isfinite(low) and isfinite(high) else {}),
        },
        "generation_config": {"generation_args": {"execution_command": command}},
    }


_SHA256: Final = re.compile(r"[0-9a-f]{64}")


def ml_bom(run: Run) -> dict[str, Any]:
    """Return a bill of materials of the audited model alone, CycloneDX 1.6 (ECMA-424), with its verdicts.

    Each verdict is a performance metric with its ``confidenceInterval``; the schema has no field for the verdict
    itself, q and the reason for a number that is missing, which are properties of the model card. The component's hash
    is that of its weights, where they are known, so that a BOM of the product that contains the model can refer to it.
    The same run gives the same document.
    """
    record, card, shown = run.record, run.model_card, card_input(run)
    metrics, properties = list[dict[str, Any]](), list[dict[str, str]]()
    for verdicts, row in judged(shown):
        low, high = row.ends(verdicts.over)
        kind = f"{row.metric}.{row.component}"
        part = "/".join(filter(None, (row.concept or row.category, row.group, row.setting)))
        if row.defined:
            interval = {"lowerBound": repr(float(low)), "upperBound": repr(float(high))}
            metrics.append(
                {"type": kind, "value": repr(float(row.value)), **({"slice": part} if part else {})}
                | ({"confidenceInterval": interval} if isfinite(low) and isfinite(high) else {})
            )
        parts = [verdicts.verdict(row), f"n {row.n_target}", *([f"q {row.q!r}"] if isfinite(row.q) else [])]
        name = f"clinometer:verdict:{kind}{f':{part}' if part else ''}"
        properties.append({"name": name, "value": one_line("; ".join([*parts, *filter(None, [row.reason])]))})
    audited = {
        "suite": run.suite.name, "suite_fingerprint": record["suite_fingerprint"], "run_checksum": record["checksum"],
        "scores_sha256": run.directory.sha256("scores.parquet"), "seed": str(record["seed"]), "command": shown.command,
        **{f"encoder:{name}": each["fingerprint"] for name, each in shown.report.encoder_cards.items()},
    }  # fmt: skip
    name, revision, weights = str(card["name"]), card.get("revision"), str(card.get("weights_sha256") or "")
    on_hub = REPOSITORY.fullmatch(name) and revision
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid5(NAMESPACE_URL, str(record['checksum']))}",
        "version": 1,
        "metadata": {
            "timestamp": record["created"],
            "tools": {"components": [
                {"type": "application", "name": "clinometer", "version": record["versions"]["clinometer"]}
            ]},
        },
        "components": [
            {
                "type": "machine-learning-model",
                "bom-ref": f"model-{record['model']['fingerprint']}",
                "name": name,
                **({"version": str(revision)} if revision else {}),
                **({"hashes": [{"alg": "SHA-256", "content": weights}]} if _SHA256.fullmatch(weights) else {}),
                **({"purl": f"pkg:huggingface/{name}@{revision}"} if on_hub else {}),
                "modelCard": {
                    "modelParameters": {
                        "modelArchitecture": str(card["family"]),
                        "inputs": [{"format": "text"}],
                        "outputs": [{"format": "image"}],
                    },
                    "quantitativeAnalysis": {"performanceMetrics": metrics},
                    "properties": [
                        *({"name": f"clinometer:{key}", "value": value} for key, value in audited.items()),
                        *properties,
                    ],
                },
            }
        ],
    }  # fmt: skip


@dataclass(frozen=True)
class Format:
    """A format in which the verdicts of finished runs are passed on.

    Attributes
    ----------
    name : what ``clinometer card --format`` calls it.
    write : (runs of one model, details) → the text.
    takes : the fields of :class:`~clinometer.exports.model_cards.CardDetails` that it uses; others are refused.
    of_several : whether one text holds several runs; where not, it is of one.
    file : run → its name in the folder that is given; None where the file itself is given.
    """

    name: str
    write: Callable[[Sequence[Run], CardDetails], str]
    takes: tuple[str, ...] = ()
    of_several: bool = False
    file: Callable[[Run], str] | None = None


MODEL_CARD: Final = "model-card"
"""Markdown, with model-index; see :mod:`clinometer.exports.model_cards`."""


def _write_eval_results(runs: Sequence[Run], details: CardDetails) -> str:
    entries = [entry for run in runs for entry in eval_results(run, details)]
    _require_some(entries, runs[0])
    return yaml_text(entries)


def _write_every_eval_ever(runs: Sequence[Run], details: CardDetails) -> str:
    record = every_eval_ever(runs[0], details)
    _require_some(record["evaluation_results"], runs[0])
    return _json_text(record)


_FORMATS: Final = (
    Format(
        "eval-results", _write_eval_results, takes=("benchmark", "source"), of_several=True,
        file=lambda run: results_name(run.suite),
    ),
    Format("every-eval-ever", _write_every_eval_ever, takes=("benchmark", "by")),
    Format(
        "fairness", lambda runs, details: yaml_text(fairness_card(runs[0], details)),
        takes=("by", "in_scope", "out_of_scope"),
    ),
    Format("cyclonedx", lambda runs, details: _json_text(ml_bom(runs[0]))),
)  # fmt: skip
FORMATS: Final[Mapping[str, Format]] = {each.name: each for each in _FORMATS}

GROUP: Final = "clinometer.formats"
"""The entry points of formats that other packages bring."""


def format_named(name: str) -> Format:
    """Find a format by its name.

    Raises
    ------
    InvalidInputError
        There is no such format.
    """
    if name in FORMATS:
        return FORMATS[name]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise InvalidInputError.expected_one_of((MODEL_CARD, *FORMATS, *sorted(points)), name, field="format")
    return Format(name, lambda runs, details: _written_by(points[name], runs[0]))


def _written_by(point: EntryPoint, run: Run) -> str:
    try:
        text = point.load()(run)
    except ClinometerError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in's may be any
        raise InvalidInputError.failed(
            f"{point.name!r} ({point.value}) stopped with {describe(error)}", field="format"
        ) from error
    if not isinstance(text, str):
        raise InvalidInputError.wrong_type(
            f"{point.name!r} ({point.value}) gave {type(text).__name__}, expected text", field="format"
        )
    return text


def write_as(runs: Sequence[Run], name: str, details: CardDetails, out: str | os.PathLike[str] | None) -> str:
    """Write the verdicts of runs of one model in a format; into the file ``out``, or in the folder ``out``.

    Raises
    ------
    InvalidInputError
        There is no such format; something that it needs is not given, or that it does not take; several runs for one;
        there is no such folder, it cannot be written, or the file is somebody else's.
    RunError, SuiteError
        A run is not scored, or damaged, or not of the first one's model; of its suite no benchmark is made.
    """
    form = format_named(name)
    for field, value in vars(details).items():
        if value and field not in form.takes:
            raise InvalidInputError.unsupported(f"the format {name} does not take it; leave it out", field=field)
    if len(runs) != 1 and not form.of_several:
        raise InvalidInputError.too_many(f"found {len(runs)}, expected one for the format {name}", field="runs")
    require_one_model(runs)
    for run in runs:
        if run.unchecked:
            raise RunCorruptError(
                f"{run.url}: {run.unchecked}, so its numbers are not exported; run the audit again in a new folder"
            )
    text = form.write(runs, details)
    if out is not None:
        folder, file = place_of(out if form.file is None else os.path.join(out, "any"))  # which may not be there yet
        file = file if form.file is None else form.file(runs[0])
        folder.require_own([file], {file: b"clinometer"})
        folder.write_bytes(file, text.encode("utf-8"))
    return text
