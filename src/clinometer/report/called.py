"""What the runs of a comparison are called: alike on the page, in the table and in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from clinometer.runs import Run
from clinometer.runs.comparison import Comparison


def called_in(comparisons: Sequence[Comparison]) -> list[tuple[str, str]]:
    """What the two runs of each comparison are called, among all of them: see :func:`names_of`."""
    first, *others = names_of(runs_of(comparisons))
    return [(first, other) for other in others]


def runs_of(comparisons: Sequence[Comparison]) -> list[Run]:
    """The run that the others are held against, and the others."""
    return [comparisons[0].first, *(each.second for each in comparisons)]


def names_of(runs: Sequence[Run]) -> list[str]:
    """What runs are called: their models; where two share a model, all by their directories, or whole paths.

    A run that is given twice is numbered the second time.
    """
    models = [str(run.model_card["name"]) for run in runs]
    if len(set(models)) == len(models):
        return models
    folders = [run.url.rstrip("/").rsplit("/", 1)[-1] for run in runs]
    if len(set(folders)) == len(folders):
        return folders
    urls = [run.url for run in runs]
    return [f"{url} ({before + 1})" if (before := urls[:i].count(url)) else url for i, url in enumerate(urls)]
