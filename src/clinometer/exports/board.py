"""Two pages for a board: what was found, how sure it is, what it means and what to do next, with pictures and limits.

Every sentence follows from rows: a side is named where a verdict names it, and what the images cannot tell is said so.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from clinometer.report import wording
from clinometer.report.figures import svg_file
from clinometer.report.fonts import font_faces
from clinometer.report.gallery import FOREMOST
from clinometer.report.html import asset, environment, light_inks, style_and_script
from clinometer.report.model_card import limits_of
from clinometer.report.page import Page
from clinometer.report.sections import HUMAN, how_sure
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row, View
from clinometer.runs import Run

Paper = Literal["a4", "letter"]

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_NODE: Final = rb"node\d{8}"
_WAIT: Final = (
    "const page = document.documentElement; page.hidden = true; addEventListener('DOMContentLoaded', () => "
    "Promise.all([...document.fonts].map((font) => font.load())).then(() => { page.hidden = false; }));"
)
PATIENCE: Final = 120
"""Seconds that a browser has to print two pages."""

NAMED: Final = 6
"""Concepts that a side names; more are counted."""

_LONGEST: Final = {
    "title": 110,
    "finding": 420,
    "strongest": 260,
    "meaning": 330,
    "line": 260,
    "sure": 310,
    "limit": 330,
}
"""Characters of what may be long because a name is, so that two pages are two pages whatever a suite says."""


def board_files(run: Run, view: View, page: Page[Any], paper: Paper) -> Iterator[tuple[str, str | bytes]]:
    """Write ``board.html`` and, where there is something that prints it, ``board.pdf``."""
    html = board_html(run, view, page, paper)
    yield "board.html", html
    pdf = print_page(html)
    if pdf is not None:
        yield "board.pdf", _printed_alike(pdf, str(view.report.settings.get("created", "")))


def board_html(run: Run, view: View, page: Page[Any], paper: Paper) -> str:
    """Render the two pages as one HTML file that requests nothing from the network."""
    report, judged = view.report, page.verdicts(view)
    lead = page.lead(view)
    figure = lead.get("figure")
    drawing = base64.b64encode(svg_file(figure, light_inks())).decode("ascii") if figure else ""
    strips = page.foremost(view, judged, 2, FOREMOST)
    is_counted = any(strip["counted"] for strip in strips)
    templates = environment(page.package)
    style = f"@page {{ size: {paper}; margin: 14mm; }}\n{font_faces()}\n{asset('board.css')}"
    cards = {"model": report.model_card} | {f"encoder {name}": card for name, card in report.encoder_cards.items()}
    return templates.get_template("board.html").render(
        title=wording.shortened(report.title, _LONGEST["title"]),
        finding=wording.shortened(page.finding(view), _LONGEST["finding"]),
        strongest="" if is_counted else wording.shortened(page.strongest(view), _LONGEST["strongest"]),
        sure=[
            (name, wording.shortened(said, _LONGEST["sure"]))
            for name, said in how_sure(view, judged, with_q=False)
            if name != "The rule"
        ],
        practice=[wording.shortened(line, _LONGEST["line"]) for line in in_practice(judged)],
        meaning=wording.shortened(lead.get("meaning") or page.meaning(view), _LONGEST["meaning"]),
        steps=[wording.shortened(step, _LONGEST["line"]) for step in next_steps(view, judged)],
        marks=[mark | {"words": wording.shortened(mark["words"], 60)} for mark in lead.get("marks", ())],
        figure=drawing and f"data:image/svg+xml;base64,{drawing}",
        caption=wording.shortened(lead.get("caption", ""), _LONGEST["line"]),
        strips=strips,
        limits=[limit for limit in limits_of(page, view) if len("".join(limit)) <= _LONGEST["limit"]],
        facts=[(name, wording.shortened(value, 90)) for name, value in lead.get("facts", ())],
        hashes=[
            ("run.json", run.record.get("checksum") or "none: the run was begun by a version without checksums"),
            ("scores.parquet", run.directory.sha256("scores.parquet")),
            ("suite", run.record["suite_fingerprint"]),
            *(
                (wording.shortened(name, 40), card.get("weights_sha256") or card.get("fingerprint") or "none")
                for name, card in list(cards.items())[:4]
            ),
        ],
        versions=", ".join(f"{name} {version}" for name, version in list(run.record["versions"].items())[:6]),
        version=metadata.version("clinometer"),
        unchecked=report.unchecked,
        damaged=bool(report.damage),
        paper=paper,
        **style_and_script(style),
    )


def in_practice(judged: Sequence[Verdicts]) -> list[str]:
    """Name what leans to which side, and what is shown balanced, in the words of the verdicts."""
    lines = []
    for each in judged:
        by_words: dict[str, list[Row]] = {}
        for row in each.rows:
            if wording.leans(row) or wording.verdict_group_of(row) == "balanced":
                by_words.setdefault(each.verdict(row), []).append(row)
        opening = f"{wording.capitalised(each.symbol)}: " if len(judged) > 1 else ""
        for words, rows in by_words.items():
            rows.sort(key=lambda row: -abs(row.value))
            names = [wording.shortened(each.name(row), 44) for row in rows[:NAMED]]
            more = len(rows) - len(names)
            listed = wording.listed([*names, *([f"{more} more"] if more else [])])
            lines.append(f"{opening}{wording.capitalised(words)}: {listed}.")
    none = "No verdict names a side: nothing here says that the model leans, nor that it does not."
    return lines[:5] or [none]


def next_steps(view: View, judged: Sequence[Verdicts]) -> list[str]:
    """Return what may be done next, by what was found and what keeps it from being surer."""
    rows = [row for each in judged for row in each.rows]
    groups = [wording.verdict_group_of(row) for row in rows]
    named, unmeasured = sum(map(wording.leans, rows)), groups.count("unmeasured")
    undecided = [row for row, group in zip(rows, groups, strict=True) if group in ("undecided", "few")]
    steps = []
    if named:
        steps.append(
            "Decide for each leaning whether your use can tolerate it. If not, change the prompts, the choice of "
            "pictures or the model, then measure again: clinometer compare shows whether it helped."
        )
    if undecided:
        reach = wording.about(*(row.n_decide for row in undecided))
        beside = f", {judged[0].beside}" if judged[0].beside else ""
        each = f"{reach} {judged[0].drawn} each{beside}, by today\u2019s estimates"
        more = each if reach else "clinometer plan says how many"
        steps.append(
            f"Draw more where the images cannot tell ({len(undecided):,}): {more}. Until then, draw no conclusion."
        )
    if unmeasured:
        of = wording.count(unmeasured, judged[0].unit)
        steps.append(f"Fix what kept {of} from being measured; nothing can be said about them until then.")
    lost = sum(status != "ok" for status in view.report.samples["status"]) if "status" in view.report.samples else 0
    if lost:
        steps.append(f"Find out why {wording.count(lost, 'image is', 'images are')} missing: refusals can lean, too.")
    if len(view.encoders) == 1:
        steps.append("Read the same pictures with a second encoder; nothing has to be drawn again.")
    if view.encoders and not any(row.metric == HUMAN for row in view.scores):
        steps.append("Have people say what a sample of the pictures shows: clinometer ratings.")
    steps.append("Set limits and hold every new version of the model to them: clinometer gate.")
    return steps[:5]


# --- printing --------------------------------------------------------------------------------------------------------


def print_page(html: str) -> bytes | None:
    """Print a page as PDF by Chromium, else by WeasyPrint; None where there is neither, or neither can."""
    browser = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser:
        with tempfile.TemporaryDirectory(prefix="clinometer-", ignore_cleanup_errors=True) as folder:
            page, pdf = Path(folder, "board.html"), Path(folder, "board.pdf")
            page.write_text(_shown_with_fonts(html), "utf-8", "replace")
            command = [
                browser, "--headless", "--disable-gpu", "--disable-extensions", "--no-first-run",
                "--no-pdf-header-footer", "--virtual-time-budget=5000", f"--user-data-dir={folder}/profile",
                f"--print-to-pdf={pdf}", page.as_uri(),
            ]  # fmt: skip
            if getattr(os, "geteuid", lambda: 1)() == 0:  # as root a browser starts without its sandbox or not at all
                command.insert(1, "--no-sandbox")
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
                if printed := pdf.read_bytes():
                    return printed
    from PIL import ImageFile

    takes_truncated = ImageFile.LOAD_TRUNCATED_IMAGES
    try:
        from weasyprint import HTML
    except (ImportError, OSError):  # it is not installed, or the libraries that it needs are not there
        return None
    finally:  # it has the whole process take damaged images for whole ones
        ImageFile.LOAD_TRUNCATED_IMAGES = takes_truncated
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    os.environ["SOURCE_DATE_EPOCH"] = epoch or "0"  # fontTools writes it into a font in place of the time of printing
    try:
        return bytes(HTML(string=html).write_pdf())
    finally:
        if epoch is None:
            del os.environ["SOURCE_DATE_EPOCH"]


def _shown_with_fonts(html: str) -> str:
    """Return a page that shows nothing before its fonts are there, so that no text is laid out in another first.

    Chromium would write a font twice into the PDF where it happens to print after that.
    """
    digest = base64.b64encode(sha256(_WAIT.encode()).digest()).decode()
    html = html.replace("script-src ", f"script-src &#39;sha256-{digest}&#39; ", 1)
    return html.replace("</head>", f"<script>{_WAIT}</script></head>", 1)


def _printed_alike(pdf: bytes, created: str) -> bytes:
    """Make a PDF such that the same run prints alike.

    It has the date of its run in place of the time of printing, and Chromium's names of parts of the page, which go on
    from what the browser made before, are numbered in their order.
    """
    digits = re.sub(r"\D", "", created)[:14].ljust(14, "0").encode("ascii")
    pdf = re.sub(rb"(/(?:Creation|Mod)Date \(D:)\d{14}", rb"\g<1>" + digits, pdf)
    names = sorted(set(re.findall(_NODE, pdf)))
    numbered = {name: b"node%08d" % number for number, name in enumerate(names, 1)}
    return re.sub(_NODE, lambda found: numbered[found[0]], pdf)
