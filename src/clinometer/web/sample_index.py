"""A file that finds samples: SQLite, outside the run directory, made when a run is first looked at.

A page then asks for the few samples it shows, whatever the size of the run: which images fit a choice, in which order,
and which share their noise. The file holds what the run says of each image and what each encoder reads in it, no
pixels. It is made again when the run's files change. See decision 43.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from clinometer import api
from clinometer._messages import OTHERWISE
from clinometer.errors import RunStorageError
from clinometer.models.weights import file_hash
from clinometer.runs.browse import Piece, Reader, part_numbers, piece_of
from clinometer.studies import study_of
from clinometer.web.pages import BackgroundJobs
from clinometer.web.runs_index import RunEntry

VERSION: Final = 3
"""Of the tables; a file of another is made again."""

_TABLES: Final = """
CREATE TABLE owners (owner INTEGER PRIMARY KEY, role TEXT, name TEXT, category TEXT, images INTEGER);
CREATE TABLE prompts (prompt INTEGER PRIMARY KEY, text TEXT UNIQUE);
CREATE TABLE encoders (encoder INTEGER PRIMARY KEY, name TEXT, groups TEXT);
CREATE TABLE samples (position INTEGER PRIMARY KEY, id TEXT, part INTEGER, row INTEGER, owner INTEGER, prompt INTEGER,
    seed INTEGER, strength REAL, status TEXT, reason TEXT, sha256 TEXT, flagged INTEGER);
CREATE TABLE readings (encoder INTEGER, sample INTEGER, owner INTEGER, side TEXT, margin REAL, typicality REAL,
    PRIMARY KEY (encoder, sample)) WITHOUT ROWID;
CREATE TABLE voices (voice INTEGER PRIMARY KEY, reader TEXT, question TEXT, answers TEXT);
CREATE TABLE answers (sample INTEGER, voice INTEGER, answer TEXT, probability REAL, words TEXT, reason TEXT,
    PRIMARY KEY (sample, voice)) WITHOUT ROWID;
CREATE TABLE disputed (sample INTEGER PRIMARY KEY);
"""
_DISPUTED: Final = """
INSERT INTO disputed SELECT DISTINCT sample FROM (SELECT a.sample AS sample FROM answers a JOIN voices v USING (voice)
    WHERE a.answer <> '' GROUP BY a.sample, v.question HAVING COUNT(DISTINCT a.answer) > 1);
"""
"""Images to which two readers give different answers to one question."""

_INDICES: Final = """
CREATE INDEX answers_by_answer ON answers (answer, voice, sample);
CREATE INDEX samples_by_id ON samples (id);
CREATE INDEX samples_by_owner ON samples (owner, status);
CREATE INDEX samples_by_flag ON samples (owner) WHERE flagged;
CREATE INDEX samples_by_noise ON samples (prompt, seed);
CREATE INDEX readings_by_margin ON readings (encoder, owner, margin, side);
CREATE INDEX readings_by_typicality ON readings (encoder, owner, typicality, side);
"""


LONGEST: Final = 400
"""Characters of a reader's words that are kept."""


class RunIndices:
    """The indices of runs, in a folder."""

    def __init__(self, folder: Path, *, patience: float = 2.0) -> None:
        self._folder = folder
        self._whole: dict[Path, tuple[int, int, int]] = {}
        why = "A run is read once, part by part, before its pictures are shown."
        self.jobs = BackgroundJobs("Reading the run", why, patience=patience)

    def path(self, entry: RunEntry) -> Path:
        """Return the index of a run as it is now.

        Raises
        ------
        Building
            It is being made, and takes longer than a page should.
        ClinometerError
            The run cannot be read.
        """
        place = self._place(entry)
        if not self._is_whole(place):
            self.jobs.result(place, lambda progress: self._make(entry, place, progress))
        return place

    def has(self, entry: RunEntry) -> bool:
        """Return whether a run as it is now has been read."""
        return self._is_whole(self._place(entry))

    def _is_whole(self, place: Path) -> bool:
        """Return whether an index is there and unchanged: SQLite itself reads many a changed byte as a number."""
        try:
            info = place.stat()
            key = (info.st_mtime_ns, info.st_size, info.st_ino)
            if self._whole.get(place) != key:
                if file_hash(place) != _checksum_file(place).read_text(encoding="ascii"):
                    return False
                self._whole[place] = key
        except (OSError, ValueError):
            return False
        return True

    def _place(self, entry: RunEntry) -> Path:
        digest = hashlib.sha256(f"{VERSION} {entry.stamp}".encode()).hexdigest()[:16]
        return self._folder / f"{entry.listed.id}-{digest}.sqlite"

    def _make(self, entry: RunEntry, place: Path, progress: Callable[[float], None]) -> None:
        assert entry.run is not None
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_index(entry.run, place, progress)
            _checksum_file(place).write_text(file_hash(place), encoding="ascii")
        except (OSError, sqlite3.Error) as error:
            raise RunStorageError(
                f"{self._folder}: no index of a run can be written there: {error}; fix that, or give another --cache"
            ) from error
        for old in self._folder.glob(f"{entry.listed.id}-*.sqlite*"):
            if old not in (place, _checksum_file(place)):
                old.unlink(missing_ok=True)


def _checksum_file(place: Path) -> Path:
    """Return the file that says an index's checksum."""
    return place.with_name(f"{place.name}.sha256")


def make_index(run: api.Run, place: Path, progress: Callable[[float], None]) -> None:
    """Read a run part by part into an index; what is there under its name is whole.

    Raises
    ------
    RunError
        A part cannot be read.
    """
    temporary = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with closing(sqlite3.connect(temporary)) as database:
            database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;{_TABLES}")
            _Writer(database).write(run, progress)
            database.executescript(_DISPUTED + _INDICES)
            database.execute("ANALYZE")
            database.commit()
        os.replace(temporary, place)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


class _Writer:
    """Writes samples in order; names that come again and again are written once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._position = 0
        self._owners: dict[tuple[str, str], int] = {}
        self._about: list[list[Any]] = []
        self._prompts: dict[str, int] = {}
        self._voices: dict[tuple[str, str], int] = {}

    def write(self, run: api.Run, progress: Callable[[float], None]) -> None:
        """Write all of a run, part by part: what it says of each sample, and then what each encoder reads in it."""
        parts, words = part_numbers(run), study_of(run.suite).reading_words(run.suite)
        readers = [Reader(run, name, words) for name in run.encoder_cards]
        for order, part in enumerate(parts):
            piece = piece_of(run, part)
            self._write_samples(piece, run)
            for reader in readers:
                reader.learn(piece)
            progress(order / len(parts) / 2)
        encoders = ((code, reader.encoder, "\n".join(reader.groups)) for code, reader in enumerate(readers))
        self._database.executemany("INSERT INTO encoders VALUES (?, ?, ?)", encoders)
        self._position = 0
        for order, part in enumerate(parts if readers else ()):
            self._write_readings(piece_of(run, part), readers)
            progress(0.5 + order / len(parts) / 2)
        self._database.executemany("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", self._about)
        prompts = ((code, text) for text, code in self._prompts.items())
        self._database.executemany("INSERT INTO prompts VALUES (?, ?)", prompts)

    def _write_samples(self, piece: Piece, run: api.Run) -> None:
        """Write what is known of each sample, and what readers said of it."""
        c = piece.columns
        owners = []
        for owner, category in zip(piece.owners, c["category"], strict=True):
            code = self._owners.setdefault(owner, len(self._owners))
            if code == len(self._about):
                self._about.append([code, *owner, category or "", 0])
            self._about[code][-1] += 1
            owners.append(code)
        prompts = [self._prompts.setdefault(prompt or "", len(self._prompts)) for prompt in c["prompt"]]
        n = len(owners)
        rows = zip(
            range(self._position, self._position + n), c["id"], [piece.part] * n, range(n), owners, prompts,
            c["seed"], c["strength"], c["status"], c["reason"], c["sha256"], map(bool, c["flagged"]), strict=True,
        )  # fmt: skip
        self._database.executemany(f"INSERT INTO samples VALUES ({', '.join('?' * 12)})", rows)
        for reader, record in run.readers.cards.items():
            questions = run.readers.questions(reader)
            options = {name: [*spec.answers, *OTHERWISE] for name, spec in questions.items()}
            for name, known in options.items():
                if (reader, name) not in self._voices:
                    self._voices[reader, name] = len(self._voices)
                    voice = (self._voices[reader, name], reader, name, "\n".join(known))
                    self._database.execute("INSERT INTO voices VALUES (?, ?, ?, ?)", voice)
            said = run.answers.of_part(record, piece.part)
            places = {identifier: self._position + row for row, identifier in enumerate(c["id"])}
            answers = (
                (
                    places[identifier], self._voices[reader, name], row["answer"] or "",
                    row["probabilities"][options[name].index(row["answer"])]
                    if row["answer"] and row["probabilities"] else None,
                    (row["words"] or "")[:LONGEST], (row["reason"] or "")[:LONGEST],
                )
                for (identifier, name), row in said.items() if identifier in places and name in options
            )  # fmt: skip
            self._database.executemany("INSERT INTO answers VALUES (?, ?, ?, ?, ?, ?)", answers)
        self._position += n

    def _write_readings(self, piece: Piece, readers: Sequence[Reader]) -> None:
        """Write what each encoder reads in a part."""
        owners = [self._owners[owner] for owner in piece.owners]
        for code, reader in enumerate(readers):
            rows = (
                (code, self._position + row, owners[row], reading.group, reading.margin, reading.typicality)
                for row, reading in reader.read(piece)
            )
            self._database.executemany("INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._position += len(owners)


# --- questions to it -------------------------------------------------------------------------------------------------

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
    "alike": "seen as the encoder reads them",
    "otherwise": "seen differently",
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
class IndexedEncoder:
    """An encoder, and the groups that it reads images as."""

    code: int
    name: str
    groups: tuple[str, ...]


@dataclass(frozen=True)
class ReaderQuestion:
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
class ReaderAnswer:
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
    said: tuple[ReaderAnswer, ...] = ()

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
        """Load the majority answers about rated images, by id, for filters; they are gone with this object.

        Beside each answer stands whether it is that of simulated raters.
        """
        self._database.execute("CREATE TEMP TABLE people (id TEXT PRIMARY KEY, answer TEXT, simulated INTEGER)")
        self._database.executemany(
            "INSERT INTO people VALUES (?, ?, ?)", ((key, *answer) for key, answer in answers.items())
        )

    def owners(self) -> list[Owner]:
        """Return every concept and group that has images, in the order of the plan."""
        query = "SELECT owner, role, name, category, images FROM owners ORDER BY owner"
        return [Owner(*row) for row in self._all(query)]

    def eyes(self) -> list[IndexedEncoder]:
        """Return every encoder of the run."""
        rows = self._all("SELECT encoder, name, groups FROM encoders ORDER BY encoder")
        return [IndexedEncoder(code, name, tuple(groups.split("\n")) if groups else ()) for code, name, groups in rows]

    def voices(self) -> list[ReaderQuestion]:
        """List every reader with each question that it answered."""
        rows = self._all("SELECT voice, reader, question, answers FROM voices ORDER BY voice")
        return [
            ReaderQuestion(code, reader, question, tuple(known.split("\n"))) for code, reader, question, known in rows
        ]

    def count(self, choice: SampleChoice) -> int:
        """Count how many samples fit."""
        source, values = _source(choice)
        return int(self._all(f"SELECT COUNT(*) {source}", values)[0][0])

    def page(self, choice: SampleChoice, offset: int, most: int, total: int) -> list[IndexedSample]:
        """Return samples that fit, in order: owner by owner, and within each as the choice says.

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

    def of_noise(self, noises: Iterable[Noise], eye: int | None) -> dict[Noise, IndexedSample]:
        """Return the samples that began from some noises, by noise; of several from one noise, the first."""
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
                said=tuple(ReaderAnswer(*row) for row in self._all(said, [position])),
            )
            for position in positions
        ]

    def _all(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with closing(self._database.execute(query, tuple(values))) as cursor:
            return cursor.fetchall()


def _order(choice: SampleChoice) -> list[tuple[str, bool]]:
    """Return columns that are sorted by, and whether each falls; the last is the sample's position."""
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
