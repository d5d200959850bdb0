"""Papers, each whole: every run that one takes, and a page that holds its print beside what was measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clinometer.api.audits import import_counts
from clinometer.papers.planning import REFERENCE, Needs
from clinometer.papers.record import Reproduction
from clinometer.papers.reproduction import Asked, look_ahead, papers_of
from clinometer.papers.reproduction import reproduce as run_reproduction
from clinometer.pipeline.audits import Workers
from clinometer.pipeline.engines import Engine
from clinometer.runs import Progress, listening

if TYPE_CHECKING:
    from clinometer.models import Generator


def reproduce(
    papers: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    models: str | Sequence[str] = REFERENCE,
    quick: bool = False,
    pictures: str | os.PathLike[str] | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    objects: Mapping[str, Generator] | None = None,
    show: Callable[[Needs], None] = lambda needs: None,
    progress: Progress | None = None,
    **options: Any,
) -> Reproduction:
    """Do every run that some papers take, and write for each a page that holds its print beside what was measured.

    Parameters
    ----------
    papers : ``"mcas"``, or another of the papers that ``clinometer reproduce --help`` lists, several, or ``"all"``.
    out : the directory; what is finished in it is kept.
    models : what is audited. On ``"reference"`` a paper is rehearsed, in words that the model knows.
    quick : few images, and every page says so.
    pictures : a folder of labelled pictures with ``pictures.csv``, for a paper whose pictures are given.
    engine, workers : as of :func:`audit`.
    objects : generators that are loaded already, by the names that ``models`` has for them.
    show : is given what it takes, run by run, before anything is drawn.
    progress : a listener for the long stages.
    options : further options of :func:`audit` that hold for every run: ``encoder``, ``seed``, ``device``,
        ``portraits``, ``budget``, …

    Returns
    -------
    The reproduction: ``.pages`` by paper, ``.runs``, and ``.failed`` runs with why. A run that fails stops no other.

    Raises
    ------
    InvalidInputError
        There is no such paper, or an option is not one of an audit.
    RunError, EngineError
        The directory is another's or was asked something else, or no worker can be started.
    """
    given = None if pictures is None else os.fspath(pictures)
    asked = Asked(papers_of(papers, given), _several(models), quick, options, objects or {}, given)

    def count(file: str, place: str, name: str) -> None:
        import_counts(file, place, name=name, report=options.get("report", True))

    return run_reproduction(out, asked, Workers(engine, workers), listening(progress), count, show)


def plan_reproduction(
    papers: str | Sequence[str],
    out: str | os.PathLike[str],
    *,
    models: str | Sequence[str] = REFERENCE,
    quick: bool = False,
    pictures: str | os.PathLike[str] | None = None,
    objects: Mapping[str, Generator] | None = None,
    **options: Any,
) -> Needs:
    """Say what a reproduction takes: images, evaluations of the network, hours, gigabytes. Draws and writes nothing."""
    given = None if pictures is None else os.fspath(pictures)
    asked = Asked(papers_of(papers, given), _several(models), quick, options, objects or {}, given)
    return look_ahead(out, asked)


def _several(names: str | Sequence[str]) -> list[str]:
    """Return names as a list, each once."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))
