"""What the images of one target say of the cells of crossed axes, measured one target at a time.

As in :mod:`clinometer.studies.leaning.scores.measuring`, no target needs another one, so any process can measure it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from clinometer.errors import InvalidInputError
from clinometer.studies.leaning.scores.cosines import attribute_vectors, cosine, word_cosine
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, Layout, check_target
from clinometer.studies.leaning.scores.measuring import pooled_encoders
from clinometer.studies.leaning.scores.moments import CellMeans, TargetMeans, target_means, together
from clinometer.studies.leaning.scores.pooled import unit_rows

MeasuredCells = tuple[TargetMeans, ...]
"""A target as each encoder sees it, and then as the average of several does."""


class CellMeasurer:
    """Measures targets by their number.

    Parameters
    ----------
    encoders : their attribute images and words, and the images of the targets that are asked for.
    check : the design, where no image of a target has been looked at yet.
    """

    def __init__(self, encoders: Sequence[EncoderEmbeddings], layout: Layout, check: Design | None = None) -> None:
        self._encoders, self._layout, self._check = encoders, layout, check
        self._attributes = [attribute_vectors(encoder, layout) for encoder in encoders]
        self._pooled = pooled_encoders(encoders)

    def __call__(self, t: int) -> MeasuredCells:
        """Read a target's images, and take their means."""
        pairs = [self._cosines(i, t) for i in range(len(self._encoders))]
        if len(self._pooled) > 1:
            gram, by_word = (np.mean([pairs[i][kind] for i in self._pooled], axis=0) for kind in (0, 1))
            pairs.append((gram, by_word))
        return tuple(target_means(*pair, self._layout) for pair in pairs)

    def _cosines(self, i: int, t: int) -> tuple[np.ndarray, np.ndarray]:
        """One encoder's, with the attribute images and with the words."""
        encoder, (images, words) = self._encoders[i], self._attributes[i]
        images_of_target = encoder.target_images[t]
        if self._check is not None:
            check_target(encoder, self._check, t, images_of_target)
        units = unit_rows(images_of_target)
        return cosine(units, images), word_cosine(units, words, sum(self._layout.word_counts))


def gathered_cells(layout: Layout, measured: Iterable[tuple[int, MeasuredCells]]) -> list[CellMeans]:
    """Every view's means of all targets, of targets that come with their numbers in any order.

    Raises
    ------
    InvalidInputError
        A target is missing, or was measured of another number of images.
    """
    targets = dict(measured)
    for t, (name, size) in enumerate(zip(layout.targets, layout.target_sizes, strict=True)):
        found = len(targets[t][0].images) if t in targets else 0
        if t not in targets or found != size:
            raise InvalidInputError(f"measured: {found} images of target {name!r}, expected {size}")
    return [together(views) for views in zip(*(targets[t] for t in sorted(targets)), strict=True)]
