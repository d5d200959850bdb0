"""Where zero is: verdicts on worlds in which groups are not mirror images of each other. For benchmarks/simulations.py.

Pictures of a group scatter around its centre, as much as makes their mean cosine what is asked: .66 of a and .84 of b,
and so on. A target's pictures are of the groups' own distributions, in a known composition, which is the truth: half of
each leans to nobody, whatever the scatter; 35 % of a leans to b; and only half of each is balanced. Some concepts stand
in a *scene*, which moves their pictures away from those of the groups, wherever these are. Words are mirrored between
the groups, and the encoder reads 95 % or more of the groups' pictures right.

With three groups, shares are of the first, and the others are drawn alike; what the profile says is held to it. Cells
are those of two axes with two levels each, all cells of the first level of the first axis scattering as a, the others
as b. Everything is asked of ``mcas_study`` and ``crossed_study``, by the embeddings alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan

import numpy as np

from benchmarks.rates import Experiment, Found
from clinometer.metrics import Score
from clinometer.metrics.mcas import IMAGE_PART
from clinometer.metrics.verdict import FEWEST_IMAGES, LEANING, Verdict, judge_family, withheld_by_shares
from clinometer.studies.leaning import Design, EncoderEmbeddings, TargetDesign, crossed_study, mcas_study
from clinometer.studies.leaning.scores.axes import effect_contrasts, effects_of
from clinometer.studies.leaning.scores.contrasts import pair_weights
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.encoder_check import corrected_rows, reader_checks
from clinometer.studies.leaning.scores.plane import profile_contrasts
from clinometer.studies.leaning.scores.rows import Basis, Contrast, contrast_family
from clinometer.studies.leaning.scores.shares import share_rows
from clinometer.studies.leaning.scores.views import EncoderView, linear_views

DIM, PAIRS, ATTRIBUTE_IMAGES, WORDS, CONCEPTS = 64, 4, 16, 10, 12
MARGIN = 0.1
DISPERSIONS = {
    "equal": (0.79, 0.79),
    ".66 and .84": (0.66, 0.84),
    ".75 and .81": (0.75, 0.81),
    ".81 and .75": (0.81, 0.75),
}
SHARES = (0.0, 0.35, 0.5, 0.65, 1.0)
GROUPS = ("a", "b", "c")
CELLS = {"a x": ("a", "x"), "a y": ("a", "y"), "b x": ("b", "x"), "b y": ("b", "y")}


@dataclass(frozen=True)
class World:
    """What pictures and words are drawn from.

    Attributes
    ----------
    within : mean cosine of two pictures of one group, of the first and of the second; a third has that of the second.
    groups : 2 or 3; 4 for cells.
    apart : sine of half the angle between the centres of two groups.
    scene : length of what moves the pictures of every other concept aside, of centres of length 1.
    margin : of the suite.
    """

    within: tuple[float, float]
    groups: int = 2
    apart: float = 0.2
    words: float = 0.2
    scene: float = 0.0
    margin: float | None = MARGIN

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The groups, in order."""
        return tuple(CELLS) if self.groups == 4 else GROUPS[: self.groups]

    @cached_property
    def ways(self) -> np.ndarray:
        """Where the groups lie from their middle, (groups × dim): equally far from each other, or a square of cells."""
        ways = np.zeros((self.groups, DIM))
        if self.groups == 2:
            ways[:, 0] = 1, -1
        elif self.groups == 3:
            ways[:, :2] = [[0, 1], [-np.sqrt(3) / 2, -0.5], [np.sqrt(3) / 2, -0.5]]
        else:
            ways[:, :2] = [[1, 1], [1, -1], [-1, 1], [-1, -1]]
        return ways

    @cached_property
    def scatter(self) -> np.ndarray:
        """Standard deviation of a picture of each group, all dimensions together."""
        first = 2 if self.groups == 4 else 1
        within = np.array([self.within[0]] * first + [self.within[1]] * (self.groups - first))
        return np.sqrt(1 / within - 1)

    @cached_property
    def fixed(self) -> dict[str, np.ndarray]:
        """What is the same in all studies: ages and scenes at right angles to the groups' ways, words, texts."""
        rng = np.random.default_rng(0)

        def aside(n: int, size: float) -> np.ndarray:
            x = np.concatenate([np.zeros((n, 3)), rng.normal(size=(n, DIM - 3))], axis=1)
            return size * x / np.linalg.norm(x, axis=1, keepdims=True)

        scenes = aside(CONCEPTS, self.scene)
        scenes[::2] = 0
        base = np.eye(DIM)[2]
        return {"base": base, "ages": aside(PAIRS, 0.1), "scenes": scenes, "words": aside(WORDS, 0.5),
                "texts": base + scenes + aside(CONCEPTS, 0.3)}  # fmt: skip

    def pictures(self, rng: np.random.Generator, group: int, centre: np.ndarray) -> np.ndarray:
        """Pictures of one group around centres (n × dim) that are moved towards the group."""
        noise = self.scatter[group] * rng.normal(size=centre.shape) / np.sqrt(DIM)
        return centre + self.apart * self.ways[group] + noise

    def draw(self, rng: np.random.Generator, shares: Sequence[Sequence[float]], images: int) -> EncoderEmbeddings:
        """Embeddings of a study whose concepts have these compositions: shares of every group."""
        fixed, targets = self.fixed, []
        for composition, scene in zip(shares, fixed["scenes"], strict=False):
            drawn = rng.choice(self.groups, images, p=composition)
            x = np.empty((images, DIM))
            for g in range(self.groups):
                x[drawn == g] = self.pictures(rng, g, np.tile(fixed["base"] + scene, ((drawn == g).sum(), 1)))
            targets.append(x)
        return EncoderEmbeddings(
            encoder="e",
            target_images=tuple(targets),
            target_texts=fixed["texts"][: len(targets)],
            group_images={
                name: tuple(
                    self.pictures(rng, g, np.tile(fixed["base"] + age, (ATTRIBUTE_IMAGES, 1))) for age in fixed["ages"]
                )
                for g, name in enumerate(self.names)
            },
            group_words={
                name: fixed["base"] + fixed["words"] + self.words * way
                for name, way in zip(self.names, self.ways, strict=True)
            },
        )

    def design(self, concepts: int) -> Design:
        """A design of so many concepts."""
        pairs = dict.fromkeys(self.names, tuple(f"pair {i}" for i in range(PAIRS)))
        targets = tuple(TargetDesign(f"concept {t}", "c") for t in range(concepts))
        if self.groups == 4:
            return Design(targets, self.names, pairs=pairs, margin=self.margin, cells=CELLS,
                          axes={"first": ("a", "b"), "second": ("x", "y")})  # fmt: skip
        third = "c" if self.groups == 3 else None
        return Design(targets, self.names, "a", "b", third, pairs=pairs, margin=self.margin)

    def composition(self, share: float) -> list[float]:
        """Shares of every group where ``share`` is of the first, or of the first level; the others are alike."""
        if self.groups == 4:
            return [share / 2, share / 2, (1 - share) / 2, (1 - share) / 2]
        return [share, *[(1 - share) / (self.groups - 1)] * (self.groups - 1)]

    def asked(self, study: StudySetup, view: EncoderView) -> tuple[list[Contrast], str]:
        """What is asked of the first group, or level, by the rules of ``mcas_study`` and ``crossed_study``."""
        if self.groups == 4:
            (axis, *_) = effects_of(study.design)
            return effect_contrasts(study, axis, ("ii", "ita")), axis.component
        if self.groups == 3:
            return profile_contrasts(study, view)[0], "association"
        weights = pair_weights(study, ("ii", "ita"), *study.pair)
        names = {"metric": "mcas", "component": IMAGE_PART}
        return [Contrast(weights, Basis(("ii", "ita"), study.pair), names, ("a", "b"))], IMAGE_PART

    def verdicts(self, made: EncoderEmbeddings, concepts: int) -> dict[str, list[Score]]:
        """The rows that say whether concepts lean to the first group: held against 0 alone, and as they are judged."""
        design = self.design(concepts)
        study = StudySetup(design, layout_of([made], design), ResamplingSettings(1, 0, 0, 0.95))
        view = linear_views([made], study).mean
        contrasts, component = self.asked(study, view)
        margin, options = None if self.groups == 3 else self.margin, {"equivalence": self.groups != 4}
        rows = contrast_family(study, view, contrasts, "f", margin=margin, judged=True, **options)
        alone = contrast_family(study, view, contrasts, "f", margin=margin, judged=False, **options)
        sides = [contrast.sides for contrast in contrasts for _ in range(concepts)]
        judged = judge_family(
            alone, a=[a for a, _ in sides], b=[b for _, b in sides], margin=margin, fewest=FEWEST_IMAGES
        )
        both = {"against 0": judged, "both zeros": rows}
        if self.groups == 2:
            shares = [row for row in share_rows(study, view) if row.component == "share"]
            shares += corrected_rows(study, shares, reader_checks([made], design))
            both["and the share"] = withheld_by_shares(rows, shares, a="a")
        return {name: [row for row in own if (row.component, row.group) in ((component, ""), (component, "a"))]
                for name, own in both.items()}  # fmt: skip


def rows_of_a_study(world: World, made: EncoderEmbeddings, concepts: int) -> list[Score]:
    """The same rows, as the whole study has them."""
    design, options = world.design(concepts), {"n_resamples": 2, "n_permutations": 0}
    rows = crossed_study([made], design) if world.groups == 4 else mcas_study([made], design, **options)
    asked = {
        2: ("mcas", IMAGE_PART, ""),
        3: ("profile", "association", "a"),
        4: ("intersections", "axis:first", "a"),
    }[world.groups]
    own = [row for row in rows if (row.encoder, row.setting) == ("mean", "")]
    return [row for row in own if (row.metric, row.component, row.group) == asked]


def side_of(row: Score) -> int:
    """1 where a verdict names the first group, −1 where it names another, 0 for none."""
    if row.verdict not in LEANING:
        return 0
    return 1 if row.side == "a" else -1


@dataclass(frozen=True)
class Said:
    """Sides, and whether balance is said, of (studies × concepts); ``truth`` is the composition's side."""

    side: np.ndarray
    balanced: np.ndarray
    truth: int

    @property
    def wrong(self) -> np.ndarray:
        """Whether a side is named that is not the composition's."""
        return (self.side != 0) & (self.side != self.truth)


def said_of(world: World, share: float, images: int, n: int, concepts: int = CONCEPTS) -> dict[str, Said]:
    """Draw so many studies of one composition, and judge them in each way."""
    parity = 1 / 3 if world.groups == 3 else 0.5
    truth = 0 if abs(share - parity) < 0.01 else int(np.sign(share - parity))
    rows: dict[str, list[list[Score]]] = {}
    for k in range(n):
        rng = np.random.default_rng([51, images, world.groups, round(100 * share), k])
        made = world.draw(rng, [world.composition(share)] * concepts, images)
        for name, own in world.verdicts(made, concepts).items():
            rows.setdefault(name, []).append(own)
    return {
        name: Said(
            np.array([[side_of(row) for row in own] for own in found]),
            np.array([[row.verdict == Verdict.BALANCED for row in own] for own in found]),
            truth,
        )
        for name, found in rows.items()
    }


ASKED = {2: "two groups", 3: "profile of three", 4: "cells"}
IMAGES = (20, 60, 200)


def _rates(setting: str, images: int, judged: dict[str, Said]) -> list[Found]:
    """How often a side is named wrongly and balance falsely said, and what is found, against 0 alone and as judged."""
    found = []
    for name, said in (("against 0", judged["against 0"]), ("as judged", judged[list(judged)[-1]])):
        told = [("any falsely leans", said.wrong.any(axis=1), 0.05)]
        if said.truth:
            told += [("falsely balanced", said.balanced, 0.05), ("leaning found", said.side == said.truth, nan)]
        else:
            told += [("balance found", said.balanced, nan)]
        for what, held, nominal in told:
            own = held.reshape(len(held), -1).mean(axis=1)
            kind, spread = "middle-power" if isnan(nominal) else "middle", float(own.std(ddof=1))
            rate, sizes = float(own.mean()), f"{setting}, {images} images"
            found.append(Found(kind, f"{what}, {name}", sizes, nominal, rate, len(own), spread))
    return found


def of_worst_size(found: Sequence[Found]) -> list[Found]:
    """Keep of each error the numbers of images where it is made most, and of what is found the most images."""
    kept: dict[str, Found] = {}
    for each in found:
        before = kept.get(each.what)
        if before is None or isnan(each.nominal) or each.rate > before.rate:
            kept[each.what] = each
    return list(kept.values())


def dispersed(n: int, within: str, share: float, groups: int = 2, scene: float = 0.0) -> list[Found]:
    """Groups that scatter apart, or alike: what is said of one composition, at the worst number of images."""
    world = World(DISPERSIONS[within], groups, scene=scene)
    setting = f"{within}{', scenes' if scene else ''}, {ASKED[groups]}, {share:.0%} of a"
    return of_worst_size([
        found for images in IMAGES for found in _rates(setting, images, said_of(world, share, images, n))
    ])  # fmt: skip


def power(n: int, share: float, images: int) -> list[Found]:
    """Groups that scatter alike: the leanings that are found against 0 alone, and as judged, in the same pictures.

    Without a margin, by which the one calls balanced what the other says leans.
    """
    judged = said_of(World(DISPERSIONS["equal"], margin=None), share, images, n)
    found = _rates(f"equal, no margin, {share:.0%} of a", images, judged)
    return [each for each in found if each.kind == "middle-power"]


def before_and_after(n: int, within: str, share: float, images: int, margin: float | None) -> list[Found]:
    """The same studies held against 0 alone, as before there was a middle, and as judged: decision 66's numbers.

    Half and half, .81 and .75, without a margin: any of twelve concepts leans. All of a, .66 and .84, with a margin of
    .1: a concept is shown balanced. The groups' centres lie 29 and 23 degrees apart.
    """
    judged = said_of(World(DISPERSIONS[within], apart=0.2 if margin else 0.25, margin=margin), share, images, n)
    setting = f"{within}, {CONCEPTS} concepts, {share:.0%} of a, {images} images"
    found = []
    for name, said in (("against 0", judged["against 0"]), ("as judged", judged[list(judged)[-1]])):
        what, held = (f"shown balanced, {name}", said.balanced) if said.truth else (
            f"any leans, {name}", said.wrong.any(axis=1, keepdims=True)
        )  # fmt: skip
        own = held.mean(axis=1)
        half = 0.5 / held.size
        spread = float(own.std(ddof=1)) or float(np.sqrt(half * (1 - half) * len(own)))
        found.append(Found("middle-shown", what, setting, 0.05, float(own.mean()), len(own), spread))
    return found


def experiments() -> list[Experiment]:
    """Every experiment with its number of studies."""
    return [
        *((dispersed, 60, {"within": within, "share": share}) for within in DISPERSIONS for share in SHARES),
        *((dispersed, 60, {"within": within, "share": share, "scene": 0.6})
          for within in (".66 and .84", ".81 and .75") for share in (0.5, 1.0)),
        *((dispersed, 40, {"within": within, "share": share, "groups": groups})
          for groups, shares in ((3, (0.0, 1 / 3, 0.65, 1.0)), (4, (0.0, 0.5, 0.65, 1.0)))
          for within in ("equal", ".66 and .84", ".81 and .75") for share in shares),
        *((before_and_after, 100, {"within": ".81 and .75", "share": 0.5, "images": images, "margin": None})
          for images in IMAGES),
        (before_and_after, 40, {"within": ".66 and .84", "share": 1.0, "images": 60, "margin": MARGIN}),
        *((power, 100, {"share": share, "images": images})
          for share in (0.65, 0.75, 0.85, 0.95) for images in (20, 40, 100)),
    ]  # fmt: skip
