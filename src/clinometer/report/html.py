"""Assemble the page: sections → templates → one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from clinometer.report.inputs import ReportInput
from clinometer.report.studies import page_of


def render_html(report: ReportInput) -> str:
    """Render the report of a run as one self-contained HTML page.

    The page asks the network for nothing, runs only the script whose hash its own policy names, and escapes
    every name, prompt and reason. The same input gives the same page, byte for byte.
    """
    held = page_of(report.suite)
    view = held.view.of(report)
    sections = [(section, section.build(view)) for section in held.sections]
    style, script = asset("style.css"), asset("script.js")
    page = environment().get_template("base.html")
    return page.render(
        sections=[(section, said) for section, said in sections if said is not None],
        title=report.title,
        style=Markup(style),
        script=Markup(script),
        policy=policy(style, script),
        damage=report.damage,
    )


def write_report(report: ReportInput, path: str | Path) -> Path:
    """Write the page and return its path."""
    target = Path(path)
    target.write_text(render_html(report), encoding="utf-8", errors="replace")
    return target


def asset(name: str) -> str:
    """Read a file of the templates' folder."""
    return (resources.files("clinometer.report") / "templates" / name).read_text(encoding="utf-8")


def policy(style: str, script: str) -> str:
    """Allow the page its own style and script, by hash, and pictures from inside the file; nothing else."""
    return (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; script-src {_hash(script)}; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def breakable(text: str) -> Markup:
    """A number and what follows it, which may stand on a line of its own but is not broken itself.

    >>> breakable("0.3 [0.1, 0.5]")
    Markup('0.3 <span class="whole">[0.1, 0.5]</span>')
    """
    number, space, rest = text.partition(" ")
    return Markup('{} <span class="whole">{}</span>').format(number, rest) if space else escape(text)


@cache
def environment() -> Environment:
    """The templates, with everything that is put into them escaped."""
    environment = Environment(
        loader=PackageLoader("clinometer.report"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["breakable"] = breakable
    return environment
