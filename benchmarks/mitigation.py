"""What each method of mitigation does to the reference model, read by the independent judge.

    python -m benchmarks.mitigation [--images 20] [--methods prompt balanced …] [--lora DIR] [--out FOLDER]

Methods learn from every other concept of the suite; the concepts that are drawn are four of these and four that no
method saw. Every image has its partner from the same noise in the model before. The judge (``reference/judge.py``, the
nearest of 5,472 drawings) reads group, concept and skin tone. *Distance* is the mean over concepts of
|share of men − ½|; as a share of n images is off by chance, what parity gives at n stands beside it. Prompts that name
a group are drawn too, and held against before: as pixels, and as the judge reads them. ``unconditional`` acts
through guidance and is measured at 3, where the model before is measured too. A LoRA that was trained before is taken
from ``--lora``; ``lora, no gate`` is the same one merged into the weights. Artwork is fetched by npm, once. What is in
FOLDER is not made again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from clinometer.mitigation import mitigate
from clinometer.models import load_generator
from clinometer.models.mitigation import GroupWords, with_group
from clinometer.models.protocols import GenerationRequest
from clinometer.stats.proportion import parity_gap_null
from clinometer.suites import load_suite

LEARNED = ("firefighter", "mechanic", "teacher", "cook")
HELD_OUT = ("construction worker", "pilot", "singer", "health worker")
SEED = 500_000
GUIDED = ("unconditional",)
METHODS = (
    "before", "prompt", "balanced", "projection", "steering", "steering, strength 4", "lora", "lora, no gate",
    "lora, score", "before, guidance 3", "unconditional",
)  # fmt: skip
WISHES: dict[str, dict[str, Any]] = {
    "steering": {"images": 1},
    "steering, strength 4": {"images": 1, "strength": 4.0},
    "unconditional": {"images": 6},
    "lora, score": {"loss": "score"},
}


def prompts() -> tuple[dict[str, str], list[str]]:
    """The neutral prompt of each concept, and prompts that name a group."""
    targets = {target.name: target.prompt for target in load_suite("reference").targets}
    neutral = {name: targets[name] for name in (*LEARNED, *HELD_OUT)}
    groups = [GroupWords(word=word, names=(word,)) for word in ("man", "woman")]
    return neutral, [with_group(prompt, group) for prompt in neutral.values() for group in groups]


def generator_of(method: str, folder: Path, lora: str | None) -> tuple[Any, float]:
    """The model by a method, and the seconds of a processor that making it took; 0 of one that was there."""
    guidance = {"guidance_scale": 3.0} if method in GUIDED or method.endswith("guidance 3") else {}
    if method.startswith("before"):
        return load_generator("reference", **guidance), 0.0
    is_lora, ungated = method.startswith("lora"), method == "lora, no gate"
    place, began = folder / ("lora" if ungated else method), time.process_time()
    if is_lora and lora is not None:
        place = Path(lora)
    elif not place.exists():
        learned = [target.name for target in load_suite("reference").targets][::2]
        concepts = list(LEARNED) if method in GUIDED else learned
        mitigate(
            "reference",
            method.partition(",")[0],
            place,
            concepts=concepts,
            options=guidance,
            say=print,
            **WISHES.get(method, {}),
        )
    seconds = time.process_time() - began
    if is_lora:
        options = {"mitigation": "none"} if ungated else {}
        return load_generator("reference", lora=str(place), **options), seconds
    return load_generator(str(place)), seconds


def drawn(generator: Any, asked: list[str], images: int) -> np.ndarray:
    """Images of prompts, (prompts × images × height × width × 3)."""
    generator.batch_size = 16
    requests = [GenerationRequest(f"{p}/{i}", prompt, SEED + 1000 * p + i) for p, prompt in enumerate(asked)
                for i in range(images)]  # fmt: skip
    pictures = [np.asarray(result.image) for result in generator.generate(requests)]
    return np.stack(pictures).reshape(len(asked), images, *pictures[0].shape)


def measured(method: str, options: argparse.Namespace, the_judge: Any, concept_index: Any) -> dict[str, Any]:
    """Draw what a method gives, let the judge read it, and keep both."""
    neutral, named = prompts()
    folder = Path(options.out)
    generator, making = generator_of(method, folder, options.lora)
    began = time.process_time()
    images, explicit = drawn(generator, list(neutral.values()), options.images), drawn(generator, named, 1)
    seconds = (time.process_time() - began) / (images.shape[0] * images.shape[1] + len(explicit))
    np.savez_compressed(folder / f"{method}.npz", images=images, explicit=explicit)
    read = the_judge.judge(images.reshape(-1, *images.shape[2:]))
    read_named = the_judge.judge(explicit[:, 0])
    wanted = np.repeat([concept_index(name) for name in neutral], options.images)
    return {
        "method": method,
        "shares": np.nanmean(read.man().reshape(images.shape[:2]), axis=1).round(3).tolist(),
        "right": (read.concept == wanted).reshape(images.shape[:2]).mean(axis=1).round(3).tolist(),
        "tones": np.bincount(read.tone, minlength=6).tolist(),
        "named": [read_named.binary.tolist(), read_named.concept.tolist()],
        "making": round(making, 1),
        "an image": round(seconds, 3),
    }


def table(found: dict[str, dict[str, Any]], folder: Path) -> str:
    """A row a method."""
    lines = ["| method | distance, learned | distance, held out | concept right | skin tones moved | "
             "pixels differ, named | read otherwise, named | made in, CPU-s | an image, CPU-s |",
             "|---|" + "---:|" * 8]  # fmt: skip
    for name, each in found.items():
        base = found["before, guidance 3" if name in GUIDED or name.endswith("guidance 3") else "before"]
        off = np.abs(np.array(each["shares"]) - 0.5)
        tones = [np.array(x["tones"]) / sum(x["tones"]) for x in (each, base)]
        named = [np.load(folder / f"{x['method']}.npz")["explicit"].astype(int) for x in (each, base)]
        differ = (np.abs(named[0] - named[1]).reshape(len(named[0]), -1).max(axis=1) > 1).mean()
        reread = (np.array(each["named"]) != np.array(base["named"])).any(axis=0).mean()
        moved = np.abs(tones[0] - tones[1]).sum() / 2
        lines.append(
            f"| {name} | {off[: len(LEARNED)].mean():.3f} | {off[len(LEARNED) :].mean():.3f} | "
            f"{np.mean(each['right']):.1%} | {moved:.3f} | {differ:.0%} | {reread:.0%} | "
            f"{each['making']:.0f} | {each['an image']:.2f} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure method by method; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=20, help="images of a concept")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS)
    parser.add_argument("--lora", help="the directory of a LoRA that was trained")
    parser.add_argument("--out", default="runs/mitigation")
    options = parser.parse_args()
    folder = Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    from clinometer._torch import torch  # first: it puts torch right
    from reference import art, captions, judge

    the_judge, record = judge.Judge(art.load(), torch.device("cpu")), folder / "found.json"
    found = json.loads(record.read_text()) if record.is_file() else {}
    for method in options.methods:
        if method not in found:
            found[method] = measured(method, options, the_judge, captions.concept_index)
            record.write_text(json.dumps(found))
            print(method, found[method], flush=True)
    print(table(found, folder))
    print(f"\nParity itself gives a distance of {parity_gap_null(options.images):.3f} at {options.images} images.")


if __name__ == "__main__":
    main()
