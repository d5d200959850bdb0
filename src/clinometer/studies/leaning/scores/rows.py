"""From estimates to rows: what every row of a study carries besides its number."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics.families import corrected
from clinometer.metrics.mcas import MODALITIES
from clinometer.metrics.records import Score
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate
from clinometer.studies.leaning.scores.inference import ContrastTests
from clinometer.studies.leaning.scores.reasons import interval_reason, stimulus_reason, value_reason
from clinometer.studies.leaning.scores.views import EncoderView


@dataclass(frozen=True)
class Basis:
    """What a number is made of: which modalities, which groups."""

    modalities: Collection[str]
    groups: Collection[int]


def target_row(
    study: LeaningStudy,
    view: EncoderView,
    t: int,
    basis: Basis,
    numbers: Estimate,
    *,
    metric: str,
    component: str,
    **fields: Any,
) -> Score:
    """Make the row of one target; ``numbers`` has one number a target."""
    target = study.design.targets[t]
    images = {"ii", "ita"} & set(basis.modalities)
    counts = study.layout.image_counts if {"ii", "itp"} & set(basis.modalities) else study.layout.word_counts
    own: dict[str, Any] = {
        "concept": target.name,
        "category": target.category,
        "encoder": view.encoder,
        **_at(numbers, t),
        "n_target": study.layout.target_sizes[t] if images else int(view.reads_text),
        "n_repeated": study.layout.repeated(t) if images else 0,
        "n_missing": target.missing if images else 0,
        "n_a": counts[study.a],
        "n_b": counts[study.b],
    }
    row = Score(metric=metric, component=component, **(own | fields))
    return explained(study, view, t, basis, row)


def tested_fields(tests: ContrastTests, margin: float | None) -> dict[str, np.ndarray | str]:
    """What rows of a family say of their test over images; arrays have one entry a target."""
    fields: dict[str, np.ndarray | str] = {"p": tests.images.p_value, "test": tests.test}
    if margin is not None:
        fields["p_equivalence"] = tests.images.p_outside(margin)
    return fields


def at_target(fields: Mapping[str, np.ndarray | str], t: int) -> dict[str, Any]:
    """The fields of one target; none where it has no p."""
    p = fields.get("p")
    if p is None or not isfinite(p[t]):  # type: ignore[arg-type]
        return {}
    own = {name: column if isinstance(column, str) else float(column[t]) for name, column in fields.items()}  # type: ignore[index]
    return own | {"p_error": 0.0}


def over_words_alone(numbers: Estimate) -> Estimate:
    """An estimate without its interval over images: it rests on none."""
    nothing = np.full_like(numbers.low, np.nan)
    return replace(numbers, low=nothing, high=nothing)


def explained(study: LeaningStudy, view: EncoderView, t: int | None, basis: Basis, row: Score) -> Score:
    """Give the row the reason of the first thing it lacks, unless it has one."""
    if row.reason:
        return row
    arguments = (study.layout, view.reads_text, t, basis.modalities, basis.groups)
    reason = ""
    if not isfinite(row.value):
        reason = value_reason(*arguments)
    elif not isfinite(row.low):
        reason = interval_reason(study.layout, t, basis.modalities, basis.groups)
    elif not isfinite(row.stimulus_low):
        reason = stimulus_reason(study.layout, basis.modalities, basis.groups)
    return replace(row, reason=reason) if reason else row


def summary_row(
    study: LeaningStudy, view: EncoderView, targets: Sequence[int], numbers: Estimate, **fields: Any
) -> Score:
    """Make the row of one number about several targets, which ``n_target`` counts."""
    row = Score(encoder=view.encoder, **_at(numbers, ()), n_target=len(targets), **fields)
    if row.reason or not targets:
        return row if row.reason else replace(row, reason="no target with a defined score")
    basis = Basis(MODALITIES, study.pair)
    rows = (explained(study, view, t, basis, row) for t in targets)
    return next((candidate for candidate in rows if candidate.reason), row)


def with_q_values(rows: list[Score], family: str) -> list[Score]:
    """Treat the rows as one family of tests."""
    return corrected(rows, family)


def bare(value: np.ndarray, *parts: np.ndarray) -> Estimate:
    """Make an estimate with no interval and no null but those given: low, high, null."""
    nothing = np.full(np.shape(value), np.nan)
    low, high, null = [*parts, nothing, nothing, nothing][:3]
    return Estimate(np.asarray(value), low, high, nothing, nothing, null)


def _at(numbers: Estimate, index: int | tuple[()]) -> dict[str, Any]:
    names = ("value", "low", "high", "stimulus_low", "stimulus_high", "null")
    fields = {name: float(getattr(numbers, name)[index]) for name in names}
    fields = {name: number if isfinite(number) else nan for name, number in fields.items()}
    return fields if isfinite(fields["value"]) else dict.fromkeys(names, nan)
