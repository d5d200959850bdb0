"""A made-up run of realistic size, so that the page can be looked at and tested without a model.

The numbers are drawn to look like an audit: concepts lean the way they were "planted", with noise; nothing is
computed from images.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from math import atan2, hypot, nan
from typing import Any

import numpy as np
import pandas as pd
from PIL import Image, ImageDraw

from clinometer.metrics.mcas import COMPONENTS
from clinometer.report import ReportInput
from clinometer.suites import Suite, load_suite, suite_from_mapping

ENCODERS = ("reference/clip", "ViT-B-32/openai")
STATISTICS = ("mean", "min", "max", "standard_error")


def report_input(**changes: Any) -> ReportInput:
    """A whole report; ``changes`` replace its fields."""
    suite: Suite = changes.get("suite") or load_suite("xmcas").model_copy(update={"margin": 0.05})
    planted = planted_truth(suite)
    scores = pd.DataFrame(list(score_rows(suite, planted)))
    fields: dict[str, Any] = {
        "title": "Audit of reference/emoji-diffusion with xMCAS",
        "suite": suite,
        "model_card": model_card(),
        "encoder_cards": {name: encoder_card(name) for name in ENCODERS},
        "settings": {
            "seed": 7,
            "created": "2026-05-04T10:12:13+00:00",
            "images": {"target": 20, "attribute": 16},
            "origin": "generated",
            "versions": {"python": "3.13.1", "torch": "2.9.0", "numpy": "2.4.0"},
        },
        "scores": scores,
        "samples": samples(suite),
        "image": picture,
        "planted": planted,
        "curves": curves(scores),
    }
    return ReportInput(**(fields | changes))


def small_input(**changes: Any) -> ReportInput:
    """Build the same report with a few targets of each category and a few images: quick to draw."""
    whole = report_input(**{"suite": small_suite()} | changes)
    return whole if "samples" in changes else replace(whole, samples=whole.samples[:40])


@cache
def small_suite() -> Suite:
    """xMCAS with three targets a category, and a margin."""
    held = load_suite("xmcas").model_dump(exclude_none=True)
    for category in held["categories"].values():
        category["targets"] = category["targets"][:3]
    return suite_from_mapping(held | {"margin": 0.05}, source="test")


def planted_truth(suite: Suite) -> dict[str, dict[str, float]]:
    """Probabilities from 0.05 to 0.95 along the stereotypes, some at parity."""
    rng = np.random.default_rng(3)
    truth = {}
    for order, target in enumerate(suite.targets):
        lean = float(rng.uniform(0.6, 0.95)) if order % 5 else 0.5
        truth[target.name] = {suite.axis.a: round(lean if target.stereotype == suite.axis.a else 1 - lean, 2)}
        truth[target.name][suite.axis.b] = round(1 - truth[target.name][suite.axis.a], 2)
    return truth


def score_rows(suite: Suite, planted: dict[str, dict[str, float]]) -> Iterator[dict[str, Any]]:
    """Rows of every metric, as the run stores them."""
    rng = np.random.default_rng(5)
    for category, target in suite.categorised_targets():
        lean = planted.get(target.name, {}).get(suite.axis.a, 0.5) - 0.5
        where = {"concept": target.name, "category": category, "n_target": 20, "n_a": 64, "n_b": 64}
        yield from _mcas_rows(rng, lean, where)
        yield from _internal_rows(rng, lean, where)
        yield from _third_rows(rng, lean, where, suite)
        yield from _share_rows(rng, lean, where)
        yield from _other_audit_rows(np.random.default_rng(len(where["concept"])), lean, where)
    yield from _summary_rows(rng, suite)


def _mcas_rows(rng: np.random.Generator, lean: float, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    weights = {"ii": 0.45, "itp": 0.12, "ita": 0.3, "tt": 0.03}
    found: dict[str, dict[str, float]] = {}
    for component, weight in weights.items():
        values = {encoder: weight * lean + rng.normal(0, 0.012) for encoder in ENCODERS}
        values["mean"] = sum(values.values()) / len(ENCODERS)
        found[component] = values
        for encoder, value in values.items():
            yield _row("mcas", component, value, rng, encoder=encoder, spread=0.02, **where)
    for component in ("image_part", "text_part", "mcas"):
        for encoder in ("mean", *ENCODERS):
            value = sum(found[modality][encoder] for modality in COMPONENTS[component])
            row = _row("mcas", component, value, rng, encoder=encoder, spread=0.04, **where)
            yield row | (_verdict(row) if encoder == "mean" else {})


def _verdict(row: dict[str, Any]) -> dict[str, str]:
    side = "man" if row["value"] > 0 else "woman"
    nearest = min(abs(row["low"]), abs(row["high"])) if row["low"] * row["high"] > 0 else 0.0
    if nearest > 0.05:
        return {"verdict": "leans", "side": side}
    if nearest > 0:
        return {"verdict": "leans slightly", "side": side}
    if max(-row["low"], row["high"]) < 0.05:
        return {"verdict": "balanced"}
    return {"verdict": "undecided", "reason_code": "the interval covers 0"}


def _internal_rows(rng: np.random.Generator, lean: float, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    delta = abs(0.4 * lean) + rng.normal(0, 0.01)
    alpha = abs(rng.lognormal(0.8 + 6 * abs(delta), 0.6))
    yield _row("internal_bias", "diffusion_bias", abs(delta), rng, spread=0.02, null=0.011, **where)
    yield _row("internal_bias", "signed_diffusion_bias", delta, rng, spread=0.02, **where)
    flag = "unstable" if rng.random() < 0.4 else ""
    yield _row("internal_bias", "bias_amplification", alpha, rng, spread=1.0, flag=flag, **where)
    yield _row("internal_bias", "signed_bias_amplification", alpha, rng, spread=1.0, flag=flag, **where)


def _third_rows(rng: np.random.Generator, lean: float, where: dict[str, Any], suite: Suite) -> Iterator[dict[str, Any]]:
    similarity, mcas = 0.36 - 0.1 * abs(lean) + rng.normal(0, 0.015), 0.9 * lean
    yield _row("xmcas", "similarity", similarity, rng, spread=0.01, **where)
    yield _row("xmcas", "angle", atan2(similarity, 1 - abs(mcas) + 0.02), rng, spread=0.01, **where)
    yield _row("xmcas", "distance", hypot(similarity - 1 / 3, mcas), rng, spread=0.02, null=0.03, **where)
    towards = {suite.axis.a: 0.05 * lean, suite.axis.b: -0.05 * lean}
    for group in suite.groups:
        value = towards.get(group, 0.0) + rng.normal(0, 0.004)
        yield _row("profile", "association", value, rng, spread=0.006, group=group, **where)
    yield _row("profile", "norm", abs(rng.normal(0.03, 0.01)), rng, spread=0.01, null=0.008, **where)


def _share_rows(rng: np.random.Generator, lean: float, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    share = int(np.clip(rng.binomial(20, 0.5 + lean), 0, 20)) / 20
    yield _row("share", "share", share, rng, spread=0.12, **where) | {
        "low": max(0.0, share - 0.17),
        "high": min(1.0, share + 0.17),
    }
    yield _row("share", "parity_gap", abs(share - 0.5), rng, spread=0.1, null=0.088, **where)


def _other_audit_rows(rng: np.random.Generator, lean: float, where: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for component, null in (("gender_gap", 0.09), ("mean_absolute_deviation", 0.06), ("entropy_bias", 0.05)):
        yield _row("other_audits", component, abs(lean), rng, spread=0.1, null=null, **where)
    yield _row("other_audits", "distribution_bias", 1 - abs(lean), rng, spread=0.1, null=0.9, **where)
    yield _row("other_audits", "miss_rate", float("nan"), rng, reason="no image of the target", **where)


def _summary_rows(rng: np.random.Generator, suite: Suite) -> Iterator[dict[str, Any]]:
    for category in (*suite.categories, "all"):
        for component in ("mean", "std"):
            yield _row("category", component, rng.normal(0, 0.05), rng, category=category)
            for sign, group in ((1, suite.axis.a), (-1, suite.axis.b)):
                yield _row("category", component, sign * 0.1, rng, category=category, group=group)
                value = sign * 0.2 if component == "mean" else 0.07
                yield _row("category_by_sign", component, value, rng, category=category, group=group)
    for group in (suite.axis.a, suite.axis.b, ""):
        for score, scale in (("diffusion_bias", 0.1), ("bias_amplification", 5.0)):
            for statistic in STATISTICS:
                yield _row(
                    "internal_bias_summary",
                    f"{score}_{statistic}",
                    scale * rng.uniform(0.2, 1),
                    rng,
                    group=group,
                )
    yield _row("xmcas", "offset", 0.0227, rng)
    for group, (similarity, mcas) in zip(suite.groups, ((0.3, 0.6), (0.36, -0.55), (0.52, -0.08)), strict=False):
        yield _row("xmcas_group", "similarity", similarity, rng, group=group)
        yield _row("xmcas_group", "mcas", mcas, rng, group=group)
        yield _row("xmcas_group", "angle", atan2(similarity, 1 - abs(mcas) + 0.0227), rng, group=group)
        yield _row("xmcas_group", "distance", hypot(similarity - 1 / 3, mcas), rng, group=group)
        for attribute in suite.groups[group].prompts:
            place = {"group": group, "concept": attribute.prompt}
            yield _row("xmcas_group", "similarity", similarity + rng.normal(0, 0.03), rng, **place)
            yield _row("xmcas_group", "mcas", mcas + rng.normal(0, 0.08), rng, **place)


def _row(metric: str, component: str, value: float, rng: np.random.Generator, **fields: Any) -> dict[str, Any]:
    spread = fields.pop("spread", 0.03)
    half = spread * rng.uniform(0.8, 1.2)
    p = float(min(1.0, np.exp(-abs(value) / spread) / 2))
    row: dict[str, Any] = {
        "metric": metric,
        "component": component,
        "concept": "",
        "category": "",
        "group": "",
        "encoder": "mean",
        "value": value,
        "low": value - half,
        "high": value + half,
        "stimulus_low": value - 1.7 * half,
        "stimulus_high": value + 1.7 * half,
        "p": p,
        "q": min(1.0, 1.4 * p),
        "test": "labels of attribute images within matched prompts, two-sided",
        "p_exact": False,
        "p_error": 0.001,
        "n_splits": 10_000,
        "family": metric,
        "null": nan,
        "n_target": 0,
        "n_a": 0,
        "n_b": 0,
        "flag": "",
        "reason": "",
        "verdict": "",
        "side": "",
        "reason_code": "",
        "p_labels": nan,
    }
    return row | fields


def samples(suite: Suite) -> pd.DataFrame:
    """Every planned image; a few refused, failed or blank."""
    rows = []
    for category, target in suite.categorised_targets():
        for order in range(suite.images.target):
            rows.append(_sample(len(rows), target.prompt, "target", order, concept=target.name, category=category))
    for name, group in suite.groups.items():
        for attribute in group.prompts:
            for order in range(suite.images.attribute):
                rows.append(_sample(len(rows), attribute.prompt, "attribute", order, group=name))
    return pd.DataFrame(rows)


def _sample(serial: int, prompt: str, role: str, order: int, **owner: str) -> dict[str, Any]:
    status, reason = "ok", None
    if serial % 97 == 3:
        status, reason = "refused", "safety checker: the model withheld the image"
    elif serial % 211 == 5:
        status, reason = "failed", "CUDA out of memory"
    elif serial % 307 == 9:
        status, reason = "blank", "every pixel is the same"
    return {
        "id": f"{serial:016x}",
        "prompt": prompt,
        "concept": "",
        "role": role,
        "group": "",
        "category": "",
        "seed": order,
        "status": status,
        "reason": reason,
        "seconds": 0.15,
    } | owner


@cache
def picture(identifier: str) -> bytes | None:
    """A little figure, different for every id."""
    rng = np.random.default_rng(int(identifier, 16))
    skin = tuple(int(v) for v in rng.choice([(255, 219, 172), (198, 134, 66), (141, 85, 36), (255, 205, 60)]))
    image = Image.new("RGB", (64, 64), "white")
    draw = ImageDraw.Draw(image)
    shirt = tuple(int(v) for v in rng.integers(40, 220, 3))
    draw.ellipse((10, 40, 54, 90), fill=shirt)
    draw.ellipse((18, 8, 46, 46), fill=skin)
    draw.pieslice((16, 4, 48, 40), 180, 360, fill=tuple(int(v) for v in rng.integers(10, 110, 3)))
    for x in (26, 38):
        draw.ellipse((x - 2, 24, x + 2, 28), fill="black")
    draw.arc((26, 28, 38, 38), 20, 160, fill="black", width=2)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def curves(scores: pd.DataFrame) -> pd.DataFrame:
    """A smooth rising line over the range of δ."""
    delta = scores[scores.component == "diffusion_bias"].value
    x = np.linspace(float(delta.min()), float(delta.max()), 40)
    y = 2.2 + 30 * x**1.4
    return pd.DataFrame({"curve": "delta_alpha", "x": x, "y": y, "low": y * 0.6, "high": y * 1.5})


def model_card() -> dict[str, Any]:
    """The card of the made-up generator."""
    return {
        "kind": "generator",
        "name": "reference/emoji-diffusion",
        "family": "diffusers/StableDiffusionPipeline",
        "revision": "1",
        "weights_sha256": "9f2c" * 16,
        "fingerprint": "0123456789abcdef",
        "settings": {"steps": 20, "guidance_scale": 1.0, "height": 64, "width": 64, "dtype": "float32"},
        "notes": {"licence": "Apache-2.0, MIT and CC-BY-4.0 artwork", "parameters": "7.2 M"},
    }


def encoder_card(name: str) -> dict[str, Any]:
    """The card of a made-up encoder."""
    return {
        "kind": "encoder",
        "name": name,
        "family": "transformers/CLIPModel",
        "revision": None,
        "weights_sha256": "ab12" * 16,
        "fingerprint": "fedcba9876543210",
        "settings": {"preprocessing": {"size": 64, "mean": [0.5, 0.5, 0.5]}},
        "notes": {},
    }


ImageReader = Callable[[str], bytes | None]
