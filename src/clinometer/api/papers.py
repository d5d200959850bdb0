"""Papers, each whole: every run that one takes, and a page that holds its print beside what was measured.

What a function needs is imported when it is called: the command line reads the signatures, and starts at once.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from clinometer.api.audits import import_counts
from clinometer.pipeline.options import Argument, AskedEngine, Listener, Option, Place, documented
from clinometer.pipeline.request import option_of

if TYPE_CHECKING:
    from clinometer.models import Generator
    from clinometer.papers.planning import Needs
    from clinometer.papers.record import Reproduction


@documented
def reproduce(
    papers: Annotated[
        str | Sequence[str],
        Argument("mcas, internal-bias, xmcas, t2iat, downstream, prompting, or all.", metavar="PAPER…", many=True),
    ],
    out: Annotated[Place, Option("Directory to write to. What is already finished in it is kept.", short="-o")],
    *,
    models: Annotated[
        str | Sequence[str],
        Option(
            "As for audit. With 'reference', a paper is only rehearsed, in words that this model knows. Repeatable.",
            key="model",
            short="-m",
            default="reference",
            many=True,
        ),
    ] = "reference",
    quick: Annotated[bool, Option("Draw only a few images; every page says so.")] = False,
    pictures: Annotated[
        Place | None,
        Option("For the paper prompting, which draws nothing: a folder of labelled pictures with pictures.csv."),
    ] = None,
    engine: Annotated[AskedEngine, option_of("engine")] = "local",
    workers: Annotated[int | None, option_of("workers")] = None,
    objects: "Mapping[str, Generator] | None" = None,
    show: "Callable[[Needs], None]" = lambda needs: None,
    progress: Listener | None = None,
    **options: Any,
) -> "Reproduction":
    """Finish every run that some papers take, and write a page for each that compares its print with what was measured.

    Parameters
    ----------
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
    from clinometer.papers.reproduction import ReproductionRequest, papers_of
    from clinometer.papers.reproduction import reproduce as run_reproduction
    from clinometer.pipeline.audits import Workers
    from clinometer.runs import listening

    folder = None if pictures is None else os.fspath(pictures)
    request = ReproductionRequest(papers_of(papers, folder), _several(models), quick, options, objects or {}, folder)

    def count(file: str, place: str, name: str) -> None:
        import_counts(file, place, name=name, report=options.get("report", True))

    return run_reproduction(out, request, Workers(engine, workers), listening(progress), count, show)


def plan_reproduction(
    papers: str | Sequence[str],
    out: Place,
    *,
    models: str | Sequence[str] = "reference",
    quick: bool = False,
    pictures: Place | None = None,
    objects: "Mapping[str, Generator] | None" = None,
    **options: Any,
) -> "Needs":
    """Return what a reproduction takes: images, evaluations, hours, gigabytes. Draws and writes nothing."""
    from clinometer.papers.reproduction import ReproductionRequest, look_ahead, papers_of

    folder = None if pictures is None else os.fspath(pictures)
    request = ReproductionRequest(papers_of(papers, folder), _several(models), quick, options, objects or {}, folder)
    return look_ahead(out, request)


def _several(names: str | Sequence[str]) -> list[str]:
    """Return names as a list, each once."""
    return [names] if isinstance(names, str) else list(dict.fromkeys(names))
