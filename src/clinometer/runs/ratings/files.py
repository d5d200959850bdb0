"""Ratings made elsewhere: CSV of item, rater and answer, batches of MTurk and Prolific, exports of Label Studio."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path
from typing import Any, Final

from clinometer._messages import named_in_a_line
from clinometer.errors import RatingsError

COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "item": ("item", "image", "id", "sample", "Input.item", "Input.image", "Input.image_url", "Input.id"),
    "rater": (
        "rater", "worker", "annotator", "WorkerId", "PROLIFIC_PID", "Prolific ID", "Participant id", "participant_id",
    ),
    "answer": ("answer", "label", "choice", "response", "Answer.answer", "Answer.label", "Answer.choice",
               "Answer.category.label"),
    "seconds": ("seconds", "WorkTimeInSeconds", "Time taken", "time_taken", "duration"),
    "time": ("time", "SubmitTime", "Completed at", "completed_at", "submitted_at"),
    "status": ("AssignmentStatus", "Status", "status"),
    "simulated": ("simulated",),
}  # fmt: skip
"""Names that a column goes by, the likeliest first; capitals do not matter."""

LEFT_OUT: Final = frozenset({"rejected", "returned", "timed-out", "timed out"})
"""Statuses of work that did not count."""


MOST_BYTES: Final = 100_000_000
"""Of a file: of a million answers, and more."""

LONGEST: Final = 4_000
"""Characters of an entry."""


@dataclass(frozen=True)
class Rating:
    """One answer, as the file says it; ``place`` says where."""

    item: str
    rater: str
    answer: str
    seconds: float = nan
    time: str = ""
    place: str = ""
    is_simulated: bool = False


def read_ratings(file: Path, named: Mapping[str, str] | None = None) -> list[Rating]:
    """The ratings of a file; ``named`` says which column is the item, the rater and the answer.

    Raises
    ------
    RatingsError
        The file cannot be read, lacks a column, or a row lacks an entry; the message names the place.
    """
    text = _text(file)
    if file.suffix.lower() == ".json":
        ratings = list(_label_studio(_json(text, file), file))
    else:
        ratings = list(_rows(text, file, dict(named or {})))
    if not ratings:
        raise RatingsError(f"{file}: it holds no rating")
    return ratings


def _text(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) <= MOST_BYTES:
            return content.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RatingsError(f"{file}: cannot be read: {reason}") from error
    raise RatingsError(f"{file}: more than {MOST_BYTES:,} bytes; divide it into several")


# --- CSV -------------------------------------------------------------------------------------------------------------


def _rows(text: str, file: Path, named: Mapping[str, str]) -> Iterator[Rating]:
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=_delimiter(text))
    try:
        columns = {key: _column(key, reader.fieldnames or (), named, file) for key in COLUMNS}
        for row in reader:
            if str(row.get(columns["status"]) or "").strip().lower() not in LEFT_OUT:
                yield _rating(row, columns, f"{file}, line {reader.line_num}")
    except csv.Error as error:
        raise RatingsError(f"{file}, line {reader.line_num}: not CSV: {error}") from error


def _delimiter(text: str) -> str:
    head = text.partition("\n")[0]
    return max(",;\t", key=head.count)


def _column(key: str, header: Sequence[str], named: Mapping[str, str], file: Path) -> str:
    """The column of the file that holds this, empty for one that is not needed and not there."""
    if key in named:
        if named[key] not in header:
            raise RatingsError(f"{file}: no column {named[key]!r} for the {key}; found {named_in_a_line(header)}")
        return named[key]
    lower = {name.strip().lower(): name for name in header}
    for name in COLUMNS[key]:
        if name.lower() in lower:
            return lower[name.lower()]
    if key in ("item", "rater", "answer"):
        raise RatingsError(
            f"{file}: no column for the {key}; found {named_in_a_line(header)}. Name it: --{key}-column NAME"
        )
    return ""


def _rating(row: Mapping[str, Any], columns: Mapping[str, str], place: str) -> Rating:
    entries = {key: str(row.get(name) or "").strip() for key, name in columns.items()}
    for key in ("item", "rater", "answer"):
        if not entries[key]:
            raise RatingsError(f"{place}: the {key} is empty; expected one in every row (column {columns[key]!r})")
    return _short(
        Rating(
            entries["item"],
            entries["rater"],
            entries["answer"],
            _seconds(entries["seconds"]),
            entries["time"],
            place,
            entries["simulated"].lower() in ("true", "1"),
        )
    )


def _short(rating: Rating) -> Rating:
    """A rating none of whose entries is a book."""
    for name, entry in (
        ("item", rating.item),
        ("rater", rating.rater),
        ("answer", rating.answer),
        ("time", rating.time),
    ):
        if len(entry) > LONGEST:
            raise RatingsError(
                f"{rating.place}: the {name} has {len(entry):,} characters, expected {LONGEST:,} or fewer"
            )
    return rating


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return nan
    return value if isfinite(value) and value >= 0 else nan


# --- Label Studio ----------------------------------------------------------------------------------------------------


def _json(text: str, file: Path) -> list[Any]:
    try:
        tasks = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RatingsError(f"{file}: not JSON: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(tasks, list):
        raise RatingsError(
            f"{file}: expected a list of tasks, as Label Studio exports them; found {type(tasks).__name__}"
        )
    return tasks


def _label_studio(tasks: Sequence[Any], file: Path) -> Iterator[Rating]:
    """Every first choice of every annotation that was not skipped."""
    for order, task in enumerate(tasks, 1):
        place = f"{file}, task {order}"
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise RatingsError(f"{place}: no data; export from Label Studio as JSON, not as JSON-MIN")
        item = next((str(data[name]) for name in ("item", "id", "image") if data.get(name)), "")
        if not item:
            raise RatingsError(f"{place}: its data name no item; expected a field called item, id or image")
        for annotation in _mappings(task.get("annotations"), "annotations", place):
            if not annotation.get("was_cancelled"):
                yield from _choices(annotation, item, place)


def _mappings(mappings: Any, name: str, place: str) -> Sequence[Mapping[str, Any]]:
    """A list of mappings, which may be missing."""
    if not mappings:
        return ()
    if not isinstance(mappings, list) or not all(isinstance(mapping, dict) for mapping in mappings):
        raise RatingsError(f"{place}: its {name} are not a list of mappings, as Label Studio writes them")
    return mappings


def _choices(annotation: Mapping[str, Any], item: str, place: str) -> Iterator[Rating]:
    by = annotation.get("completed_by")
    rater = str(by.get("id") or by.get("email") or "") if isinstance(by, dict) else str(by or "")
    if not rater:
        raise RatingsError(f"{place}: an annotation does not say by whom (completed_by)")
    for result in _mappings(annotation.get("result"), "result", place):
        value = result.get("value")
        chosen = value.get("choices") if isinstance(value, dict) else None
        if chosen and isinstance(chosen, list):
            seconds = _seconds(str(annotation.get("lead_time")))
            time = str(annotation.get("created_at") or "")
            yield _short(Rating(item, rater, str(chosen[0]), seconds, time, place))
            return
