"""Do the tests hold their level, do the intervals cover, and how strong are the tests? Measured on made-up data.

    OMP_NUM_THREADS=1 .venv/bin/python -m benchmarks.simulations [--quick] [--only NAME] [--write]

Each experiment draws many studies from a population whose truth is known, runs the functions of the package on each,
and counts. Every experiment has a seed of its own, so it gives the same numbers alone and among the others. ``--quick``
draws a twentieth of the studies; ``--only verdict`` (or middle, small, comparison, dependence, intersection, reader,
downstream, ratings, picture, open, protocol, ablation, drift, shares, split, standard, steerability, interval, history)
runs what stands in that file alone; ``--write`` keeps what was found in benchmarks/results (:mod:`benchmarks.rates`),
and puts tables and figures into docs/simulations.md.
"""

from __future__ import annotations

import argparse
import re
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import sqrt
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from benchmarks import (
    ablation_simulations,
    comparison_simulations,
    dependence_simulations,
    downstream_simulations,
    drift_simulations,
    gate_simulations,
    history_simulations,
    intersection_simulations,
    interval_simulations,
    middle_simulations,
    open_answers_simulations,
    picture_simulations,
    power_simulations,
    protocol_simulations,
    ratings_simulations,
    reader_simulations,
    shares_simulations,
    small_suites_simulations,
    split_simulations,
    standard_simulations,
    steerability_simulations,
    sweep_simulations,
    transport_simulations,
    verdict_simulations,
)
from benchmarks.rates import (
    LEVELS,
    PAGE,
    Experiment,
    Found,
    all_results,
    read_results,
    rejections,
    write_page,
    write_results,
)
from clinometer.metrics import association_scores, differential_association, stimulus_weat
from clinometer.stats.agreement import kendall_tau_b, krippendorff_alpha
from clinometer.stats.bootstrap import Interval, bca_interval, percentile_interval, rao_wu_weights
from clinometer.stats.clusters import cluster_mean, cluster_share, contrast
from clinometer.stats.label_forms import quadratic_permutation_test
from clinometer.stats.permutation import permute_labels
from clinometer.stats.power import equivalence_p_value, standard_error_of
from clinometer.stats.proportion import fieller_interval, wilson_interval
from clinometer.stats.sequential import e_value, p_value_of
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign, mcas_study


def covered(what: str, setting: str, low: np.ndarray, high: np.ndarray, truth: float, n: int = 0) -> Found:
    """Rate of intervals that hold the truth."""
    held = (np.asarray(low) <= truth) & (truth <= np.asarray(high))
    return Found("coverage", what, setting, 0.95, float(held.mean()), n or held.size)


# --- levels ----------------------------------------------------------------------------------------------------------


def linear_test(n: int) -> list[Found]:
    """Two groups of six skewed values, alike: all 924 splits are counted."""
    values = np.random.default_rng(1).exponential(size=(n, 12))
    return rejections("linear, all splits", "6 + 6, exponential", permute_labels(values, np.arange(12) < 6).p_value)


def matched_test(n: int) -> list[Found]:
    """Four matched pairs of prompts with large differences between pairs; labels permuted within pairs."""
    rng, strata = np.random.default_rng(2), np.repeat(np.arange(4), 6)
    labels, p, batch = np.tile([True] * 3 + [False] * 3, 4), [], 50  # relabellings are shared within a batch only
    for _ in range(n // batch):
        values = rng.normal(size=(batch, 24)) + 3 * rng.normal(size=(batch, 4))[:, strata]
        test = permute_labels(values, labels, strata=strata, n_permutations=1999, exact_limit=0, rng=rng)
        p.append(test.p_value)
    return rejections("matched pairs, sampled splits", "4 pairs of 3 + 3", np.concatenate(p))


def prompt_test(n: int, sizes: tuple[int, int]) -> list[Found]:
    """Prompts that scatter, X and Y alike; quadratic form, all splits."""
    rng, p = np.random.default_rng([3, *sizes]), []
    for _ in range(n):
        u, a, b = rng.normal(size=(3, sum(sizes), 8))
        p.append(float(np.squeeze(quadratic_permutation_test(u @ (a - b).T, sizes=sizes).p_value)))
    return rejections("quadratic form, all splits", f"{sizes[0]} + {sizes[1]} prompts", p)


def _t2iat_sets(
    rng: np.random.Generator, prompts: int, images: int, spread: float, lean: np.ndarray
) -> dict[str, list[np.ndarray]]:
    """Neutral and attribute images around the centres of prompts; neutral ones of X moved by ``lean``."""
    sets = {}
    for name, shift in (("x", lean), ("y", np.zeros_like(lean))):
        for kind, towards in (("", 0.0), ("_a", 1.0), ("_b", -1.0)):
            centres = _BASE + towards * _AXIS + (shift if not kind else 0) + spread * rng.normal(size=(prompts, _DIM))
            sets[name + kind] = [c + 0.5 * rng.normal(size=(images, _DIM)) for c in centres]
    return sets


_DIM = 12
_BASE, _AXIS = np.random.default_rng(0).normal(size=(2, _DIM)) * [[1.0], [0.3]]


def clustered_tests(n: int, spread: float) -> list[Found]:
    """T2IAT of two concepts that are alike, with prompts that scatter by ``spread`` (images scatter by 0.5)."""
    rng, p = np.random.default_rng([4, round(100 * spread)]), {"prompt": [], "image": []}
    for _ in range(n):
        sets = _t2iat_sets(rng, 6, 8, spread, np.zeros(_DIM))
        for unit, found in p.items():
            method = "sampled" if unit == "image" else "auto"  # a proven bracket for 96 images takes half a second
            test = differential_association(**sets, unit=unit, method=method, permutations=999, resamples=0, rng=rng)
            found.append(test.p_value)
    setting = f"6 + 6 prompts of 8 images, prompts scatter by {spread:g}"
    return [*rejections("T2IAT, prompts permuted", setting, p["prompt"]),
            *rejections("T2IAT, images permuted", setting, p["image"])]  # fmt: skip


def equivalence_test(n: int, size: int) -> list[Found]:
    """Two one-sided tests at the margin itself, with the standard error that a verdict reads off its interval."""
    rng, p = np.random.default_rng([5, size]), []
    for values in rng.normal(0.5, 1, (n, size)):
        mean = cluster_mean(values)
        p.append(equivalence_p_value(mean.value, standard_error_of(mean.low, mean.high), 0.5))
    return rejections("equivalence, truth at the margin", f"{size} images", p)


# --- coverage --------------------------------------------------------------------------------------------------------


def studentised_interval(
    value: ArrayLike,
    standard_error: ArrayLike,
    draws: np.ndarray,
    standard_errors: np.ndarray,
    confidence: float = 0.95,
) -> Interval:
    """Bootstrap-t (Efron 1979; Hall 1988): the quantiles of ``(θ* − θ̂)/se*`` in the place of Student's.

    ::

        low, high = θ̂ − q_{(1+confidence)/2} se,  θ̂ − q_{(1−confidence)/2} se

    The most exact of the three for a mean of few, skewed items, as it learns the quantiles of t from the data. It needs
    a standard error of each replicate, and it is not meant for estimates near a bound (shares, correlations).

    Parameters
    ----------
    value, standard_error : (…).
    draws, standard_errors : (R, …) replicates and the standard error computed again in each; replicates with none (all
        items alike) are left out.
    """
    value, error = np.asarray(value, np.float64), np.asarray(standard_error, np.float64)
    draws, errors = np.asarray(draws, np.float64), np.asarray(standard_errors, np.float64)
    known = errors > 0
    roots = np.divide(draws - value, errors, out=np.full(draws.shape, np.nan), where=known)
    unknown = ~known.any(axis=0) | np.isnan(draws).any(axis=0)
    roots = np.where(unknown, 0.0, roots)
    tails = [(1 - confidence) / 2, (1 + confidence) / 2]
    below, above = np.where(unknown, np.nan, np.nanquantile(roots, tails, axis=0))
    return Interval(value - above * error, value - below * error)


def mean_intervals(n: int, size: int, shape: str) -> list[Found]:
    """A mean: percentiles, as wide as t, BCa, studentised. 500 samples at a time share their weights."""
    rng, ends = np.random.default_rng([6, size]), {}
    for _ in range(max(n // 500, 1)):
        x = rng.normal(1, 1, (500, size)) if shape == "normal" else rng.exponential(size=(500, size))
        w = rao_wu_weights([size], 1999, rng).astype(np.float64)
        value, draws = x.mean(axis=1), w @ x.T
        errors = np.sqrt(np.maximum(w @ (x**2).T - draws**2, 0) * (size / (size - 2)) / size)
        for name, interval in {
            "percentiles": percentile_interval(draws),
            "percentiles as wide as t": percentile_interval(draws, freedom=size - 1),
            "BCa": bca_interval(value, draws, (x - value[:, None]).T / size, freedom=size - 1),
            "studentised": studentised_interval(value, x.std(axis=1, ddof=1) / sqrt(size), draws, errors),
        }.items():
            ends.setdefault(name, []).append((interval.low, interval.high))
    return [
        covered(f"mean, {name}", f"{size} {shape} images", *np.concatenate(pairs, axis=1), 1.0)
        for name, pairs in ends.items()
    ]


class McasPopulation:
    """Two groups in two matched prompts, one target; the truth is that of 200,000 images."""

    def __init__(self, lean: float) -> None:
        fixed = np.random.default_rng(7)
        self.lean, self.axis, self.ages = lean, 0.3 * fixed.normal(size=16), 0.4 * fixed.normal(size=(2, 16))
        self.base, self.text, self.words = fixed.normal(size=16), fixed.normal(size=(1, 16)), fixed.normal(size=(6, 16))
        many = self.draw(np.random.default_rng(8), 200_000, 100_000)
        own = [_mean_unit(many.target_images[0]), _mean_unit(self.text)]
        groups = [np.mean([_mean_unit(x) for x in many.group_images[g]], axis=0) for g in ("a", "b")]
        words = [_mean_unit(w) for w in (self.words[:3], self.words[3:])]
        self.truth = float(sum(own) @ (groups[0] - groups[1] + words[0] - words[1]))

    def draw(self, rng: np.random.Generator, images: int, attribute_images: int) -> EncoderEmbeddings:
        def around(centre: np.ndarray, n: int) -> np.ndarray:
            return centre + 0.6 * rng.normal(size=(n, 16))

        return EncoderEmbeddings(
            encoder="e", target_images=(around(self.base + self.lean * self.axis, images),), target_texts=self.text,
            group_images={g: tuple(around(self.base + s * self.axis + age, attribute_images) for age in self.ages)
                          for g, s in (("a", 1), ("b", -1))},
            group_words={"a": self.words[:3], "b": self.words[3:]},
        )  # fmt: skip


def _mean_unit(x: np.ndarray) -> np.ndarray:
    return np.asarray((x / np.linalg.norm(x, axis=1, keepdims=True)).mean(axis=0))


_MCAS_DESIGN = Design(
    targets=(TargetDesign("t", "c", None),), groups=("a", "b"), a="a", b="b", third=None,
    pairs={"a": ("one", "two"), "b": ("one", "two")}, prompts={}, margin=None,
)  # fmt: skip


def mcas_intervals(n: int, images: int, attribute_images: int, lean: float) -> list[Found]:
    """MCAS from embeddings to interval, as an audit computes it."""
    population, ends = McasPopulation(lean), []
    for study in range(n):
        drawn = population.draw(np.random.default_rng([9, images, study]), images, attribute_images)
        rows = mcas_study([drawn], _MCAS_DESIGN, n_resamples=999, n_permutations=1, seed=study)
        ends += [(r.low, r.high) for r in rows if (r.metric, r.component, r.encoder) == ("mcas", "mcas", "mean")]
    where = "at parity" if lean == 0 else "away from it"
    setting = f"{images} images, 2 × {attribute_images} of each group, {where}"
    return [covered("MCAS", setting, *np.transpose(ends), population.truth)]


def t2iat_intervals(n: int, prompts: int, lean: float) -> list[Found]:
    """S and d over prompts, against those of 20,000 prompts."""
    shift = lean * _AXIS
    many = _t2iat_sets(np.random.default_rng(10), 20_000, 1, 0.4, shift)
    s_x, s_y = (_associations(many[name], many[f"{name}_a"], many[f"{name}_b"]) for name in "xy")
    truth = float(s_x.mean() - s_y.mean())
    rng, ends, ends_d = np.random.default_rng([11, prompts]), [], []
    for _ in range(n):
        sets = _t2iat_sets(rng, prompts, 6, 0.4, shift)
        found = differential_association(**sets, method="sampled", permutations=1, resamples=999, rng=rng)
        ends.append((found.stimulus_low, found.stimulus_high))
        ends_d.append((found.effect_size_stimulus_low, found.effect_size_stimulus_high))
    setting = f"{prompts} + {prompts} prompts of 6 images, {'at parity' if lean == 0 else 'away from it'}"
    return [
        covered("T2IAT's S, over prompts", setting, *np.transpose(ends), truth),
        covered("T2IAT's d, over prompts", setting, *np.transpose(ends_d), truth / sqrt((s_x.var() + s_y.var()) / 2)),
    ]


def _associations(items: list[np.ndarray], a: list[np.ndarray], b: list[np.ndarray]) -> np.ndarray:
    return association_scores(*(np.concatenate(each) for each in (items, a, b)))


def weat_intervals(n: int, targets: int, attributes: int, lean: float) -> list[Found]:
    """WEAT's statistic and effect size, against those of 200,000 words of each kind."""

    def draw(rng: np.random.Generator, n_targets: int, n_attributes: int) -> list[np.ndarray]:
        towards = ((lean, n_targets), (-lean, n_targets), (1, n_attributes), (-1, n_attributes))
        return [_WORD + shift * _TIE + 0.3 * rng.normal(size=(size, len(_WORD))) for shift, size in towards]

    x, y, a, b = draw(np.random.default_rng(12), 200_000, 200_000)
    s_x, s_y = association_scores(x, a, b), association_scores(y, a, b)
    statistic = float(s_x.mean() - s_y.mean())
    truth = (statistic, statistic / float(np.concatenate([s_x, s_y]).std()))
    rng, found = np.random.default_rng([13, targets, attributes]), []
    for _ in range(n):
        sets = [[word[None] for word in each] for each in draw(rng, targets, attributes)]
        found.append(stimulus_weat(*sets, method="sampled", permutations=1, resamples=999, rng=rng))
    sizes = f"{targets} + {targets} targets, {attributes} + {attributes} attributes"
    setting = f"{sizes}, d = {round(truth[1], 1) + 0.0:.1f}"  # no -0.0
    of_statistic = np.transpose([(weat.statistic_low, weat.statistic_high) for weat in found])
    of_effect = np.transpose([(weat.effect_size_low, weat.effect_size_high) for weat in found])
    return [
        covered("WEAT's statistic", setting, *of_statistic, truth[0]),
        covered("WEAT's d", setting, *of_effect, truth[1]),
    ]


_WORD, _TIE = np.random.default_rng(1).normal(size=(2, 50)) * [[1.0], [0.2]]


def wilson(_: int, size: int, share: float) -> list[Found]:
    """The exact coverage, from the binomial distribution."""
    counts = np.arange(size + 1)
    held = [i.low <= share <= i.high for i in (wilson_interval(int(k), size) for k in counts)]
    rate = float(np.sum(stats.binom.pmf(counts, size, share)[held]))
    return [Found("coverage", "share, Wilson", f"{share:.0%} of {size} images", 0.95, rate, 0)]


def share_difference(_: int, size: int, shares: tuple[float, float]) -> list[Found]:
    """The exact coverage of the difference of two independent shares."""
    counts = np.arange(size + 1)
    ends = [cluster_share(np.arange(size) < k) for k in counts]
    rate, truth = 0.0, shares[0] - shares[1]
    chance = [stats.binom.pmf(counts, size, p) for p in shares]
    for i, one in enumerate(ends):
        for j, other in enumerate(ends):
            found = contrast([one, other], [1, -1])
            rate += chance[0][i] * chance[1][j] * (found.low <= truth <= found.high)
    setting = f"{shares[0]:.0%} and {shares[1]:.0%} of {size} images each"
    return [Found("coverage", "share difference", setting, 0.95, float(rate), 0)]


def fieller(n: int, sharpness: float) -> list[Found]:
    """A ratio −1.5 whose denominator is ``sharpness`` standard errors from 0; unbounded sets count as they are."""
    held, rng = 0, np.random.default_rng([12, round(sharpness)])
    draws = rng.multivariate_normal([-1.5 * sharpness, sharpness], [[1, 0.3], [0.3, 1]], n)
    for x, y in draws:
        found = fieller_interval(x, y, variance_numerator=1, variance_denominator=1, covariance=0.3)
        inside = found.low <= -1.5 <= found.high
        held += found.shape == "unbounded" or (inside if found.shape == "bounded" else not inside)
    return [Found("coverage", "ratio, Fieller", f"denominator {sharpness:g} errors from 0", 0.95, held / n, n)]


def rank_correlations(n: int, rho: float, ties: bool, method: str) -> list[Found]:
    """τ-b of 20 concepts, normal scores of correlation ρ, rounded to make ties; truth from 20,000 pairs."""

    def draw(rng: np.random.Generator, size: int) -> np.ndarray:
        z = rng.normal(size=(2, size))
        pair = np.stack([z[0], rho * z[0] + sqrt(1 - rho**2) * z[1]])
        return np.round(1.5 * pair) if ties else pair

    truth = float(stats.kendalltau(*draw(np.random.default_rng(14), 20_000)).statistic)
    truth = truth if ties else 2 / np.pi * float(np.arcsin(rho))
    rng, ends = np.random.default_rng([15, round(10 * rho), ties]), []
    for study in range(n):
        found = kendall_tau_b(*draw(rng, 20), method=method, n_resamples=499, rng=study)  # type: ignore[arg-type]
        ends.append((found.low, found.high))
    setting = f"20 pairs, τ = {truth:.2f}{', with ties' if ties else ''}"
    return [covered(f"Kendall's τ-b, {method}", setting, *np.transpose(ends), truth)]


def alphas(n: int, units: int, copied: float) -> list[Found]:
    """Three raters who each copy the unit's class with probability ``copied``, else guess: α = copied²."""
    rng, ends = np.random.default_rng([16, units]), []
    for study in range(n):
        truth, guesses = rng.integers(0, 3, units), rng.integers(0, 3, (3, units))
        ratings = np.where(rng.random((3, units)) < copied, truth, guesses)
        found = krippendorff_alpha(ratings, n_resamples=499, rng=study)
        ends.append((found.low, found.high))
    setting = f"3 raters, {units} units, α = {copied**2:.2f}"
    return [covered("Krippendorff's α", setting, *np.transpose(ends), copied**2)]


# --- power -----------------------------------------------------------------------------------------------------------


def power_curve(n: int, size: int) -> list[Found]:
    """Permutation test of two groups of ``size`` normal values that differ by 0 to 2 standard deviations."""
    rng, found = np.random.default_rng([19, size]), []
    for effect in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0):
        labels, p = np.arange(2 * size) < size, []
        for _ in range(n // 50):
            values = rng.normal(size=(50, 2 * size)) + effect * labels
            p.append(permute_labels(values, labels, n_permutations=999, exact_limit=1000, rng=rng).p_value)
        setting = f"{size} + {size}, difference {effect:g}"
        found.append(Found("curve", "linear, permuted", setting, 0.05, float(np.mean(np.concatenate(p) <= 0.05)), n))
    return found


# --- looking all along ------------------------------------------------------------------------------------------------

LOOKS = range(10, 201, 5)
"""Numbers of images after which ``clinometer audit --until decided`` looks, to 200 images of a concept."""


def stopping(n: int, shape: str) -> list[Found]:
    """One concept at parity, drawn until a test finds it leaning: by betting e-values, and by Student's t each time."""
    rng = np.random.default_rng([9, *shape.encode()])
    if shape == "half and half":
        centres = rng.choice([-0.6, 0.6], (n, LOOKS[-1]))
    else:  # one image in ten far to one side, the others a little to the other
        centres = np.where(rng.random((n, LOOKS[-1])) < 0.1, 0.72, -0.08)
    values = np.clip(centres + rng.uniform(-0.1, 0.1, centres.shape), -1, 1)
    bets = [max(e_value(row[:k], 0.0, low=-1, high=1) for k in LOOKS) for row in values]
    students = np.min([stats.ttest_1samp(values[:, :k], 0, axis=1).pvalue for k in LOOKS], axis=0)
    setting = f"{shape}, {len(LOOKS)} looks"
    return [
        *rejections("stopping, betting e-value", setting, [p_value_of(e) for e in bets]),
        *rejections("stopping, Student's t", setting, students),
    ]


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    chosen: list[Experiment] = [
        (linear_test, 20_000, {}),
        (matched_test, 20_000, {}),
        *((prompt_test, 4_000, {"sizes": sizes}) for sizes in ((6, 6), (5, 7))),
        *((clustered_tests, 1_500, {"spread": spread}) for spread in (0.0, 0.2, 0.4)),
        *((equivalence_test, 10_000, {"size": size}) for size in (10, 20, 100)),
        *((stopping, 4_000, {"shape": shape}) for shape in ("half and half", "skewed")),
        *((mean_intervals, 10_000, {"size": size, "shape": shape})
          for shape in ("normal", "exponential") for size in (5, 10, 20)),
        *((mcas_intervals, 2_500, {"images": i, "attribute_images": k, "lean": lean})
          for i, k in ((10, 8), (20, 16)) for lean in (0.0, 0.7)),
        *((t2iat_intervals, 1_500, {"prompts": prompts, "lean": lean}) for prompts in (3, 5, 8) for lean in (0.0, 1.5)),
        *((weat_intervals, 2_000, {"targets": targets, "attributes": attributes, "lean": lean})
          for targets, attributes in ((5, 25), (8, 8), (25, 25)) for lean in (0.0, 0.1, 0.3)),
        *((wilson, 1, {"size": size, "share": share}) for size in (8, 20, 100) for share in (0.5, 0.75, 0.9)),
        *((share_difference, 1, {"size": size, "shares": shares})
          for size in (20, 50) for shares in ((0.5, 0.5), (0.9, 0.7))),
        *((fieller, 10_000, {"sharpness": sharpness}) for sharpness in (1.0, 3.0, 10.0)),
        *((rank_correlations, 2_000, {"rho": rho, "ties": ties, "method": method})
          for method in ("jackknife", "fisher", "bootstrap") for ties in (False, True) for rho in (0.0, 0.7)),
        *((alphas, 2_000, {"units": units, "copied": 0.7}) for units in (20, 60)),
        *((power_curve, 4_000, {"size": size}) for size in (6, 12, 24)),
    ]  # fmt: skip
    for module in MODULES:
        chosen += module.experiments()
    return chosen


MODULES = (
    verdict_simulations,
    middle_simulations,
    small_suites_simulations,
    comparison_simulations,
    dependence_simulations,
    sweep_simulations,
    transport_simulations,
    shares_simulations,
    split_simulations,
    standard_simulations,
    steerability_simulations,
    gate_simulations,
    history_simulations,
    intersection_simulations,
    reader_simulations,
    downstream_simulations,
    ratings_simulations,
    picture_simulations,
    power_simulations,
    open_answers_simulations,
    protocol_simulations,
    ablation_simulations,
    drift_simulations,
    interval_simulations,
)
"""Where further experiments stand."""


def run(experiment: Experiment, share: float = 1.0) -> list[Found]:
    """Run one experiment, or a share of its studies."""
    simulate, n, options = experiment
    return simulate(max(int(n * share), 20), **options)


def kept(experiment: Experiment, share: float, folder: Path | None) -> list[Found]:
    """Run an experiment, or read what an earlier call kept in the folder, so that a long run can be resumed."""
    if folder is None:
        return run(experiment, share)
    simulate, n, options = experiment
    told = "-".join(str(x) for x in (simulate.__name__, max(int(n * share), 20), *options.values()))
    own = re.sub(r"[^\w.]+", "-", f"{simulate.__module__.split('.')[-1]}-{told}")
    if not (folder / f"{own}.csv").exists():
        write_results(own, run(experiment, share), folder)
    return read_results(own, folder)


def name_of(module: str) -> str:
    """Name the file of results of a module."""
    return module.rsplit(".", maxsplit=1)[-1].removesuffix("_simulations")


def main() -> None:
    """Run everything; print, and with ``--write`` keep what was found, draw and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a twentieth of the studies")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results, the page and its figures")
    parser.add_argument(
        "--page", action="store_true", help="write the page and its figures from the files, run nothing"
    )
    parser.add_argument("--only", default="", help="experiments of the modules whose names begin so")
    parser.add_argument(
        "--keep", type=Path, help="a folder for what each experiment found: run again, it goes on there"
    )
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    if options.page:
        return show()
    chosen = [each for each in experiments() if each[0].__module__.split(".")[-1].startswith(options.only)]
    began = time.perf_counter()
    measure = partial(kept, share=0.05 if options.quick else 1.0, folder=options.keep)
    with ProcessPoolExecutor(options.workers) as pool:
        parts = list(zip(chosen, pool.map(measure, chosen), strict=True))
    found = [each for _, part in parts for each in part]
    for kind in dict.fromkeys(each.kind for each in found):
        print(printed(found, kind))
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{time.perf_counter() - began:.0f} s, of processor time {spent.ru_utime + spent.ru_stime:.0f} s")
    if options.write:
        for name in dict.fromkeys(name_of(simulate.__module__) for (simulate, *_), _ in parts):
            own = [each for (simulate, *_), part in parts if name_of(simulate.__module__) == name for each in part]
            write_results(name, own)
        show()
    return None


def printed(found: list[Found], kind: str) -> str:
    """The rates of one kind, a line each."""
    lines = [f"\n{kind}"]
    for each in (each for each in found if each.kind == kind):
        error = f"± {each.error:.2%} of {each.n} studies" if each.n else "exact"
        lines.append(f"  {each.rate:8.2%} {error}, promised {each.nominal:g}: {each.what}; {each.setting}")
    return "\n".join(lines)


# --- the page --------------------------------------------------------------------------------------------------------


def show() -> None:
    """Write the tables of the page, and draw the figures beside it, from the files of results."""
    write_page()
    of: dict[str, list[Found]] = {}
    for each in all_results():
        of.setdefault(each.kind, []).append(each)
    if "level" in of:
        levels = [each for each in of["level"] if each.nominal == LEVELS[0]]
        draw_rates(levels, "simulations-level", (0.03, 0.07))
        draw_rates(of["coverage"], "simulations-coverage", (0.94, 0.96))
    if "curve" in of:
        draw_power(of["curve"])
    if "verdict-curve" in of:
        draw_verdict_power(of["verdict-curve"])


def draw_rates(found: list[Found], name: str, band: tuple[float, float]) -> None:
    """Dots with two Monte-Carlo errors, beside the nominal rate."""
    from matplotlib.ticker import MultipleLocator

    figure, axes = _axes((8.5, 0.8 + 0.2 * len(found)))
    places = -np.arange(len(found))
    axes.axvspan(*band, color="#8884", linewidth=0)
    axes.axvline(found[0].nominal, color="#888", linewidth=1)
    axes.errorbar([f.rate for f in found], places, xerr=[2 * f.error for f in found], fmt="o", color="#3366aa", ms=4)
    axes.set_yticks(places, [f"{f.what}: {f.setting}" for f in found], fontsize=7)
    span = max(f.rate for f in found) - min(f.rate for f in found)
    axes.xaxis.set_major_locator(MultipleLocator(0.1 if span > 0.25 else 0.02))
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    axes.margins(y=0.02)
    _save(figure, name)


def draw_power(found: list[Found]) -> None:
    """Share of rejections against the true difference, a line for each size."""
    figure, axes = _axes((6, 3.6))
    for size, ink in zip(dict.fromkeys(f.setting.split(",")[0] for f in found), ("#3366aa", "#aa6633", "#338855"),
                         strict=True):  # fmt: skip
        own = [f for f in found if f.setting.startswith(f"{size},")]
        axes.plot([float(f.setting.split()[-1]) for f in own], [f.rate for f in own], "o-", color=ink, label=size)
    axes.axhline(0.05, color="#888", linewidth=1)
    axes.set(xlabel="true difference, in standard deviations", ylabel="share found at 5 %", ylim=(0, 1.02))
    axes.legend(title="items", frameon=False)
    _save(figure, "simulations-power")


def draw_verdict_power(found: list[Found]) -> None:
    """Share of leanings found against the planted share, beside a t-test's."""
    figure, axes = _axes((6, 3.6))
    inks = {"the verdict's test": "#3366aa", "t-test": "#aa6633"}
    for what in dict.fromkeys(f.what for f in found):
        own = [f for f in found if f.what == what]
        test, level = what.split(", ")
        axes.plot([float(f.setting.split("%")[0]) / 100 for f in own], [f.rate for f in own],
                  "o-" if level.startswith("q") else "o:", ms=4, color=inks[test], label=what)  # fmt: skip
    axes.axhline(0.05, color="#888", linewidth=1)
    axes.set(xlabel="planted share", ylabel="found, in 20 images", ylim=(0, 1.02))
    axes.legend(frameon=False)
    _save(figure, "simulations-verdict-power")


def _axes(size: tuple[float, float]) -> tuple:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams.update({"svg.hashsalt": "clinometer", "svg.fonttype": "none", "font.size": 9})
    figure = Figure(size, layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _save(figure, name: str) -> None:
    figure.savefig(PAGE.parent / f"images/{name}.svg", metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main()
