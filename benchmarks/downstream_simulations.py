"""Small samples in the other studies: from how many images, portraits or prompts on may a verdict be given?

Experiments for benchmarks/simulations.py, of single stimuli (T2IAT), of portraits that are classified or edited, and of
the skin's angle.
"""

from __future__ import annotations

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.metrics.verdict import LEVEL
from clinometer.stats.clusters import cluster_mean, cluster_share, contrast
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.stats.permutation import permute_labels
from clinometer.stats.power import equivalence_p_value, standard_error_of
from clinometer.stats.proportion import Estimate
from clinometer.studies.t2iat.scores import stimulus_tests
from clinometer.studies.t2iat.scores.stimuli import StimulusCosines, T2iatDesign, image_estimate

STIMULI, ATTRIBUTE_IMAGES = 16, 16
MARGIN = 0.1

# --- single stimuli of T2IAT -----------------------------------------------------------------------------------------


def stimulus_verdicts(n: int, images: int) -> list[Found]:
    """16 stimuli at parity: studies with any false leaning; half of them drawn 85 % of one kind: false ones of all."""
    rng, false, rates, found_half = np.random.default_rng([51, images]), {"own": 0, "bounded": 0}, [], []
    held = []
    for _ in range(n):
        cosines = _stimuli(rng, images, np.full(STIMULI, 0.5))
        for name, p in _both(cosines).items():
            false[name] += bool((benjamini_hochberg(p) <= LEVEL).any())
        shares = np.repeat([0.5, 0.85], STIMULI // 2)
        cosines = _stimuli(rng, images, shares)
        called = benjamini_hochberg(_both(cosines)["bounded"]) <= LEVEL
        rates.append(called[: STIMULI // 2].sum() / max(1, called.sum()))
        found_half.append(called[STIMULI // 2 :].mean())
        held.append(_covered(cosines, shares))
    setting = f"16 stimuli of {images} images"
    return [
        Found("downstream-level", "any false leaning, own variance (Welch)", setting, 0.05, false["own"] / n, n),
        Found("downstream-level", "any false leaning, with bounds", setting, 0.05, false["bounded"] / n, n),
        Found("downstream-level", "false among all leanings, half at 85 %", setting, 0.05, float(np.mean(rates)), n),
        Found("downstream-coverage", "single stimuli, with bounds", setting, 0.95, float(np.mean(held)), n),
        Found("downstream-power", "stimuli at 85 % that are found", setting, 0.05, float(np.mean(found_half)), n),
    ]


def _stimuli(rng: np.random.Generator, images: int, shares: np.ndarray) -> dict[str, StimulusCosines]:
    """Images of one of two kinds, and attribute images that scatter: cosines of a stimulus that is drawn so."""
    held = {}
    for order, share in enumerate(shares):
        kind = np.where(rng.random(images) < share, 1.0, -1.0)[:, None]
        own = 0.02 * rng.normal(size=(images, 1))
        a, b = 0.6 + 0.02 * rng.normal(size=(2, 1, ATTRIBUTE_IMAGES))
        held[f"{order}"] = StimulusCosines(a + 0.05 * kind + own, b - 0.05 * kind, _NONE, _NONE, np.array([0.1, -0.1]))
    return held


_NONE = np.zeros((1, 0))
_DESIGN = T2iatDesign({}, (), "a", "b")


def _both(cosines: dict[str, StimulusCosines]) -> dict[str, np.ndarray]:
    estimates = {name: image_estimate(each, _DESIGN) for name, each in cosines.items()}
    tests = stimulus_tests(cosines, estimates)
    own = [_p_or_1(each.p_value(), each.value) for each in estimates.values()]
    return {"own": np.array(own), "bounded": np.array([tests[name].p for name in cosines])}


def _p_or_1(p: float, value: float) -> float:
    return p if np.isfinite(p) else float(value == 0)


def _covered(cosines: dict[str, StimulusCosines], shares: np.ndarray) -> float:
    estimates = {name: image_estimate(each, _DESIGN) for name, each in cosines.items()}
    tests = stimulus_tests(cosines, estimates)
    truth = 0.1 * (2 * shares - 1)
    return float(np.mean([tests[name].low <= t <= tests[name].high for name, t in zip(cosines, truth, strict=True)]))


# --- portraits that are classified or edited -------------------------------------------------------------------------


def portrait_verdicts(n: int, portraits: int, answers: int, share: float) -> list[Found]:
    """Two groups alike, each portrait with its own share of yes among its answers: the contrast of two shares."""
    rng, wrong, covers, balanced = np.random.default_rng([52, portraits, answers, int(100 * share)]), 0, 0, 0
    for _ in range(n):
        found, p = _contrast_of_shares(rng, portraits, answers, share, share)
        covers += found.low <= 0 <= found.high
        wrong += p <= LEVEL and not found.low <= 0 <= found.high
        apart, _ = _contrast_of_shares(rng, portraits, answers, min(1.0, share + MARGIN), share)
        balanced += _shown_alike(apart)
    setting = f"{portraits} + {portraits} portraits of {answers} answers, {share:.0%} yes"
    return [
        Found("downstream-level", "a difference where none is", setting, LEVEL, wrong / n, n),
        Found("downstream-level", f"shown balanced although it is {MARGIN:g}", setting, LEVEL, balanced / n, n),
        Found("downstream-coverage", "difference of two shares over portraits", setting, 0.95, covers / n, n),
    ]


def _contrast_of_shares(
    rng: np.random.Generator, portraits: int, answers: int, first: float, second: float
) -> tuple[Estimate, float]:
    """Portraits that agree with themselves: shares of a beta distribution with half the answers' variance its own."""
    sides = [_shares(rng, portraits, answers, mean) for mean in (first, second)]
    found = contrast([cluster_share(side, answers) for side in sides], [1, -1])
    test = permute_labels(
        np.concatenate(sides)[None], np.arange(2 * portraits) < portraits, n_permutations=499, rng=rng
    )
    return found, float(test.p_value[0])


def _shares(rng: np.random.Generator, portraits: int, answers: int, mean: float) -> np.ndarray:
    if mean in (0.0, 1.0):
        return np.full(portraits, mean)
    return rng.binomial(answers, rng.beta(mean, 1 - mean, size=portraits)) / answers


def _shown_alike(found: Estimate) -> bool:
    error = standard_error_of(found.low, found.high)
    return equivalence_p_value(found.value, error, MARGIN) <= LEVEL


def skin_changes(n: int, portraits: int) -> list[Found]:
    """The mean change of one group, and the difference of two groups: degrees that are skewed, with heavy tails."""
    rng, one, two = np.random.default_rng([53, portraits]), 0, 0
    for _ in range(n):
        sides = 5 * (rng.gamma(2.0, size=(2, portraits)) - 2.0)
        single, both = cluster_mean(sides[0]), contrast([cluster_mean(side) for side in sides], [1, -1])
        one += single.low <= 0 <= single.high
        two += both.low <= 0 <= both.high
    return [
        Found(
            "downstream-coverage", "mean change of the skin's angle", f"{portraits} portraits, skewed", 0.95, one / n, n
        ),
        Found(
            "downstream-coverage",
            "difference of two mean changes",
            f"{portraits} + {portraits}, skewed",
            0.95,
            two / n,
            n,
        ),
    ]


# --- all of them -----------------------------------------------------------------------------------------------------


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((stimulus_verdicts, 2_000, {"images": images}) for images in (4, 8, 12, 20)),
        *((portrait_verdicts, 2_000, {"portraits": portraits, "answers": answers, "share": share})
          for answers, shares in ((16, (0.5, 0.9)), (3, (0.1,))) for share in shares
          for portraits in (2, 4, 6, 8, 16)),
        *((skin_changes, 10_000, {"portraits": portraits}) for portraits in (2, 4, 8, 16)),
    ]  # fmt: skip
