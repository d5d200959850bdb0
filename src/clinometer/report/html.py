"""Assemble the page: sections → templates → one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources
from math import nan
from typing import Any, Final, TypeAlias

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from clinometer._secrets import masked
from clinometer.report import wording
from clinometer.report.fonts import font_faces
from clinometer.report.page import CHAPTERS, Page
from clinometer.report.verdicts import MOST_LISTED, Verdicts
from clinometer.report.view import AT_A_VERDICT, ReportInput, Row


def render_page(report: ReportInput, page: Page[Any]) -> str:
    """Render the report of a run, in the way of its study, as one self-contained HTML page.

    The page requests nothing from the network, runs only the script whose hash its own policy names, and escapes
    every name, prompt and reason. The same input gives the same page, byte for byte.
    """
    view = page.view.of(report)
    judged = page.verdicts(view)
    for row in (row for each in judged for row in each.rows[:MOST_LISTED]):
        view.album.at_verdict(row.concept)  # before the gallery, which shows the same pictures
    strips = page.foremost(view, judged, 2, AT_A_VERDICT)
    masthead, *others = ((section, values) for section in page.sections if (values := section.build(view)) is not None)
    chapters = {name: [(section, values) for section, values in others if section.chapter == name] for name in CHAPTERS}
    template = environment(page.package).get_template("base.html")
    return template.render(
        view=view,
        masthead=masthead,
        chapters=[(name, *CHAPTERS[name], sections) for name, sections in chapters.items() if sections],
        strips=strips,
        title=report.title,
        **style_and_script(page_style(), asset("page.js") + asset("script.js")),
        unchecked=report.unchecked,
        damage=report.damage,
        notices=_notices(report, judged),
    )


def _notices(report: ReportInput, judged: Sequence[Verdicts]) -> list[str]:
    """Gather what is said below the finding: of concepts only where no list of verdicts has a place for each."""
    listed = {"", *(row.concept for each in judged for row in each.rows)}
    if set(report.concept_notices) - listed:
        return [*report.notices, *report.notices_in_short]
    return [*report.notices, *(f"{wording.capitalised(said)}." for said in report.concept_notices.get("", ()))]


_NOTEBOOK: Final = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string("""
<div>
<p><strong>{{ title }}</strong>{% for line in about %}<br>{{ line }}{% endfor %}</p>
{% for line in said %}
<p>{{ line }}</p>
{% endfor %}
{% for caption, columns, rows in tables %}
<table>
<caption>{{ caption }}</caption>
<thead><tr>{% for name in columns %}<th>{{ name }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in rows[:most] %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
{% if rows | length > most %}
<p>{{ rows | length - most }} more are not shown.</p>
{% endif %}
{% endfor %}
</div>
""")

WrittenTable: TypeAlias = tuple[str, Sequence[str], Sequence[Sequence[str]]]
"""A table in words: its caption, its headings, and its rows."""


def notebook_html(
    title: str, about: Iterable[str] = (), said: Iterable[str] = (), tables: Iterable[WrittenTable] = (), most: int = 60
) -> str:
    """Write what a notebook shows of a finding: what it is of, what is said, and tables of at most so many rows."""
    shown_tables = list(tables)
    lines = [[masked(line) for line in part if line] for part in (about, said)]
    return _NOTEBOOK.render(title=title, about=lines[0], said=lines[1], tables=shown_tables, most=most).strip()


def asset(name: str) -> str:
    """Read a file of the templates' folder."""
    return (resources.files("clinometer.report") / "templates" / name).read_text(encoding="utf-8")


def light_inks() -> dict[str, str]:
    """Look up the colour of each ink of the light page, on white paper, as ``#rrggbb``."""
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", asset("style.css").partition("}")[0])) | {"paper": "#ffffff"}


def page_style(own: str = "") -> str:
    """Return the style sheet of a page, its fonts in it, and what the page has of its ``own`` after it."""
    return "\n".join(filter(None, (font_faces(), asset("style.css"), own)))


def style_and_script(style: str, script: str = "") -> dict[str, str]:
    """Return what a page's head is made of: ``style``, ``script``, and the ``policy`` that allows these two."""
    return {"style": Markup(style), "script": Markup(script), "policy": policy(style, script)}


def policy(style: str, script: str) -> str:
    """Allow the page its own style and script, by hash, and pictures and fonts inside the file; nothing else."""
    return (
        f"default-src 'none'; img-src data:; font-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def breakable(text: str) -> Markup:
    """Allow a line break between a number and what follows it, and none within either.

    >>> breakable("0.3 [0.1, 0.5]")
    Markup('0.3 <span class="whole">[0.1, 0.5]</span>')
    """
    number, space, rest = text.partition(" ")
    return Markup('{} <span class="whole">{}</span>').format(number, rest) if space else escape(text)


def shown(value: Any) -> Any:
    """Return what a template shows of a value: a text without passwords and keys."""
    return masked(value) if type(value) is str and not value.startswith("data:") else value


@cache
def environment(package: str) -> Environment:
    """Load a package's templates before those of all studies, with everything that is put into them escaped."""
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("clinometer.report")]),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= FILTERS
    return environment


def _number(value: Any) -> float:
    """Return a row's number, or a number itself; NaN for nothing."""
    return value.value if isinstance(value, Row) else nan if value is None else float(value)


def _interval(row: Row | None, digits: int = 2, over: str = "images") -> str:
    if row is None:
        return ""
    low, high = row.ends(over)
    return wording.interval(low, high, digits)


FILTERS: Final[dict[str, Callable[..., Any]]] = {
    "breakable": breakable,
    "number": lambda value, digits=2: wording.number(_number(value), digits),
    "signed": lambda value, digits=2: wording.signed(_number(value), digits),
    "share": lambda value: wording.percent(_number(value)),
    "excess": lambda value: wording.signed_percent(_number(value)),
    "interval": _interval,
    "estimate": lambda row, digits=2, **how: breakable(wording.estimate(row, digits, sign=False, **how)),
    "signed_estimate": lambda row, digits=2, **how: breakable(wording.estimate(row, digits, **how)),
    "whole": lambda row: f"{row.value:,.0f}" if row and row.defined else wording.MISSING,
    "null": lambda row, digits=2: wording.number(row.null, digits) if row else wording.MISSING,
    "p": lambda row: wording.bare_probability(row.p) if row else "",
    "q": lambda row: wording.bare_probability(row.q) if row else "",
    "p_words": lambda row: wording.probability(row.p) if row else "",
    "q_words": lambda row: wording.probability(row.q, "q") if row else "",
    "lean": wording.verdict_group_of,
    "verdict": wording.verdict_words,
    "said": wording.said_of,
    "note": wording.note,
    "bounds": wording.bounds_words,
    "needed": lambda row: wording.needed(row, beside=wording.IN_PROPORTION) if row else "",
    "amount": wording.count,
    "listed": wording.listed,
    "reason": lambda row: wording.reason_words(row) if row else "",
    "capitalised": wording.capitalised,
}
"""How templates write rows. A row that is not there is written as one without a number."""
