"""A made-up T2IAT study: what its page is drawn from."""

from __future__ import annotations

import numpy as np
import pandas as pd

from clinometer.report import ReportInput
from clinometer.suites import load_suite
from tests.report.synthetic import encoder_card, model_card, picture

TESTS = {
    "occupations": (0.21, 0.14, 0.28, 0.008),
    "activities": (0.17, 0.1, 0.24, 0.016),
    "parity": (0.01, -0.05, 0.07, 0.9),
}


def score_rows(suite):
    rng = np.random.default_rng(3)
    for test in suite.tests:
        value, low, high, p = TESTS.get(test.name, TESTS["parity"])
        ends = {"low": low + 0.01, "high": high - 0.01, "stimulus_low": low, "stimulus_high": high}
        said = {"verdict": "leans", "side": "man"} if p < 0.05 else {"verdict": "undecided"}
        about = {"metric": "t2iat", "concept": test.name, "encoder": "mean", "n_target": 240, "n_a": 160, "n_b": 160}
        yield about | ends | {"component": "differential_association", "value": value, "p": p, "q": p, "p_exact": True,
                              "n_splits": 252, "test": "prompts permuted"} | said  # fmt: skip
        yield about | {name: 5 * end for name, end in ends.items()} | {"component": "effect_size", "value": 5 * value}
    for concept, stimulus in suite.stimuli():
        lean = {"crafts": 0.2, "services": -0.1}.get(concept, 0.02)
        values = lean + 0.05 * rng.normal(size=24)
        about = {"concept": stimulus.name, "category": concept, "encoder": "mean", "n_target": 24}
        mean = {"value": values.mean(), "low": values.mean() - 0.02, "high": values.mean() + 0.02, "q": 0.01}
        yield (
            about
            | mean
            | {"metric": "association", "component": "mean", "verdict": "leans", "side": "man" if lean > 0 else "woman"}
        )
        quantiles = np.quantile(values, [0, 0.25, 0.5, 0.75, 1])
        parts = ("lower_whisker", "lower_quartile", "median", "upper_quartile", "upper_whisker")
        for part, value in zip(parts, quantiles, strict=True):
            yield about | {"metric": "association", "component": part, "value": value}
        text = 0.02 * np.sign(lean)
        yield about | {"metric": "amplification", "component": "text", "value": text}
        yield about | mean | {"metric": "amplification", "component": "image"}
        for part in ("change", "amplification"):
            yield about | {"metric": "amplification", "component": part, "value": 0.1, "q": 0.01}
    for category in (*suite.concepts, "all"):
        for part in ("change", "amplification"):
            yield {"metric": "amplification", "component": part, "category": category, "encoder": "mean", "value": 0.05,
                   "stimulus_low": 0.01, "stimulus_high": 0.09, "p": 0.03}  # fmt: skip


def curves(suite):
    x = np.linspace(-0.1, 0.3, 9)
    rows = [("association_density", s.name, a, np.exp(-a * a)) for _, s in suite.stimuli() for a in x]
    return pd.DataFrame(
        [*rows, ("association_outlier", suite.stimuli()[0][1].name, 0.4, 0.0)], columns=["curve", "concept", "x", "y"]
    )


def samples(suite):
    rows = []
    for question in suite.prompt_specs():
        refused = question.concept == "firefighter" and question.group == "woman"
        row = {name: getattr(question, name) for name in ("prompt", "concept", "role", "group", "category")}
        row |= {"status": "refused", "reason": "not here"} if refused else {"status": "ok", "reason": ""}
        rows += [row | {"id": f"{len(rows) + order}", "seed": order} for order in range(min(question.images, 2))]
    return pd.DataFrame(rows)


def report_input(suite=None, **changes):
    suite = suite or load_suite("t2iat/reference")
    fields = {
        "title": "painter × tests", "suite": suite, "model_card": model_card(),
        "encoder_cards": {"eye": encoder_card("eye")},
        "settings": {"seed": 7}, "scores": pd.DataFrame(list(score_rows(suite))), "samples": samples(suite),
        "image": picture, "curves": curves(suite),
    }  # fmt: skip
    return ReportInput(**(fields | changes))
