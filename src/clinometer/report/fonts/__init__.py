"""The fonts of the pages: subsets that travel inside a page, so that it looks the same on every machine.

``docs/subset_fonts.py`` makes them, and ``OFL.txt`` is their licence. A character that they lack is drawn by the
reader's machine.
"""

from __future__ import annotations

import base64
from functools import cache
from importlib import resources
from typing import Final

FACES: Final = {"sans": "400 700", "serif": "400 700", "mono": "400", "marks": "400"}
"""The weights of each; ``marks`` has the shapes of marks alone."""


@cache
def font_faces(*names: str) -> str:
    """Return the rules that embed fonts in a style sheet, as ``Clinometer Sans`` and so on; all without names."""
    folder = resources.files("clinometer.report") / "fonts"
    rules = []
    for name in names or FACES:
        font = base64.b64encode((folder / f"{name}.woff2").read_bytes()).decode("ascii")
        rules.append(
            f'@font-face{{font-family:"Clinometer {name.title()}";font-weight:{FACES[name]};'
            f'src:url(data:font/woff2;base64,{font}) format("woff2")}}'
        )
    return "\n".join(rules)
