"""Rows of MCAS and of internal bias, per target."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite, nan

import numpy as np
import scipy

from clinometer.metrics.bounds import with_bounds
from clinometer.metrics.internal import (
    aligned_diffusion_bias,
    diffusion_bias,
    signed_bias_amplification,
    signed_diffusion_bias,
)
from clinometer.metrics.mcas import COMPONENTS, IMAGE_PART, TEXT_PART, components
from clinometer.metrics.records import MEAN, Score
from clinometer.metrics.verdict import FEWEST_IMAGES, judge_family
from clinometer.stats.permutation import PermutationTest
from clinometer.stats.proportion import fieller_interval
from clinometer.studies.leaning.scores.context import LeaningStudy
from clinometer.studies.leaning.scores.estimates import Estimate, Replicates, null_expectation
from clinometer.studies.leaning.scores.inference import (
    ContrastTests,
    contrast_tests,
    filled_tests,
    pair_weights,
    stimulus_covariance,
    text_tests,
)
from clinometer.studies.leaning.scores.reasons import ZERO_TT
from clinometer.studies.leaning.scores.relabelling import LabelPool, least_p_value
from clinometer.studies.leaning.scores.rows import (
    Basis,
    at_target,
    over_words_alone,
    target_row,
    tested_fields,
    with_q_values,
)
from clinometer.studies.leaning.scores.views import EncoderView


def mcas_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """II, ITP, ITA, TT, the image part II + ITA, the text part ITP + TT and MCAS of every target, tested.

    The two parts and MCAS of the average view have verdicts. The unit of chance is the image, but for the text part,
    which holds none of the target: there it is the words and the attribute prompts (:func:`text_tests`). TT alone has
    no interval and no p over images, only the stimulus interval and ``p_labels``.
    """
    rows = []
    for component, modalities in COMPONENTS.items():
        weights = pair_weights(study, modalities, *study.pair)
        tests = (text_tests if component == TEXT_PART else contrast_tests)(study, view, weights)
        fillings = {
            kind: [_family(study, view, component, modalities, filled) for filled in some]
            for kind, some in filled_tests(study, view, weights, tests).items()
        }
        rows += with_bounds(_family(study, view, component, modalities, tests), fillings)
    return rows


def _family(
    study: LeaningStudy, view: EncoderView, component: str, modalities: tuple[str, ...], tests: ContrastTests
) -> list[Score]:
    """The rows of one component of all targets, tested and, where it has verdicts, judged."""
    design = study.design
    fields = {} if component == "tt" else tested_fields(tests, design.margin)
    numbers = over_words_alone(tests.estimate) if component == "tt" else tests.estimate
    labels = view.tests.get(component)
    family = [
        target_row(
            study, view, t, Basis(modalities, study.pair), numbers, metric="mcas", component=component,
            **at_target(fields, t), **_label_fields(study, component, labels, t),
        )
        for t in study.target_numbers
    ]  # fmt: skip
    family = with_q_values(family, f"mcas: {component} over {len(family)} targets")
    if view.encoder != MEAN or component not in (IMAGE_PART, TEXT_PART, "mcas"):
        return family
    fewest = 0 if component == TEXT_PART else FEWEST_IMAGES
    family = judge_family(family, a=design.a, b=design.b, margin=design.margin, fewest=fewest)
    # No number of images decides what holds none.
    return [replace(row, n_decide=0) for row in family] if component == TEXT_PART else family


def internal_bias_rows(study: LeaningStudy, view: EncoderView) -> list[Score]:
    """δ, signed δ, α and signed α of every target."""
    delta, alpha = diffusion_bias_estimate(study, view), bias_amplification_estimate(study, view)
    delta_basis, alpha_basis = Basis(("ii", "tt"), study.pair), Basis(("itp", "ita", "tt"), study.pair)
    numbers = {
        "diffusion_bias": (delta_basis, delta.folded()),
        "signed_diffusion_bias": (delta_basis, delta.without_null()),
        "bias_amplification": (alpha_basis, alpha.folded()),
        "signed_bias_amplification": (alpha_basis, alpha.without_null()),
    }
    rows = [
        target_row(study, view, t, basis, estimates, metric="internal_bias", component=component)
        for component, (basis, estimates) in numbers.items()
        for t in study.target_numbers
    ]
    unstable = dict(zip(study.layout.targets, unstable_targets(study, view), strict=True))
    return [_flagged(row, bool(unstable[row.concept])) if "amplification" in row.component else row for row in rows]


def signed_delta(study: LeaningStudy, tensor: np.ndarray) -> np.ndarray:
    """``|II| − |TT|`` of every target."""
    parts = components(tensor, study.a, study.b)
    return np.asarray(signed_diffusion_bias(parts[..., 0], parts[..., 3]))


def signed_alpha(study: LeaningStudy, tensor: np.ndarray) -> np.ndarray:
    """``(ITP + ITA) / (2 TT)`` of every target."""
    parts = components(tensor, study.a, study.b)
    return np.asarray(signed_bias_amplification(parts[..., 1], parts[..., 2], parts[..., 3]))


def aligned_delta(study: LeaningStudy, point: np.ndarray, tensor: np.ndarray) -> np.ndarray:
    """``|II| − |TT|`` of replicates, the signs of the estimates held; see :func:`aligned_diffusion_bias`."""
    signs = np.sign(components(point, study.a, study.b))
    parts = components(tensor, study.a, study.b)
    return aligned_diffusion_bias(parts[..., 0], parts[..., 3], signs[..., 0], signs[..., 3])


def diffusion_bias_estimate(study: LeaningStudy, view: EncoderView) -> Estimate:
    """Signed δ with the intervals of its parts, and the null expectation of δ.

    ::

        over images:  the magnitudes that the interval of II holds, less |TT|, which no image enters
        over stimuli: |II| − |TT| ∓ √( r² + s² )        r, s: from |II| and |TT| to the ends of their own intervals

    The second is Zou and Donner's (2008) interval of a difference, from those of two independent estimates.
    """
    images = _tested(study, view, "ii").estimate.folded()
    words = _tested(study, view, "tt").estimate.folded()
    value = np.asarray(images.value - words.value)
    down = np.hypot(images.value - images.stimulus_low, words.stimulus_high - words.value)
    up = np.hypot(images.stimulus_high - images.value, words.value - words.stimulus_low)
    return Estimate(
        value=value,
        low=images.low - words.value,
        high=images.high - words.value,
        stimulus_low=value - down,
        stimulus_high=value + up,
        null=null_expectation(view.targets, lambda part: null_of_delta(study, part), np.mean),
    )


def bias_amplification_estimate(study: LeaningStudy, view: EncoderView) -> Estimate:
    """Signed α with the intervals of its parts, and the null expectation of α.

    Over images TT is fixed, so the interval is that of ``ITP + ITA``, divided. Over stimuli it is Fieller's of the two,
    each as uncertain as the further end of its own interval says: unbounded exactly where that of TT covers 0.
    """
    above, below = (pair_weights(study, names, *study.pair) for names in (("itp", "ita"), ("tt",)))
    top, tt = contrast_tests(study, view, above).estimate, _tested(study, view, "tt").estimate
    value = signed_bias_amplification(top.value, 0.0, tt.value)
    divisor = np.where(np.isnan(value), np.nan, 2 * tt.value)
    inner = np.sort([top.low / divisor, top.high / divisor], axis=0)
    variances = [_variance_of(numbers, study.settings.confidence) for numbers in (top, tt)]
    covariance = stimulus_covariance(study, view, above, below)
    low, high = np.array(
        [
            _fieller(float(x), float(2 * y), float(v_x), float(4 * v_y), float(2 * v_xy), study.settings.confidence)
            for x, y, v_x, v_y, v_xy in zip(top.value, tt.value, *variances, covariance, strict=True)
        ]
    ).reshape(-1, 2).T  # fmt: skip
    null = null_expectation(view.targets, lambda part: null_of_alpha(study, part), np.median)
    known = np.isfinite(inner)
    return Estimate(
        value=value,
        low=inner[0],
        high=inner[1],
        stimulus_low=np.minimum(low, np.where(known[0], inner[0], low)),
        stimulus_high=np.maximum(high, np.where(known[1], inner[1], high)),
        null=null,
    )


def _tested(study: LeaningStudy, view: EncoderView, component: str) -> ContrastTests:
    return contrast_tests(study, view, pair_weights(study, (component,), *study.pair))


def _variance_of(numbers: Estimate, confidence: float) -> np.ndarray:
    """The variance of a normal estimate that would reach as far as the further end of the stimulus interval."""
    reach = np.fmax(numbers.stimulus_high - numbers.value, numbers.value - numbers.stimulus_low)
    return np.asarray((reach / scipy.special.ndtri((1 + confidence) / 2)) ** 2)


def unstable_targets(study: LeaningStudy, view: EncoderView) -> np.ndarray:
    """Targets whose TT might be 0: its stimulus interval covers it, so α may be anything."""
    numbers = _tested(study, view, "tt").estimate
    return np.asarray((numbers.stimulus_low <= 0) & (numbers.stimulus_high >= 0))


def null_of_delta(study: LeaningStudy, replicates: Replicates) -> np.ndarray:
    """δ as chance alone makes it: (draws × T)."""
    parts = components(replicates.null, study.a, study.b)
    return np.asarray(diffusion_bias(parts[..., 0], parts[..., 3]))


def null_of_alpha(study: LeaningStudy, replicates: Replicates) -> np.ndarray:
    """α as chance alone makes it, infinite where TT is 0: (draws × T)."""
    drawn = np.abs(signed_alpha(study, replicates.null))
    return np.where(np.isnan(drawn), np.inf, drawn)


def _fieller(
    x: float, y: float, variance_x: float, variance_y: float, covariance: float, confidence: float
) -> tuple[float, float]:
    """Ends of Fieller's interval of x / y; NaN where it has none."""
    found = fieller_interval(
        x, y, variance_numerator=variance_x, variance_denominator=variance_y, covariance=covariance,
        confidence=confidence,
    )  # fmt: skip
    return (found.low, found.high) if found.shape == "bounded" else (nan, nan)


def _flagged(row: Score, unstable: bool) -> Score:
    """Mark the row of an amplification where TT may be 0."""
    if not isfinite(row.value):
        return row if row.reason else replace(row, reason=ZERO_TT, flag="unstable")
    unbounded = not row.reason and not isfinite(row.stimulus_low)
    reason = "no stimulus interval: TT may be 0, so the ratio is unbounded" if unbounded else row.reason
    return replace(row, flag="unstable" if unstable else "", reason=reason)


def _label_fields(study: LeaningStudy, component: str, test: PermutationTest | None, t: int) -> dict[str, object]:
    if test is None or not isfinite(test.p_value[t]):
        return {}
    return {
        "p_labels": float(test.p_value[t]),
        "p_labels_least": least_p_value(test, _permuted_pools(study, component)),
        "labels_test": f"labels of {_what_is_permuted(study, component)}, {test.alternative}",
    }


def _permuted_pools(study: LeaningStudy, component: str) -> list[LabelPool]:
    pools = {"prompts": study.pools.prompts, "words": study.pools.words}
    permuted = {"ii": ["prompts"], "itp": ["prompts"], "ita": ["words"], "tt": ["words"]}
    return [pools[name] for name in permuted.get(component, pools)]


def _what_is_permuted(study: LeaningStudy, component: str) -> str:
    prompts = f"attribute prompts permuted within {study.pools.within}"
    words = "attribute words permuted over the pool"
    return {"ii": prompts, "itp": prompts, "ita": words, "tt": words}.get(component, f"{prompts} and of {words}")
