"""Ratings made elsewhere, taken into a run: items become samples, answers groups, raters pseudonyms."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from pathlib import Path, PurePosixPath
from typing import Any, Final

from clinometer._csv import text_of, without_separator_line, workbook
from clinometer._messages import MISSING, composed, did_you_mean, first_and_more, named_in_a_line, quoted
from clinometer.errors import RatingsError
from clinometer.ratings import OF_CONCEPT, PAIR, PAIR_ANSWERS, Rated, add_ratings
from clinometer.runs.run import Run


@dataclass(frozen=True)
class Imported:
    """What was taken in: how many ratings, of how many items, by how many raters, and with which answers.

    ``missing`` : rows whose answer is missing (empty, ``nan``, ``None``, ``N/A``), which are none.
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
    _require_pair_answers(every)
    ratings = [each for each in every if not _is_missing(each.answer) or each.answer.lower() in answers]
    if not ratings:
        raise RatingsError.too_few(f"{file}: every answer is missing ({every[0].answer or 'empty'}); expected some")
    items = _Items(run, rated)
    # A pseudonym is put in the place of each rater. Its key is thrown away: nothing leads back to a worker's number.
    key, times, rows = secrets.token_bytes(32), Counter[tuple[str, str]](), list[dict[str, Any]]()
    labels = [
        rating.answer.lower() if rating.right else answers.get(composed(rating.answer.lower()), rating.answer)
        for rating in ratings
    ]
    for rating, answer in zip(ratings, labels, strict=True):
        item = items.pair_of(rating) if rating.right else items.of(rating)
        rater = hashlib.blake2b(rating.rater.encode("utf-8", "replace"), key=key, digest_size=6).hexdigest()
        times[rater, item] += 1
        if times[rater, item] <= 2:
            rows.append(
                {
                    "question": question or rating.question,
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
    # nothing could be compared with the machine
    if not groups & set(labels) and not all(rating.right for rating in ratings):
        raise RatingsError.unknown_name(
            f"answers: found {first_and_more(labels, 4)}, expected names or labels of the suite's groups among them: "
            f"{', '.join(sorted(groups))}"
        )
    add_ratings(run, f"file sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}", rows)
    used = tuple(dict.fromkeys(row["answer"] for row in rows))
    n_items, n_raters = (len({row[column] for row in rows}) for column in ("item", "rater"))
    return Imported(len(rows), n_items, n_raters, used, len(every) - len(ratings))


def _require_pair_answers(ratings: Iterable[Rating]) -> None:
    """Refuse an answer to two pictures that is neither of them nor a tie."""
    for rating in ratings:
        if rating.right and not _is_missing(rating.answer) and rating.answer.lower() not in PAIR_ANSWERS:
            raise RatingsError.unknown_name(
                f"{rating.place}, answer: found {quoted(rating.answer)}, expected left, right or tie"
            )


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
        """Find the item that a rating is about: a sample by its id or file, with or without folder and suffix."""
        item = composed(rating.item)
        name = re.split(r"[/\\]", item)[-1]
        for candidate in (item, name, name.partition("?")[0].rpartition(".")[0]):
            if candidate in self.by_name:
                return self.by_name[candidate]
        hint = did_you_mean(rating.item, self.by_name)
        raise RatingsError.unknown_name(
            f"{rating.place}: {quoted(rating.item)} is no item of {self.run.url}; expected a sample's id, the file it "
            f"was imported from, or a concept{'; ' if hint else ''}{hint}"
        )

    def pair_of(self, rating: Rating) -> str:
        """Return the item of a comparison: two different samples."""
        left, right = self.of(rating), self.of(replace(rating, item=rating.right))
        for side, entry, sample in (("left", rating.item, left), ("right", rating.right, right)):
            if sample.startswith(OF_CONCEPT):
                raise RatingsError.too_many(
                    f"{rating.place}, {side}: found the concept {quoted(entry)}, expected one picture"
                )
        if left == right:
            raise RatingsError.duplicate(f"{rating.place}: left and right are the same picture, {quoted(rating.item)}")
        return f"{PAIR}{left} {right}"


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
    "left": ("left",),
    "right": ("right",),
    "question": ("question",),
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
    """One answer, as the file says it; ``place`` says where. Of two pictures ``item`` is the left one."""

    item: str
    rater: str
    answer: str
    seconds: float = nan
    time: str = ""
    place: str = ""
    is_simulated: bool = False
    right: str = ""
    question: str = ""


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
            raise RatingsError.too_many(f"{file}: more than {MOST_BYTES:,} bytes; divide it into several")
        if kind := workbook(content):
            raise RatingsError.not_text(f"{file}: it is {kind}; save the table as CSV (UTF-8)")
        text = text_of(content)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8; save it as CSV (UTF-8)"
        raise RatingsError.cannot_read(file, reason) from error
    named = dict(named or {})
    if text.lstrip()[:1] in ("[", "{") or file.suffix.lower() == ".json":
        ratings = list(_from_json(text, file, named))
    else:
        ratings = list(_rows(*_csv_rows(text, file), file, named))
    if not ratings:
        raise RatingsError.too_few(f"{file}: it holds no rating")
    return ratings


# --- CSV -------------------------------------------------------------------------------------------------------------


Row = tuple[str, Mapping[str, Any]]
"""Where a row stands, and its entries by column."""


def _csv_rows(text: str, file: Path) -> tuple[Sequence[str], Iterator[Row]]:
    """Return the header of a CSV file and its rows, but for those of nothing but separators."""
    separator, text = without_separator_line(text)
    delimiter = separator or max(",;\t|", key=text.partition("\n")[0].count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)

    def rows() -> Iterator[Row]:
        try:
            for row in reader:
                place = f"{file}, line {reader.line_num}"
                if any(str(value or "").strip() for key, value in row.items() if key is not None):
                    if row.pop(None, None):  # type: ignore[call-overload]
                        raise RatingsError.malformed(
                            f"{place}: more values than columns; put quotes around one that holds {delimiter!r}"
                        )
                    yield place, row
        except csv.Error as error:
            raise RatingsError.malformed(f"{file}, line {reader.line_num}: not CSV: {error}") from error

    try:
        return reader.fieldnames or (), rows()
    except csv.Error as error:
        raise RatingsError.malformed(f"{file}, line {reader.line_num}: not CSV: {error}") from error


def _rows(header: Sequence[str], rows: Iterable[Row], file: Path, named: Mapping[str, str]) -> Iterator[Rating]:
    options = {} if "answer" in named or _is_there("answer", header) else _option_columns(header)
    of_pairs = "item" not in named and not _is_there("item", header) and {"left", "right"} <= _lower(header).keys()
    unused = {"item"} if of_pairs else {"left", "right"}
    unused |= {"answer"} if options else set()
    columns = {key: _column(key, header, named, file) for key in COLUMNS if key not in unused}
    columns = dict.fromkeys(COLUMNS, "") | columns
    required = ("left", "right", "rater") if of_pairs else ("item", "rater")
    for place, row in rows:
        entries = {key: _entry(row, name) for key, name in columns.items()}
        if entries["status"].lower() in LEFT_OUT:
            continue
        if options or entries["answer"][:1] in ("[", "{"):
            entries["answer"] = _one_chosen(row, options, entries["answer"], place)
        for key in required:
            if _is_missing(entries[key]):
                raise RatingsError.missing(
                    f"{place}: the {key} is {quoted(entries[key]) if entries[key] else 'empty'}; expected one in every "
                    f"row (column {columns[key]!r})"
                )
        rater, answer, time, right = (entries[key] for key in ("rater", "answer", "time", "right"))
        if entries["item"].startswith(PAIR):  # as `ratings export` writes it
            entries["item"], _, right = entries["item"].removeprefix(PAIR).partition(" ")
        yield _short(Rating(
            entries["left"] or entries["item"], rater, answer, _seconds(entries["seconds"]), time, place,
            entries["simulated"].lower() in ("true", "1"), right, entries["question"],
        ))  # fmt: skip


def _entry(row: Mapping[str, Any], name: str) -> str:
    value = row.get(name)
    return json.dumps(value) if isinstance(value, list | dict) else "" if value is None else str(value).strip()


def _is_missing(entry: str) -> bool:
    return not entry or entry in MISSING


def _column(key: str, header: Sequence[str], named: Mapping[str, str], file: Path) -> str:
    """Return the column of the file that holds this, empty for one that is not needed and not there."""
    if key in named:
        if named[key] not in header:
            raise RatingsError.missing(
                f"{file}: no column {named[key]!r} for the {key}; found {named_in_a_line(header)}"
            )
        return named[key]
    lower = _lower(header)
    for name in COLUMNS[key]:
        if name.lower() in lower:
            if sum(each.strip().lower() == name.lower() for each in header) > 1:
                raise RatingsError.duplicate(f"{file}: the column {name!r} is there twice, for the {key}; remove one")
            return lower[name.lower()]
    if key in ("item", "rater", "answer"):
        form = next((form for form, marks in _FORMS.items() if marks & lower.keys()), "")
        way_out = (
            f"It looks like an export of {form}, which has a column a picture: make a row of each answer, with the "
            "columns item, rater and answer" if form else f"Name it: --{key}-column NAME"
        )  # fmt: skip
        raise RatingsError.missing(f"{file}: no column for the {key}; found {named_in_a_line(header)}. {way_out}")
    return ""


def _lower(header: Sequence[str]) -> dict[str, str]:
    """Return the columns of a file by their names in small letters."""
    return {name.strip().lower(): name for name in header}


_FORMS: Final[Mapping[str, frozenset[str]]] = {
    "Google Forms": frozenset({"timestamp", "zeitstempel", "horodateur", "marca temporal"}),
    "Qualtrics": frozenset({"responseid", "recordeddate", "recipientlastname"}),
    "SurveyMonkey": frozenset({"respondent id", "collector id"}),
    "Microsoft Forms": frozenset({"completion time", "start time"}),
    "LimeSurvey": frozenset({"lastpage", "startlanguage", "submitdate"}),
    "REDCap": frozenset({"record_id", "redcap_event_name"}),
    "Typeform": frozenset({"network id", "submit date (utc)"}),
}
"""Programs that export a row a person, by columns that others do not have."""

_ANSWER: Final = "answer."
_CHOSEN: Final = frozenset({"true", "on", "1", "yes", "x"})
_MARKS: Final = _CHOSEN | {"", "false", "off", "0", "no", *(each.lower() for each in MISSING)}


def _is_there(key: str, header: Sequence[str]) -> bool:
    return any(name.lower() in _lower(header) for name in COLUMNS[key])


def _option_columns(header: Sequence[str]) -> dict[str, str]:
    """Return the columns of a batch with a column an option, as ``Answer.gender.man`` or ``Answer.man.on``, by name."""
    names = (name for name in header if name.strip().lower().startswith(_ANSWER))
    return {name: name.strip()[len(_ANSWER) :].removesuffix(".on").rpartition(".")[2] for name in names}


def _one_chosen(row: Mapping[str, Any], options: Mapping[str, str], answer: str, place: str) -> str:
    """Return the one answer of a row that has a column an option, or answers as JSON.

    Empty where none is chosen.

    Raises
    ------
    RatingsError
        There are several.
    """
    chosen = [option for name, option in options.items() if str(row.get(name) or "").strip().lower() in _CHOSEN]
    written = [_entry(row, name) for name in options] + [answer]
    for text in (text for text in written if text[:1] in ("[", "{")):
        try:
            chosen += _chosen_in(json.loads(text))
        except (ValueError, RecursionError) as error:
            raise RatingsError.malformed(f"{place}: the answer is not JSON: {quoted(text)}") from error
    words = [name for name, text in zip(options, written, strict=False) if text.lower() not in _MARKS and not chosen]
    words = [name for name in words if _entry(row, name)[:1] not in ("[", "{")]
    if len(words) > 1:
        raise RatingsError.conflict(
            f"{place}: found several answers, of {', '.join(words)}; say which: --answer-column NAME"
        )
    chosen += [_entry(row, name) for name in words]
    if len(chosen) > 1:
        raise RatingsError.conflict(
            f"{place}: found {first_and_more(chosen, 3)} chosen of the options, expected one; leave the row out, or "
            "fix it"
        )
    return chosen[0] if chosen else ""


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
    """Return a rating unless one of its entries is longer than an entry is."""
    for name in ("item", "rater", "answer", "time", "right", "question"):
        entry = getattr(rating, name)
        if len(entry) > LONGEST:
            raise RatingsError.too_many(
                f"{rating.place}: the {name} has {len(entry):,} characters, expected {LONGEST:,} or fewer"
            )
    return rating


def _seconds(text: str) -> float:
    try:
        value = float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        return nan
    return value if isfinite(value) and value >= 0 else nan


# --- Label Studio ----------------------------------------------------------------------------------------------------


def _from_json(text: str, file: Path, named: Mapping[str, str]) -> Iterator[Rating]:
    """Yield the ratings of a list of tasks, or of rows as a list or a line each."""
    try:
        lines = [line for line in text.splitlines() if line.strip()]
        is_lines = text.lstrip()[:1] == "{" and len(lines) > 1 and lines[0].rstrip().endswith("}")
        tasks = [json.loads(line) for line in lines] if is_lines else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RatingsError.malformed(f"{file}: not JSON: {' '.join(str(error).split())[:200]}") from error
    if not isinstance(tasks, list):
        raise RatingsError.wrong_type(
            f"{file}: expected a list of tasks, as Label Studio exports them; found {type(tasks).__name__}"
        )
    are_rows = [isinstance(task, dict) and not {"data", "annotations"} & task.keys() for task in tasks]
    if tasks and all(are_rows):
        header = list(dict.fromkeys(str(key) for task in tasks for key in task))
        yield from _rows(header, ((f"{file}, row {n}", task) for n, task in enumerate(tasks, 1)), file, named)
    else:
        yield from _label_studio(tasks, file, named.get("answer"))


def _label_studio(tasks: Sequence[Any], file: Path, wanted: str | None) -> Iterator[Rating]:
    """Yield the choice of every annotation that was not skipped; ``wanted`` is the control it was made with."""
    for order, task in enumerate(tasks, 1):
        place = f"{file}, task {order}"
        data = task.get("data") if isinstance(task, dict) else None
        if not isinstance(data, dict):
            raise RatingsError.missing(f"{place}: no data; export from Label Studio as JSON, not as JSON-MIN")
        item = next((str(data[name]) for name in ("item", "id", "image") if data.get(name)), "")
        if not item:
            raise RatingsError.missing(f"{place}: its data name no item; expected a field called item, id or image")
        for annotation in _mappings(task.get("annotations"), "annotations", place):
            if not annotation.get("was_cancelled"):
                yield from _choices(annotation, item, place, wanted)


def _mappings(mappings: Any, name: str, place: str) -> Sequence[Mapping[str, Any]]:
    """Return a list of mappings, which may be missing."""
    if not mappings:
        return ()
    if not isinstance(mappings, list) or not all(isinstance(mapping, dict) for mapping in mappings):
        raise RatingsError.wrong_type(f"{place}: its {name} are not a list of mappings, as Label Studio writes them")
    return mappings


def _choices(annotation: Mapping[str, Any], item: str, place: str, wanted: str | None) -> Iterator[Rating]:
    by = annotation.get("completed_by")
    rater = str(by.get("id") or by.get("email") or "") if isinstance(by, dict) else str(by or "")
    if not rater:
        raise RatingsError.missing(f"{place}: an annotation does not say by whom (completed_by)")
    choices: dict[str, list[str]] = {}
    for result in _mappings(annotation.get("result"), "result", place):
        value, control = result.get("value"), str(result.get("from_name") or "")
        chosen = value.get("choices") if isinstance(value, dict) else None
        if chosen and isinstance(chosen, list) and wanted in (None, control):
            choices[control] = [*choices.get(control, []), *map(str, chosen)]
    if len(choices) > 1:
        raise RatingsError.conflict(f"{place}: found choices of {', '.join(choices)}; say which: --answer-column NAME")
    for chosen_of_control in choices.values():
        if len(chosen_of_control) > 1:
            raise RatingsError.conflict(
                f"{place}: found {first_and_more(chosen_of_control, 3)} chosen, expected one; leave it out, or fix it"
            )
        seconds = _seconds(str(annotation.get("lead_time")))
        yield _short(Rating(item, rater, chosen_of_control[0], seconds, str(annotation.get("created_at") or ""), place))
