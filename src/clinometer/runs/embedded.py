"""The vectors of a whole run, refused while any is missing."""

from __future__ import annotations

import numpy as np

from clinometer.errors import RunNotFoundError
from clinometer.runs.store import Run


def embedded(run: Run, encoder: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The vectors of images by sample id, and of texts by text.

    Raises
    ------
    RunNotFoundError
        The encoder has not finished.
    RunCorruptError
        A file is damaged, or lacks an image or a text.
    """
    with run.directory.listed_once():
        require_finished(run, encoder)
        vectors = run.embeddings(encoder)
        run.require_embedded(encoder, vectors)
        return vectors, run.texts(encoder)


def require_finished(run: Run, encoder: str) -> None:
    """Refuse an encoder that has not embedded every part and the texts.

    Raises
    ------
    RunNotFoundError
        The message names the way out.
    """
    unfinished = len(run.parts) - len(run.embedded_parts(encoder))
    if unfinished or not run.has_texts(encoder):
        raise RunNotFoundError(
            f"{run.url}: encoder {encoder} has not finished ({unfinished} parts to go); give: clinometer score "
            f"{run.url} --encoder {encoder}"
        )
