"""Units as an engine finishes them: deaths are told as they come, and what was given up once all else is made."""

from __future__ import annotations

from collections.abc import Generator as Iteration
from collections.abc import Mapping, Sequence

from clinometer.errors import EngineError
from clinometer.pipeline.engines import MOST_DEATHS, Death, Done, Engine, Unit
from clinometer.pipeline.engines.protocol import Work
from clinometer.runs.progress import Progress

_NO_SIZES: Mapping[int, int] = {}


def finished(
    engine: Engine,
    work: Work,
    units: Sequence[Unit],
    progress: Progress,
    names: Mapping[int, str],
    images: Mapping[int, int] = _NO_SIZES,
) -> Iteration[Done, None, None]:
    """Have units made, and give each when it is; once all are, refuse that some are not.

    Parameters
    ----------
    names : what the numbers in units stand for. A unit without a number is the texts.
    images : how many images each stands for, where that says something.

    Raises
    ------
    EngineError
        Units were given up; the others are made. The message names them.
    """
    lost: list[Death] = []
    try:
        for event in engine.map(work, units) if units else ():
            if isinstance(event, Done):
                yield event
                continue
            lost += [event] if event.given_up else []
            progress.note(_notice(event, names))
    except BaseException:  # the user stops it, too
        engine.close()  # what a worker still wrote would be there after it was forgotten
        raise
    if lost:
        sized = {number: f"{name} ({images[number]} images)" if images else name for number, name in names.items()}
        raise EngineError(
            f"{MOST_DEATHS} workers died over each of {', '.join(_named(death, sized) for death in lost)}; the "
            f"last because: {lost[-1].reason}. All others are finished; give the same command again, with fewer "
            "--workers or a smaller --batch-size if memory ran out",
            field="engine",
        )


def _notice(death: Death, names: Mapping[int, str]) -> str:
    then = "it is given up for now" if death.given_up else "another takes it"
    return f"a worker died over {_named(death, names)} ({death.reason}); {then}"


def _named(death: Death, names: Mapping[int, str]) -> str:
    return ", ".join(names[number] for number in death.unit) or "the texts"
