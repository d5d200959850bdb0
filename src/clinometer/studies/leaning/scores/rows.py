"""From estimates to rows: what every row of a study carries besides its number, and one sentence on what it lacks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any

import numpy as np

from clinometer.metrics.mcas import MODALITIES
from clinometer.metrics.records import MEAN, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, judge_family, with_bounds
from clinometer.studies.leaning.scores.contrasts import ContrastTests, Tested, contrast_tests, filled_tests
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.design import Layout, LeaningStudy
from clinometer.studies.leaning.scores.views import EncoderView

TEXT_ONLY = "purely textual: nothing but its words can be resampled, see the stimulus interval"
FIXED = "no stimulus interval: words and encoder are fixed"

_OF_TARGET_IMAGES = {"ii", "ita"}
_OF_ATTRIBUTE_IMAGES = {"ii", "itp"}
_OF_TEXTS = {"itp", "ita", "tt"}
_OF_WORDS = {"ita", "tt"}


@dataclass(frozen=True)
class Basis:
    """What a number is made of: which modalities, which groups."""

    modalities: Collection[str]
    groups: Collection[int]


@dataclass(frozen=True)
class Contrast:
    """A question asked of every target that is linear in the mean cosines, and what its rows are called.

    Attributes
    ----------
    weights : (4 × groups).
    basis : what it is made of, to say why it is missing.
    names : fields of every row: metric, component, group, setting.
    sides : what a positive value leans to, and a negative one.
    own : further fields of each target's row; empty where there are none.
    """

    weights: np.ndarray
    basis: Basis
    names: Mapping[str, Any]
    sides: tuple[str, str] = ("", "")
    own: Sequence[Mapping[str, Any]] = field(default=())


def contrast_family(
    study: LeaningStudy,
    view: EncoderView,
    contrasts: Sequence[Contrast],
    family: str,
    *,
    margin: float | None,
    judged: bool,
    equivalence: bool = True,
    tests: Sequence[ContrastTests] = (),
    fewest: int = FEWEST_IMAGES,
) -> list[Score]:
    """Test contrasts of every target over images, as one family, with bounds for images that are not there.

    ``judged`` : rows have verdicts, within the margin. ``equivalence`` : whether p of |value| ≥ margin is the test's
    own; else it follows from the interval. ``tests`` : where their unit of chance is another one, of each contrast.
    """
    tests = tests or [contrast_tests(study, view, contrast.weights) for contrast in contrasts]
    fillings = [
        filled_tests(study, view, contrast.weights, own) for contrast, own in zip(contrasts, tests, strict=True)
    ]

    def made(tests: Sequence[Tested | ContrastTests]) -> list[Score]:
        own = margin if equivalence else None
        rows = [contrast_rows(study, view, *pair, own) for pair in zip(contrasts, tests, strict=True)]
        return judge_contrasts(contrasts, rows, family, margin=margin, judged=judged, fewest=fewest)

    return with_bounds(
        made(tests),
        {
            kind: [made(some) for some in zip(*(filled[kind] for filled in fillings), strict=True)]
            for kind in fillings[0]
            if all(kind in filled for filled in fillings)  # not where a group has no images to tell
        },
    )


def contrast_rows(
    study: LeaningStudy,
    view: EncoderView,
    contrast: Contrast,
    tests: Tested | ContrastTests,
    margin: float | None = None,
) -> list[Score]:
    """Make the rows of one contrast of every target, tested; with a margin, also whether the value lies within."""
    fields: dict[str, Any] = {"p": tests.p, "test": tests.test}
    if margin is not None and isinstance(tests, ContrastTests):
        fields["p_equivalence"] = tests.images.p_outside(margin)
    own = contrast.own or [{}] * len(study.target_numbers)
    numbers = tests.estimate
    return [
        target_row(study, view, t, contrast.basis, numbers, **contrast.names, **at_target(fields, t), **own[t])
        for t in study.target_numbers
    ]


def judge_contrasts(
    contrasts: Sequence[Contrast],
    rows: Sequence[Sequence[Score]],
    family: str,
    *,
    margin: float | None,
    judged: bool,
    fewest: int = FEWEST_IMAGES,
) -> list[Score]:
    """Correct the rows of contrasts, a list of each, as one family; where ``judged``, with verdicts."""
    sides = [contrast.sides for contrast, own in zip(contrasts, rows, strict=True) for _ in own]
    tested = corrected([row for own in rows for row in own], family)
    if not judged:
        return tested
    return judge_family(tested, a=[a for a, _ in sides], b=[b for _, b in sides], margin=margin, fewest=fewest)


def as_encoder(rows: Sequence[Score], encoder: str) -> list[Score]:
    """Return the rows of the average of a single encoder as that encoder's own: only the average has verdicts."""
    return [
        replace(row, encoder=encoder, verdict="", side="", reason_code="", q_equivalence=nan, n_decide=0, depends_on="")
        if row.encoder == MEAN
        else row
        for row in rows
    ]


def target_row(
    study: LeaningStudy, view: EncoderView, t: int, basis: Basis, numbers: Estimate | None, **fields: Any
) -> Score:
    """Make the row of one target; ``numbers`` has one number a target, or they stand in the fields."""
    target = study.design.targets[t]
    imaged = bool(_OF_TARGET_IMAGES & set(basis.modalities))
    own: dict[str, Any] = {
        "concept": target.name,
        "category": target.category,
        "encoder": view.encoder,
        **({} if numbers is None else _at(numbers, t)),
        "n_target": study.layout.target_sizes[t] if imaged else int(view.reads_text),
        "n_repeated": study.layout.repeated(t) if imaged else 0,
        "n_missing": target.missing if imaged else 0,
    }
    if _OF_ATTRIBUTE_IMAGES & set(basis.modalities):
        lost = study.design.missing_attributes
        own["n_missing_attributes"] = sum(lost.get(study.design.groups[g], 0) for g in basis.groups)
    if not study.design.axes:
        images = _OF_ATTRIBUTE_IMAGES & set(basis.modalities)
        counts = study.layout.image_counts if images else study.layout.word_counts
        own |= {"n_a": counts[study.a], "n_b": counts[study.b]}
    return explain(study, view, t, basis, Score(**(own | fields)))


def at_target(fields: Mapping[str, np.ndarray | str], t: int) -> dict[str, Any]:
    """Return the fields of one target; none where it has no p."""
    p = fields.get("p")
    if p is None or not isfinite(p[t]):  # type: ignore[arg-type]
        return {}
    own = {name: column if isinstance(column, str) else float(column[t]) for name, column in fields.items()}  # type: ignore[index]
    return own | {"p_error": 0.0}


def explain(study: LeaningStudy, view: EncoderView, t: int | None, basis: Basis, row: Score) -> Score:
    """Give the row the reason of the first thing it lacks, unless it has one."""
    if row.reason:
        return row
    reason = ""
    if not isfinite(row.value):
        reason = value_reason(study.layout, view.reads_text, t, basis)
    elif not isfinite(row.low):
        reason = interval_reason(study.layout, t, basis)
    elif not isfinite(row.stimulus_low):
        reason = stimulus_reason(study.layout, basis)
    return replace(row, reason=reason) if reason else row


def with_reason(row: Score, reason: str) -> Score:
    """Give a row a reason where it has none."""
    return row if row.reason else replace(row, reason=reason)


def summary_row(
    study: LeaningStudy, view: EncoderView, targets: Sequence[int], numbers: Estimate, **fields: Any
) -> Score:
    """Make the row of one number about several targets, which ``n_target`` counts."""
    row = Score(encoder=view.encoder, **_at(numbers, ()), n_target=len(targets), **fields)
    if row.reason or not targets:
        return with_reason(row, "no target with a defined score")
    basis = Basis(MODALITIES, study.pair)
    rows = (explain(study, view, t, basis, row) for t in targets)
    return next((candidate for candidate in rows if candidate.reason), row)


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


def value_reason(layout: Layout, reads_text: bool, target: int | None, basis: Basis) -> str:
    """Say why a number made of this has no estimate; empty if it should have one."""
    modalities = set(basis.modalities)
    if _OF_TEXTS & modalities and not reads_text:
        return "the encoder reads no text"
    if target is not None and layout.target_sizes[target] == 0 and _OF_TARGET_IMAGES & modalities:
        return "no image of the target"
    for g in basis.groups:
        if layout.image_counts[g] == 0 and _OF_ATTRIBUTE_IMAGES & modalities:
            return f"no image of group {layout.groups[g]!r}; draw or import some"
        if layout.word_counts[g] == 0 and _OF_WORDS & modalities:
            return f"no word of group {layout.groups[g]!r}"
    return ""


def interval_reason(layout: Layout, target: int | None, basis: Basis) -> str:
    """Say why it has no interval: it rests on no image, or a single image has no spread within its prompt."""
    modalities = set(basis.modalities)
    if "tt" in modalities and not _OF_TARGET_IMAGES & modalities:
        of_words = stimulus_reason(layout, basis)
        if of_words or modalities == {"tt"}:
            return of_words or TEXT_ONLY
    if target is not None and layout.target_sizes[target] == 1 and _OF_TARGET_IMAGES & modalities:
        return "no interval from one image of the target"
    for g in basis.groups:
        if 1 in layout.prompt_sizes[g] and _OF_ATTRIBUTE_IMAGES & modalities:
            return f"no interval: a prompt of group {layout.groups[g]!r} has one image"
    return ""


def stimulus_reason(layout: Layout, basis: Basis) -> str:
    """Say why it has no stimulus interval: a single word has no spread within its group."""
    for g in basis.groups:
        if layout.word_counts[g] == 1 and _OF_WORDS & set(basis.modalities):
            return f"no stimulus interval: group {layout.groups[g]!r} has one word"
    return ""
