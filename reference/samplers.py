"""Which sampler ships: DDIM, DPM-Solver++ and its stochastic form, by steps and guidance.

What is compared is how often the right thing is drawn, how close a sample comes to the artwork, and how well
the planted p(man) is kept; the planted proportions are defined at guidance 1.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from reference import art, judge, planting, sampling, unet
from reference.sampling import DEFAULT, UNJUDGEABLE, Recipe, audited, prompts_for

IMAGES_PER_CONCEPT = 8
CHOICES = (
    ("DDIM", 20, 1.0),
    ("DPM-Solver++", 12, 1.0),
    ("SDE-DPM-Solver++", 12, 1.0),
    ("SDE-DPM-Solver++", 16, 1.0),
    ("SDE-DPM-Solver++", 24, 1.0),
    ("SDE-DPM-Solver++", 16, 3.0),
)


SCHEDULERS = {
    "DDIM": unet.noise_schedule,
    "DPM-Solver++": unet.deterministic_schedule,
    "SDE-DPM-Solver++": unet.sampling_schedule,
}


def compare(the_judge: judge.Judge, pipeline: Any, n: int = IMAGES_PER_CONCEPT) -> list[dict[str, Any]]:
    """One row a choice, all on the same prompts and noise."""
    names = np.array([concept.name for concept in art.concepts()])
    which = [concept for concept in audited() if names[concept] not in UNJUDGEABLE]
    prompts, concept, _ = prompts_for([None], which, n)
    man, _ = planting.probabilities()
    shipped, rows = pipeline.scheduler, []
    for name, steps, guidance in CHOICES:
        pipeline.scheduler = SCHEDULERS[name]()
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
    pipeline.scheduler = shipped
    return rows
