"""The section of a model card: what was measured and with what, what came of it, and what that cannot say.

All words and numbers are the report's own. Nothing is worded here but headings.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html.parser import HTMLParser
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from clinometer._messages import printable
from clinometer.report import wording
from clinometer.report.html import environment as page_environment
from clinometer.report.page import Page
from clinometer.report.readers import reader_table
from clinometer.report.rows import Row
from clinometer.report.sections import facts, measured_how, refusal_words
from clinometer.report.verdicts import Verdicts, unmeasured
from clinometer.report.view import PairView, ReportInput, View
from clinometer.report.wording import VERDICT_GROUPS, counted, leans, verdict_group_of
from clinometer.runs.record import Departure

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
    page: Page[Any]
    command: str
    missing: str = ""

    @cached_property
    def view(self) -> Any:
        """The run as the sections of its page see it."""
        return self.page.view.of(self.report)

    @cached_property
    def verdicts(self) -> Sequence[Verdicts]:
        """What is judged, one list for each quantity."""
        return self.page.verdicts(self.view)


def section_of(runs: Sequence[CardInput], *, rows: int, version: str) -> str:
    """Return the section in Markdown, without the markers that tell it from its surroundings.

    Parameters
    ----------
    runs : what it shows, one after the other.
    rows : verdicts of each quantity that are listed.
    version : the version of clinometer that writes it.
    """
    template = environment().get_template("model_card.md")
    unchecked = [(run.report.title, run.report.unchecked) for run in runs if run.report.unchecked]
    return template.render(runs=[_values(run, rows) for run in runs], unchecked=unchecked, version=version).strip()


def listed_first(verdicts: Verdicts, rows: int) -> tuple[list[Row], list[Row]]:
    """Split into the rows that a card lists, those that name a side first, then the stronger ones; and the others."""

    def order(row: Row) -> tuple[int, float]:
        place = 0 if leans(row) else 1 + VERDICT_GROUPS.index(verdict_group_of(row))
        return place, -abs(row.value) if row.defined else 0.0

    ranked = sorted(verdicts.rows, key=order)
    return ranked[:rows], ranked[rows:]


def _values(run: CardInput, rows: int) -> dict[str, Any]:
    view: View = run.view
    # list the facts of the report's first screen, then what pins the models, their settings and the software
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
    return {
        "title": run.report.title,
        "finding": run.page.finding(view),
        "strongest": run.page.strongest(view),
        "facts": [*facts(view), *((name, value) for name, value in more if value)],
        "verdicts": [_table(verdicts, rows) for verdicts in run.verdicts],
        "readers": reader_table(view),
        "warnings": _warnings(run),
        "departures": [Departure(**departure).sentence for departure in run.report.departures or ()],
        "limits": limits_of(run.page, view),
        "missing": run.missing,
        "command": fenced(one_line(run.command), "sh"),
        "measured_by": _versions(view).get("clinometer", "of an unknown version"),
        "asked": (
            f"{run.report.suite.description} Source: {run.report.suite.source}"
            if run.report.suite.source
            else run.report.suite.description or run.report.suite.title
        ),
    }


def _versions(view: View) -> dict[str, str]:
    return {name: str(version) for name, version in (view.report.settings.get("versions") or {}).items() if version}


def _in_a_cell(pairs: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{name}: {value}" for name, value in pairs if name != "name")


def _table(verdicts: Verdicts, rows: int) -> dict[str, Any]:
    first, rest = listed_first(verdicts, rows)
    counts = f"In total: {counted(verdicts.rows, verdicts.label)}."
    others = f" {len(rest):,} of them are not listed: {counted(rest, verdicts.label)}." if rest else ""
    return {
        "quantity": f"{verdicts.title}: {verdicts.meaning}",
        "head": (
            wording.capitalised(verdicts.heading or verdicts.unit), verdicts.title, "95 % interval", "q", "Verdict",
            "Note",
        ),
        "rows": [
            (
                verdicts.name(row), verdicts.value(row) or wording.MISSING, Markup(verdicts.interval(row)),
                wording.bare_probability(row.q), verdicts.verdict(row), "; ".join(verdicts.notes_of(row)),
            )
            for row in first
        ],
        "counted": counts + others,
    }  # fmt: skip


def _warnings(run: CardInput) -> list[str]:
    """Gather what the report says where something is missing: files, verdicts, pictures."""
    missing = [unmeasured(verdicts.rows, verdicts.unit) for verdicts in run.verdicts]
    refusals = refusal_words(run.view) if isinstance(run.view, PairView) else ""
    damage = [f"Part of this run is missing, damaged or has changed: {line}" for line in run.report.damage]
    lacking = [f"Not measured: {reasons}." for reasons in dict.fromkeys(missing) if reasons]
    return [*damage, *lacking, *([refusals] if refusals else [])]


LIMITS = "method-limits"
"""The id of the section that has the limits, in a list of the class ``limits``."""


def limits_of(page: Page[Any], view: View) -> list[tuple[str, str]]:
    """Return the limits in the order and the words of the page: what stands out of each, and the rest.

    None of a study whose page has no such section.
    """
    section = next((section for section in page.sections if section.id == LIMITS), None)
    values = section.build(view) if section is not None else None
    if section is None or values is None:
        return []
    names = [f"{section.template}.html", f"sections/{section.template}.html"]
    reader = _Limits()
    reader.feed(page_environment(page.package).select_template(names).render(s=values, view=view))
    reader.close()
    return [(" ".join(lead.split()), " ".join(rest.split())) for lead, rest in reader.limits]


class _Limits(HTMLParser):
    """Reads the list: what is strong leads an item, all else follows it."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.limits: list[list[str]] = []
        self._inside = self._is_item = self._is_lead = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "ul":
            self._inside = ("class", "limits") in attrs
        elif tag == "li" and self._inside:
            self.limits.append(["", ""])
            self._is_item = True
        elif tag == "strong":
            self._is_lead = True

    def handle_endtag(self, tag: str) -> None:
        if tag == "ul":
            self._inside = False
        elif tag == "li":
            self._is_item = False
        elif tag == "strong":
            self._is_lead = False

    def handle_data(self, data: str) -> None:
        if self._is_item:
            self.limits[-1][0 if self._is_lead else 1] += data


_ENTITIES: Final = {ord(character): f"&#{ord(character)};" for character in "|$\\`~"} | {
    ord("&"): "&amp;",
    ord("<"): "&lt;",
    ord(">"): "&gt;",
}
_BACKSLASHED: Final = re.compile(r"[*\[\]]|(?<![^\W_])_|_(?![^\W_])")
"""What begins emphasis or a link; an underscore between letters begins nothing."""

_LEADING: Final = re.compile(r"^([+=-]+)(?=\s|$|[=-])|(?<!\S)(#+)|^(\d{1,9})([.)])(?=\s|$)")
"""What would begin a heading, a list or a rule, were it the first word of a line; or end a heading."""


def escaped(text: object) -> str:
    r"""Return text on one line in which Markdown and HTML find nothing, in a table's cell too.

    Entities stand for what HTML, tables, code and mathematics are written with: CommonMark reads no structure in them,
    and readers differ in what they make of a backslash.

    >>> escaped("a_b _c | <b>`x`\n# y")
    'a_b \\_c &#124; &lt;b&gt;&#96;x&#96; &#35; y'
    >>> escaped("# a"), escaped("1. a"), escaped("+0.30"), escaped("- ")
    ('&#35; a', '1&#46; a', '+0.30', '&#45;')
    """
    line = one_line(text).translate(_ENTITIES)
    return _LEADING.sub(_as_entities, _BACKSLASHED.sub(r"\\\g<0>", line))


def _as_entities(found: re.Match[str]) -> str:
    if found[3]:
        return f"{found[3]}&#{ord(found[4])};"
    return "".join(f"&#{ord(character)};" for character in found[0])


def one_line(text: object) -> str:
    r"""Return text without characters that are not shown, its white space as single spaces.

    >>> one_line("a\n\n b\x07")
    'a b\ufffd'
    """
    return printable(" ".join(str(text).split()))


def fenced(text: str, language: str = "") -> Markup:
    """Return a block of code that its text cannot end.

    >>> print(fenced("a ``` b", "sh"))
    ````sh
    a ``` b
    ````
    """
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return Markup(f"{fence}{language}\n{text}\n{fence}")


@cache
def environment() -> Environment:
    """Return the templates of Markdown; whatever is put into them is escaped, unless it is Markdown already."""

    def finalize(value: Any) -> Any:
        return value if isinstance(value, Markup) else escaped(value)

    environment = Environment(
        loader=PackageLoader("clinometer.report"),
        autoescape=False,
        finalize=finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cells"] = cells
    return environment


def cells(texts: Iterable[object]) -> Markup:
    """Return a row of a table, of texts and of what is Markdown already."""
    return Markup(f"| {' | '.join(text if isinstance(text, Markup) else escaped(text) for text in texts)} |")
