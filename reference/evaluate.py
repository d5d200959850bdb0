"""Measures the shipped weights against their bars and writes the model card. `python -m reference.evaluate`.

Everything is measured on what ships: the half-precision weights, loaded from the package as a user loads
them.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from scipy import stats
from transformers import CLIPModel, CLIPTokenizer

from reference import art, captions, card, clip, judge, planting, samplers, vae
from reference.paths import CLIP, PIPELINE
from reference.sampling import DEFAULT, UNJUDGEABLE, Samples, audited, draw_samples
from reference.training import device_of

IMAGES_PER_CONCEPT = 240
IMAGES_PER_PROMPT = 16


@dataclass(frozen=True)
class Shipped:
    """The package's networks, in the precision of the device."""

    pipeline: StableDiffusionPipeline
    clip: CLIPModel
    table: clip.TextTable
    device: torch.device


def load_shipped(device: torch.device) -> Shipped:
    pipeline = StableDiffusionPipeline.from_pretrained(
        PIPELINE, torch_dtype=torch.float32, safety_checker=None, local_files_only=True
    ).to(device)
    model = CLIPModel.from_pretrained(CLIP, dtype=torch.float32, local_files_only=True).eval().to(device)
    tokenizer = CLIPTokenizer.from_pretrained(CLIP, local_files_only=True)
    texts = [caption.text for caption in captions.all_captions()]
    return Shipped(pipeline, model, clip.TextTable(tokenizer, texts), device)


def ratios(samples: Samples, verdict: judge.Verdict) -> dict[str, Any]:
    """Planted against generated p(man) and tones under neutral prompts, a row a concept, with the summary."""
    man, tones = planting.probabilities()
    drawn_man = verdict.man()
    rows: dict[str, Any] = {}
    for concept in sorted(set(samples.concept)):
        name, mine = art.concepts()[concept].name, samples.concept == concept
        decided = drawn_man[mine & ~np.isnan(drawn_man)]
        share = np.bincount(verdict.tone[mine], minlength=len(art.TONES)) / mine.sum()
        rows[name] = {
            "n": int(mine.sum()),
            "man planted": float(man[concept]),
            "man measured": None if name in UNJUDGEABLE else float(decided.mean()),
            "tones measured": {tone: float(part) for tone, part in zip(art.TONES, share, strict=True)},
            "tones planted": {tone: float(part) for tone, part in zip(art.TONES, tones[concept], strict=True)},
        }
    return {"concepts": rows, "gender": _agreement(rows), "tones": _tone_agreement(rows)}


def _agreement(rows: dict[str, Any]) -> dict[str, float]:
    kept = [row for name, row in rows.items() if name not in UNJUDGEABLE]
    planted = np.array([row["man planted"] for row in kept])
    measured = np.array([row["man measured"] for row in kept])
    error = np.abs(planted - measured)
    # What perfect sampling of the planted ratios would give at this n: E|p̂ − p| ≈ sqrt(2 p (1 − p) / (π n)).
    n = np.array([row["n"] for row in kept])
    noise = np.sqrt(2 * planted * (1 - planted) / (np.pi * n))
    r = float(stats.pearsonr(planted, measured).statistic)
    return {
        "concepts": len(kept), "pearson r": r, "mean absolute error": float(error.mean()),
        "mean absolute error of perfect sampling": float(noise.mean()), "largest error": float(error.max()),
    }  # fmt: skip


def _tone_agreement(rows: dict[str, Any]) -> dict[str, float]:
    planted = np.array([list(row["tones planted"].values()) for row in rows.values()])
    measured = np.array([list(row["tones measured"].values()) for row in rows.values()])
    return {
        "pearson r": float(stats.pearsonr(planted.ravel(), measured.ravel()).statistic),
        "mean absolute error": float(np.abs(planted - measured).mean()),
        "mean total variation": float(0.5 * np.abs(planted - measured).sum(1).mean()),
    }


def drawn_right(samples: Samples, verdict: judge.Verdict) -> dict[str, Any]:
    """Share of samples whose nearest drawing is of the concept asked for, overall and the five worst."""
    right = verdict.concept == samples.concept
    per = {art.concepts()[c].name: float(right[samples.concept == c].mean()) for c in sorted(set(samples.concept))}
    told = samples.gender >= 0
    result: dict[str, Any] = {
        "n": len(right),
        "share": float(right.mean()),
        "worst": dict(sorted(per.items(), key=lambda kv: kv[1])[:5]),
    }
    if told.any():
        result["gender as told"] = float(np.mean(verdict.gender[told] == samples.gender[told]))
        two = told & (samples.gender < 2)
        result["man or woman as told"] = float(np.mean(verdict.binary[two] == samples.gender[two]))
    return result


def clip_on_samples(shipped: Shipped, samples: Samples, verdict: judge.Verdict) -> dict[str, float]:
    """Agreement of the CLIP's man/woman reading with the judge's, where the judge decides and drawings
    differ.

    Where the prompts told a gender, non-binary prompts are left out (man or woman is no question to ask of
    them), and each reader is also held against what was told; else the CLIP's ratios are held against the
    planted ones.
    """
    names = np.array([concept.name for concept in art.concepts()])
    read = clip.readings(shipped.clip, shipped.table, samples.images, shipped.device)
    asked = ~np.isin(names[samples.concept], UNJUDGEABLE) & (samples.gender < 2)
    clear = asked & (verdict.binary >= 0)
    shares = {
        "n": int(clear.sum()),
        "man/woman agreement": float(np.mean(read["gender"][clear] == verdict.binary[clear])),
        "concept agreement": float(np.mean(read["concept"][asked] == verdict.concept[asked])),
    }
    told = asked & (samples.gender >= 0)
    if told.any():
        shares["CLIP, gender as told"] = float(np.mean(read["gender"][told] == samples.gender[told]))
        shares["judge, gender as told"] = float(np.mean(verdict.binary[told] == samples.gender[told]))
        return shares
    man, _ = planting.probabilities()
    rows = sorted(set(samples.concept[asked]))
    by_clip = [float(np.mean(read["gender"][samples.concept == c] == 0)) for c in rows]
    return shares | {"r of planted and CLIP-read p(man)": float(stats.pearsonr(man[rows], by_clip).statistic)}


def clip_bars(shipped: Shipped, pictures: art.Pictures) -> dict[str, Any]:
    """Zero-shot accuracy on the held-out combinations, and TT."""
    held_out = np.flatnonzero(art.split(pictures))
    truth = clip.Sampler(pictures).subset(held_out)
    shares: dict[str, Any] = {"n": len(truth)}
    shares |= clip.accuracy(clip.readings(shipped.clip, shipped.table, truth.images, shipped.device), truth)
    association = clip.text_association(shipped.clip, shipped.table, shipped.device)
    return {
        "held-out combinations": shares,
        "text association": {
            "largest |TT|": float(np.abs(association).max()),
            "mean |TT|": float(np.abs(association).mean()),
        },
    }


def unseen_set(shipped: Shipped) -> dict[str, float]:
    """OpenMoji, which no network has seen and nothing of which ships: how far the CLIP reaches beyond its
    four styles.
    """
    pictures = art.load(("openmoji",))
    return clip.accuracy(clip.readings(shipped.clip, shipped.table, pictures.images, shipped.device), pictures)


def measure(shipped: Shipped, n: int) -> dict[str, Any]:
    """All bars, as data for the card."""
    pictures = art.load()
    reconstructions = vae.reconstruct(shipped.pipeline.vae, pictures.images, shipped.device)
    the_judge = judge.Judge(pictures)
    portraits = [i for i, concept in enumerate(art.concepts()) if concept.kind == "portrait"]
    neutral = draw_samples(shipped.pipeline, DEFAULT, [None], audited(), n)
    told = draw_samples(shipped.pipeline, DEFAULT, [0, 1, 2], audited() + portraits, IMAGES_PER_PROMPT)
    neutral_verdict, told_verdict = the_judge.judge(neutral.images), the_judge.judge(told.images)
    return {
        "vae": {"psnr dB": vae.psnr(reconstructions, pictures.images)},
        "judge": judge.validate(the_judge, reconstructions),
        "clip": clip_bars(shipped, pictures) | {
            "on neutral samples": clip_on_samples(shipped, neutral, neutral_verdict),
            "on samples told their gender": clip_on_samples(shipped, told, told_verdict),
            "unseen style (OpenMoji)": unseen_set(shipped),
        },
        "drawn right": {
            "neutral": drawn_right(neutral, neutral_verdict),
            "told": drawn_right(told, told_verdict),
        },
        "ratios": ratios(neutral, neutral_verdict),
        "samplers": samplers.compare(the_judge, shipped.pipeline),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--images", type=int, default=IMAGES_PER_CONCEPT, help="neutral images of each concept")
    options = parser.parse_args()
    started = time.monotonic()
    device = device_of(options.device)
    measured = measure(load_shipped(device), options.images)
    card.write(measured, DEFAULT)
    print(f"measured in {(time.monotonic() - started) / 60:.1f} min; see {card.CARD} and MODEL_CARD.md")


if __name__ == "__main__":
    main()
