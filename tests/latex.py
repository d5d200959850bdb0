"""Documents that take in tables and figures, compiled: what a compiler complains about, and how wide the text is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

CLASSES = {
    "article": (r"\documentclass[10pt]{article}", ""),
    "acl": (
        r"\documentclass[11pt,a4paper,twocolumn]{article}",
        r"\usepackage[a4paper,margin=2.5cm,heightrounded=true]{geometry}\setlength{\columnsep}{.6cm}",
    ),
    "neurips": (r"\documentclass[10pt,letterpaper]{article}", r"\usepackage[textwidth=5.5in,textheight=9in]{geometry}"),
}
"""Width of text and size of type of these styles, which may not be passed on; the letters are Computer Modern's."""

COMPLAINTS = re.compile(r"^(?:Overfull .*|! .*|LaTeX Warning: (?:Float too large|File .* not found).*)$", re.MULTILINE)


def require_pdflatex() -> str:
    """Find pdflatex; without it a test is skipped, but fails under ``make test-rest``, which installs it."""
    found = shutil.which("pdflatex")
    if found is None and os.environ.get("REQUIRE_LATEX"):
        pytest.fail("there is no pdflatex; make latex installs it")
    if found is None:
        pytest.skip("there is no pdflatex; make latex installs it")
    return found


def complaints(style: str, files: list[Path], place: Path) -> list[str]:
    """Compile files into one document; return what LaTeX says of errors and of what reaches over an edge."""
    head, geometry = CLASSES[style]
    taken = "\n".join(f"\\input{{{file.resolve()}}}\n\\clearpage" for file in files)
    roots = "".join(f"{{{root.resolve()}/}}" for root in {file.parent for file in files})
    source = (
        f"{head}{geometry}\\usepackage{{booktabs,siunitx,graphicx}}\\graphicspath{{{roots}}}\n"
        f"\\begin{{document}}Text.\n{taken}\n\\end{{document}}\n"
    )
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{style}.tex").write_text(source)
    command = [require_pdflatex(), "-interaction=nonstopmode", f"{style}.tex"]
    environment = os.environ | {"max_print_line": "1000"}
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, errors="replace", check=False
    )
    assert (place / f"{style}.pdf").exists(), done.stdout[-2000:]
    return COMPLAINTS.findall((place / f"{style}.log").read_text(errors="replace"))
