"""Which sampler ships: DDIM against DPM-Solver++, by steps and guidance. `python -m reference.samplers`.

Both are deterministic given the first noise. What is compared is how often the right thing is drawn, how
close a sample comes to the artwork, and how well the planted p(man) is kept; the planted proportions are
defined at guidance 1.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, SchedulerMixin

from reference import art, judge, planting, sampling
from reference.evaluate import DEFAULT, UNJUDGEABLE, audited, load_shipped, prompts_for
from reference.sampling import Recipe
from reference.training import device_of

IMAGES_PER_CONCEPT = 12
CHOICES = (
    ("DDIM", 20, 1.0),
    ("DDIM", 12, 1.0),
    ("DPM-Solver++", 12, 1.0),
    ("DPM-Solver++", 16, 1.0),
    ("DDIM", 20, 3.0),
)


def scheduler(name: str, config: dict[str, Any]) -> SchedulerMixin:
    """The named sampler over the noise schedule that the UNet was trained with."""
    if name == "DDIM":
        return DDIMScheduler.from_config(config)
    return DPMSolverMultistepScheduler.from_config(config, algorithm_type="dpmsolver++", euler_at_final=True)


def compare(the_judge: judge.Judge, pipeline: Any, n: int = IMAGES_PER_CONCEPT) -> list[dict[str, Any]]:
    """One row a choice, all on the same prompts and noise."""
    names = np.array([concept.name for concept in art.concepts()])
    which = [concept for concept in audited() if names[concept] not in UNJUDGEABLE]
    prompts, concept, _ = prompts_for([None], which, n)
    man, _ = planting.probabilities()
    config = dict(pipeline.scheduler.config)
    rows = []
    for name, steps, guidance in CHOICES:
        pipeline.scheduler = scheduler(name, config)
        started = time.monotonic()
        images = sampling.draw(pipeline, prompts, Recipe(DEFAULT.seed + 1, steps, guidance))
        seconds = time.monotonic() - started
        verdict = the_judge.judge(images)
        share = np.array([np.nanmean(verdict.man()[concept == c]) for c in which])
        rows.append(
            {
                "sampler": name, "steps": steps, "guidance": guidance, "n": len(prompts),
                "drawn right": float(np.mean(verdict.concept == concept)),
                "distance to artwork": float(np.mean(verdict.distance)),
                "r of p(man)": float(np.corrcoef(man[which], share)[0, 1]),
                "mean error of p(man)": float(np.abs(man[which] - share).mean()),
                "slope of p(man)": float(np.polyfit(man[which], share, 1)[0]),
                "ms an image": 1000 * seconds / len(prompts),
            }
        )  # fmt: skip
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    compare(judge.Judge(art.load()), load_shipped(device_of("auto")).pipeline)


if __name__ == "__main__":
    main()
