"""Prompt lists of other audits, read from their own files as they are: FairPro's and MAGBIG's.

=================================================== ===============================================================
file                                                what becomes of it
=================================================== ===============================================================
``fairpro_prompts.csv``                             FairPro (arXiv 2512.04981): its column ``occupation``; in a second
                                                    wording where ``prompts_occupations_rewrite.txt`` lies beside it.
                                                    Its other columns name a gender, an age or a race, so what they
                                                    draw is no choice of the model's, and they are left out.
``occ_LANGUAGE.csv``, ``adj_LANGUAGE.csv``          MAGBIG (ACL 2025): its columns ``name`` and ``prompt``; in a second
                                                    wording where the folder ``indirect:gender_neutral`` beside it has
                                                    the file too. The language is that of the file's name.
=================================================== ===============================================================

The groups, their prompts and words are those of the suite ``mcas``, in English.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clinometer._messages import named_in_a_line
from clinometer.errors import SuiteError
from clinometer.suites.reading import read_text

LANGUAGES: Final = {
    "arabic": "ar", "chinese": "zh", "english": "en", "french": "fr", "german": "de", "italian": "it", "japanese": "ja",
    "korean": "ko", "russian": "ru", "spanish": "es",
}  # fmt: skip
"""Languages of MAGBIG's files, by their names."""

REWRITTEN: Final = "prompts_occupations_rewrite.txt"
INDIRECT: Final = "indirect:gender_neutral"
FAIRPRO: Final = "FairPro"
MAGBIG: Final = "MAGBIG"
_SOURCES: Final = {
    FAIRPRO: "Park et al. (2025), arXiv 2512.04981, github.com/nahyeonkaty/fairpro; groups of the suite mcas.",
    MAGBIG: "Friedrich et al. (2025), MAGBIG, github.com/felifri/MAGBIG; groups of the suite mcas, in English.",
}


def suite_from_list(path: Path, groups: Mapping[str, Any]) -> dict[str, Any]:
    """Read a list as the mapping of a suite; ``groups`` : the keys ``groups`` and ``axis`` of a leaning suite.

    Raises
    ------
    SuiteError
        It is neither list, or a row lacks what it must have: the message names the file, the line and the column.
    """
    rows = _rows(path)
    columns = list(rows[0][1]) if rows else []
    if "occupation" in columns:
        audit, language, wordings = FAIRPRO, "en", _of_fairpro(path, rows)
    elif {"name", "prompt"} <= set(columns):
        audit, (language, wordings) = MAGBIG, _of_magbig(path, rows)
    else:
        raise SuiteError(
            f"{path}: line 1: found the columns {named_in_a_line(columns)}; expected occupation (FairPro), or name and "
            "prompt (MAGBIG)"
        )
    names = list(next(iter(wordings.values())))
    targets = [
        {"name": name, "wordings": {wording: prompts[name] for wording, prompts in wordings.items()}}
        if len(wordings) > 1
        else {"name": name, "prompt": next(iter(wordings.values()))[name]}
        for name in names
    ]
    return {
        "name": path.stem, "title": f"{audit}: {path.stem}", "language": language, "source": _SOURCES[audit],
        "description": f"{len(names)} prompts that {path.name} lists, in {' and '.join(wordings)} wording.",
        **groups, "categories": {"listed": {"label": "As listed", "targets": targets}},
    }  # fmt: skip


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(
        io.StringIO(read_text(path).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}"), newline=""), strict=True
    )
    try:
        return [(reader.line_num, {key: value or "" for key, value in row.items() if key}) for row in reader]
    except csv.Error as error:
        raise SuiteError(f"{path}: after line {reader.line_num}: not valid CSV: {error}") from error


def _column(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]], name: str, prompt: str) -> dict[str, str]:
    """One prompt of each name."""
    found: dict[str, str] = {}
    for line, row in rows:
        for column in (name, prompt):
            if not row[column].strip():
                raise SuiteError(f"{path}: line {line}: {column}: it is empty")
        key = row[name].strip()
        if key in found:
            raise SuiteError(f"{path}: line {line}: {name}: {key!r} stands there twice; remove one")
        found[key] = row[prompt].strip()
    return found


def _of_fairpro(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> dict[str, dict[str, str]]:
    prompts = _column(path, rows, "occupation", "occupation")
    named = {prompt.removeprefix("an ").removeprefix("a "): prompt for prompt in prompts}
    beside = path.parent / REWRITTEN
    if not beside.is_file():
        return {"occupation": named}
    lines = [line.strip() for line in read_text(beside).splitlines() if line.strip()]
    if len(lines) != len(named):
        raise SuiteError(
            f"{beside}: found {len(lines)} prompts, expected one for each of the {len(named)} in {path.name}"
        )
    return {"occupation": named, "rewritten": dict(zip(named, lines, strict=True))}


def _of_magbig(path: Path, rows: Sequence[tuple[int, Mapping[str, str]]]) -> tuple[str, dict[str, dict[str, str]]]:
    language = next((tag for name, tag in LANGUAGES.items() if name in path.stem.lower().split("_")), "")
    if not language:
        raise SuiteError(
            f"{path}: its name tells no language; expected such as occ_german.csv, of {', '.join(LANGUAGES)}"
        )
    wordings = {"direct": _column(path, rows, "name", "prompt")}
    beside = path.parent / INDIRECT / path.name
    if beside.is_file():
        indirect = _column(beside, _rows(beside), "name", "prompt")
        if indirect.keys() != wordings["direct"].keys():
            raise SuiteError(f"{beside}: it has other names than {path.name}; expected the same")
        wordings["indirect"] = indirect
    return language, wordings
