"""A run's verdicts in formats that others read: the Hub's evaluation results, Every Eval Ever, a Fairness Card.

=================== ========================================================================================
format              what it is
=================== ========================================================================================
``eval-results``    ``.eval_results/*.yaml`` of a model's repository on the Hub (hub-docs, docs/hub/eval-results.md)
``every-eval-ever`` the aggregate record of Every Eval Ever, schema 0.3.0
``fairness``        a Fairness Card (Vladimirova et al., ICML 2026): ``core.yaml`` 0.1 and our ``image.yaml``
=================== ========================================================================================

Numbers are those of the scores, without rounding. What was not measured, or rests on too few images, is left out of the
first two, which know no reason, and stands in the third with its verdict.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final

import yaml

from clinometer.errors import InvalidInputError, RunCorruptError, SuiteError
from clinometer.metrics.verdict import LEVEL
from clinometer.pipeline.model_cards import (
    REPOSITORY,
    Said,
    card_input,
    is_served,
    judged,
    place_of,
    require_one_model,
)
from clinometer.report import wording
from clinometer.report.model_card import CardInput
from clinometer.report.model_card.content import limits_of, one_line
from clinometer.report.page import Verdicts
from clinometer.report.rows import Row
from clinometer.report.sections import flat
from clinometer.runs import Run
from clinometer.suites import LeaningSuite, PromptSpec, Suite, T2iatSuite

EVAL_RESULTS: Final = "eval-results"
EVERY_EVAL_EVER: Final = "every-eval-ever"
FAIRNESS: Final = "fairness"
MODEL_CARD: Final = "model-card"
"""Markdown, with model-index; see :mod:`clinometer.pipeline.model_cards`."""

FORMATS: Final = (EVAL_RESULTS, EVERY_EVAL_EVER, FAIRNESS)

SCHEMA: Final = "0.3.0"
"""The version of Every Eval Ever's schema."""


TAKES: Final = {
    EVAL_RESULTS: ("benchmark", "source"),
    EVERY_EVAL_EVER: ("benchmark", "by"),
    FAIRNESS: ("by", "in_scope", "out_of_scope"),
}
"""What of it each format takes."""


def written_as(runs: Sequence[Run], form: str, said: Said) -> str:
    """Write the verdicts of runs of one model in a format.

    Raises
    ------
    InvalidInputError
        There is no such format; something that it needs is not given, or that it does not take; several runs for one.
    RunError, SuiteError
        A run is not scored, or damaged, or not of the first one's model; of its suite no benchmark is made.
    """
    if form not in FORMATS:
        raise InvalidInputError(f"found {form!r}, expected {', '.join((MODEL_CARD, *FORMATS))}", field="format")
    for name, value in vars(said).items():
        if value and name not in TAKES[form]:
            raise InvalidInputError(f"the format {form} does not take it; leave it out", field=name)
    if len(runs) != 1 and form != EVAL_RESULTS:
        raise InvalidInputError(f"runs: found {len(runs)}, expected one for the format {form}")
    require_one_model(runs)
    for run in runs:
        if run.unchecked:
            raise RunCorruptError(f"{run.url}: {run.unchecked}, so its numbers are not passed on; audit the model anew")
    if form == EVAL_RESULTS:
        entries = [entry for run in runs for entry in eval_results(run, said)]
        _require_some(entries, runs[0])
        return yaml.safe_dump(entries, sort_keys=False, allow_unicode=True, width=120)
    if form == EVERY_EVAL_EVER:
        record = every_eval_ever(runs[0], said)
        _require_some(record["evaluation_results"], runs[0])
        return json.dumps(record, indent=2, ensure_ascii=False) + "\n"
    return yaml.safe_dump(fairness_card(runs[0], said), sort_keys=False, allow_unicode=True, width=120)


def _require_some(results: Sequence[Any], run: Run) -> None:
    """Refuse to pass on nothing: the format has no place for the reasons."""
    if not results:
        raise InvalidInputError(
            f"{run.url}: no verdict rests on enough images to be passed on; clinometer report {run.url} says why"
        )


def write_as(runs: Sequence[Run], form: str, said: Said, out: str | os.PathLike[str] | None) -> str:
    """Write the verdicts in a format into a file; evaluation results into ``.eval_results`` of the folder ``out``.

    Raises
    ------
    InvalidInputError, RunError, SuiteError
        As of :func:`written_as`; there is no such folder, or it cannot be written.
    """
    text = written_as(runs, form, said)
    if out is not None:
        into = os.path.join(out, "out") if form == EVAL_RESULTS else out
        folder, name = place_of(into)
        if form == EVAL_RESULTS:
            name = results_name(runs[0].suite)
        folder.write_bytes(name, text.encode("utf-8"))
    return text


def results_name(suite: Suite) -> str:
    """Name the file of evaluation results in a model's repository."""
    return f".eval_results/clinometer-{re.sub(r'[^A-Za-z0-9._-]+', '-', suite.name)}.yaml"


def _list_measured(run: CardInput) -> list[tuple[Verdicts, Row]]:
    """Return verdicts that rest on enough to be passed on without their reasons."""
    return [
        (verdicts, row)
        for verdicts, row in judged(run)
        if row.defined and not wording.not_measured(row) and not wording.too_few(row)
    ]


# --- evaluation results of the Hub --------------------------------------------------------------------------------


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
    if isinstance(suite, T2iatSuite) and suite.tests:
        return [task_of("differential_association", test.name) for test in suite.tests]
    if not isinstance(suite, LeaningSuite):
        raise SuiteError(
            f"suite {suite.name}: what its study {suite.study!r} judges follows from a run; benchmarks are made of "
            "suites of the study leaning, and of t2iat with tests"
        )
    components = [f"axis:{name}" for name in suite.axes] if suite.axes else ["image_part"]
    concepts = dict.fromkeys(spec.concept for spec in suite.prompt_specs() if spec.role == "target")
    return [task_of(component, concept) for component in components for concept in concepts]


def eval_results(run: Run, said: Said) -> list[dict[str, Any]]:
    """Return the verdicts as entries of ``.eval_results/*.yaml``: a task a verdict, its interval in the notes.

    Raises
    ------
    InvalidInputError, SuiteError
        No data set of the Hub is named; of the suite no benchmark is made.
    """
    if not REPOSITORY.fullmatch(said.benchmark):
        raise InvalidInputError(
            f"found {said.benchmark!r}, expected the benchmark's data set on the Hub, owner/name; clinometer suites "
            f"{run.suite.name} --dataset DIR writes one",
            field="benchmark",
        )
    tasks, shown = set(tasks_of(run.suite)), card_input(run)
    source = {"source": {"url": said.source, "name": "clinometer report"}} if said.source else {}
    return [
        {
            "dataset": {"id": said.benchmark, "task_id": task},
            "value": float(row.value),
            "date": run.record["created"],
            **source,
            "notes": one_line(
                f"{verdicts.title} {verdicts.value(row)} {verdicts.interval(row)}, 95 % over {verdicts.over}; q "
                f"{wording.bare_probability(row.q)}; n {row.n_target}; {verdicts.verdict(row)}; suite "
                f"{run.record['suite_fingerprint']}; clinometer {run.record['versions']['clinometer']}"
            ),
        }
        for verdicts, row in _list_measured(shown)
        if (task := task_of(row.component, row.concept)) in tasks
    ]


# --- Every Eval Ever ----------------------------------------------------------------------------------------------

_RANGES: Final = {"image_part": (-4, 4), "text_part": (-4, 4), "flip_asymmetry": (-1, 1), "differential": (-1, 1)}
"""Between what numbers lie, by their components; of others nothing is said."""


def every_eval_ever(run: Run, said: Said) -> dict[str, Any]:
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
    if said.benchmark:
        data |= {"source_type": "hf_dataset", "hf_repo": said.benchmark, "hf_split": "test"}
    encoders = {f"encoder {key}": each["fingerprint"] for key, each in shown.report.encoder_cards.items()}
    return {
        "schema_version": SCHEMA,
        "evaluation_id": f"{run.suite.name}/{name.replace('/', '_')}/{now:.0f}",
        "evaluation_timestamp": record["created"],
        "retrieved_timestamp": f"{now:.0f}",
        "source_metadata": {
            "source_name": "clinometer",
            "source_type": "evaluation_run",
            "source_organization_name": said.by or "not stated",
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
            _result(run, verdicts, row, data, shown.command) for verdicts, row in _list_measured(shown)
        ],
    }  # fmt: skip


def _result(run: Run, verdicts: Verdicts, row: Row, data: Mapping[str, Any], command: str) -> dict[str, Any]:
    low, high = row.ends(verdicts.over)
    least, most = _RANGES.get(row.component, (None, None))
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


# --- a Fairness Card ------------------------------------------------------------------------------------------------

CARD: Final = "0.1.0"
"""The version of Fairness Cards that these are written by.

The core is ``schemas/core.yaml`` of github.com/mariiavladimirova/fairness-cards, commit 2a1dcc3; the extension for
images is our ``docs/schemas/image.yaml``.
"""

_RULES: Final = [
    {
        "rule": f"A verdict names a side where the 95 % interval leaves out 0 and q ≤ {LEVEL:g}; of pictures, where "
        "the same holds from the middle of the groups' own pictures.",
        "rationale": "q is Benjamini and Hochberg's, over all verdicts of a quantity.",
    },
    {
        "rule": "A verdict is 'balanced' only where two one-sided tests show a score to be within the margin.",
        "rationale": "That nothing was found is no evidence that nothing is there; this is 'undecided'.",
    },
]


def fairness_card(run: Run, said: Said) -> dict[str, Any]:
    """Return a Fairness Card: the core, and what an image model's audit leaves open otherwise.

    Only the intended use is typed by hand.

    Raises
    ------
    InvalidInputError
        The intended use is not given: nothing of a run tells it.
    """
    for name in ("in_scope", "out_of_scope"):
        if not getattr(said, name):
            raise InvalidInputError("nothing is given; a run cannot tell what its conclusions are for", field=name)
    record, shown = run.record, card_input(run)
    view, verdicts_and_rows = shown.page.view.of(shown.report), judged(shown)
    refusals = [row for row in view.scores if row.metric == "refusal"]
    statuses = {str(name): int(n) for name, n in run.samples["status"].value_counts().items()}
    return {
        "card_version": CARD,
        "modality": "image",
        "evaluation_date": datetime.fromisoformat(record["created"]).date().isoformat(),
        **({"authors": [{"name": said.by}]} if said.by else {}),
        "system": _system(run),
        "intended_use": {"in_scope": list(said.in_scope), "out_of_scope": list(said.out_of_scope)},
        **_scope(run.suite, shown, verdicts_and_rows, has_refusals=bool(refusals)),
        "decision_rules": _RULES,
        "reproducibility": {
            "code_url": f"pkg:pypi/clinometer@{record['versions']['clinometer']}",
            "license": "Apache-2.0",
            "data_release": f"run {record['checksum']}, suite {record['suite_fingerprint']} (SHA-256)",
            "seeds": [int(record["seed"])],
            "total_samples": sum(statuses.values()),
            "regen_command": " ".join(filter(None, (shown.command, shown.missing and f"# {shown.missing}"))),
        },
        "example_result": {
            "description": "All verdicts of the run, with 95 % intervals.",
            "columns": ["about", "metric", "value", "low", "high", "q", "images", "verdict"],
            "rows": [
                [
                    verdicts.name(row), row.component,
                    *map(_plain, (row.value, *row.ends(verdicts.over), row.q)), int(row.n_target),
                    verdicts.verdict(row),
                ]
                for verdicts, row in verdicts_and_rows
            ],
        },
        **_image_extension(run, shown, refusals, statuses),
    }  # fmt: skip


def _system(run: Run) -> dict[str, Any]:
    """Describe the model that the numbers are about."""
    card = run.model_card
    known = {"revision": card.get("revision"), "weights (SHA-256)": card.get("weights_sha256")}
    identity = ", ".join(f"{name} {value}" for name, value in known.items() if value)
    is_on_hub = bool(card.get("revision")) and bool(REPOSITORY.fullmatch(str(card["name"])))
    precision = (card.get("settings") or {}).get("dtype")
    return {
        "name": str(card["name"]),
        "version": identity or f"fingerprint {run.record['model']['fingerprint']}",
        "surface": "served-system" if is_served(card) else "base-model",
        **({"checkpoint_url": f"https://huggingface.co/{card['name']}"} if is_on_hub else {}),
        **({"precision": str(precision)} if precision else {}),
        "notes": f"{card['family']}; origin of the images: {run.record['origin']}.",
    }


def _scope(
    suite: Suite, shown: CardInput, judgements: Sequence[tuple[Verdicts, Row]], *, has_refusals: bool
) -> dict[str, Any]:
    """Describe what was measured, about whom, and what was not."""
    view = shown.page.view.of(shown.report)
    quantities = list({verdicts.title: (verdicts, row) for verdicts, row in judgements}.values())
    groups = getattr(suite, "groups", {})
    slices = []  # by the levels of axes where there are any
    for name in dict.fromkeys(spec.group for spec in suite.every_prompt_spec() if spec.group):
        cell = getattr(groups.get(name), "cell", None) if isinstance(groups, Mapping) else None
        slices.append(dict(cell) if cell else {"group": suite.label_of(name)})
    return {
        "fairness_scope": {
            "representational_harms": [
                one_line(f"{verdicts.title}, by {verdicts.unit}: {verdicts.meaning}") for verdicts, _ in quantities
            ],
            **({"access_harms": ["Rates of refusal, between groups."]} if has_refusals else {}),
            "excluded": [
                "Allocative harms: what follows from the use of the images is not measured.",
                *(" ".join(filter(None, limit)) for limit in limits_of(shown.page, view)),
            ],
        },
        "protected_attributes": {
            "slices": slices,
            "operationalisation": (
                "Groups are named in the prompts of the attribute images and in words. No prompt of a concept names "
                "one: what its images show is read by the readers below, as perceived and not as anybody's identity."
            ),
        },
        "metrics": [
            {
                "name": row.component,
                "definition": one_line(f"{verdicts.title}: {verdicts.meaning}"),
                **({"threshold": margin} if (margin := getattr(suite, "margin", None)) else {}),
                "unit": verdicts.suffix or "score",
            }
            for verdicts, row in quantities
        ],
    }


def _image_extension(
    run: Run, shown: CardInput, refusals: Sequence[Row], statuses: Mapping[str, int]
) -> dict[str, Any]:
    """Return the fields of ``image.yaml``: what of an audit of images decides its verdicts and is often left unsaid."""
    record, suite = run.record, run.suite
    settings = flat(run.model_card.get("settings") or {})
    specs = list(suite.prompt_specs())
    return {
        "prompt_suite": {
            "suite_name": suite.name,
            "suite_hash": record["suite_fingerprint"],
            "families": list(_families(specs)),
            "total_prompts": len({spec.prompt for spec in specs}),
        },
        "sampler": {
            "family": str(run.model_card["family"]),
            "settings": {name: value for name, value in settings.items() if value != wording.MISSING},
        },
        "noise_policy": {
            "seed": int(record["seed"]),
            "images_per_prompt": suite.images_in_words(),
            "policy": (
                "Each image has its own generator of noise, seeded from its place in the plan, whatever the batch."
                if record["origin"] == "generated"
                else "Not known: the images were finished before; the seed is that of the resampling."
            ),
            "shared": sorted({spec.noise for spec in specs if spec.noise}),
        },
        "reader": _readers(run, shown),
        "refusal_handling": {
            "refusal_definition": "The model, or a filter of its own, gave no image and said that it would not.",
            "retention_policy": "kept-and-scored",
            "counts": statuses,
            "rates": [
                {"about": "/".join(filter(None, (row.component, row.concept, row.group))), "value": _plain(row.value),
                 "low": _plain(row.low), "high": _plain(row.high)}
                for row in refusals
            ],
        },
    }  # fmt: skip


def _readers(run: Run, shown: CardInput) -> dict[str, Any]:
    """Describe who read the images, and how they err where that is known."""
    models = [*shown.report.encoder_cards.values(), *run.record.get("readers", {}).values()]
    errors = [
        {"measure": row.component, "value": _plain(row.value), "low": _plain(row.low), "high": _plain(row.high),
         "images": int(row.n_target), "encoder": row.encoder,
         **({"group": run.suite.label_of(row.group)} if row.group else {})}
        for row in shown.page.view.of(shown.report).scores
        if row.metric == "reader" and row.component in ("sensitivity", "specificity", "informedness")
    ]  # fmt: skip
    return {
        "type": "embedding" if shown.report.encoder_cards else "none",
        "models": [{key: str(each[key]) for key in ("name", "family", "fingerprint")} for each in models],
        "error_rates": errors,
        "errors_known": bool(errors),
    }


def _families(specs: Iterable[PromptSpec]) -> Iterator[dict[str, Any]]:
    """Return the prompts by purpose: those of a category of concepts, and those of a group."""
    families: dict[tuple[str, str], list[str]] = {}
    for spec in specs:
        families.setdefault((spec.role, spec.category or spec.group), []).append(spec.prompt)
    for number, ((role, name), prompts) in enumerate(families.items(), start=1):
        distinct = list(dict.fromkeys(prompts))
        yield {
            "id": f"F{number}",
            "name": f"{role}: {name}" if name else role,
            "template": distinct[0],
            "paraphrases": distinct,
        }


def _plain(value: float) -> float | None:
    return float(value) if isfinite(value) else None
