"""A format in which verdicts are passed on, and what all of them share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from clinometer.errors import InvalidInputError
from clinometer.exports.model_cards import CardDetails, judged
from clinometer.report import wording
from clinometer.report.model_card import CardInput
from clinometer.report.rows import Row
from clinometer.report.verdicts import Verdicts
from clinometer.runs import Run


@dataclass(frozen=True)
class Format:
    """A format in which the verdicts of finished runs are passed on.

    Attributes
    ----------
    name : what ``clinometer card --format`` calls it.
    write : (runs of one model, details) → the text.
    takes : the fields of :class:`~clinometer.exports.model_cards.CardDetails` that it uses; others are refused.
    of_several : whether one text holds several runs; where not, it is of one.
    file : run → its name in the folder that is given; None where the file itself is given.
    """

    name: str
    write: Callable[[Sequence[Run], CardDetails], str]
    takes: tuple[str, ...] = ()
    of_several: bool = False
    file: Callable[[Run], str] | None = None


def yaml_text(content: Any) -> str:
    """Write YAML in the order of the content, with letters of every language."""
    return str(yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=120))


def require_some(results: Sequence[Any], run: Run) -> None:
    """Refuse to pass on nothing, in a format that has no place for reasons.

    Raises
    ------
    InvalidInputError
        No verdict rests on enough images.
    """
    if not results:
        raise InvalidInputError.undefined(
            f"{run.url}: no verdict rests on enough images to be passed on; clinometer report {run.url} says why"
        )


def measured_verdicts(run: CardInput) -> list[tuple[Verdicts, Row]]:
    """Return verdicts that rest on enough to be passed on without their reasons."""
    return [
        (verdicts, row)
        for verdicts, row in judged(run)
        if row.defined and not wording.not_measured(row) and not wording.too_few(row)
    ]
