"""Writes the portraits that ship: `python -m reference.portraits`. Plain adults and older adults of all four sets."""

from __future__ import annotations

import csv

import numpy as np
from PIL import Image

from reference import art
from reference.paths import PACKAGE

CONCEPTS = ("adult", "older adult", "red hair", "white hair")
GROUPS = {"light": (1, 2), "dark": (4, 5)}


def main() -> None:
    """Two genders × two tone classes of two tones × four concepts × four sets: 32 portraits a group."""
    pictures = art.load()
    names = np.array([concept.name for concept in art.concepts()])
    folder = PACKAGE / "portraits"
    folder.mkdir(exist_ok=True)
    with (folder / "manifest.csv").open("w", newline="", encoding="utf-8") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["file", "group", "tone", "set"])
        for tone_class, tones in GROUPS.items():
            for gender in ("woman", "man"):
                wanted = (
                    np.isin(names[pictures.concept], CONCEPTS)
                    & (pictures.gender == art.GENDERS.index(gender))
                    & np.isin(pictures.tone, tones)
                )
                for index in np.flatnonzero(wanted):
                    concept, tone = names[pictures.concept[index]], art.TONES[pictures.tone[index]]
                    name = f"{art.SETS[pictures.set[index]]}-{concept}-{gender}-{tone}.png".replace(" ", "-")
                    Image.fromarray(pictures.images[index]).quantize(64).save(folder / name, optimize=True)
                    rows.writerow([name, f"{tone_class} {gender}", tone, art.SETS[pictures.set[index]]])


if __name__ == "__main__":
    main()
