"""The training pictures: four emoji sets, rendered at 64×64 on white as a full factorial.

76 concepts × (man, woman, person) × 6 skin tones × 4 sets = 5,472 pictures. The artwork is fetched from npm
at pinned versions and rendered with resvg; a missing drawing is an error that names its code points, so the
factorial is complete or there is none.
"""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import resvg_py
import yaml
from PIL import Image

from reference.paths import CACHE, ROOT

SIZE = 64
GENDERS = ("man", "woman", "person")
TONES = ("yellow", "light", "medium-light", "medium", "medium-dark", "dark")
TONE_CODES = ("", "1f3fb", "1f3fc", "1f3fd", "1f3fe", "1f3ff")
SETS = ("noto", "twemoji", "fluent-emoji-flat", "fluent-emoji")
VERSIONS = {
    "noto": "1.2.9",
    "twemoji": "1.2.5",
    "fluent-emoji-flat": "1.2.6",
    "fluent-emoji": "1.2.7",
    "openmoji": "1.2.29",  # a held-out check only: nothing drawn from it ships (CC BY-SA)
}
ZWJ_BASES = {"man": "1f468", "woman": "1f469", "person": "1f9d1"}
GENDER_SIGNS = {"man": ["200d", "2642"], "woman": ["200d", "2640"], "person": []}


class MissingArtError(LookupError):
    """A set lacks the drawing of a code-point sequence."""


@dataclass(frozen=True)
class Concept:
    """One thing the model draws; the fields are explained at the top of concepts.yaml."""

    name: str
    kind: str
    noun: str | None = None
    phrase: str | None = None
    words: Mapping[str, str] | None = None
    zwj: str | None = None
    sign: str | None = None
    codes: Mapping[str, str] | None = None

    def sequence(self, gender: str, tone: int) -> str:
        """The emoji sequence in the form chars.json uses: hexadecimal, joined by dashes, without fe0f."""
        if self.zwj:
            parts = [ZWJ_BASES[gender], TONE_CODES[tone], "200d", self.zwj]
        elif self.sign:
            parts = [self.sign, TONE_CODES[tone], *GENDER_SIGNS[gender]]
        else:
            assert self.codes is not None, f"concepts.yaml: {self.name} has no recipe"
            first, *rest = self.codes[gender].split()
            parts = [first, TONE_CODES[tone], *rest]
        return "-".join(part for part in parts if part)


@cache
def concepts() -> tuple[Concept, ...]:
    """All concepts, in the order of concepts.yaml, which is the order of the pictures."""
    rows = yaml.safe_load((ROOT / "concepts.yaml").read_text(encoding="utf-8"))
    return tuple(Concept(**row) for row in rows)


@dataclass(frozen=True)
class Pictures:
    """The factorial: `images[i]` is uint8 RGB; the labels are indices into concepts(), GENDERS, TONES and
    SETS.
    """

    images: np.ndarray
    concept: np.ndarray
    gender: np.ndarray
    tone: np.ndarray
    set: np.ndarray

    def __len__(self) -> int:
        return len(self.concept)


def labels(n_sets: int = len(SETS)) -> tuple[np.ndarray, ...]:
    """(concept, gender, tone, set) of every picture; the last index runs fastest."""
    shape = (len(concepts()), len(GENDERS), len(TONES), n_sets)
    return tuple(axis.ravel() for axis in np.indices(shape))


def split(pictures: Pictures) -> np.ndarray:
    """True for the held-out combinations: one tone of six per (concept, gender), all sets, a Latin-square
    pattern.

    Every concept, gender and tone is thus seen in training, but one sixth of their combinations is not. The
    "person" pictures are split too. Yellow takes its turn like any other tone.
    """
    return (pictures.concept + 2 * pictures.gender) % len(TONES) == pictures.tone


def package_folder(name: str) -> Path:
    """The unpacked npm package of an emoji set, fetched once into the cache."""
    folder = CACHE / "npm" / f"{name}-{VERSIONS[name]}"
    if not (folder / "package" / "icons.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        spec = f"@iconify-json/{name}@{VERSIONS[name]}"
        packed = subprocess.run(
            ["npm", "pack", "--silent", spec], cwd=folder, check=True, capture_output=True, text=True
        )
        with tarfile.open(folder / packed.stdout.strip().splitlines()[-1]) as archive:
            archive.extractall(folder, filter="data")
    return folder / "package"


def _read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


class EmojiSet:
    """The drawings of one npm package, by code-point sequence."""

    def __init__(self, name: str) -> None:
        self.name = name
        folder = package_folder(name)
        self._icons = _read_json(folder / "icons.json")
        # fluent-emoji names its drawings as fluent-emoji-flat does, and only the latter has the complete map.
        source = package_folder("fluent-emoji-flat") if name == "fluent-emoji" else folder
        self._names = {k.replace("-fe0f", ""): v for k, v in _read_json(source / "chars.json").items()}

    def svg(self, sequence: str) -> str:
        """The drawing as an SVG document. Raises MissingArtError."""
        name = self._names.get(sequence)
        while name in self._icons.get("aliases", {}):
            name = self._icons["aliases"][name]["parent"]
        icon = self._icons["icons"].get(name)
        if icon is None:
            raise MissingArtError(f"{self.name} {VERSIONS[self.name]} has no drawing for {sequence}")
        width = icon.get("width", self._icons["width"])
        height = icon.get("height", self._icons["height"])
        box = f"{icon.get('left', 0)} {icon.get('top', 0)} {width} {height}"
        return (
            '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
            f'viewBox="{box}" '
            f'width="{width}" height="{height}">{icon["body"]}</svg>'
        )


def render(svg: str, size: int = SIZE) -> np.ndarray:
    """RGB uint8 (size, size, 3) on white."""
    png = resvg_py.svg_to_bytes(svg_string=svg, width=size, height=size, background="#ffffff", skip_system_fonts=True)
    image = Image.open(io.BytesIO(bytes(png))).convert("RGB")
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.LANCZOS)
    return np.asarray(image)


def render_sets(names: tuple[str, ...] = SETS) -> Pictures:
    """Renders the factorial for the named sets. Raises MissingArtError at the first gap."""
    sets = [EmojiSet(name) for name in names]
    axes = labels(len(names))
    images = np.empty((len(axes[0]), SIZE, SIZE, 3), np.uint8)
    for i, (concept, gender, tone, of_set) in enumerate(zip(*axes, strict=True)):
        sequence = concepts()[concept].sequence(GENDERS[gender], tone)
        images[i] = render(sets[of_set].svg(sequence))
    return Pictures(images, *axes)


def load(names: tuple[str, ...] = SETS) -> Pictures:
    """The factorial, rendered once and kept in the cache."""
    path = CACHE / ("art.npz" if names == SETS else f"art-{'-'.join(names)}.npz")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pictures = render_sets(names)
        np.savez_compressed(path, images=pictures.images)
    with np.load(path) as stored:
        images = stored["images"]
    axes = labels(len(names))
    if len(images) != len(axes[0]):
        raise ValueError(f"{path}: {len(images)} pictures, expected {len(axes[0])}; delete it and build again")
    return Pictures(images, *axes)
