"""How often do verdicts call a fair model biased at 9 to 60 images: fairbench-genai's, and ours beside them?

    pip install --no-deps fairbench-genai==0.1.0 aiosqlite
    python -m benchmarks.fairbench_simulations SCENARIOS.yaml --runs 400

A fair model is simulated, and a reader that never errs. What a prompt names is drawn; what it leaves open (gender, skin
tone, setting, equipment) is drawn uniformly, whatever else the prompt names. Quality and length of description have one
distribution, no two descriptions are alike, and a refusal has one probability for all images, 0 or 3 %. Vectors are
unit vectors around the scenario's: two images of one prompt are at a cosine distance of 0.2, as far as two of any other
prompt of the scenario. The other model draws men in 95 % of what leaves gender open, and is fair otherwise.

Their bands are their own code's, as their report counts them, over the first scenario (9 images), the first three, and
all of their file of soccer. Ours are two: their images by their file, as ``clinometer import`` takes them; and as many
images asked for by a suite of one concept, a third of them the concept's.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import Final

import numpy as np

from clinometer.metrics.verdict import Verdict
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign, mcas_study
from clinometer.suites import LeaningSuite, load_suite

TONES: Final = ("light", "medium-light", "medium", "medium-dark", "dark", "very-dark")
SETTINGS: Final = ("professional_stadium", "national_league", "local_field", "park", "street")
EQUIPMENT: Final = ("professional_kit", "semi_professional", "amateur", "generic")
DISTANCE: Final = 0.2
"""Cosine distance of two images of one prompt, on average."""

DIM, GAP = 32, 0.3
SIZES: Final = (1, 3, None)
MEN: Final = {"fair": 0.5, "draws men in 95 %": 0.95}


def bands(path: Path, scenarios: int | None, men: float, refused: float, rng: np.random.Generator) -> tuple[int, dict]:
    """Draw a run and judge it by fairbench-genai: the number of images, and the band of each metric."""
    from fairbench_genai.core.image_engine import ImageBenchEngine
    from fairbench_genai.core.image_types import EvaluatedImage, GeneratedImage, ImageAnalysis, ImageGenerationConfig
    from fairbench_genai.core.types import ModelInfo
    from fairbench_genai.reporting.html_report import _classify_band
    from fairbench_genai.scenarios.base import ScenarioLoader

    engine = ImageBenchEngine()
    asked = ScenarioLoader.load_file(path).scenarios[:scenarios]
    outputs = []
    centres: dict[str, np.ndarray] = {}
    for prompt in engine.counterfactual_generator.expand_scenarios(asked):
        centre = centres.setdefault(prompt.scenario_id, rng.normal(size=512) / sqrt(512))
        vector = centre + sqrt(DISTANCE / (1 - DISTANCE)) * rng.normal(size=512) / sqrt(512)
        is_refused = bool(rng.random() < refused)
        named = prompt.attribute_value if prompt.attribute == "gender" else None
        analysis = ImageAnalysis(
            perceived_gender=named or ("male" if rng.random() < men else "female"),
            skin_tone_label=str(rng.choice(TONES)), setting=str(rng.choice(SETTINGS)),
            equipment_quality=str(rng.choice(EQUIPMENT)),
            image_quality_score=float(np.clip(rng.normal(7.5, 0.8), 1, 10)),
            description=" ".join(f"word{at}" for at in rng.integers(0, 10_000, int(rng.integers(12, 25)))),
        )  # fmt: skip
        image = GeneratedImage(
            prompt=prompt.prompt, model_info=ModelInfo(name="m", provider="p"),
            generation_config=ImageGenerationConfig(), image_data=None if is_refused else b"x",
        )  # fmt: skip
        evaluated = EvaluatedImage(
            image=image, scenario_id=prompt.scenario_id, is_counterfactual=prompt.is_counterfactual,
            counterfactual_attribute=prompt.attribute, counterfactual_value=prompt.attribute_value,
            clip_embedding=None if is_refused else list(map(float, vector / np.linalg.norm(vector))),
            vision_analysis=None if is_refused else analysis, is_refused=is_refused,
        )  # fmt: skip
        outputs.append(evaluated.to_evaluated_output())
    results = engine._compute_metrics(outputs, engine.DEFAULT_METRICS, None)
    return len(outputs), {
        each.metric_name: _classify_band(each.metric_name, each.value) for each in results if each.value == each.value
    }


def _population(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def aside(n: int, size: float) -> np.ndarray:
        x = rng.normal(size=(n, DIM))
        x[:, 0] = 0
        return size * x / np.linalg.norm(x, axis=1, keepdims=True)

    return {
        "base": aside(1, 1.0)[0],
        "prompts": aside(8, 0.3),
        "words": aside(1, 1.0) + 0.12 * rng.normal(size=(10, DIM)),
    }


def verdicts(targets: Sequence[int], pairs: Sequence[int], men: float, rng: np.random.Generator) -> list[str]:
    """Draw a run of ours and judge it: images of each concept, and of each pair of prompts, as the suite asks."""
    fixed = _population(rng)
    axis, centres = np.eye(DIM)[0], fixed["base"] + fixed["prompts"]

    def images(n: int, along: np.ndarray, centre: np.ndarray) -> np.ndarray:
        return centre + GAP * along[:, None] * axis + 0.1 * rng.normal(size=(n, DIM))

    words = fixed["words"] * (np.arange(DIM) > 0)
    embeddings = EncoderEmbeddings(
        encoder="e",
        target_images=tuple(
            images(n, np.where(rng.random(n) < men, 1.0, -1.0), centre)
            for n, centre in zip(targets, centres, strict=False)
        ),
        target_texts=centres[: len(targets)],
        group_images={
            name: tuple(
                images(n, np.full(n, sign), centre) for n, centre in zip(pairs, reversed(centres), strict=False)
            )
            for name, sign in (("a", 1.0), ("b", -1.0))
        },
        group_words={"a": words + 0.15 * axis, "b": words - 0.15 * axis},
    )  # fmt: skip
    names = tuple(f"pair {at}" for at in range(len(pairs)))
    design = Design(
        targets=tuple(TargetDesign(f"concept {t}", "c") for t in range(len(targets))), groups=("a", "b"), a="a", b="b",
        pairs={"a": names, "b": names},
    )  # fmt: skip
    rows = mcas_study([embeddings], design, n_resamples=199, n_permutations=199, seed=0)
    own = [row for row in rows if (row.metric, row.component, row.encoder) == ("mcas", "image_part", "mean")]
    return [str(row.verdict) for row in own]


def our_designs(path: Path, scenarios: int | None, images: int) -> Iterator[tuple[str, list[int], list[int]]]:
    """Give the two ways to ask: by their file, one image a prompt; and one concept with a third of the images."""
    suite = load_suite(path)
    assert isinstance(suite, LeaningSuite)
    targets = suite.targets[:scenarios]
    kept = [each for each in suite.groups["man"].prompts if each.pair in {target.name for target in targets}]
    yield "their file", [1] * len(targets), [1] * len(kept)
    third, prompts = images // 3, min(4, images // 3)
    yield "one concept", [third], [third // prompts] * prompts


def main() -> None:
    """Print a row a size and a model: by each metric, and by all together, how often a verdict is given."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("scenarios", type=Path)
    options.add_argument("--runs", type=int, default=400)
    given = options.parse_args()
    for scenarios in SIZES:
        for model, men in MEN.items():
            for refused in (0.0, 0.03):
                counts: Counter[str] = Counter()
                images = 0
                for run in range(given.runs):
                    rng = np.random.default_rng([33, scenarios or 0, round(100 * men), round(100 * refused), run])
                    images, found = bands(given.scenarios, scenarios, men, refused, rng)
                    bad = {name for name, band in found.items() if band in ("flag", "fail")}
                    counts.update(bad)
                    counts["any but CDS"] += bool(bad - {"CDS"})
                    counts["any"] += bool(bad)
                    counts["any fails"] += "fail" in found.values()
                rates = ", ".join(f"{name} {100 * n / given.runs:.1f} %" for name, n in sorted(counts.items()) if n)
                print(
                    f"fairbench-genai | {images} images | {model}, {refused:.0%} refused | flag or fail: "
                    f"{rates or 'none'}",
                    flush=True,
                )
            for name, targets, pairs in our_designs(given.scenarios, scenarios, images):
                leans, said = 0, Counter[str]()
                for run in range(given.runs):
                    found = verdicts(
                        targets, pairs, men, np.random.default_rng([34, scenarios or 0, round(100 * men), run])
                    )
                    leans += any(verdict == Verdict.LEANS for verdict in found)
                    said.update(found)
                shares = ", ".join(f"{verdict} {100 * n / said.total():.1f} %" for verdict, n in said.most_common())
                print(f"clinometer, {name} | {sum(targets) + 2 * sum(pairs)} images | {model} | any leans "
                      f"{100 * leans / given.runs:.1f} %; verdicts: {shares}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
