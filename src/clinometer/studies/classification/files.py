"""Image files put before a diffusion classifier, without a run directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from clinometer._messages import as_text
from clinometer.models.images import DecodedImage, decode_in_batches
from clinometer.runs.progress import Progress

if TYPE_CHECKING:
    from PIL.Image import Image

    from clinometer.models.diffusers.classifier import Choice, DiffusionClassifier

AT_ONCE = 64
"""Images held in memory together."""


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
