"""From estimates to rows: what every row of a study carries besides its number, and one sentence on what it lacks.

A verdict on pictures is by Gaffke's test against 0 and against the groups' middle, the larger p counts, and q is over
the concepts. How many images decide what is undecided is found by the same tests on every run that is drawn from the
pilot's scores (:class:`clinometer.stats.power.ScoredPilot`). The groups' own images grow in proportion: with three
times the images of a concept there are three times the images of each group. If these stayed as many as they are, what
they may be off by would be the same in a run of any size, and where it is much, no number of a concept's images would
decide. See decision 5.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, nan
from typing import Any, Final

import numpy as np

from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, MODALITIES
from clinometer.metrics.records import MEAN, Score, corrected
from clinometer.metrics.verdict import FEWEST_IMAGES, Decide, judge_family, with_bounds
from clinometer.stats.bounded_means import BoundedMeans
from clinometer.stats.power import (
    BEYOND,
    MOST_SCORED,
    POWER,
    SIZES,
    PowerCurve,
    ScoredPilot,
    power_curve,
    require_power,
)
from clinometer.studies.leaning.scores.contrasts import (
    ContrastTests,
    ItemValues,
    Tested,
    contrast_tests,
    filled_tests,
    pair_weights,
)
from clinometer.studies.leaning.scores.cosines import Estimate
from clinometer.studies.leaning.scores.design import (
    Design,
    EncoderEmbeddings,
    Layout,
    ResamplingSettings,
    StudySetup,
    layout_of,
)
from clinometer.studies.leaning.scores.middle import (
    attribute_influences,
    from_middle,
    margin_around_middle,
    middle_tests,
)
from clinometer.studies.leaning.scores.views import EncoderView, linear_views

TEXT_ONLY = "purely textual: nothing but its words can be resampled, see the stimulus interval"
FIXED = "no stimulus interval: words and encoder are fixed"

_OF_TARGET_IMAGES = {"ii", "ita"}
_OF_ATTRIBUTE_IMAGES = {"ii", "itp"}
_OF_TEXTS = {"itp", "ita", "tt"}
_OF_WORDS = {"ita", "tt"}


@dataclass(frozen=True)
class Basis:
    """The modalities and groups that a number is made of."""

    modalities: Collection[str]
    groups: Collection[int]


@dataclass(frozen=True)
class Contrast:
    """A question about every target that is linear in the mean cosines, and what its rows are called.

    Attributes
    ----------
    weights : (4 × groups).
    basis : what it is made of, to say why it is missing.
    names : fields of every row: metric, component, group, setting.
    sides : what a positive value leans to, and a negative one.
    by_target : further fields of each target's row; empty where there are none.
    """

    weights: np.ndarray
    basis: Basis
    names: Mapping[str, Any]
    sides: tuple[str, str] = ("", "")
    by_target: Sequence[Mapping[str, Any]] = field(default=())


def pair_contrast(
    setup: StudySetup,
    modalities: Collection[str],
    names: Mapping[str, Any],
    by_target: Sequence[Mapping[str, Any]] = (),
) -> Contrast:
    """Ask of the sum of these modalities by how much every target is nearer to a than to b."""
    weights, basis = pair_weights(setup, modalities, *setup.pair), Basis(modalities, setup.pair)
    return Contrast(weights, basis, names, (setup.design.a, setup.design.b), by_target)


def contrast_family(
    setup: StudySetup,
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

    ``judged`` : rows have verdicts, within the margin and against both 0 and the groups' middle. A text-only number has
    no middle, so it is judged against 0 alone. ``equivalence`` : whether p of |value| ≥ margin is the test's own; else
    it follows from the interval. ``tests`` : one for each contrast, where their unit of chance is another one.
    """
    tests = list(tests or [contrast_tests(setup, view, contrast.weights) for contrast in contrasts])
    filled = []  # of each contrast, the tests with missing images filled in, by kind
    for i, contrast in enumerate(contrasts):
        influences: ItemValues = ()
        if judged and isinstance(images := tests[i].images, BoundedMeans):
            influences = attribute_influences(view, contrast.weights)
            apart = from_middle(setup, view, contrast.weights, images, influences)
            tests[i] = replace(tests[i], from_middle=apart)
        filled.append(filled_tests(setup, view, contrast.weights, tests[i], influences))

    zeros = zeros_of(tests)

    def count_images_that_decide(is_open: np.ndarray) -> list[int]:
        margins = margins_of(view, [contrast.weights for contrast in contrasts], margin)
        pilot = ScoredPilot(zeros or [], margins, grown=True)
        sizes = list(setup.layout.target_sizes) * len(contrasts)
        return counted(sizes, images_that_decide(setup.layout, pilot, is_open))

    def judge(tests: Sequence[Tested | ContrastTests], decide: Decide | None) -> list[Score]:
        rows = [
            contrast_rows(setup, view, *pair, margin, equivalence=equivalence)
            for pair in zip(contrasts, tests, strict=True)
        ]
        return judge_contrasts(contrasts, rows, family, margin=margin, judged=judged, fewest=fewest, decide=decide)

    return with_bounds(
        judge(tests, count_images_that_decide if zeros else None),
        {
            kind: [judge(some, uncounted) for some in zip(*(by_kind[kind] for by_kind in filled), strict=True)]
            for kind in filled[0]
            if all(kind in by_kind for by_kind in filled)  # not where a group has no images to tell
        },
    )


def uncounted(is_open: np.ndarray) -> list[int]:
    """Count no images that would decide: only the verdicts of these rows matter."""
    return [0] * len(is_open)


def contrast_rows(
    setup: StudySetup,
    view: EncoderView,
    contrast: Contrast,
    tests: Tested | ContrastTests,
    margin: float | None = None,
    *,
    equivalence: bool = True,
) -> list[Score]:
    """Make the rows of one contrast of every target, tested; with a margin, also whether the value lies within.

    ``equivalence`` : by a test of its own; else its p is left to follow from the interval.

    Where its distance from the groups' middle is tested too, p is the larger of both: a verdict has to hold against 0
    and against the middle, and a test of "one of two hypotheses is true" by the larger p needs no correction.
    """
    fields: dict[str, Any] = {"p": tests.p, "test": tests.test}
    if isinstance(tests, ContrastTests) and margin is not None and equivalence:
        fields["p_equivalence"] = tests.images.p_outside(margin)
    if isinstance(tests, ContrastTests) and (apart := tests.from_middle) is not None:
        ends, p_middle = apart.interval(tests.confidence), apart.p_value
        fields |= {"p": np.maximum(tests.p, p_middle), "p_zero": tests.p, "p_middle": p_middle}
        fields |= {"middle": tests.images.value - apart.value}
        fields |= {"from_middle_low": ends.low, "from_middle_high": ends.high}
        if margin is not None:
            around = margin_around_middle(view.poles, contrast.weights, margin)
            fields["middle_margin"] = np.full(len(p_middle), around)
            if equivalence:
                outside = apart.p_outside(around) if around > 0 else np.ones(len(p_middle))
                fields["p_equivalence"] = np.maximum(fields["p_equivalence"], outside)
    by_target = contrast.by_target or [{}] * len(setup.target_numbers)
    numbers = tests.estimate
    return [
        target_row(setup, view, t, contrast.basis, numbers, **contrast.names, **at_target(fields, t), **by_target[t])
        for t in setup.target_numbers
    ]


MIDDLE: Final = "middle"
"""The metric of where the groups' own pictures, in equal parts, lie: the second zero of a verdict."""

ALONE: Final = "a group has one image, which can be compared with no other of it"


def middle_rows(setup: StudySetup, view: EncoderView, contrasts: Sequence[Contrast]) -> list[Score]:
    """Report the groups' middle of each contrast: metric ``middle``, one row each, about no target.

    ``low``, ``high`` are over the groups' own images, words fixed; the stimulus interval over words and encoders too.
    """
    rows, layout = list[Score](), setup.layout
    for contrast in contrasts:
        tests, basis = middle_tests(setup, view, contrast.weights), contrast.basis
        basis = replace(basis, modalities={"ii"} | {"ita"} & set(basis.modalities))
        fields = dict(contrast.names) | {"metric": MIDDLE, "encoder": view.encoder} | _at(tests.estimate, 0)
        counts = contrast.by_target[0] if contrast.by_target else {}
        fields |= {"n_target": sum(layout.image_counts[g] for g in basis.groups)}
        fields |= {name: counts[name] for name in ("n_a", "n_b") if name in counts}
        row = explain(setup, view, None, basis, Score(**fields))
        rows.append(row if isfinite(row.value) else with_reason(row, ALONE))
    return rows


def judge_contrasts(
    contrasts: Sequence[Contrast],
    rows: Sequence[Sequence[Score]],
    family: str,
    *,
    margin: float | None,
    judged: bool,
    fewest: int = FEWEST_IMAGES,
    decide: Decide | None = None,
) -> list[Score]:
    """Correct the rows of all contrasts as one family, and give them verdicts if ``judged``."""
    sides = [contrast.sides for contrast, of_contrast in zip(contrasts, rows, strict=True) for _ in of_contrast]
    tested = corrected([row for of_contrast in rows for row in of_contrast], family)
    if not judged:
        return tested
    a, b = [a for a, _ in sides], [b for _, b in sides]
    return judge_family(tested, a=a, b=b, margin=margin, fewest=fewest, decide=decide)


def as_encoder(rows: Sequence[Score], encoder: str) -> list[Score]:
    """Return the rows of the average of a single encoder as that encoder's own: only the average has verdicts."""
    return [
        replace(row, encoder=encoder, verdict="", side="", reason_code="", q_equivalence=nan, n_decide=0, depends_on="")
        if row.encoder == MEAN
        else row
        for row in rows
    ]


def target_row(
    setup: StudySetup, view: EncoderView, t: int, basis: Basis, numbers: Estimate | None, **fields: Any
) -> Score:
    """Make the row of one target, from ``numbers`` (one for each target) or from the fields."""
    target = setup.design.targets[t]
    imaged = bool(_OF_TARGET_IMAGES & set(basis.modalities))
    known: dict[str, Any] = {
        "concept": target.name,
        "category": target.category,
        "encoder": view.encoder,
        **({} if numbers is None else _at(numbers, t)),
        "n_target": setup.layout.target_sizes[t] if imaged else int(view.reads_text),
        "n_repeated": setup.layout.repeated(t) if imaged else 0,
        "n_batches": setup.layout.batch_count(t) if imaged else 0,
        "n_missing": target.missing if imaged else 0,
    }
    counts = setup.layout.word_counts
    if _OF_ATTRIBUTE_IMAGES & set(basis.modalities):
        counts, lost = setup.layout.image_counts, setup.design.missing_attributes
        known["n_missing_attributes"] = sum(lost.get(setup.design.groups[g], 0) for g in basis.groups)
    compared = {"n_a": setup.design.a, "n_b": setup.design.b}  # both empty along axes
    known |= {name: counts[setup.design.index(group)] for name, group in compared.items() if group}
    return explain(setup, view, t, basis, Score(**(known | fields)))


def at_target(fields: Mapping[str, np.ndarray | str], t: int) -> dict[str, Any]:
    """Return the fields of one target; none if it has no p."""
    p = fields.get("p")
    if p is None or not isfinite(p[t]):  # type: ignore[arg-type]
        return {}
    of_target = {name: column if isinstance(column, str) else float(column[t]) for name, column in fields.items()}  # type: ignore[index]
    return of_target | {"p_error": 0.0}


def explain(setup: StudySetup, view: EncoderView, t: int | None, basis: Basis, row: Score) -> Score:
    """Add to the row the reason of the first thing it lacks, unless it has one."""
    if row.reason:
        return row
    reason = ""
    if not isfinite(row.value):
        reason = value_reason(setup.layout, view.reads_text, t, basis)
    elif not isfinite(row.low):
        reason = interval_reason(setup.layout, t, basis)
    elif not isfinite(row.stimulus_low):
        reason = stimulus_reason(setup.layout, basis)
    return replace(row, reason=reason) if reason else row


def with_reason(row: Score, reason: str) -> Score:
    """Add a reason to a row that has none."""
    return row if row.reason else replace(row, reason=reason)


def summary_row(
    setup: StudySetup, view: EncoderView, targets: Sequence[int], numbers: Estimate, **fields: Any
) -> Score:
    """Make the row of one number about several targets, which ``n_target`` counts."""
    row = Score(encoder=view.encoder, **_at(numbers, ()), n_target=len(targets), **fields)
    if row.reason or not targets:
        return with_reason(row, "no target with a defined score")
    basis = Basis(MODALITIES, setup.pair)
    rows = (explain(setup, view, t, basis, row) for t in targets)
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
    """Explain why a number on this basis has no estimate; empty if it should have one."""
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
    """Explain why it has no interval: it rests on no image, or a single image has no spread within its prompt."""
    modalities = set(basis.modalities)
    if "tt" in modalities and not _OF_TARGET_IMAGES & modalities:
        of_words = stimulus_reason(layout, basis)
        if of_words or modalities == {"tt"}:
            return of_words or TEXT_ONLY
    if target is not None and _OF_TARGET_IMAGES & modalities:
        if layout.target_sizes[target] == 1:
            return "no interval from one image of the target"
        if layout.batch_count(target) == 1:
            return "no interval: all images of the target came in one batch"
    for g in basis.groups:
        if 1 in layout.prompt_sizes[g] and _OF_ATTRIBUTE_IMAGES & modalities:
            return f"no interval: a prompt of group {layout.groups[g]!r} has one image"
    return ""


def stimulus_reason(layout: Layout, basis: Basis) -> str:
    """Explain why it has no stimulus interval: a single word has no spread within its group."""
    for g in basis.groups:
        if layout.word_counts[g] == 1 and _OF_WORDS & set(basis.modalities):
            return f"no stimulus interval: group {layout.groups[g]!r} has one word"
    return ""


# --- images that decide ----------------------------------------------------------------------------------------------


def zeros_of(tests: Sequence[ContrastTests]) -> list[BoundedMeans] | None:
    """Return all tests of one family against 0, and all against their middles; None where some have no such test.

    Nor of a family so large that its runs are not drawn.
    """
    if sum(len(each.images.value) for each in tests) > MOST_SCORED:
        return None
    zeros = []
    for family in ([each.images for each in tests], [each.from_middle for each in tests]):
        bounded = [each for each in family if isinstance(each, BoundedMeans)]
        if len(bounded) < len(tests):
            return None
        fields = ("bounds", "offset", "other", "other_freedom")
        joined = (np.concatenate([np.asarray(getattr(each, name)) for each in bounded]) for name in fields)
        zeros.append(BoundedMeans([x for each in bounded for x in each.samples], *joined))
    return zeros


def margins_of(view: EncoderView, weights: Sequence[np.ndarray], margin: float | None) -> list[np.ndarray] | None:
    """Return the margins around 0 and around the middle of every test of a family; None without one."""
    if margin is None:
        return None
    size = len(view.image_cosines)
    around = [margin_around_middle(view.poles, contrast, margin) for contrast in weights]
    return [np.full(size * len(weights), margin), np.repeat(around, size)]


def images_of(layout: Layout, sizes: np.ndarray) -> np.ndarray:
    """Count the images that so many units of chance of each test come to, (tests,); NaN where none would do.

    Units are batches where images came in these. ``BEYOND`` stands for more than ``MANY``.
    """
    sizes_drawn = np.maximum(layout.target_sizes, 1)
    units = [layout.batch_count(t) or size for t, size in enumerate(sizes_drawn.tolist())]
    a_unit = sizes_drawn / np.array(units)
    images = np.ceil(sizes * np.tile(a_unit, len(sizes) // len(units)) - 1e-6)
    return np.where(np.isfinite(images), np.minimum(images, BEYOND), nan)


def images_that_decide(
    layout: Layout, pilot: ScoredPilot, is_open: np.ndarray | None = None, *, power: float = POWER, alpha: float = 0.05
) -> np.ndarray:
    """Count the images of each test's target with which its verdict is one with this chance, (tests,).

    ``is_open`` : which tests are asked about; the others may come out NaN.
    """
    curve = power_curve(pilot, SIZES, alpha=alpha, power=power, wanted=is_open)
    return images_of(layout, curve.sizes_for(power, curve.decided))


@dataclass(frozen=True)
class Needed:
    """How many images of a concept each answer about its image part needs, (targets,) each.

    The groups' own images grow in proportion, and q is over the targets. NaN where no number would do; ``BEYOND`` for
    more than ``MANY``.

    Attributes
    ----------
    to_detect : to find that it leans, with what the pilot does not know of it; or an effect that was named.
    to_show_balance : to show that it lies within the margin around both zeros, if it is what the pilot has; NaN without
        a margin, and where the pilot has it beyond.
    to_decide : for either: what ``n_decide`` counts.
    groups_kept : ``to_decide`` if the groups' own images stayed as many as they are.
    """

    to_detect: np.ndarray
    to_show_balance: np.ndarray
    to_decide: np.ndarray
    groups_kept: np.ndarray


def image_part_zeros(
    encoders: Sequence[EncoderEmbeddings], design: Design, layout: Layout
) -> tuple[list[BoundedMeans], list[np.ndarray] | None]:
    """Return the tests of the image part of every target against 0 and against the middle, and the margins around both.

    Nothing where a group has no images to bound what one may score.
    """
    setup = StudySetup(design, layout, ResamplingSettings())
    view = linear_views(encoders, setup).mean
    weights = pair_weights(setup, COMPONENTS[IMAGE_PART], *setup.pair)
    images = contrast_tests(setup, view, weights).images
    if not isinstance(images, BoundedMeans):
        return [], None
    apart = from_middle(setup, view, weights, images, attribute_influences(view, weights))
    return [images, apart], margins_of(view, [weights], design.margin)


def images_needed(
    encoders: Sequence[EncoderEmbeddings],
    design: Design,
    *,
    effect: float | None = None,
    power: float = POWER,
    alpha: float = 0.05,
) -> Needed:
    """Plan the image part of every target of a study like this one, from its own pictures.

    ``effect`` : how large the image part is taken to be, of every concept on the side where the pilot has it, instead
    of what its pictures say.

    Raises
    ------
    InvalidInputError
        As ``mcas_study``; a power or level that is not between 0 and 1.
    """
    require_power(power, alpha)
    layout, unknown = layout_of(encoders, design), np.full(len(design.targets), nan)
    zeros, margins = image_part_zeros(encoders, design, layout)
    if not zeros:
        return Needed(unknown, unknown, unknown, unknown)

    def images(share: str, *, grown: bool = True, effects: np.ndarray | None = None) -> np.ndarray:
        curve = curves.get((grown, effects is None))
        if curve is None or effects is not None:
            pilot = ScoredPilot(zeros, margins, effects=effects, grown=grown)
            curve = curves[grown, effects is None] = power_curve(pilot, SIZES, alpha=alpha, power=power)
        return images_of(layout, curve.sizes_for(power, getattr(curve, share)))

    curves = dict[tuple[bool, bool], PowerCurve]()
    named = None if effect is None else np.full(len(unknown), effect)
    to_detect = images("leans", effects=named)
    to_show_balance = unknown
    if design.margin is not None:
        known = np.abs(zeros[0].value)
        to_show_balance = np.where(known < design.margin, images("balanced", effects=known), nan)
    if named is None:
        return Needed(to_detect, to_show_balance, images("decided"), images("decided", grown=False))
    to_decide = np.fmin(to_detect, to_show_balance)
    groups_kept = images("leans", grown=False, effects=named)
    if design.margin is not None:
        kept = images("balanced", grown=False, effects=known)
        groups_kept = np.fmin(groups_kept, np.where(known < design.margin, kept, nan))
    return Needed(to_detect, to_show_balance, to_decide, groups_kept)


def counted(n_target: Sequence[int], images: np.ndarray) -> list[int]:
    """Return ``n_decide`` of rows with so many images: more than there are, 0 where no number would do."""
    return [max(n + 1, int(needed)) if isfinite(needed) else 0 for n, needed in zip(n_target, images, strict=True)]
