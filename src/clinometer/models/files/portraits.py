"""Portraits that are there already, to be edited or classified: a folder with a manifest, or one of a face database.

The file names of the Chicago Face Database and of sets that follow it say who is shown::

    CFD-WF-001-003-N.jpg      race (A, B, L, W, I, M) and gender (F, M), person, picture, expression

with the expressions N (neutral), A (angry), F (fearful), HC (happy, mouth closed) and HO (happy, mouth open). The
database itself may not be passed on, and nothing of it is here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from clinometer.errors import ImportManifestError, InvalidInputError
from clinometer.models.abilities import Priced, offers
from clinometer.models.files.folder import NAMES, ManifestRow, read_manifest
from clinometer.models.files.source import FolderSource
from clinometer.models.protocols import GenerationRequest, GenerationResult, Generator

EXPRESSIONS: Final = ("N", "A", "F", "HC", "HO")
FACE_NAME: Final = re.compile(
    rf"CFD-(?P<code>[ABLWIM][FM])-(?P<person>\d+)-(?P<picture>\d+)-(?P<expression>{'|'.join(EXPRESSIONS)})\.(jpe?g|png)",
    re.IGNORECASE,
)


def read_portraits(
    directory: str | Path,
    codes: Mapping[str, Sequence[str]],
    *,
    expression: str = "N",
    prompts: Mapping[str, str] | None = None,
) -> list[ManifestRow]:
    """List the portraits of a folder, each with its group.

    Parameters
    ----------
    directory : a folder with a manifest (see :mod:`clinometer.models.files.folder`), or with files named as above, in
        folders of any depth.
    codes : for each group, the codes that mean it.
    expression : which expression is taken, for files named as above.
    prompts : the group of each prompt, for a manifest that gives the prompt alone.

    Raises
    ------
    InvalidInputError
        An unknown expression.
    ImportManifestError
        No such folder; neither a manifest nor such names; a file that begins like them and ends otherwise; or a
        group that has no portrait.
    """
    folder = Path(directory)
    if expression.upper() not in EXPRESSIONS:
        raise InvalidInputError(f"found {expression!r}, expected one of {', '.join(EXPRESSIONS)}", field="expression")
    if not folder.is_dir():
        raise ImportManifestError(f"{directory}: no such folder; give the folder that holds the portraits")
    if any((folder / name).is_file() for name in NAMES):
        rows = [_with_group(row, prompts or {}) for row in read_manifest(folder)]
        _require_groups(directory, rows, codes)
        return rows
    rows = list(_named_portraits(folder, codes, expression))
    _require_groups(directory, rows, codes)
    return rows


def _with_group(row: ManifestRow, prompts: Mapping[str, str]) -> ManifestRow:
    """A row that its prompt alone describes, with the group that the prompt is asked for."""
    group = prompts.get(str(row.prompt)) if row.concept is None and row.group is None else None
    return row if group is None else replace(row, group=group, role="attribute")


def _named_portraits(folder: Path, codes: Mapping[str, Sequence[str]], expression: str) -> Iterator[ManifestRow]:
    group_of = {code.upper(): group for group, group_codes in codes.items() for code in group_codes}
    count = 0
    for number, path in enumerate(sorted(path for path in folder.rglob("CFD-*") if path.is_file()), start=1):
        match = FACE_NAME.fullmatch(path.name)
        if match is None:
            raise ImportManifestError(
                f"{path.relative_to(folder)}: its name is not of the form CFD-WF-001-003-N.jpg (race and gender, "
                "person, picture, expression); rename or remove it"
            )
        count += 1
        group = group_of.get(match["code"].upper())
        if group is not None and match["expression"].upper() == expression.upper():
            file = path.relative_to(folder).as_posix()
            yield ManifestRow(file, None, group, "attribute", None, number)
    if not count:
        raise ImportManifestError(
            f"{folder}: neither a manifest ({', '.join(NAMES)}) nor files named like CFD-WF-001-003-N.jpg"
        )


def _require_groups(directory: str | Path, rows: Sequence[ManifestRow], codes: Mapping[str, Sequence[str]]) -> None:
    groups = {row.group for row in rows}
    for group, group_codes in codes.items():
        if group not in groups:
            means = f", codes {', '.join(group_codes)}" if group_codes else ""
            raise ImportManifestError(f"{directory}: no portrait of group {group!r}{means}; the suite asks for some")


def choose_portraits(rows: Sequence[ManifestRow], n: int | None, seed: int) -> list[ManifestRow]:
    """Choose at most n portraits of each group, by a hash of seed and file: the same whatever else is there.

    None takes all.
    """
    if n is None:
        return list(rows)
    chosen: dict[str | None, list[ManifestRow]] = {}
    for row in sorted(rows, key=lambda row: hashlib.sha256(f"{seed}:{row.file}".encode()).digest()):
        if len(chosen.setdefault(row.group, [])) < n:
            chosen[row.group].append(row)
    files = {row.file for portraits in chosen.values() for row in portraits}
    return [row for row in rows if row.file in files]


class PortraitSource:
    """Portraits from a folder, and what a model does with them, as one generator.

    It has ``editor`` or ``denoiser`` where the model has.
    """

    def __init__(self, folder: FolderSource, model: Generator) -> None:
        self._folder, self._model = folder, model
        self.batch_size = model.batch_size
        self.conversions = folder.conversions
        self.price_per_image = float(model.price_per_image) if offers(model, Priced) else 0.0
        portraits = {"name": folder.card.name, "sha256": folder.card.weights_sha256}
        self.card = replace(model.card, settings=model.card.settings | {"portraits": portraits})

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Read the portraits."""
        return self._folder.generate(requests)

    def __getattr__(self, name: str) -> Any:
        if name in {"editor", "denoiser", "weight_bytes"}:
            return getattr(self._model, name)
        raise AttributeError(name)
