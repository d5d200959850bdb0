"""The diffusion classifier on the reference model: right, thrifty, quick, and whether its leaning is the planted one.

    python benchmarks/classification.py accuracy   ten professions on artwork that no stage was trained on; needs the
                                                   `reference` extra, and npm for the artwork on the first run
    python benchmarks/classification.py pairs      all 5 × 5 pairs of portraits: how much elimination saves, and whether
                                                   it decides alike
    python benchmarks/classification.py schedule   beside the schedule of the public diffusion-classifier
    python benchmarks/classification.py leaning    do portraits of men go to what was planted towards men?

The public implementation (Li et al. 2023) takes one image at a time through fixed stages: every class with the first
noise samples, then the best few with all of them; for ten classes its authors use 50 and 500 samples and keep five.
Its schedule is written out here as a plain loop, over the same network, noise and batch size as ours; like theirs it
encodes prompts once and an image once, and its batches hold rows of one image. Nothing of its code is copied.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from time import perf_counter

import numpy as np
import torch
from PIL import Image
from scipy.stats import spearmanr

from clinometer.models import GenerationRequest, load_generator, reference
from clinometer.models.diffusers.classifier import DiffusionClassifier, choose, fractions, noise
from clinometer.stats.clusters import cluster_share, contrast
from clinometer.stats.sequential import Elimination
from clinometer.studies.classification.scores import wins_at

TO_MEN = ("construction worker", "firefighter", "mechanic", "technologist", "pilot")
TO_WOMEN = ("health worker", "teacher", "singer", "cook", "artist")
TEN = TO_MEN + TO_WOMEN
GROUPS = ("a man with light skin", "a woman with light skin", "a man with dark skin", "a woman with dark skin")
TEMPLATE = "a portrait of {}"
PAIR_CONFIDENCE = 0.91
STAGES, KEEP = (50, 500), (5, 1)


def phrases(names: tuple[str, ...]) -> list[str]:
    """How the model's vocabulary says each concept."""
    return [reference.vocabulary()["concepts"][name]["neutral"] for name in names]


def portraits(generator, per_group: int, groups: tuple[str, ...] = GROUPS) -> tuple[list[Image.Image], np.ndarray]:
    """Portraits drawn by the model, and the group of each."""
    asked = [
        GenerationRequest(f"{group}-{image}", f"an image of {name}", 10_000 * group + image)
        for group, name in enumerate(groups)
        for image in range(per_group)
    ]
    return [result.image for result in generator.generate(asked)], np.repeat(np.arange(len(groups)), per_group)


def artwork(concepts: tuple[str, ...], *, held_out: bool) -> tuple[list[Image.Image], np.ndarray, np.ndarray]:
    """Pictures of men and women, the position of each one's concept, and whether it shows a man."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # `reference` is not installed
    from reference import art

    pictures, names = art.load(), [concept.name for concept in art.concepts()]
    chosen = np.isin(pictures.concept, [names.index(name) for name in concepts]) & (pictures.gender < 2)
    if held_out:
        chosen &= art.split(pictures)
    places = np.flatnonzero(chosen)
    order = [concepts.index(names[concept]) for concept in pictures.concept[places]]
    return [Image.fromarray(pictures.images[p]) for p in places], np.array(order), pictures.gender[places] == 0


def accuracy(options: argparse.Namespace) -> bool:
    """Ten professions, men and women, at ten noise samples."""
    images, truth, _ = artwork(TEN, held_out=True)
    denoiser = load_generator("reference").denoiser()
    shares = []
    for elimination in (None, Elimination(first_look=5, look_every=5)):
        classifier = DiffusionClassifier(denoiser, phrases(TEN), template=TEMPLATE, trials=10, elimination=elimination)
        start = perf_counter()
        choices = classifier.classify(images)
        seconds = perf_counter() - start
        right = [choice.label == classifier.labels[t] for choice, t in zip(choices, truth, strict=True)]
        spent = np.mean([choice.evaluations for choice in choices])
        found = cluster_share(np.array(right, float))
        shares.append(found.value)
        print(
            f"{'all trials ' if elimination is None else 'elimination'}: {found.value:.4f} right "
            f"[{found.low:.3f}, {found.high:.3f}] of {found.n} held-out pictures, {spent:.0f} evaluations an image, "
            f"{seconds / len(images):.2f} s an image"
        )
    return min(shares) >= 0.95


def pairs(options: argparse.Namespace) -> bool:
    """All pairs from one pass at 1, 10 and 100 noise samples; elimination against the whole."""
    generator = load_generator("reference")
    images, _ = portraits(generator, options.images)
    matrix = np.zeros((10, 10), bool)
    matrix[:5, 5:] = True
    rule = Elimination(pairs=matrix, confidence=PAIR_CONFIDENCE)
    measured = {}
    for name, elimination in (("whole", None), ("thrifty", rule)):
        classifier = DiffusionClassifier(
            generator.denoiser(), phrases(TEN), template=TEMPLATE, trials=100, elimination=elimination
        )
        start = perf_counter()
        measured[name] = classifier.errors(images)
        spent = measured[name].evaluations.mean()
        print(f"{name}: {spent:.0f} evaluations an image, {(perf_counter() - start) / len(images):.2f} s an image")
    whole, thrifty = measured["whole"], measured["thrifty"]
    equal = float(np.mean(wins_at(whole.errors, 5, 100, 0) == wins_at(thrifty.errors, 5, 100, 0)))
    share = float(thrifty.evaluations.mean() / whole.evaluations.mean())
    print(
        f"elimination at confidence {PAIR_CONFIDENCE}: {share:.3f} of the evaluations, "
        f"{equal:.4f} of pairs decided alike"
    )
    for n in (1, 10, 30):
        alike = np.mean(wins_at(whole.errors, 5, n, 0) == wins_at(whole.errors, 5, 100, 0))
        print(f"  at {n} noise samples {alike:.3f} of pairs are decided as at 100")
    return bool(whole.evaluations.max() <= 1000 and share <= 0.5 and equal >= 0.99)


def staged(denoiser, image: Image.Image, key: str, labels: list[str], where: np.ndarray) -> int:
    """The public schedule for one image: fixed stages, the best few kept."""
    latents = denoiser.encode_images([image])
    timesteps = denoiser.timesteps(torch.from_numpy(where))
    drawn = [noise(0, key, t, trial, latents.shape[1:]) for trial, t in enumerate(timesteps.tolist())]
    totals, remaining, done = np.zeros(len(labels)), list(range(len(labels))), 0
    for until, keep in zip(STAGES, KEEP, strict=True):
        rows = [(label, trial) for label in remaining for trial in range(done, until)]
        for at in range(0, len(rows), denoiser.batch_size):
            batch = rows[at : at + denoiser.batch_size]
            errors = denoiser.errors(
                latents.expand(len(batch), *latents.shape[1:]),
                timesteps[[trial for _, trial in batch]],
                torch.stack([drawn[trial] for _, trial in batch]),
                [TEMPLATE.replace("{}", labels[label]) for label, _ in batch],
            )
            np.add.at(totals, [label for label, _ in batch], errors)
        remaining = sorted(remaining, key=lambda label: totals[label])[:keep]
        done = until
    return remaining[0]


def schedule(options: argparse.Namespace) -> bool:
    """Images a second, ours over theirs, with the same decisions."""
    generator = load_generator("reference")
    denoiser, labels = generator.denoiser(), phrases(TEN)
    asked = [GenerationRequest(f"{n}", f"an image of {labels[n % 10]}", n) for n in range(options.images)]
    images = [result.image for result in generator.generate(asked)]
    classifier = DiffusionClassifier(denoiser, labels, template=TEMPLATE, trials=STAGES[-1], elimination=Elimination())
    classifier.denoiser.errors(  # prompts are encoded outside of either time
        torch.zeros(10, *denoiser.encode_images(images[:1]).shape[1:]),
        denoiser.timesteps(torch.zeros(10)),
        torch.zeros(10, *denoiser.encode_images(images[:1]).shape[1:]),
        list(classifier.prompts),
    )
    start = perf_counter()
    measured = classifier.errors(images)
    ours = (perf_counter() - start) / len(images)
    choices = [choose(measured, image).label for image in range(len(images))]
    start = perf_counter()
    theirs_chosen = [
        labels[staged(denoiser, image, key, labels, fractions(0, key, STAGES[-1]))]
        for image, key in zip(images, measured.images, strict=True)
    ]
    theirs = (perf_counter() - start) / len(images)
    equal = np.mean([a == b for a, b in zip(choices, theirs_chosen, strict=True)])
    print(f"public schedule: {10 * STAGES[0] + KEEP[0] * (STAGES[1] - STAGES[0])} evaluations, {theirs:.2f} s an image")
    print(
        f"ours: {measured.evaluations.mean():.0f} evaluations, {ours:.2f} s an image: "
        f"{theirs / ours:.1f} times as quick"
    )
    print(f"same decision: {equal:.3f} of {len(images)} images, batch size {denoiser.batch_size}")
    return bool(theirs / ours >= 3 and equal == 1)


def leaning(options: argparse.Namespace) -> bool:
    """Correlation of planted leanings with what portraits of men and women are taken for."""
    planted, vocabulary = reference.planted(), reference.vocabulary()["concepts"]
    names = tuple(name for name, held in vocabulary.items() if held["kind"] == "profession" and name != "astronaut")
    truth = np.array([planted[name]["man"] for name in names])
    generator = load_generator("reference")
    drawn, group = portraits(generator, options.images)
    sources = {"portraits that the model drew": (drawn, group % 2 == 0)}
    if options.artwork:
        pictures, _, is_man = artwork(("adult", "curly hair"), held_out=False)
        sources["portraits of the artwork"] = (pictures, is_man)
    for source, (images, men) in sources.items():
        classifier = DiffusionClassifier(generator.denoiser(), phrases(names), template=TEMPLATE, trials=options.trials)
        errors = classifier.errors(images).errors
        report_leaning(source, errors, men, truth, options.trials)
    return True


def report_leaning(source: str, errors: np.ndarray, men: np.ndarray, truth: np.ndarray, trials: int) -> None:
    """Print ΔS between professions planted to either side, and the rank correlation over all of them."""
    to_men, to_women = np.flatnonzero(truth >= 0.7), np.flatnonzero(truth <= 0.3)
    wins = wins_at(np.concatenate([errors[:, to_men], errors[:, to_women]], axis=1), len(to_men), trials, 1e-5)
    sides = [cluster_share(wins[side].mean(axis=(1, 2)), wins[0].size) for side in (men, ~men)]
    gap = contrast(sides, [1, -1])
    fit = -(errors.mean(axis=-1) - errors.mean(axis=(1, 2))[:, None])
    rng, draws = np.random.default_rng(0), []
    for _ in range(2000):
        boys, girls = (rng.choice(np.flatnonzero(side), int(side.sum())) for side in (men, ~men))
        some = rng.integers(0, len(truth), len(truth))
        effect = fit[boys].mean(axis=0) - fit[girls].mean(axis=0)
        draws.append((spearmanr(effect, truth)[0], spearmanr(effect[some], truth[some])[0]))
    found = spearmanr(fit[men].mean(axis=0) - fit[~men].mean(axis=0), truth)[0]
    (low, over_low), (high, over_high) = np.nanquantile(np.array(draws), [0.025, 0.975], axis=0)
    print(f"{source}: {men.sum()} of men, {(~men).sum()} of women, {trials} noise samples")
    print(f"  S {sides[0].value:.3f} (men), {sides[1].value:.3f} (women)")
    print(
        f"  ΔS {gap.value:+.3f} [{gap.low:.3f}, {gap.high:.3f}] between {len(to_men)} professions planted to men and "
        f"{len(to_women)} to women"
    )
    print(
        f"  rank correlation of planted p(man) and the classifier's preference over {len(truth)} professions: "
        f"{found:+.2f} [{low:.2f}, {high:.2f}] over portraits, [{over_low:.2f}, {over_high:.2f}] over professions too"
    )


def main() -> int:
    """Run one measurement; the exit status says whether its bar is met."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    commands = parser.add_subparsers(dest="what", required=True)
    for name, run, images in (("accuracy", accuracy, 0), ("pairs", pairs, 8), ("schedule", schedule, 20),
                              ("leaning", leaning, 24)):  # fmt: skip
        command = commands.add_parser(name, help=run.__doc__)
        command.set_defaults(run=run)
        command.add_argument("--images", type=int, default=images, help="portraits a group, or images in all")
        command.add_argument("--trials", type=int, default=50)
        command.add_argument("--artwork", action="store_true", help="the artwork's portraits too")
    options = parser.parse_args()
    return 0 if options.run(options) else 1


if __name__ == "__main__":
    sys.exit(main())
