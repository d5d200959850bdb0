"""A run's verdicts as the evaluation results that the Hugging Face Hub reads from a card's ``model-index``.

The Hub's format has no place for an interval or a verdict but the arguments of a metric, so they stand there as data;
and in its name, as that is shown. Numbers are those of the scores, without rounding. What could not be measured or
judged, also for want of images, is left out: the format knows no reason.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from clinometer.errors import ModelError
from clinometer.report.model_card.content import CardInput, listed_first, one_line
from clinometer.report.page import Told, Verdicts
from clinometer.report.rows import Row
from clinometer.report.wording import not_measured, too_few

if TYPE_CHECKING:
    import huggingface_hub

OURS: Final = "clinometer/"
"""How the data set of every result of ours begins."""

FINGERPRINT: Final = "suite_fingerprint"
"""The argument of the data set that every result of ours has."""


def hub() -> Any:
    """The package huggingface_hub, which the extra ``models`` brings.

    Raises
    ------
    ModelError
        It is not installed.
    """
    try:
        import huggingface_hub.repocard  # the package loads this only when it is named
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise ModelError(
            "a model card needs the package huggingface_hub, which is not installed; install it with "
            "`pip install huggingface_hub`, without PyTorch, or with it, `pip install 'clinometer[models]'`"
        ) from error
    return huggingface_hub


def eval_results(runs: Sequence[CardInput], *, rows: int) -> list[huggingface_hub.EvalResult]:
    """The verdicts that the cards list, as evaluation results: a data set a run, a metric a verdict.

    Raises
    ------
    ModelError
        huggingface_hub is not installed.
    """
    seen = Counter[tuple[str, str]]()
    results = []
    for run in runs:
        common = _common(run)
        data = common["dataset_type"], common["dataset_config"]
        seen[data] += 1
        if seen[data] > 1:  # the Hub's classes take results for one data set's where these two agree
            common["dataset_config"] += f"-{seen[data]}"
        results += [hub().EvalResult(**common, **metric) for metric in _metrics(run, rows)]
    return results


def is_ours(result: Any) -> bool:
    """Tell whether an entry of a ``model-index`` was written here."""
    dataset = result.get("dataset") if isinstance(result, Mapping) else None
    if not isinstance(dataset, Mapping) or not isinstance(dataset.get("args"), Mapping):
        return False
    return str(dataset.get("type")).startswith(OURS) and FINGERPRINT in dataset["args"]


def _common(run: CardInput) -> dict[str, Any]:
    report = run.report
    settings = report.settings
    is_imported = settings.get("origin") in ("imported", "counted")  # then the hash is of images or counts
    encoders = {one_line(name): _hash(card) for name, card in report.encoder_cards.items()}
    return {
        "task_type": "text-to-image",
        "dataset_type": OURS + (_slug(report.suite.name) or "suite"),
        "dataset_name": one_line(report.suite.title),
        "dataset_config": _slug(f"seed-{settings.get('seed', '')}"),
        "dataset_args": _known(
            {
                "suite": one_line(report.suite.name),
                FINGERPRINT: one_line(settings.get("suite fingerprint", "")),
                "images": one_line(settings.get("images", "")),
                "created": one_line(settings.get("created", "")),
                "model": one_line(report.model_card.get("name", "")),
                "revision": _plain(report.model_card.get("revision")),
                "weights_sha256": None if is_imported else _plain(report.model_card.get("weights_sha256")),
                "encoders": encoders,
                "clinometer": _plain((settings.get("versions") or {}).get("clinometer")),
            }
        ),
    }


def _hash(card: Mapping[str, Any]) -> str:
    return one_line(card.get("weights_sha256") or card.get("revision") or "")


def _slug(name: str) -> str:
    """A name of letters that a hub's names have."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")


def _plain(value: Any) -> str | None:
    return one_line(value) if value else None


def _metrics(run: CardInput, rows: int) -> list[dict[str, Any]]:
    told: Told = run.page.told(run.page.view.of(run.report))
    return [
        _metric(verdicts, row, "unchecked: " if run.report.unchecked else "")
        for verdicts in told.verdicts
        for row in listed_first(verdicts, rows)[0]
        if row.defined and not not_measured(row) and not too_few(row)
    ]


def _metric(verdicts: Verdicts, row: Row, lead: str) -> dict[str, Any]:
    (low, high), verdict = row.ends(verdicts.over), verdicts.verdict(row)
    named = f"{verdicts.title}, {verdicts.name(row)} {verdicts.interval(row)}"
    return {
        "metric_type": _slug(row.component),
        "metric_name": one_line(f"{lead}{named}: {verdict}"),
        "metric_value": float(row.value),
        "metric_args": _known(
            {
                "low": _number(low),
                "high": _number(high),
                "q": _number(row.q),
                "verdict": one_line(verdict),
                "n": row.n_target or None,
                "encoder": one_line(row.encoder),
            }
        ),
    }


def _known(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if value is not None}


def _number(value: float) -> float | None:
    return float(value) if isfinite(value) else None
