"""Ratings made elsewhere, taken into a run: items become samples, answers groups, raters pseudonyms."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, nan
from pathlib import Path, PurePosixPath
from typing import Any, Final

from clinometer._csv import text_of, without_separator_line, workbook
from clinometer._messages import MISSING, composed, did_you_mean, first_and_more, named_in_a_line, quoted
from clinometer.errors import RatingsError
from clinometer.runs.ratings.store import OF_CONCEPT, Rated, add_ratings
from clinometer.runs.store import Run


@dataclass(frozen=True)
class Imported:
    """What was taken in: how many ratings, of how many items, by how many raters, and with which answers.

    ``missing`` : rows whose answer is missing (``nan``, ``None``, ``N/A``), which are none.
    """

    ratings: int
    items: int
    raters: int
    answers: tuple[str, ...]
    missing: int = 0


def import_ratings(
    run: Run, rated: Rated, file: Path, *, named: Mapping[str, str] | None = None, question: str = ""
) -> Imported:
    """Import the ratings of a file into a run. The same file is imported once, however often it is given.

    A rater who rated an item twice is taken to have been asked again: the second answer is a repeat.

    Raises
    ------
    RatingsError
        The file is no such file, names an item that the run does not hold, or no answer that is a group.
    """
    every = read_ratings(file, named)
    answers = {composed(label): group for label, group in rated.answers.items()}
    ratings = [each for each in every if each.answer not in MISSING or each.answer.lower() in answers]
    if not ratings:
        raise RatingsError(f"{file}: every answer is missing ({every[0].answer}); expected some")
    items = _Items(run, rated)
    # A pseudonym is put in the place of each rater. Its key is thrown away: nothing leads back to a worker's number.
    key, times, rows = secrets.token_bytes(32), Counter[tuple[str, str]](), list[dict[str, Any]]()
    labels = [answers.get(composed(rating.answer.lower()), rating.answer) for rating in ratings]
    for rating, answer in zip(ratings, labels, strict=True):
        item = items.of(rating)
        rater = hashlib.blake2b(rating.rater.encode("utf-8", "replace"), key=key, digest_size=6).hexdigest()
        times[rater, item] += 1
        if times[rater, item] <= 2:
            rows.append(
                {
                    "question": question,
                    "item": item,
                    "rater": rater,
                    "answer": answer,
                    "seconds": rating.seconds,
                    "time": rating.time,
                    "simulated": rating.is_simulated,
                    "repeat": times[rater, item] == 2,
                }
            )
    groups, labels = set(answers.values()), list(dict.fromkeys(labels))
    if not groups & set(labels):  # nothing could be held against the machine
        raise RatingsError(
            f"answers: found {first_and_more(labels, 4)}, expected names or labels of the suite's groups among them: "
            f"{', '.join(sorted(groups))}"
        )
    add_ratings(run, f"file sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}", rows)
    used = tuple(dict.fromkeys(row["answer"] for row in rows))
    n_items, n_raters = (len({row[column] for row in rows}) for column in ("item", "rater"))
    return Imported(len(rows), n_items, n_raters, used, len(every) - len(ratings))


class _Items:
    """The items of a run by what a file may call them."""

    def __init__(self, run: Run, rated: Rated) -> None:
        self.run = run
        self.by_name = {sample.id: sample.id for sample in run.plan}
        self.by_name |= {PurePosixPath(s.file).name: s.id for s in run.plan if s.file}
        self.by_name |= {s.file: s.id for s in run.plan if s.file}
        concepts = {name for s in run.plan if s.role in rated.roles for name in (s.concept, s.category) if name}
        self.by_name |= {name: f"{OF_CONCEPT}{name}" for name in sorted(concepts - self.by_name.keys())}
        self.by_name |= {f"{OF_CONCEPT}{name}": f"{OF_CONCEPT}{name}" for name in concepts}
        self.by_name |= {composed(name): item for name, item in self.by_name.items()}

    def of(self, rating: Rating) -> str:
        """The item that a rating is about: a sample by its id or file, with a folder and an ending or without."""
        item = composed(rating.item)
        name = re.split(r"[/\\]", item)[-1]
        for candidate in (item, name, name.partition("?")[0].rpartition(".")[0]):
            if candidate in self.by_name:
                return self.by_name[candidate]
        hint = did_you_mean(rating.item, self.by_name)
        raise RatingsError(
            f"{rating.place}: {quoted(rating.item)} is no item of {self.run.url}; expected a sample's id, the file it "
            f"was imported from, or a concept{'; ' if hint else ''}{hint}"
        )


# --- Ratings made elsewhere: CSV of item, rater and answer, batches of MTurk and Prolific, exports of Label Studio ---


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
    """Return the ratings of a file; ``named`` says which column is the item, the rater and the answer.

    Raises
    ------
    RatingsError
        The file cannot be read, lacks a column, or a row lacks an entry; the message names the place.
    """
    try:
        with file.open("rb") as stream:
            content = stream.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise RatingsError(f"{file}: more than {MOST_BYTES:,} bytes; divide it into several")
        if kind := workbook(content):
            raise RatingsError(f"{file}: it is {kind}; save the table as CSV (UTF-8)")
        text = text_of(content)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise RatingsError(f"{file}: cannot be read: {reason}") from error
    if file.suffix.lower() == ".json":
        ratings = list(_label_studio(text, file))
    else:
        ratings = list(_rows(text, file, dict(named or {})))
    if not ratings:
        raise RatingsError(f"{file}: it holds no rating")
    return ratings


# --- CSV -------------------------------------------------------------------------------------------------------------


def _rows(text: str, file: Path, named: Mapping[str, str]) -> Iterator[Rating]:
    separator, text = without_separator_line(text)
    delimiter = separator or max(",;\t", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        header = reader.fieldnames or ()
        options = {} if "answer" in named or _is_there("answer", header) else _option_columns(header)
        columns = {key: _column(key, header, named, file) for key in COLUMNS if not (key == "answer" and options)}
        columns.setdefault("answer", "")
        for row in reader:
            entries = {key: str(row.get(name) or "").strip() for key, name in columns.items()}
            place = f"{file}, line {reader.line_num}"
            if entries["status"].lower() in LEFT_OUT:
                continue
            if options or entries["answer"][:1] in ("[", "{"):
                entries["answer"] = _one_chosen(row, options, entries["answer"], place)
            for key in ("item", "rater", "answer"):
                if not entries[key]:
                    raise RatingsError(
                        f"{place}: the {key} is empty; expected one in every row (column {columns[key]!r})"
                    )
            item, rater, answer, seconds, time = (
                entries[key] for key in ("item", "rater", "answer", "seconds", "time")
            )
            simulated = entries["simulated"].lower() in ("true", "1")
            yield _short(Rating(item, rater, answer, _seconds(seconds), time, place, simulated))
    except csv.Error as error:
        raise RatingsError(f"{file}, line {reader.line_num}: not CSV: {error}") from error


def _column(key: str, header: Sequence[str], named: Mapping[str, str], file: Path) -> str:
    """Return the column of the file that holds this, empty for one that is not needed and not there."""
    if key in named:
        if named[key] not in header:
            raise RatingsError(f"{file}: no column {named[key]!r} for the {key}; found {named_in_a_line(header)}")
        return named[key]
    lower = {name.strip().lower(): name for name in header}
    for name in COLUMNS[key]:
        if name.lower() in lower:
            return lower[name.lower()]
    if key in ("item", "rater", "answer"):
        form = header[:1] and header[0].strip().lower() in _FORMS
        way_out = (
            "A form has a column a picture: make a row of each answer" if form else f"Name it: --{key}-column NAME"
        )
        raise RatingsError(f"{file}: no column for the {key}; found {named_in_a_line(header)}. {way_out}")
    return ""


_FORMS: Final = ("timestamp", "zeitstempel", "horodateur", "marca temporal")
"""The first column of what Google Forms exports, in some languages."""

_ANSWER: Final = "answer."
_CHOSEN: Final = frozenset({"true", "on", "1", "yes", "x"})


def _is_there(key: str, header: Sequence[str]) -> bool:
    there = {name.strip().lower() for name in header}
    return any(name.lower() in there for name in COLUMNS[key])


def _option_columns(header: Sequence[str]) -> dict[str, str]:
    """Return the columns of a batch with a column an option, as ``Answer.gender.man`` or ``Answer.man.on``, by name."""
    own = (name for name in header if name.strip().lower().startswith(_ANSWER))
    return {name: name.strip()[len(_ANSWER) :].removesuffix(".on").rpartition(".")[2] for name in own}


def _one_chosen(row: Mapping[str, Any], options: Mapping[str, str], answer: str, place: str) -> str:
    """Return the one answer of a row that has a column an option, or answers as JSON.

    Raises
    ------
    RatingsError
        There is none, or several.
    """
    chosen = [option for name, option in options.items() if str(row.get(name) or "").strip().lower() in _CHOSEN]
    written = [str(row.get(name) or "").strip() for name in options] + [answer]
    for text in (text for text in written if text[:1] in ("[", "{")):
        try:
            chosen += _chosen_in(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise RatingsError(f"{place}: the answer is not JSON: {quoted(text)}") from error
    if len(chosen) != 1:
        found = first_and_more(chosen, 3) if chosen else "none"
        raise RatingsError(f"{place}: found {found} chosen of the options, expected one; leave the row out, or mend it")
    return chosen[0]


def _chosen_in(said: Any, name: str = "") -> list[str]:
    """List what is chosen in an answer as JSON: ``[{"gender": {"man": true}}]``, ``{"choices": ["man"]}``."""
    if isinstance(said, Mapping):
        return [chosen for key, value in said.items() for chosen in _chosen_in(value, str(key))]
    if isinstance(said, list):
        return [chosen for value in said for chosen in _chosen_in(value, name)]
    if isinstance(said, bool):
        return [name] if said else []
    return [said] if isinstance(said, str) and said.strip() else []


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


def _label_studio(text: str, file: Path) -> Iterator[Rating]:
    """Yield every first choice of every annotation that was not skipped."""
    try:
        tasks = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RatingsError(f"{file}: not JSON: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(tasks, list):
        raise RatingsError(
            f"{file}: expected a list of tasks, as Label Studio exports them; found {type(tasks).__name__}"
        )
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
    """Return a list of mappings, which may be missing."""
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
