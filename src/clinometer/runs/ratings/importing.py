"""Ratings made elsewhere, taken into a run: items become samples, answers groups, raters pseudonyms."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from clinometer._messages import did_you_mean, first_and_more, quoted
from clinometer.errors import RatingsError
from clinometer.runs.ratings.files import Rating, read_ratings
from clinometer.runs.ratings.readings import RATED
from clinometer.runs.ratings.store import OF_CONCEPT, add_ratings
from clinometer.runs.store import Run
from clinometer.suites import EditingSuite, Suite


@dataclass(frozen=True)
class Imported:
    """What was taken in: how many ratings, of how many items, by how many raters, and with which answers."""

    ratings: int
    items: int
    raters: int
    answers: tuple[str, ...]


def import_ratings(run: Run, file: Path, *, named: Mapping[str, str] | None = None, question: str = "") -> Imported:
    """Take the ratings of a file into a run. The same file is taken in once, however often it is given.

    A rater who rated an item twice is taken to have been asked again: the second answer is a repeat.

    Raises
    ------
    RatingsError
        The file is no such file, names an item that the run does not hold, or no answer that is a group.
    """
    ratings = read_ratings(file, named)
    items, answers = _Items(run), _answers_of(run.suite)
    rows = [_row(rating, items, answers, question) for rating in ratings]
    _require_groups(run, rows, answers)
    _with_pseudonyms(rows)
    rows = _with_repeats(rows)
    add_ratings(run, f"file sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}", rows)
    used = tuple(dict.fromkeys(row["answer"] for row in rows))
    return Imported(len(rows), len({row["item"] for row in rows}), len({row["rater"] for row in rows}), used)


class _Items:
    """The items of a run by what a file may call them."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.by_name = {sample.id: sample.id for sample in run.plan}
        self.by_name |= {PurePosixPath(s.file).name: s.id for s in run.plan if s.file}
        self.by_name |= {s.file: s.id for s in run.plan if s.file}
        concepts = {name for s in run.plan if s.role in RATED for name in (s.concept, s.category) if name}
        self.by_name |= {name: f"{OF_CONCEPT}{name}" for name in sorted(concepts - self.by_name.keys())}
        self.by_name |= {f"{OF_CONCEPT}{name}": f"{OF_CONCEPT}{name}" for name in concepts}

    def of(self, rating: Rating) -> str:
        """The item that a rating is about: a sample by its id or file, with a folder and an ending or without."""
        name = re.split(r"[/\\]", rating.item)[-1]
        for candidate in (rating.item, name, name.partition("?")[0].rpartition(".")[0]):
            if candidate in self.by_name:
                return self.by_name[candidate]
        hint = did_you_mean(rating.item, self.by_name)
        raise RatingsError(
            f"{rating.place}: {quoted(rating.item)} is no item of {self.run.url}; expected a sample's id, the file it "
            f"was imported from, or a concept{'; ' if hint else ''}{hint}"
        )


def _answers_of(suite: Suite) -> Mapping[str, str]:
    """Groups by their names and labels, in small letters; of an editing suite the two genders."""
    if isinstance(suite, EditingSuite):
        return {name.lower(): name for name in (suite.genders.a, suite.genders.b)}
    groups = getattr(suite, "groups", {})
    labels = {(getattr(group, "label", None) or name).lower(): name for name, group in groups.items()}
    return labels | {name.lower(): name for name in groups}


def _row(rating: Rating, items: _Items, answers: Mapping[str, str], question: str) -> dict[str, Any]:
    return {
        "question": question,
        "item": items.of(rating),
        "rater": rating.rater,
        "answer": answers.get(rating.answer.lower(), rating.answer),
        "seconds": rating.seconds,
        "time": rating.time,
        "simulated": rating.is_simulated,
    }


def _with_pseudonyms(rows: Iterable[dict[str, Any]]) -> None:
    """Put a pseudonym in the place of each rater. The key is thrown away: nothing leads back to a worker's number."""
    key = secrets.token_bytes(32)
    for row in rows:
        row["rater"] = hashlib.blake2b(row["rater"].encode("utf-8", "replace"), key=key, digest_size=6).hexdigest()


def _with_repeats(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    counts: dict[tuple[str, str], int] = {}
    counted_rows = []
    for row in rows:
        times = counts[row["rater"], row["item"]] = counts.get((row["rater"], row["item"]), 0) + 1
        if times <= 2:
            counted_rows.append(row | {"repeat": times == 2})
    return counted_rows


def _require_groups(run: Run, rows: Iterable[Mapping[str, Any]], answers: Mapping[str, str]) -> None:
    """Refuse answers of which none is a group of the suite: nothing could be held against the machine."""
    groups, labels = set(answers.values()), list(dict.fromkeys(row["answer"] for row in rows))
    if not groups & set(labels):
        raise RatingsError(
            f"answers: found {first_and_more(labels, 4)}, expected names or labels of the suite's groups among them: "
            f"{', '.join(sorted(groups))}"
        )
