"""Draw what docs/gallery.md shows: small audits of the reference model, Chromium's view of their reports, an explorer.

    python docs/draw_gallery.py RUNS    runs that are finished in RUNS are not drawn again: ten minutes otherwise

Needs Chromium on the PATH or in $CHROMIUM, as the tests do.
"""

from __future__ import annotations

import argparse
import io
import os
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

import clinometer as cm
from clinometer.web.explorer import write_site

PICTURES = Path(__file__).parent / "images/gallery"
EXPLORER = Path(__file__).parent / "explorer"
WIDTH, HEIGHT, DRAWN = 1280, 860, 960
"""Of the window, and how wide a picture is kept."""
AUDITS = {
    "leaning": {"suite": "reference"},
    "fewer-steps": {"suite": "reference", "steps": 6},
    "intersections": {"suite": "reference-intersections", "concepts": 3, "images": 12},
    "editing": {"suite": "downstream/editing-reference", "images": 4},
}
VIEWS = {
    "leaning": ("leaning/report.html", ""),
    "pictures": ("leaning/report.html", "gallery"),
    "planted": ("leaning/report.html", "planted"),
    "comparison": ("comparison/comparison.html", ""),
    "intersections": ("intersections/report.html", ""),
    "editing": ("editing/report.html", ""),
}
"""Of each picture its page, and the section that is shown; without one, the top of the page."""


def draw(page: Page, address: str, section: str) -> Image.Image:
    """Take a picture of what a window shows of a page, from its top or from the top of an opened section."""
    page.goto(address)
    if not section:
        return Image.open(io.BytesIO(page.screenshot()))
    page.add_style_tag(
        content="* { content-visibility: visible !important; } nav { display: none !important; }"
        ".head { position: static !important; }"
    )
    page.evaluate(
        """async id => { const section = document.getElementById(id);
            for (let part = section; part; part = part.parentElement) part.open = true;
            for (const part of [...section.querySelectorAll("details")].slice(0, 2)) part.open = true;
            for (const picture of section.querySelectorAll("img")) picture.loading = "eager";
            await Promise.all([...section.querySelectorAll("img")].map((picture) => picture.decode())); }""",
        section,
    )
    seen = Image.open(io.BytesIO(page.locator(f"#{section}").screenshot()))
    return seen.crop((0, 0, seen.width, min(seen.height, HEIGHT)))


def main() -> None:
    """Audit what is not there yet, then draw all pictures again."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, help="where the runs are, or are put")
    runs = parser.parse_args().runs.resolve()
    for name, asked in AUDITS.items():
        cm.audit(out=runs / name, **asked)
    cm.compare(runs / "leaning", runs / "fewer-steps", out=runs / "comparison")
    PICTURES.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as player:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = player.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, bypass_csp=True)
        for name, (file, section) in VIEWS.items():
            seen = draw(page, (runs / file).as_uri(), section).convert("RGB")
            kept = seen.resize((DRAWN, round(seen.height * DRAWN / seen.width)), Image.Resampling.LANCZOS)
            kept.save(PICTURES / f"{name}.webp", quality=80, method=6)
        browser.close()
    shutil.rmtree(EXPLORER, ignore_errors=True)
    write_site([str(runs / "leaning")], EXPLORER, runs / "cache", images=3, has_reports=False)


if __name__ == "__main__":
    main()
