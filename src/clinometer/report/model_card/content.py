"""The section of a model card: what was measured and with what, what came of it, and what that cannot say.

All words and numbers are the report's own. Nothing is worded here but headings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from clinometer.report import wording
from clinometer.report.inputs import ReportInput
from clinometer.report.model_card.limits import limits_of
from clinometer.report.model_card.markdown import environment, fenced, one_line
from clinometer.report.page import Judged, Page, Told, Verdicts, unmeasured
from clinometer.report.sections.masthead import facts
from clinometer.report.sections.method import measured_how
from clinometer.report.sections.refusals import refusal_words
from clinometer.report.verdict_words import VERDICT_GROUPS, counted, leans, verdict_group_of
from clinometer.report.view import PairView, View
from clinometer.runs.protocol import Departure
from clinometer.suites import Suite

ROWS: Final = 20
"""Verdicts of a run that a card lists; the others are counted."""


@dataclass(frozen=True)
class CardInput:
    """A run as a card shows it.

    Attributes
    ----------
    report : what its report is made from.
    page : how its study is shown.
    command : the command that makes the run again.
    missing : what the command takes that the run does not name; empty where it names all.
    """

    report: ReportInput
    page: Page
    command: str
    missing: str = ""


def section_of(runs: Sequence[CardInput], *, rows: int, version: str) -> str:
    """The section in Markdown, without the markers that tell it from its surroundings.

    Parameters
    ----------
    runs : what it shows, one after the other.
    rows : verdicts of each quantity that are listed.
    version : the version of clinometer that writes it.
    """
    template = environment().get_template("model_card.md")
    unchecked = [(run.report.title, run.report.unchecked) for run in runs if run.report.unchecked]
    return template.render(runs=[_values(run, rows) for run in runs], unchecked=unchecked, version=version).strip()


def listed_first(verdicts: Verdicts, rows: int) -> tuple[list[Judged], list[Judged]]:
    """The rows that a card lists, those that name a side first and the stronger before the weaker; and the others."""

    def order(one: Judged) -> tuple[int, float]:
        place = 0 if leans(one.row) else 1 + VERDICT_GROUPS.index(verdict_group_of(one.row))
        return place, -abs(one.row.value) if one.row.defined else 0.0

    ranked = sorted(verdicts.rows, key=order)
    return ranked[:rows], ranked[rows:]


def _values(run: CardInput, rows: int) -> dict[str, Any]:
    view = run.page.view.of(run.report)
    told: Told = run.page.told(view)
    return {
        "title": run.report.title,
        "finding": told.finding,
        "strongest": told.strongest,
        "facts": _facts(view),
        "verdicts": [_table(verdicts, rows) for verdicts in told.verdicts],
        "warnings": _warnings(view, told),
        "departures": [Departure(**departure).sentence for departure in run.report.departures or ()],
        "limits": limits_of(run.page, view),
        "missing": run.missing,
        "command": fenced(one_line(run.command), "sh"),
        "measured_by": _versions(view).get("clinometer", "of an unknown version"),
        "asked": _asked(run.report.suite),
    }


def _asked(suite: Suite) -> str:
    return f"{suite.description} Source: {suite.source}" if suite.source else suite.description or suite.title


def _facts(view: View) -> list[tuple[str, str]]:
    """What the report's first screen lists, then what pins the models, their settings and the software."""
    how = measured_how(view)
    settings = view.report.settings
    pinned = [("Generator", _in_a_cell(how["generator"]["identity"]))]
    pinned += [("Settings", _in_a_cell(how["generator"]["settings"]))]
    pinned += [(f"Encoder {card['name']}", _in_a_cell(card["identity"])) for card in how["encoders"]]
    more = [
        ("Images asked for", str(settings.get("images", ""))),
        ("Suite fingerprint", str(settings.get("suite fingerprint", ""))),
        *pinned,
        ("Software", _in_a_cell(list(_versions(view).items()))),
    ]
    return [*facts(view), *((name, value) for name, value in more if value)]


def _versions(view: View) -> dict[str, str]:
    return {name: str(version) for name, version in (view.report.settings.get("versions") or {}).items() if version}


def _in_a_cell(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in pairs if name != "name")


def _table(verdicts: Verdicts, rows: int) -> dict[str, Any]:
    first, rest = listed_first(verdicts, rows)
    counts = f"All together: {_counted(verdicts.rows, verdicts)}."
    return {
        "quantity": f"{verdicts.symbol}: {verdicts.meaning}",
        "head": (wording.capitalised(verdicts.unit), verdicts.symbol, "95 % interval", "q", "Verdict", "Note"),
        "rows": [
            (one.name, one.value or wording.MISSING, Markup(one.interval), one.q, one.verdict, "; ".join(one.notes))
            for one in first
        ],
        "counted": f"{counts} {len(rest):,} of them are not listed: {_counted(rest, verdicts)}." if rest else counts,
    }


def _counted(rows: Sequence[Judged], verdicts: Verdicts) -> str:
    return counted((one.row for one in rows), verdicts.label)


def _warnings(view: View, told: Told) -> list[str]:
    """What the report says where something is missing: files, verdicts, pictures."""
    missing = [unmeasured([one.row for one in verdicts.rows], verdicts.unit) for verdicts in told.verdicts]
    refusals = refusal_words(view) if isinstance(view, PairView) else ""
    damage = [f"Part of this run is missing, damaged or has changed: {line}" for line in view.report.damage]
    lacking = [f"Not measured: {reasons}." for reasons in dict.fromkeys(missing) if reasons]
    return [*damage, *lacking, *([refusals] if refusals else [])]
