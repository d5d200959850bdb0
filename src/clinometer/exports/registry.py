"""The formats in which a run's verdicts are passed on to what others read, by their names.

A package brings another by an entry point in the group ``clinometer.formats``, which names a function of a scored run
that returns text. Numbers are those of the scores, without rounding.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from clinometer.errors import ClinometerError, InvalidInputError, RunCorruptError
from clinometer.exports import cyclonedx, eval_results, every_eval_ever, fairness_card
from clinometer.exports.format import Format
from clinometer.exports.model_cards import CardDetails, place_of, require_one_model
from clinometer.models.weights import describe
from clinometer.runs import Run

MODEL_CARD: Final = "model-card"
"""Markdown, with model-index; see :mod:`clinometer.exports.model_cards`."""

FORMATS: Final[Mapping[str, Format]] = {
    each.name: each for each in (eval_results.FORMAT, every_eval_ever.FORMAT, fairness_card.FORMAT, cyclonedx.FORMAT)
}

GROUP: Final = "clinometer.formats"
"""The entry points of formats that other packages bring."""


def format_named(name: str) -> Format:
    """Find a format by its name.

    Raises
    ------
    InvalidInputError
        There is no such format.
    """
    if name in FORMATS:
        return FORMATS[name]
    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        raise InvalidInputError.expected_one_of((MODEL_CARD, *FORMATS, *sorted(points)), name, field="format")
    return Format(name, lambda runs, details: _written_by(points[name], runs[0]))


def _written_by(point: EntryPoint, run: Run) -> str:
    try:
        text = point.load()(run)
    except ClinometerError:
        raise
    except (Exception, SystemExit) as error:  # a plug-in's may be any
        raise InvalidInputError.failed(
            f"{point.name!r} ({point.value}) stopped with {describe(error)}", field="format"
        ) from error
    if not isinstance(text, str):
        raise InvalidInputError.wrong_type(
            f"{point.name!r} ({point.value}) gave {type(text).__name__}, expected text", field="format"
        )
    return text


def write_as(runs: Sequence[Run], name: str, details: CardDetails, out: str | os.PathLike[str] | None) -> str:
    """Write the verdicts of runs of one model in a format; into the file ``out``, or in the folder ``out``.

    Raises
    ------
    InvalidInputError
        There is no such format; something that it needs is not given, or that it does not take; several runs for one;
        there is no such folder, it cannot be written, or the file is somebody else's.
    RunError, SuiteError
        A run is not scored, or damaged, or not of the first one's model; of its suite no benchmark is made.
    """
    form = format_named(name)
    for field, value in vars(details).items():
        if value and field not in form.takes:
            raise InvalidInputError.unsupported(f"the format {name} does not take it; leave it out", field=field)
    if len(runs) != 1 and not form.of_several:
        raise InvalidInputError.too_many(f"found {len(runs)}, expected one for the format {name}", field="runs")
    require_one_model(runs)
    for run in runs:
        if run.unchecked:
            raise RunCorruptError(
                f"{run.url}: {run.unchecked}, so its numbers are not exported; run the audit again in a new folder"
            )
    text = form.write(runs, details)
    if out is not None:
        folder, file = place_of(out if form.file is None else os.path.join(out, "any"))  # which may not be there yet
        file = file if form.file is None else form.file(runs[0])
        folder.require_own([file], {file: b"clinometer"})
        folder.write_bytes(file, text.encode("utf-8"))
    return text
