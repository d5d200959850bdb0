"""What a folder of finished images shows: its manifest says what each was asked for, or its files' names do.

A manifest is a CSV file with a header, or JSON lines, one image a row:

    file     the image, relative to the folder
    concept  what the prompt asked for, such as "firefighter"
    group    the group or attribute that the prompt named, such as "woman"   (with a concept, in a T2IAT study)
    role     "target" without a group, "attribute" with one; may be left out
    prompt   the prompt, where it is known; may be left out beside a concept or a group, and says both where it stands
             alone and the suite asks it
    batch    what the image came with from one request, session or cache, any name; may be left out
    flagged  true where a safety checker took offence at the picture: people see it blurred; may be left out

Other columns are ignored, and listed in `Manifest.ignored`.

The file names of the Chicago Face Database and of sets that follow it say who is shown::

    CFD-WF-001-003-N.jpg      race (A, B, L, W, I, M) and gender (F, M), person, picture, expression

with the expressions N (neutral), A (angry), F (fearful), HC (happy, mouth closed) and HO (happy, mouth open). The
database itself may not be passed on, and nothing of it is here.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, overload

from clinometer._csv import text_of, without_separator_line, workbook
from clinometer._messages import MISSING, first_and_more, named_in_a_line, quoted
from clinometer.errors import ImportManifestError, InvalidInputError

MOST_BYTES = 300_000_000
"""The largest manifest that is read: of a million images, and more."""

MOST_ROWS = 1_000_000
"""Images of an import: its plan is held in memory."""

LONGEST = 4_000
"""Characters of a value."""

COLUMNS = ("file", "concept", "group", "role", "prompt", "batch", "flagged")
_FLAGS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False, "": False}
_OTHER_NAMES: Final = {"file_name": "file", "filename": "file"}
SEPARATORS: Final = {",": "a comma", ";": "a semicolon", "\t": "a tab", "|": "a bar"}
"""What may stand between the columns of a CSV file; the first that the header has."""

NAMES = ("manifest.csv", "manifest.jsonl", "metadata.csv", "metadata.jsonl")
Role = Literal["target", "attribute"]


@dataclass(frozen=True, slots=True)
class ManifestRow:
    """One finished image: ``concept`` or ``group`` is given, or both; or the prompt alone, which tells them.

    Attributes
    ----------
    file : path of the image, relative to the folder, with forward slashes.
    concept, group : what it shows, by the suite's names.
    role : "target" without a group, "attribute" with one; of a prompt alone it is not known yet, and "target".
    prompt : what it was drawn from, if that is known.
    line : the line of the manifest that says so, counted from 1.
    flagged : whether a safety checker took offence at it.
    batch : what it came with; empty where unknown.
    model : what drew it, of labelled pictures; imports do not ask.
    """

    file: str
    concept: str | None
    group: str | None
    role: Role
    prompt: str | None
    line: int
    flagged: bool = False
    batch: str = ""
    model: str | None = None


@dataclass(frozen=True)
class Manifest(Sequence[ManifestRow]):
    """The rows of a manifest, in its order.

    Attributes
    ----------
    path : the manifest file.
    rows : one an image.
    ignored : columns that mean nothing here.
    """

    path: Path
    rows: tuple[ManifestRow, ...]
    ignored: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> ManifestRow: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ManifestRow]: ...
    def __getitem__(self, index: int | slice) -> ManifestRow | Sequence[ManifestRow]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)


def read_manifest(directory: Path | str, manifest: Path | str | None = None) -> Manifest:
    """Read and check the manifest of a folder of images.

    Parameters
    ----------
    directory : the folder.
    manifest : the CSV or JSON-lines file; None looks for ``manifest.csv``, ``manifest.jsonl``,
        ``metadata.csv`` and ``metadata.jsonl`` in the folder, in this order.

    Raises
    ------
    ImportManifestError
        There is none, it cannot be parsed, a column or a value is missing, a file is missing, is listed twice
        or lies outside the folder. The message names the manifest, the line and the field.
    """
    folder = Path(directory)
    if not folder.is_dir():
        raise ImportManifestError.not_found(f"{directory}: no such folder; give the folder that holds the images")
    path = _find(folder, manifest)
    rows, columns = list[ManifestRow](), dict[str, None]()
    records = read_csv(path, _check_fields) if path.suffix.lower() == ".csv" else _read_json_lines(path)
    for number, (line, record) in enumerate(records):
        if number == MOST_ROWS:
            raise ImportManifestError.too_many(f"{path.name}: more than {MOST_ROWS:,} images; divide it")
        rows.append(manifest_row(path.name, line, record))
        columns.update(dict.fromkeys(record))
    if not rows:
        raise ImportManifestError.too_few(f"{path.name}: it lists no images; expected one a line")
    rows = _found_files(path.name, folder, rows)
    root = folder.resolve()  # where the folder lies on this machine does not belong to a run
    return Manifest(
        path=path,
        rows=tuple(
            replace(row, file=Path(_resolve(str(root), row.file)).relative_to(root).as_posix())
            if os.path.isabs(row.file)
            else row
            for row in rows
        ),
        ignored=tuple(key for key in columns if key and key not in COLUMNS),
    )


def odd_batches(name: str, rows: Sequence[ManifestRow]) -> Iterator[str]:
    """Describe what is odd about the batches of a manifest, a line each, and what follows; nothing without batches."""
    known = [row for row in rows if row.batch]
    empty = [row for row in rows if not row.batch]
    if known and empty:
        lines = first_and_more([str(row.line) for row in empty], 3)
        yield (
            f"{name}, batch: empty in {len(empty):,} of {len(rows):,} rows (line {lines}); each of these counts as a "
            "batch of its own: fill them in if they came with others"
        )
    owners, batches = dict[str, set[tuple[str | None, ...]]](), dict[tuple[str | None, ...], list[str]]()
    for row in rows:
        owner = (row.concept, row.group, None if row.concept or row.group else row.prompt)
        batches.setdefault(owner, []).append(row.batch)
        if row.batch:
            owners.setdefault(row.batch, set()).add(owner)
    across = [quoted(batch) for batch, of_batch in owners.items() if len(of_batch) > 1]
    if across:
        yield f"{name}, batch: {first_and_more(across, 3)} in several concepts or groups; it is a batch in each of them"
    single = [
        quoted(owner[0] or owner[1] or str(owner[2]))
        for owner, names in batches.items()
        if len(names) > 1 and names[0] and len({*names}) == 1
    ]
    if single:
        yield (
            f"{name}, batch: all images of {first_and_more(single, 3)} came in one batch; that is one draw, of which "
            "no interval and no verdict can be given"
        )


def has_manifest(folder: Path) -> bool:
    """Return whether a folder holds a manifest under one of its names."""
    return any((folder / name).is_file() for name in NAMES)


def _find(folder: Path, manifest: Path | str | None) -> Path:
    candidates = [folder / name for name in NAMES] if manifest is None else [Path(manifest)]
    for path in candidates:
        if path.is_file():
            return path
    if manifest is not None:
        inside = folder / manifest
        hint = f"did you mean {inside}?" if inside.is_file() else "give a CSV or JSON-lines file"
        raise ImportManifestError.not_found(f"no manifest: looked for {manifest}; {hint}")
    raise ImportManifestError.not_found(
        f"no manifest in {folder}: looked for {', '.join(NAMES)}; write a CSV with the columns {', '.join(COLUMNS)}"
    )


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ImportManifestError.too_many(f"{path.name}: more than {MOST_BYTES:,} bytes; divide it and its images")
        if kind := workbook(content):
            raise ImportManifestError.not_text(f"{path.name}: it is {kind}; save the table as CSV (UTF-8)")
        return text_of(content)
    except UnicodeDecodeError as error:
        encoding = error.encoding.upper()
        raise ImportManifestError.not_text(
            f"{path.name}: byte {error.start} is not {encoding}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ImportManifestError.unreadable(f"{path.name}: it cannot be read ({error.strerror})") from error


def read_csv(path: Path, check_fields: Callable[[str, Sequence[str]], None]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Read the rows of a CSV file, each with its line; ``check_fields`` refuses a header, by the file's name.

    Raises
    ------
    ImportManifestError
        It is no CSV, or cannot be read: the message names the file and the line.
    """
    named, text = without_separator_line(_text(path))
    header = text.partition("\n")[0]  # of spreadsheets in many languages a semicolon stands between the columns
    separator = named or next((separator for separator in SEPARATORS if separator in header), ",")
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True, delimiter=separator)
    above = 1 if named else 0
    line = 1 + above
    try:
        reader.fieldnames = fields = [name.strip() for name in reader.fieldnames or []]
        index = fields[0] if fields and fields[0] in UNNAMED and fields.count(fields[0]) == 1 else None
        check_fields(path.name, [field for field in fields if field not in (index, "")])
        for record in reader:
            line = reader.line_num + above
            surplus: list[str] = record.pop(None, [])  # type: ignore[arg-type, assignment]
            for unnamed in (index, ""):  # the latter where every line ends with a separator
                record.pop(unnamed, None)  # type: ignore[arg-type]
            if not any(value and value.strip() for value in (*record.values(), *surplus)):
                continue  # spreadsheets write rows of nothing but separators
            if surplus:
                raise ImportManifestError.malformed(
                    f"{path.name}, line {line}: more values than the {len(fields)} columns; "
                    f"put quotes around a value with {SEPARATORS.get(separator, separator)}"
                )
            yield line, record
    except csv.Error as error:
        raise ImportManifestError.malformed(f"{path.name}, after line {line}: not valid CSV: {error}") from error


UNNAMED: Final = ("", "Unnamed: 0")
"""Names of the first column where a table was written with its row numbers."""


def _check_fields(name: str, fields: Sequence[str]) -> None:
    """Refuse a header without what a row must have, and a column that stands there twice."""
    if "file" not in fields or not {"concept", "group", "prompt"} & set(fields):
        raise ImportManifestError.missing(
            f"{name}, line 1: found the columns {named_in_a_line(fields)}; "
            f"expected file, and concept or group, or the prompt{_renaming(fields)}"
        )
    for column in COLUMNS:
        if fields.count(column) > 1:
            raise ImportManifestError.duplicate(
                f"{name}, line 1: found the column {column} {fields.count(column)} times; remove all but one"
            )


def _renaming(fields: Iterable[str]) -> str:
    """Return the way out where columns are there by other names: ``; rename File to file``."""
    names = {field: _OTHER_NAMES.get(field.lower(), field.lower()) for field in fields}
    renamed = [f"{field} to {name}" for field, name in names.items() if field != name and name in COLUMNS]
    return f"; rename {', '.join(renamed)}" if renamed else ""


def _read_json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:  # of two values nobody knows which is meant
        names = [name for name, _ in pairs]
        for name in COLUMNS:
            if names.count(name) > 1:
                raise ValueError(f"{name} is given {names.count(name)} times")
        return dict(pairs)

    for line, text in enumerate(_text(path).split("\n"), start=1):
        if not text.strip():
            continue
        try:
            record = json.loads(text, object_pairs_hook=each_once)
        except RecursionError as error:
            raise ImportManifestError.malformed(
                f"{path.name}, line {line}: nested too deeply; expected names and texts"
            ) from error
        except ValueError as error:
            raise ImportManifestError.malformed(f"{path.name}, line {line}: not valid JSON: {error}") from error
        if not isinstance(record, dict):
            raise ImportManifestError.wrong_type(
                f"{path.name}, line {line}: found {type(record).__name__}, expected an object with a file"
            )
        yield line, record


def manifest_row(name: str, line: int, record: Mapping[str, Any]) -> ManifestRow:
    """Check one record's values: a row of a manifest called ``name``, from its line ``line``."""
    values: dict[str, str | None] = {}
    for key in (*COLUMNS[:-1], "model"):
        value = record.get(key)
        if key == "batch" and isinstance(value, int) and not isinstance(value, bool):
            value = str(value)
        if value is not None and not isinstance(value, str):
            raise ImportManifestError.wrong_type(f"{name}, line {line}, {key}: found {quoted(value)}, expected text")
        if value is not None and len(value) > LONGEST:
            raise ImportManifestError.too_many(
                f"{name}, line {line}, {key}: found {len(value):,} characters, expected at most {LONGEST:,}"
            )
        if value is not None and not _is_whole(value):
            raise ImportManifestError.not_text(
                f"{name}, line {line}, {key}: found {quoted(value)}, half a character; expected text"
            )
        values[key] = value.strip() or None if value is not None and value.strip() not in MISSING else None
    if values["file"] is None:
        raise ImportManifestError.missing(
            f"{name}, line {line}, file: nothing found, expected a path within the folder{_renaming(record)}"
        )
    if values["concept"] is None and values["group"] is None and values["prompt"] is None:
        raise ImportManifestError.missing(
            f"{name}, line {line}: found none of concept, group and prompt; expected concept for a neutral prompt's "
            "picture, group for a group's, both for a concept's picture with an attribute, or the suite's prompt"
        )
    role: Role = "target" if values["group"] is None else "attribute"
    has_owner = values["concept"] is not None or values["group"] is not None
    if values["role"] not in ((None, role) if has_owner else (None, "target", "attribute")):
        raise ImportManifestError.mismatch(
            f"{name}, line {line}, role: found {quoted(values['role'])}, expected {role!r} or nothing: "
            "a concept alone is a target, a group makes it an attribute"
        )
    file = values["file"].replace("\\", "/")
    flagged = _read_flag(f"{name}, line {line}", record.get("flagged"))
    texts = (values["concept"], values["group"], values["prompt"], values["model"])
    concept, group, prompt, model = (text and sys.intern(text) for text in texts)  # many rows have the same
    return ManifestRow(file, concept, group, role, prompt, line, flagged, sys.intern(values["batch"] or ""), model)


def _is_whole(text: str) -> bool:
    """Return whether a text holds no half of a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_flag(where: str, value: Any) -> bool:
    """Return what a row says of its picture's flag: a truth value, or a word for one."""
    text = "" if value is None else str(value).strip()
    flag = _FLAGS.get("" if text in MISSING else text.lower())
    if flag is None:
        raise ImportManifestError.wrong_type(
            f"{where}, flagged: found {quoted(value)}, expected true or false, or nothing"
        )
    return flag


def _found_files(name: str, folder: Path, rows: Sequence[ManifestRow]) -> list[ManifestRow]:
    """Return the rows with their files as the folder spells them, whose accents may be apart from their letters.

    Raises
    ------
    ImportManifestError
        Files are listed twice, outside the folder, or not there.
    """
    files_there = list[ManifestRow]()
    root = str(folder.resolve())
    inside = root.rstrip(os.sep) + os.sep
    line_of: dict[str, int] = {}
    missing: list[ManifestRow] = []
    for listed in rows:
        row, path = listed, _resolve(root, listed.file)
        if not listed.file.isascii() and not os.path.isfile(path):
            spelled = (unicodedata.normalize(form, listed.file) for form in ("NFC", "NFD"))
            there = next((file for file in spelled if os.path.isfile(_resolve(root, file))), listed.file)
            row, path = replace(listed, file=there), _resolve(root, there)
        files_there.append(row)
        if not os.path.normcase(path).startswith(os.path.normcase(inside)):
            raise ImportManifestError.untrusted(
                f"{name}, line {row.line}, file: {quoted(row.file)} lies outside the folder; copy the image into it"
            )
        key = os.path.normcase(path)
        if key in line_of:
            raise ImportManifestError.duplicate(
                f"{name}, line {row.line}, file: {quoted(row.file)} is in line {line_of[key]} already; remove one"
            )
        line_of[key] = row.line
        if not os.path.isfile(path):
            missing.append(row)
    if missing:
        files = first_and_more([quoted(row.file, 200) for row in missing])
        hint = _like(root, missing[0].file)
        raise ImportManifestError.not_found(
            f"{name}, line {missing[0].line}, file: not in the folder: {files}; {hint}add what is missing or remove "
            "its line"
        )
    return files_there


def unlisted_images(folder: Path, rows: Iterable[ManifestRow]) -> list[str]:
    """List the images of a folder that its manifest does not name, sorted, by their paths within it."""
    listed = {_resolve(str(folder.resolve()), row.file) for row in rows}
    try:
        there = image_files([folder])
    except InvalidInputError:
        return []
    return [path.relative_to(folder).as_posix() for path in there if os.path.realpath(path) not in listed]


def _like(root: str, file: str) -> str:
    """Return which file a name may mean that differs by the case of its letters alone, or by its folder."""
    folder, name = os.path.split(os.path.join(root, file))
    for place in (folder, root):
        with suppress(OSError, ValueError):
            if near := [each for each in sorted(os.listdir(place)) if each.casefold() == name.casefold()]:
                return f"did you mean {os.path.relpath(os.path.join(place, near[0]), root)}? Or "
    return ""


def _resolve(root: str, file: str) -> str:
    """Follow a path to where it leads; one that no file system takes leads to a file that is not there."""
    try:
        return os.path.realpath(os.path.join(root, file))
    except (OSError, ValueError):  # too long, or with a NUL
        return os.path.join(root, f"<{len(file)} characters>")


SUFFIXES = (
    ".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".avif", ".jp2", ".ppm", ".tga", ".qoi", ".jpe",
    ".jfif", ".heic", ".heif", ".jxl",
)  # fmt: skip
"""Suffixes that count as images in a folder. Formats that cannot be read are among them, so that such files are
reported as failed and not passed over. A file that a manifest names is read whatever its suffix.
"""


def image_files(places: Sequence[str | os.PathLike[str]]) -> list[Path]:
    """List the files named, and the images in the folders named, sorted within a folder; hidden ones are left out.

    Raises
    ------
    InvalidInputError
        One of them is not there, or a folder holds no image.
    """
    files: list[Path] = []
    for place in map(Path, places):
        if place.is_dir():
            inside = []
            for path in sorted(place.rglob("*")):
                hidden = any(part.startswith(".") for part in path.relative_to(place).parts)  # macOS: ._a.png
                if path.suffix.lower() in SUFFIXES and not hidden and path.is_file():
                    inside.append(path)
            if not inside:
                raise InvalidInputError.too_few(
                    f"{place}: no image in this folder (expected {', '.join(SUFFIXES[:4])}, …)"
                )
            files += inside
        elif place.is_file():
            files.append(place)
        else:
            raise InvalidInputError.not_found(f"{place}: no such file or folder")
    if not files:
        raise InvalidInputError.missing("none given; give files or folders", field="images")
    return files


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
    directory : a folder with a manifest, or with files named as above, in folders of any depth.
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
        raise InvalidInputError.expected_one_of(EXPRESSIONS, expression, field="expression")
    if not folder.is_dir():
        raise ImportManifestError.not_found(f"{directory}: no such folder; give the folder that holds the portraits")
    rows = []
    for row in read_manifest(folder) if has_manifest(folder) else _named_portraits(folder, codes, expression):
        by_prompt = (prompts or {}).get(str(row.prompt)) if row.concept is None and row.group is None else None
        rows.append(row if by_prompt is None else replace(row, group=by_prompt, role="attribute"))
    groups = {row.group for row in rows}
    for group, group_codes in codes.items():
        if group not in groups:
            means = f", codes {', '.join(group_codes)}" if group_codes else ""
            raise ImportManifestError.missing(
                f"{directory}: no portrait of group {group!r}{means}; the suite asks for some"
            )
    return rows


def _named_portraits(folder: Path, codes: Mapping[str, Sequence[str]], expression: str) -> Iterator[ManifestRow]:
    group_of = {code.upper(): group for group, group_codes in codes.items() for code in group_codes}
    count = 0
    for number, path in enumerate(sorted(path for path in folder.rglob("CFD-*") if path.is_file()), start=1):
        match = FACE_NAME.fullmatch(path.name)
        if match is None:
            raise ImportManifestError.malformed(
                f"{path.relative_to(folder)}: its name is not of the form CFD-WF-001-003-N.jpg (race and gender, "
                "person, picture, expression); rename or remove it"
            )
        count += 1
        group = group_of.get(match["code"].upper())
        if group is not None and match["expression"].upper() == expression.upper():
            file = path.relative_to(folder).as_posix()
            yield ManifestRow(file, None, group, "attribute", None, number)
    if not count:
        raise ImportManifestError.not_found(
            f"{folder}: neither a manifest ({', '.join(NAMES)}) nor files named like CFD-WF-001-003-N.jpg"
        )


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
