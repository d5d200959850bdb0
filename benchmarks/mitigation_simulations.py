"""How often verdicts on a mitigation err: made-up images of concepts, before and after, to the verdict.

    python -m benchmarks.mitigation_simulations [--studies 400]

Images of 30 concepts, 20 each, lie along the direction between the groups as a reader's scores do: of one group or the
other by a share, with noise. Nothing changes where the share is the same after as before; of the noises, a part is the
same after, and the other is drawn again. Counted is in how many studies any concept is called better, overshot
or harmed; and where a share is moved, how often what is called is right. Beside it the same of places on the plane of
xMCAS, better or harmed, and of skin tones, which differ by the group that is drawn and by chance: changed in any
concept, and over all of them disturbed.
"""

from __future__ import annotations

import argparse
from collections import Counter

import numpy as np

from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.mitigated import mitigation_rows

CONCEPTS, IMAGES, DIMENSIONS = 30, 20, 8


def study(
    before: float, after: float, alike: float, rng: np.random.Generator, concepts: int = CONCEPTS, images: int = IMAGES
) -> Counter[str]:
    """The verdicts of one study: shares before and after, of which so many pictures keep their noise."""
    names = [f"concept {t}" for t in range(concepts)]
    uniform, noise = rng.random((2, concepts, images)), rng.normal(size=(2, concepts, images, DIMENSIONS))
    kept = rng.random((concepts, images)) < alike
    uniform[1], noise[1] = np.where(kept, uniform[0], uniform[1]), np.where(kept[..., None], noise[0], noise[1])
    runs = []
    for which, share in enumerate((before, after)):
        x = 0.3 * noise[which]
        x[..., 0] += np.where(uniform[which] < share, 0.5, -0.5)
        x[..., 1] += 1.5  # what all pictures have in common
        x[..., 2] += np.arange(concepts)[:, None] / concepts
        groups = {
            name: (np.eye(DIMENSIONS)[[0]] * sign + np.eye(DIMENSIONS)[[1]] + np.eye(DIMENSIONS)[[3]] * (sign == 0),)
            for name, sign in (("a", 1), ("b", -1), ("c", 0))
        }
        words = {name: images[0] for name, images in groups.items()}
        runs.append([EncoderEmbeddings("toy", tuple(x), np.tile(np.eye(DIMENSIONS)[1], (concepts, 1)), groups, words)])
    tones = [20 * noise[which, ..., 4] + 10 * (uniform[which] < share) for which, share in enumerate((before, after))]
    design = Design(
        targets=tuple(TargetDesign(name, "all") for name in names), groups=("a", "b", "c"), a="a", b="b", third="c",
        margin=0.1,
    )  # fmt: skip
    rows = mitigation_rows(*runs, design, named_changed=(0, 0), skin=list(tones[1] - tones[0]))
    found = Counter(row.verdict for row in rows if row.component == "change")
    found.update(f"{row.component} {row.verdict}" for row in rows if row.component in ("skin", "xmcas_distance"))
    return found


CALLED = ("better", "overshot", "harmed")


def main() -> None:
    """Print how often each verdict is given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    print("| share before | after | noise kept | any called, % of studies | better | overshot | harmed | no change | "
          "any place called | any skin changed | skin disturbed | skin kept |")  # fmt: skip
    print("|---|---|---|" + "---:|" * 8)
    settings = [(share, share, alike) for share in (0.5, 0.6, 0.75, 0.9) for alike in (0.0, 0.5, 0.9)]
    settings += [(0.9, 0.5, 0.5), (0.75, 0.5, 0.5), (0.9, 0.1, 0.5), (0.6, 0.9, 0.5), (0.5, 0.9, 0.5)]
    for before, after, alike in settings:
        found = [study(before, after, alike, rng) for _ in range(options.studies)]
        any_called = np.mean([any(each[name] for name in CALLED) for each in found])
        shares = [sum(each[name] for each in found) / options.studies / CONCEPTS for name in (*CALLED, "no change")]
        places, skin = (
            np.mean([any(each[name] for name in of) for each in found])
            for of in (("xmcas_distance better", "xmcas_distance harmed"), ("skin changed",))
        )
        shares += [places, skin, *(np.mean([each[f"skin {name}"] for each in found]) for name in ("disturbed", "kept"))]
        told = " | ".join(f"{share:.1%}" for share in shares)
        print(f"| {before:g} | {after:g} | {alike:g} | {any_called:.1%} | {told} |")


if __name__ == "__main__":
    main()
