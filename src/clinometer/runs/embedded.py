"""The vectors of a whole run, refused while any is missing."""

from __future__ import annotations

from collections.abc import Sequence

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


def embedded_rows(run: Run, encoder: str, ids: Sequence[str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The vectors of some images as the rows of one array, and those of texts by text; raises as :func:`embedded`.

    ``ids`` : whose, row by row; that of an image without a vector, or of an empty id, is NaN.
    """
    with run.directory.listed_once():
        require_finished(run, encoder)
        texts, rows = run.texts(encoder), {key: row for row, key in enumerate(ids) if key}
        vectors = _no_vectors(len(ids), next(map(len, texts.values()), 1))
        for part, by_id in run.embedding_parts(encoder):
            run.require_embedded(encoder, by_id, [part])
            for key in by_id.keys() & rows.keys():
                if vectors.shape[1] != len(by_id[key]):  # the first of all
                    vectors = _no_vectors(len(ids), len(by_id[key]))
                vectors[rows[key]] = by_id[key]
        return vectors, texts


def _no_vectors(n: int, width: int) -> np.ndarray:
    return np.full((n, width), np.nan, np.float32)


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
            f"{run.url}: encoder {encoder} has not finished (parts to go: {unfinished}); give: clinometer score "
            f"{run.url} --encoder {encoder}"
        )
