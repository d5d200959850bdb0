"""``eval-results``: evaluation results of the Hub, ``.eval_results/*.yaml`` of a model's repository.

The fields are those of ``docs/hub/eval-results.md`` in hub-docs. What was not measured, or rests on too few images, is
left out: the format knows no reason.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Final

from clinometer.errors import InvalidInputError, SuiteError
from clinometer.exports.format import Format, measured_verdicts, require_some, yaml_text
from clinometer.exports.model_cards import REPOSITORY, CardDetails, card_input
from clinometer.report import wording
from clinometer.report.model_card.content import one_line
from clinometer.runs import Run
from clinometer.studies import study_of
from clinometer.suites import Suite


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


def eval_results(run: Run, said: CardDetails) -> list[dict[str, Any]]:
    """Return the verdicts as entries of ``.eval_results/*.yaml``: a task a verdict, its interval in the notes.

    Raises
    ------
    InvalidInputError, SuiteError
        No data set of the Hub is named; of the suite no benchmark is made.
    """
    if not REPOSITORY.fullmatch(said.benchmark):
        raise InvalidInputError.malformed(
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
        for verdicts, row in measured_verdicts(shown)
        if (task := task_of(row.component, row.concept)) in tasks
    ]


def _write(runs: Sequence[Run], details: CardDetails) -> str:
    entries = [entry for run in runs for entry in eval_results(run, details)]
    require_some(entries, runs[0])
    return yaml_text(entries)


FORMAT: Final = Format(
    "eval-results", _write, takes=("benchmark", "source"), of_several=True, file=lambda run: results_name(run.suite)
)
