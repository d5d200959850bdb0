"""A file that finds samples: SQLite, outside the run directory, made when a run is first looked at.

A page then asks for the few samples it shows, whatever the size of the run. The file holds what the run says of each
image and what each encoder reads in it, no pixels. It is made anew when the run's files change. See decision 43.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from clinometer import api
from clinometer._messages import OTHERWISE
from clinometer.errors import RunStorageError
from clinometer.models.weights import file_hash
from clinometer.runs.browse import Owner, Piece, Reader, part_numbers, piece_of
from clinometer.studies import study_of
from clinometer.web.runs_index import RunEntry

VERSION: Final = 3
"""Of the tables; a file of another is made anew."""

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


class Building(Exception):  # noqa: N818 - it is no error
    """An index is being made; ``share`` of the run is read."""

    def __init__(self, share: float) -> None:
        super().__init__(f"{share:.0%}")
        self.share = share


@dataclass
class _Build:
    """An index that is being made."""

    thread: threading.Thread
    share: float = 0.0
    error: Exception | None = None


class Shelf:
    """The indices of runs, in a folder."""

    def __init__(self, folder: Path, *, patience: float = 2.0) -> None:
        self._folder = folder
        self._patience = patience
        self._lock = threading.Lock()
        self._builds: dict[Path, _Build] = {}
        self._whole: dict[Path, tuple[int, int, int]] = {}

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
        if self._is_whole(place):
            return place
        build = self._begun(entry, place)
        build.thread.join(self._patience)
        if build.thread.is_alive():
            raise Building(build.share)
        self._builds.pop(place, None)
        if build.error is not None:
            raise build.error
        return place

    def has(self, entry: RunEntry) -> bool:
        """Tell whether a run as it is now has been read."""
        return self._is_whole(self._place(entry))

    def _is_whole(self, place: Path) -> bool:
        """Whether an index is there and is what was written: SQLite itself takes many a changed byte for a number."""
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
        return self._folder / f"{entry.listed.id}-{_digest(entry.stamp)}.sqlite"

    def _begun(self, entry: RunEntry, place: Path) -> _Build:
        with self._lock:
            if place not in self._builds:
                thread = threading.Thread(target=lambda: self._make(entry, place), daemon=True)
                self._builds[place] = _Build(thread)
                thread.start()
            return self._builds[place]

    def _make(self, entry: RunEntry, place: Path) -> None:
        build = self._builds[place]
        try:
            assert entry.run is not None
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            make_index(entry.run, place, lambda share: setattr(build, "share", share))
            _checksum_file(place).write_text(file_hash(place), encoding="ascii")
        except (OSError, sqlite3.Error) as error:
            build.error = RunStorageError(
                f"{self._folder}: no index of a run can be written there: {error}; mend that, or give another --cache"
            )
            return
        except Exception as error:  # told to whoever asked for the page
            build.error = error
            return
        for old in self._folder.glob(f"{entry.listed.id}-*.sqlite*"):
            if old not in (place, _checksum_file(place)):
                old.unlink(missing_ok=True)


def _checksum_file(place: Path) -> Path:
    """Return the file that says an index's checksum."""
    return place.with_name(f"{place.name}.sha256")


def _digest(stamp: str) -> str:
    return hashlib.sha256(f"{VERSION} {stamp}".encode()).hexdigest()[:16]


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
            _fill(run, _Writer(database), progress)
            database.executescript(_DISPUTED + _INDICES)
            database.execute("ANALYZE")
            database.commit()
        os.replace(temporary, place)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _fill(run: api.Run, writer: _Writer, progress: Callable[[float], None]) -> None:
    parts = part_numbers(run)
    words = study_of(run.suite).reading_words(run.suite)
    readers = [Reader(run, name, words) for name in run.encoder_cards]
    for order, part in enumerate(parts):
        piece = piece_of(run, part)
        writer.write_samples(piece, run)
        for reader in readers:
            reader.learn(piece)
        progress(order / len(parts) / 2)
    for code, reader in enumerate(readers):
        writer.write_encoder(code, reader)
    writer.begin_again()
    for order, part in enumerate(parts if readers else ()):
        piece = piece_of(run, part)
        writer.write_readings(piece, readers)
        progress(0.5 + order / len(parts) / 2)
    writer.write_names()


class _Writer:
    """Writes samples in order; names that come again and again are written once."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._position = 0
        self._owners: dict[Owner, int] = {}
        self._about: list[list[Any]] = []
        self._prompts: dict[str, int] = {}
        self._voices: dict[tuple[str, str], int] = {}

    def begin_again(self) -> None:
        """Go back to the first part."""
        self._position = 0

    def write_samples(self, piece: Piece, run: api.Run) -> None:
        """Write what is known of each sample, and what readers said of it."""
        c = piece.columns
        owners = [self._owner(owner, category) for owner, category in zip(piece.owners, c["category"], strict=True)]
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

    def _owner(self, owner: Owner, category: str | None) -> int:
        code = self._owners.setdefault(owner, len(self._owners))
        if code == len(self._about):
            self._about.append([code, *owner, category or "", 0])
        self._about[code][-1] += 1
        return code

    def write_encoder(self, code: int, reader: Reader) -> None:
        """Write an encoder's name, and the groups that it reads images as."""
        self._database.execute(
            "INSERT INTO encoders VALUES (?, ?, ?)", (code, reader.encoder, "\n".join(reader.groups))
        )

    def write_readings(self, piece: Piece, readers: Sequence[Reader]) -> None:
        """Write what each encoder reads in a part."""
        owners = [self._owners[owner] for owner in piece.owners]
        for code, reader in enumerate(readers):
            rows = (
                (code, self._position + row, owners[row], reading.group, reading.margin, reading.typicality)
                for row, reading in reader.read(piece)
            )
            self._database.executemany("INSERT INTO readings VALUES (?, ?, ?, ?, ?, ?)", rows)
        self._position += len(owners)

    def write_names(self) -> None:
        """Write owners and prompts."""
        self._database.executemany("INSERT INTO owners VALUES (?, ?, ?, ?, ?)", self._about)
        prompts = ((code, text) for text, code in self._prompts.items())
        self._database.executemany("INSERT INTO prompts VALUES (?, ?)", prompts)
