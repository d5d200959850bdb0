"""Questions to an index of samples: which images fit a choice, in which order, and which share their noise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

Order = Literal["seed", "typical", "unusual", "unsure", "sure"]
People = Literal["any", "rated", "alike", "otherwise", "simulated"]
Status = Literal["any", "ok", "refused", "failed", "blank", "flagged"]

ORDERS: Final[dict[Order, str]] = {
    "seed": "as planned",
    "typical": "most typical first",
    "unusual": "least typical first",
    "unsure": "least certain first",
    "sure": "most certain first",
}
PEOPLE: Final[dict[People, str]] = {
    "any": "any",
    "rated": "rated by people",
    "alike": "seen as the encoder reads",
    "otherwise": "seen otherwise",
    "simulated": "simulated raters alone",
}
STATUSES: Final[dict[Status, str]] = {
    "any": "any",
    "ok": "drawn",
    "refused": "refused",
    "failed": "failed",
    "blank": "of one colour",
    "flagged": "flagged by a safety checker",
}
_SORTED_BY: Final[dict[Order, tuple[str, bool]]] = {
    "typical": ("r.typicality", True),
    "unusual": ("r.typicality", False),
    "unsure": ("r.margin", False),
    "sure": ("r.margin", True),
}
"""The column, and whether it falls."""

_COMPARED: Final[dict[People, tuple[str, ...]]] = {
    "alike": ("p.answer = r.side", "r.side <> ''"),
    "otherwise": ("p.answer <> r.side", "p.answer <> ''", "r.side <> ''"),
}
Noise = tuple[str, int, float]
"""What an image began from: prompt, seed and strength."""


@dataclass(frozen=True)
class Owner:
    """A concept or a group with images: its role in the run and its name."""

    code: int
    role: str
    name: str
    category: str
    images: int

    @property
    def key(self) -> str:
        """Return what an address calls it."""
        return f"{self.role}/{self.name}"


@dataclass(frozen=True)
class Eye:
    """An encoder, and the groups that it reads images as."""

    code: int
    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Voice:
    """A reader and a question that it answered, with all that it might answer."""

    code: int
    reader: str
    question: str
    answers: tuple[str, ...]

    @property
    def key(self) -> str:
        """Return what an address calls it."""
        return f"{self.question}/{self.reader}"


@dataclass(frozen=True)
class Said:
    """A reader's answer to a question about an image, in its words where it has any; without one there is a reason."""

    reader: str
    question: str
    answer: str
    probability: float | None
    words: str
    reason: str


@dataclass(frozen=True)
class SampleChoice:
    """Which samples are wanted: of these owners (all where none is named), read so by this encoder, in this order.

    ``within`` : only readings whose margin is at most this. ``people`` : only images that people rated, or of these
    the ones of which most said the group that the encoder reads, or something else. ``said`` : only images to which a
    reader, that of ``voice`` where it is named, gives this answer. ``disputed`` : only those on which readers disagree.
    """

    owners: tuple[int, ...] = ()
    eye: int | None = None
    side: str = ""
    status: Status = "any"
    within: float | None = None
    order: Order = "seed"
    people: People = "any"
    voice: int | None = None
    said: str = ""
    disputed: bool = False

    @property
    def is_of_readings(self) -> bool:
        """Whether images that the encoder did not see are left out."""
        compared = self.people in ("alike", "otherwise")
        return self.eye is not None and (bool(self.side) or self.within is not None or self.order != "seed" or compared)


@dataclass(frozen=True)
class IndexedSample:
    """One sample, and what the encoder read in it; empty and None where it read nothing."""

    id: str
    part: int
    row: int
    owner: int
    prompt: str
    seed: int
    strength: float
    status: str
    reason: str
    sha256: str
    side: str
    margin: float | None
    typicality: float | None
    flagged: int
    said: tuple[Said, ...] = ()

    @property
    def noise(self) -> Noise:
        """What it began from: two runs' samples of one noise stand side by side."""
        return self.prompt, self.seed, self.strength


class Samples:
    """An index, opened for reading."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._database.close()

    def bring_people(self, answers: Mapping[str, tuple[str, bool]]) -> None:
        """Bring what most people said of rated images, by id, for choices among them; it is gone with this object.

        Beside each answer stands whether it is that of simulated raters.
        """
        self._database.execute("CREATE TEMP TABLE people (id TEXT PRIMARY KEY, answer TEXT, simulated INTEGER)")
        self._database.executemany(
            "INSERT INTO people VALUES (?, ?, ?)", ((key, *told) for key, told in answers.items())
        )

    def owners(self) -> list[Owner]:
        """Return every concept and group that has images, in the order of the plan."""
        return [
            Owner(*row) for row in self._all("SELECT owner, role, name, category, images FROM owners ORDER BY owner")
        ]

    def eyes(self) -> list[Eye]:
        """Return every encoder of the run."""
        rows = self._all("SELECT encoder, name, groups FROM encoders ORDER BY encoder")
        return [Eye(code, name, tuple(groups.split("\n")) if groups else ()) for code, name, groups in rows]

    def voices(self) -> list[Voice]:
        """List every reader with each question that it answered."""
        rows = self._all("SELECT voice, reader, question, answers FROM voices ORDER BY voice")
        return [Voice(code, reader, question, tuple(known.split("\n"))) for code, reader, question, known in rows]

    def count(self, choice: SampleChoice) -> int:
        """Count how many samples fit."""
        source, values = _source(choice)
        return int(self._all(f"SELECT COUNT(*) {source}", values)[0][0])

    def page(self, choice: SampleChoice, offset: int, most: int, total: int) -> list[IndexedSample]:
        """Samples that fit, in order: owner by owner, and within each as the choice says.

        ``total`` : how many fit. What lies nearer to the end is counted from there, as rows are skipped one by one.
        """
        n = max(0, min(most, total - offset))
        if offset <= total // 2:
            positions = self._positions(choice, offset, n)
        else:
            positions = self._positions(choice, total - offset - n, n, backwards=True)[::-1]
        return self._samples(positions, choice.eye)

    def _positions(self, choice: SampleChoice, offset: int, most: int, *, backwards: bool = False) -> list[int]:
        source, values = _source(choice)
        order = ", ".join(f"{column} {'DESC' if down != backwards else 'ASC'}" for column, down in _order(choice))
        query = f"SELECT {_order(choice)[-1][0]} {source} ORDER BY {order} LIMIT ? OFFSET ?"
        return [row[0] for row in self._all(query, [*values, most, max(0, offset)])]

    def find(self, identifier: str, eye: int | None = None) -> IndexedSample | None:
        """Return a sample by its id."""
        rows = self._all("SELECT position FROM samples WHERE id = ? LIMIT 1", [identifier])
        return self._samples([rows[0][0]], eye)[0] if rows else None

    def of_noise(
        self, noises: Iterable[tuple[str, int, float]], eye: int | None
    ) -> dict[tuple[str, int, float], IndexedSample]:
        """Samples that began from some noises, by noise; of several from one noise the first."""
        query = (
            "SELECT s.position FROM prompts p JOIN samples s ON s.prompt = p.prompt "
            "WHERE p.text = ? AND s.seed = ? AND s.strength = ? ORDER BY s.position LIMIT 1"
        )
        positions = [row[0] for noise in noises for row in self._all(query, noise)]
        return {sample.noise: sample for sample in self._samples(positions, eye)}

    def _samples(self, positions: Sequence[int], eye: int | None) -> list[IndexedSample]:
        query = (
            "SELECT s.id, s.part, s.row, s.owner, p.text, s.seed, COALESCE(s.strength, 0), COALESCE(s.status, ''), "
            "COALESCE(s.reason, ''), COALESCE(s.sha256, ''), COALESCE(r.side, ''), r.margin, r.typicality, s.flagged "
            "FROM samples s JOIN prompts p ON p.prompt = s.prompt "
            "LEFT JOIN readings r ON r.encoder = ? AND r.sample = s.position WHERE s.position = ?"
        )
        said = (
            "SELECT v.reader, v.question, a.answer, a.probability, a.words, a.reason FROM answers a "
            "JOIN voices v USING (voice) WHERE a.sample = ? ORDER BY a.voice"
        )
        return [
            replace(
                IndexedSample(*self._all(query, [eye, position])[0]),
                said=tuple(Said(*row) for row in self._all(said, [position])),
            )
            for position in positions
        ]

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(self._database.execute(query, tuple(values))) as cursor:
            return cursor.fetchall()


def _order(choice: SampleChoice) -> list[tuple[str, bool]]:
    """Columns that are sorted by, and whether each falls; the last is the sample's position."""
    if not choice.is_of_readings:
        return [("s.owner", False), ("s.position", False)]
    within = [_SORTED_BY[choice.order]] if choice.order in _SORTED_BY else []
    return [("r.owner", False), *within, ("r.sample", False)]


def _source(choice: SampleChoice) -> tuple[str, list[Any]]:
    """Return the tables and the conditions of a choice, and the values that stand for its question marks."""
    conditions: list[tuple[str, list[Any]]] = []
    if not choice.is_of_readings:
        tables, owner = "samples s", "s.owner"
    else:
        tables, owner = "readings r", "r.owner"
        conditions.append(("r.encoder = ?", [choice.eye]))
        if choice.side:
            conditions.append(("r.side = ?", [choice.side]))
        if choice.within is not None:
            conditions.append(("r.margin <= ?", [choice.within]))
    if choice.people != "any":  # few are rated: they come first, and the others are looked up
        readings = " CROSS JOIN readings r ON r.sample = s.position" if choice.is_of_readings else ""
        tables = f"people p CROSS JOIN samples s ON s.id = p.id{readings}"
        conditions.append(("p.simulated" if choice.people == "simulated" else "NOT p.simulated", []))
        conditions += [(condition, []) for condition in _COMPARED.get(choice.people, ()) if choice.is_of_readings]
    position = "r.sample" if tables == "readings r" else "s.position"
    if choice.said or choice.voice is not None:
        answered = "a.answer = ?" if choice.said else "1"
        by = "" if choice.voice is None else " AND a.voice = ?"
        values = [*([choice.said] if choice.said else []), *([] if choice.voice is None else [choice.voice])]
        conditions.append((f"{position} IN (SELECT a.sample FROM answers a WHERE {answered}{by})", values))
    if choice.disputed:
        conditions.append((f"{position} IN (SELECT sample FROM disputed)", []))
    if choice.owners:
        conditions.append((f"{owner} IN ({', '.join('?' * len(choice.owners))})", list(choice.owners)))
    if choice.status != "any":
        tables += " JOIN samples s ON s.position = r.sample" if tables == "readings r" else ""
        conditions.append(("s.flagged", []) if choice.status == "flagged" else ("s.status = ?", [choice.status]))
    where = f" WHERE {' AND '.join(condition for condition, _ in conditions)}" if conditions else ""
    return f"FROM {tables}{where}", [value for _, values in conditions for value in values]
