"""Image files put before a diffusion classifier, without a run directory."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from clinometer._messages import as_text
from clinometer.errors import InvalidInputError
from clinometer.models.images import DecodedImage, decode_in_batches
from clinometer.runs.progress import Progress

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.diffusers.classifier import Choice, DiffusionClassifier

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jp2", ".ppm", ".tga", ".qoi")
"""What counts as an image in a folder; a file that is named is read whatever its suffix."""

AT_ONCE = 64
"""Images held in memory together."""


def image_files(places: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """List the files named, and the images in the folders named, sorted within a folder; hidden ones are left out.

    Raises
    ------
    InvalidInputError
        One of them is not there, or a folder holds no image.
    """
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = sorted(path for path in place.rglob("*") if _is_image(path, place))
            if not inside:
                raise InvalidInputError(f"{place}: no image in this folder (expected {', '.join(SUFFIXES[:4])}, …)")
            files += inside
        elif place.is_file():
            files.append(place)
        else:
            raise InvalidInputError(f"{place}: no such file or folder")
    if not files:
        raise InvalidInputError("images: none given; give files or folders")
    return files


def _is_image(path: Path, folder: Path) -> bool:
    """Whether a path in a folder is an image's by its name; macOS puts ``._a.png`` beside ``a.png``."""
    hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
    return path.suffix.lower() in SUFFIXES and not hidden and path.is_file()


def classify_files(files: Sequence[Path], classifier: DiffusionClassifier, progress: Progress) -> pd.DataFrame:
    """Classify files: a row each, with the fields of ``Choice``; one that cannot be read has a reason."""
    from clinometer.models.diffusers.classifier import Choice

    evaluations = len(classifier.labels) * classifier.trials
    progress.start("classifying", len(files) * evaluations, 0)
    rows = []
    for batch in decode_in_batches(files, AT_ONCE):
        some, decoded = zip(*batch, strict=True)
        for file, choice in zip(some, _choices(decoded, classifier, progress, evaluations), strict=True):
            rows.append({"file": as_text(str(file)), **asdict(choice)})
    progress.finish()
    return pd.DataFrame(rows, columns=["file", *(field.name for field in fields(Choice))])


def _choices(
    decoded: Sequence[DecodedImage], classifier: DiffusionClassifier, progress: Progress, evaluations: int
) -> Iterator[Choice]:
    from clinometer.models.diffusers.classifier import Choice, choose

    images: list[Image] = [decoded_image.image for decoded_image in decoded if decoded_image.image is not None]
    measured = classifier.errors(images, advance=progress.advance)
    readable = iter(range(len(images)))
    for decoded_image in decoded:
        if decoded_image.image is None:
            progress.advance(evaluations)
            yield Choice("", nan, "", nan, nan, nan, False, 0, decoded_image.reason or "it cannot be read")
        else:
            yield choose(measured, next(readable))
