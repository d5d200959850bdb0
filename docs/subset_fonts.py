"""Subset the fonts of the pages from Adobe's npm packages; run it again where a page needs another character.

    npm install --no-save --prefix build/fonts source-sans@3.52.0 source-serif@4.5.1 source-code-pro@2.42.0 \
        @fontsource/noto-sans-symbols-2@5.3.0
    python docs/subset_fonts.py build/fonts/node_modules

All are under the SIL Open Font License 1.1. Those named Source reserve that name, which a modified version must not
bear, so the subsets are named Clinometer Sans, Serif, Mono and Marks. Sans and serif stay variable in weight, from 400
to 700. fontTools, which matplotlib brings, needs brotli to write woff2.
"""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont
from fontTools.varLib import instancer

FONTS = Path(__file__).parents[1] / "src" / "clinometer" / "report" / "fonts"
ASCII = range(0x20, 0x7F)
LATIN = [*ASCII, *range(0xA0, 0x180), *map(ord, "ȘșȚțẞ")]
"""Basic Latin, Latin-1 and Latin Extended-A: the letters of most names in European languages."""
PUNCTUATION = [*range(0x2010, 0x2027), 0x202F, *map(ord, "‰′″‹›€™−")]
SYMBOLS = [*range(0x391, 0x3CA), *map(ord, "⅓⁺⁻ⁿ₁₂√∞≈≠≤≥←↑→↓↔↕▸◂\u0302\u0303\u0304")]
"""Greek, and what formulas and arrows are written with; what a font lacks is left to the reader's machine."""
MARKS = [*map(ord, "■▲▶▷▼◀◆◇○●★✕✖✚✛⬟⬢")]
"""The shapes of marks, as the keys of figures have them."""
LICENSES = ("source-sans/LICENSE.md", "@fontsource/noto-sans-symbols-2/LICENSE")
"""Source Serif and Source Code Pro have the first one, but for the years."""


def subset_font(source: Path, name: str, characters: list[int], axes: dict[str, object]) -> Path:
    """Keep some characters and axes of a variable font, rename it, and write it as woff2."""
    instance = io.BytesIO()
    whole = TTFont(source)
    (instancer.instantiateVariableFont(whole, axes) if axes else whole).save(instance)
    font = TTFont(instance)  # the subsetter expects tables as a file has them
    options = subset.Options(layout_features=["kern", "mark", "mkmk", "ccmp", "locl", "tnum", "lnum"])
    options.name_IDs = [0, 1, 2, 3, 4, 5, 6, 13, 14]
    options.notdef_outline = options.recommended_glyphs = True
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=characters)
    subsetter.subset(font)
    names = {1: name, 3: name, 4: name, 6: name.replace(" ", ""), 16: name}
    for record in font["name"].names:
        if record.nameID in names:
            record.string = names[record.nameID]
    font.flavor = "woff2"
    target = FONTS / f"{name.rsplit(maxsplit=1)[-1].lower()}.woff2"
    font.save(target, reorderTables=True)
    missing = "".join(sorted(chr(code) for code in set(characters) - set(font.getBestCmap())))
    said = f"{target.name}: {target.stat().st_size:,} bytes, {len(font.getBestCmap())} characters, without {missing}"
    sys.stdout.write(f"{said}\n")
    return target


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("packages", type=Path, help="folder of the unpacked packages")
    packages = parser.parse_args().packages
    text, weights = [*LATIN, *PUNCTUATION], (400, 700)
    symbols = packages / "@fontsource/noto-sans-symbols-2/files/noto-sans-symbols-2-symbols-400-normal.woff2"
    subset_font(
        packages / "source-sans/VF/SourceSans3VF-Upright.ttf", "Clinometer Sans", [*text, *SYMBOLS], {"wght": weights}
    )
    serif = packages / "source-serif/VAR/SourceSerif4Variable-Roman.ttf"
    subset_font(serif, "Clinometer Serif", text, {"wght": weights, "opsz": 24})
    subset_font(packages / "source-code-pro/VF/SourceCodeVF-Upright.ttf", "Clinometer Mono", [*ASCII], {"wght": 400})
    subset_font(symbols, "Clinometer Marks", MARKS, {})
    (FONTS / "OFL.txt").write_text("\n\n".join((packages / name).read_text("utf-8") for name in LICENSES), "utf-8")
