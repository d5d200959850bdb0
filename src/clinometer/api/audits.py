"""Audits and sweeps, from a suite and a model to a report."""

from __future__ import annotations

import inspect
import os
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol

from clinometer.api.runs import Run
from clinometer.pipeline.audits import Workers
from clinometer.pipeline.audits import audit as run_audit
from clinometer.pipeline.engines import Engine
from clinometer.pipeline.loaded_models import Models
from clinometer.pipeline.request import (
    AskedSuite,
    AuditOptions,
    Model,
    Place,
    ask,
    fields_in_order,
    told_default,
)
from clinometer.runs import Progress, listening
from clinometer.suites import Suite
from clinometer.sweeps import SweepFile
from clinometer.sweeps.running import LoadedObjects as GivenObjects
from clinometer.sweeps.sweep import Sweep
from clinometer.sweeps.sweep import sweep as run_sweep

if TYPE_CHECKING:
    from clinometer.models import Encoder, Generator


P = ParamSpec("P")
POSITIONAL: Final = ("model", "suite", "out")


class _Audit(Protocol[P]):
    """A function of a model, a suite, a place, and of every option of an audit."""

    def __call__(
        self, model: Model = ..., suite: AskedSuite = ..., out: Place | None = ..., *args: P.args, **options: P.kwargs
    ) -> Run: ...


def _take_options(options: Callable[P, AuditOptions]) -> Callable[[Callable[..., Run]], _Audit[P]]:
    """Give a function the options of an audit: its types, its signature and its documentation are made of them."""

    def document(function: Any) -> _Audit[P]:
        kinds, parameters, lines = inspect.Parameter, [], []
        for name, field in fields_in_order().items():
            kind = kinds.POSITIONAL_OR_KEYWORD if name in POSITIONAL else kinds.KEYWORD_ONLY
            parameters.append(kinds(name, kind, default=field.default))
            text = f"{name} : {field.description}{told_default(field)}"
            lines.append(textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="        "))
        function.__signature__ = inspect.Signature(parameters, return_annotation=Run)
        opening, heading, errors = function.__doc__.partition("    Raises\n")
        told = "\n".join(("    Parameters", "    ----------", *lines, "", ""))
        function.__doc__ = f"{opening}{told}{heading}{errors}"
        return function  # type: ignore[no-any-return]

    return document


@_take_options(AuditOptions)
def audit(model: Model = "reference", suite: AskedSuite = "reference", out: Place | None = None, **options: Any) -> Run:
    """Audit a text-to-image model and return the finished run.

    Models, suites, encoders and engines may be objects, too.

    Raises
    ------
    SuiteError, ModelError, RunError, EngineError, InvalidInputError
        Each says what was found, what was expected, and the way out. What was finished stays in ``out``.
    """
    request = ask(model=model, suite=suite, out=out, **options)
    workers = Workers(request.engine, request.workers)
    return Run(run_audit(request, Models(), workers, listening(request.progress)))


def sweep(
    grid: str | os.PathLike[str] | Mapping[str, Any] | SweepFile,
    out: str | os.PathLike[str] | None = None,
    *,
    models: Mapping[str, Generator] | None = None,
    suites: Mapping[str, Suite] | None = None,
    encoder: str | Encoder | Sequence[str | Encoder] | None = None,
    engine: str | Engine = "local",
    workers: int | None = None,
    retry_failed: bool = False,
    progress: Progress | None = None,
) -> Sweep:
    """Audit a grid of models, settings, seeds and suites, and hold every setting against a baseline.

    Parameters
    ----------
    grid : a YAML file, or a mapping of the same keys: ``{"axes": {"guidance": [1, 3, 7.5], "seed": [0, 1, 2]},
        "baseline": {"guidance": 7.5}, "images": 20}``; see docs/sweeps.md.
    out : the sweep's directory; by default what the grid says, or ``runs/`` and the name of its file. One that holds
        part of the same sweep, or a smaller one, is continued: no finished cell is done again.
    models, suites : generators and suites that are loaded already, by the names that the axes have for them.
    encoder : as of :func:`audit`; by default what the grid says.
    engine, workers, retry_failed : as of :func:`audit`.
    progress : a listener for the long stages.

    Returns
    -------
    The sweep: ``sweep.table`` and ``sweep.differences`` are its numbers, ``sweep.runs`` its finished runs, and
    ``sweep.failed`` the cells that failed, and why. A cell that fails stops no other.

    Raises
    ------
    SweepError
        An unknown key, axis or baseline, or a directory whose cells were asked something else.
    RunError, EngineError
        The directory is another's, or no worker can be started.
    """
    objects = GivenObjects(models or {}, suites or {}, encoder, retry_failed=retry_failed)
    return run_sweep(grid, out, objects, Workers(engine, workers), listening(progress))
