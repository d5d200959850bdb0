"""The ledger of a run: run.json, and in it the checksum of every file, so that what is read back is what was written.

A file is written first and listed at the end of its stage. Until then its own seal vouches for it, so a process may be
killed at any moment. Before a file that is listed is written again or removed, it leaves the list. See decision 29.
run.json also has the cards of the models that left files: encoders and readers.
"""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from threading import Lock, RLock
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
from filelock import FileLock, Timeout

from clinometer.errors import RunCorruptError, RunLockedError, RunMismatchError, RunNotFoundError, UncheckedRunWarning
from clinometer.metrics.records import Score
from clinometer.models.protocols import Card, Status
from clinometer.runs.backends import not_writable
from clinometer.runs.leases import Lease, is_gone
from clinometer.runs.record import card_record, difference_between, is_checked, require_whole, with_checksum
from clinometer.runs.storage import REDO, REDO_MISSING, Directory, Shape
from clinometer.suites.question import QuestionSpec

RECORD: Final = "run.json"
COUNTS: Final = "counts.parquet"
TABLES: Final = ("plan.parquet", "scores.parquet", "curves.parquet", COUNTS)
RATINGS: Final = "ratings"
STRIPS, LATENTS, TRACE = "strips", "latents", "trace"
UNFINISHED: Final = "unfinished"
"""Samples of parts that were stopped halfway."""
CLASSIFICATIONS: Final = "classifications"
"""Denoising errors."""
FOLDERS: Final = ("samples", CLASSIFICATIONS, STRIPS, LATENTS, RATINGS)
EMBEDDINGS: Final = "embeddings"
READINGS: Final = "readings"

UNCHECKED: Final = "unchecked: its run.json is of format 1, without checksums: what is read back cannot be verified"
"""The warning about a run that an earlier version began, or whose checksums somebody took out."""

_LISTED: Final = re.compile(r"(part-\d+|texts|saved-again|known|clusters|again)\.parquet")
_WAIT: Final = 30
"""Seconds that a process waits for another to have changed run.json: that takes none."""


@dataclass
class Worker:
    """What a worker makes and reports. A run that is opened for one writes no run.json but to delist what it replaces.

    Every stage makes what its run's parts lack, so it makes of these parts what was asked of the worker. Two workers
    may come to write the same file: one that was thought dead, and the one that took over. The first whole file stays
    and the other is dropped, as both hold the same.

    Attributes
    ----------
    parts : those that it works on.
    replaced : names of files that it was asked to replace; it writes any other only where there is none.
    created : the files that it has made, with their checksums.
    drawn : id, status and reason of the samples that it has written, by part.
    own_encoders : the model's own encoders that it has used.
    unfinished : files of parts that a driver stopped halfway, once listed; a worker leaves none so.
    """

    parts: tuple[int, ...] = ()
    replaced: set[str] = field(default_factory=set)
    created: dict[str, str] = field(default_factory=dict)
    drawn: dict[int, list[tuple[str, Status, str | None]]] = field(default_factory=dict)
    own_encoders: list[Card] = field(default_factory=list)
    unfinished: frozenset[str] | None = None

    def begin(self, parts: Sequence[int]) -> None:
        """Begin with some parts; what was reported of those before is forgotten."""
        self.parts = tuple(parts)
        self.created, self.drawn, self.own_encoders = {}, {}, []


class Ledger:
    """run.json and the files that it vouches for."""

    def __init__(self, directory: Directory, worker: Worker | None = None) -> None:
        self.directory, self.worker = directory, worker
        self._record: dict[str, Any] | None = None
        self._changed: dict[str, Any] | None = None
        """What is about to be written, of the thread that holds ``_changes``."""
        self.written: dict[str, str] = {}
        """The checksums of files that this process or its workers wrote."""
        self._is_all_listed = False
        self._changes = RLock()
        self._reading = Lock()

    # --- run.json ----------------------------------------------------------------------------------------------

    @property
    def record(self) -> dict[str, Any]:
        """The contents of run.json, checked when they are first read."""
        if (changed := self._changed) is not None:
            return changed
        with self._reading:
            record, is_new = self._record, self._record is None
            if record is None:
                record = self._record = self._read_record()
        if is_new and not is_checked(record):
            warnings.warn(UncheckedRunWarning(f"{self.directory.url}: {UNCHECKED}"), stacklevel=2)
        return record

    def read_anew(self) -> dict[str, Any]:
        """Return what run.json says now; what another thread is about to write stays untouched."""
        with self._reading:
            record = self._record = self._read_record()
        return record

    def _read_record(self) -> dict[str, Any]:
        record = self.directory.read_json(RECORD)
        require_whole(record, self.directory.path(RECORD))
        return record

    def update(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        """Change run.json: it is read again, changed and written, as it may have changed since it was opened.

        A worker changes nothing: its driver does.
        """
        if self.worker is None:
            self._change(change)

    def _change(self, change: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
        with self.together():
            self._changed = self.record | dict(change(self.record))

    @contextmanager
    def together(self) -> Iterator[None]:
        """Write several changes of run.json as one. No file that is listed is written in between, or removed."""
        with self._changes:
            if self._changed is not None:
                yield
                return
            with self._changing() as require_held:
                self._changed = before = self.read_anew()
                try:
                    yield
                    if self._changed != before:
                        require_held()
                        changed = with_checksum(self._changed) if is_checked(self._changed) else self._changed
                        self.directory.write_json(RECORD, changed)
                        with self._reading:
                            self._record = changed
                finally:
                    self._changed = None

    @contextmanager
    def _changing(self) -> Iterator[Callable[[], None]]:
        """Lock run.json, so that no other process writes it between a read and a write; without locks a lease does.

        Yields what refuses to write where the lease was lost.
        """
        if not self.directory.is_local:
            lease = Lease(self.directory, "record", lifetime=_WAIT / 2, is_dead=is_gone)
            lease.acquire(_WAIT)
            try:
                yield lease.require_held
            finally:
                lease.release()
            return
        lock = FileLock(self.directory.path(".record.lock"), timeout=_WAIT)
        try:
            lock.acquire()
        except Timeout as error:
            raise RunLockedError(
                f"{self.directory.path(RECORD)}: another process has been changing it for {_WAIT} s; wait for it to "
                "end, and give the same command again"
            ) from error
        except OSError as error:  # no permission, or a disk that is only read
            raise not_writable(self.directory.url, error) from error
        try:
            yield lambda: None
        finally:
            lock.release()

    # --- files -------------------------------------------------------------------------------------------------

    @property
    def files(self) -> Mapping[str, str]:
        """The checksum of each file that is listed, by name."""
        listed: Mapping[str, str] = self.record.get("files") or {}
        return listed

    def read_table(
        self,
        name: str,
        columns: list[str] | None = None,
        *,
        way_out: str = REDO,
        like: pa.Schema | None = None,
        shape: Shape | None = None,
        added: pa.Schema | None = None,
    ) -> pa.Table:
        """Read a table, or some of its columns, if it is what this run wrote, and shaped ``like`` a schema.

        Columns of ``added`` are empty where the file has none.

        Raises
        ------
        RunCorruptError
            It is not, or was written and is missing: the message names the file and the way out.
        RunNotFoundError
            It was not written.
        """
        if like is not None:
            shape = partial(require_shape, like=like)
        with self._naming_missing(name, way_out):
            return self.directory.read_table(
                name,
                columns,
                way_out=way_out,
                check=lambda checksum: self._require(name, checksum, way_out),
                shape=shape,
                added=added,
            )

    def read_batches(self, name: str, columns: list[str], rows: int) -> Iterator[pa.RecordBatch]:
        """Yield some columns of a table a few rows at a time, as :meth:`Directory.read_batches`; raises as above."""
        with self._naming_missing(name, REDO):
            yield from self.directory.read_batches(
                name, columns, rows, check=lambda checksum: self._require(name, checksum, REDO)
            )

    @contextmanager
    def _naming_missing(self, name: str, way_out: str) -> Iterator[None]:
        try:
            yield
        except RunNotFoundError as error:
            if name not in self.files:
                raise
            raise RunCorruptError(
                f"{self.directory.path(name)}: it was written and is missing. {way_out.replace(REDO, REDO_MISSING)}"
            ) from error

    def _require(self, name: str, checksum: str | None, way_out: str) -> None:
        if not is_checked(self.record):
            return
        if checksum is None:
            raise RunCorruptError(
                f"{self.directory.path(name)}: it carries no checksum, so it is not what was written. {way_out}"
            )
        if self.files.get(name, checksum) == checksum:
            return
        listed = (self.read_anew().get("files") or {}).get(name, checksum)  # another process may have written both
        if listed != checksum:
            raise RunCorruptError(
                f"{self.directory.path(name)}: it is another file than run.json lists (checksum {listed[:8]}…, found "
                f"{checksum[:8]}…). {way_out}"
            )

    def require_there(self, names: Iterable[str]) -> None:
        """Refuse to go on without a file that was written: what is made of the others would be of fewer, unseen.

        Raises
        ------
        RunCorruptError
            The message names the first that is missing.
        """
        listed = self.files
        missing_names = self._missing([name for name in names if name in listed])
        if missing_names:
            raise RunCorruptError(
                f"{self.directory.path(missing_names[0])}: it was written and is missing. {REDO_MISSING}"
            )

    def _missing(self, names: Sequence[str]) -> list[str]:
        with self.directory.listed_once():  # a store is asked for listings, and not for each
            return [name for name in names if not self.directory.exists(name)]

    def forget_missing(self) -> None:
        """Delist files that are gone, for the command that rewrites them; not ratings, which no command rewrites."""
        self.unlist(self._missing([name for name in self.files if not name.startswith(f"{RATINGS}/")]))

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table and delist what was there before; a worker writes it only where none is, or to replace one."""
        if self.worker is not None and name not in self.worker.replaced:
            if checksum := self.directory.create_table(name, table):
                self.worker.created[name] = checksum
            return
        self.unlist([name])
        self._is_all_listed = False
        self.written[name] = self.directory.write_table(name, table)

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write another file; what was listed under its name is so no more."""
        self.unlist([name])
        self._is_all_listed = False
        self.directory.write_bytes(name, content)
        self.written[name] = hashlib.sha256(content).hexdigest()

    def remove(self, name: str) -> None:
        """Remove a file, and from the list, if it is there."""
        self.unlist([name])
        self._is_all_listed = False
        self.directory.remove(name)
        self.written.pop(name, None)

    def note_others_wrote(self, files: Mapping[str, str]) -> None:
        """Record what workers wrote: some files for the first time, with the checksums that they report."""
        self._is_all_listed = False
        self.written = dict(files)
        if self.directory.inventory is not None:
            self.directory.inventory.look_again()

    def unlist(self, names: Collection[str]) -> None:
        """Delist files before they are rewritten or removed."""
        if not self.files.keys().isdisjoint(names):
            self._change(
                lambda _: {"files": {name: checksum for name, checksum in self.files.items() if name not in names}}
            )

    def list_files(self, names: Collection[str] | None = None) -> None:
        """List every file at the end of a stage, or some that this process wrote; a worker lists none."""
        if self.worker is not None or not is_checked(self.record) or (names is None and self._is_all_listed):
            return
        if names is None:
            if self.directory.inventory is not None:
                self.directory.inventory.look_again()
            with self.together():
                present = dict.fromkeys(self.present())
                # What was listed and is gone stays listed, so that it is missed: nobody has asked to remove it.
                files = {name: checksum for name, checksum in self.files.items() if name not in present}
                for name in present:
                    checksum = self.written.get(name) or self.files.get(name) or self.directory.seal(name)
                    if checksum:
                        files[name] = checksum
                self.update(lambda _: {"files": files})
            self._is_all_listed = True
        else:
            self.update(lambda _: {"files": {**self.files, **{name: self.written[name] for name in names}}})

    def note_made_of(self, name: str, fingerprint: str | None) -> None:
        """Note what a file that was just written and listed is made of, where that is known."""
        if fingerprint is not None:
            note = {"of": fingerprint, "file": self.files[name]}
            self.update(lambda record: {"made_of": dict(record.get("made_of") or {}) | {name: note}})

    def present(self) -> Iterator[str]:
        """Yield names of the files that can be listed, in order."""
        contents = set(self.directory.contents())
        yield from (name for name in (*TABLES, "scores.csv", "report.html") if name in contents)
        folders: list[str] = [name for name in FOLDERS if name in contents]
        for several in (EMBEDDINGS, READINGS, TRACE):
            folders += self.directory.names(several, "") if several in contents else []
        for folder in folders:
            for name in self.directory.names(folder, ".parquet"):
                if _LISTED.fullmatch(name.rsplit("/", 1)[-1]):
                    yield name


# --- The shape of tables that are read back --------------------------------------------------------------------------
#
# Seals tell a table that was changed from the one that was written. Of a run without seals, or one that somebody made
# to be opened, they say nothing: its tables are compared with a shape before anything is made of them.


_TEXTS: Final = frozenset(each.name for each in fields(Score) if isinstance(each.default, str)) | {"curve"}
_NUMBERS: Final = frozenset(each.name for each in fields(Score) if isinstance(each.default, int | float)) | {
    "x",
    "y",
}


def always(schema: pa.Schema, empty: Collection[str] = ()) -> pa.Schema:
    """Return a schema whose columns have a cell in every row, but for some."""
    return pa.schema([pa.field(column.name, column.type, nullable=column.name in empty) for column in schema])


def require_shape(table: pa.Table, like: pa.Schema) -> None:
    """Refuse a table one of whose columns holds something else, or lacks a cell that it must have.

    Raises
    ------
    ArrowInvalid
        The message names the column.
    """
    for column in table.schema:
        prototype = like.field(column.name)
        if column.type != prototype.type:
            raise pa.ArrowInvalid(f"its column {column.name!r} holds {column.type}, expected {prototype.type}")
        lacking = 0 if prototype.nullable else table[column.name].null_count
        if lacking:
            raise pa.ArrowInvalid(f"its column {column.name!r} is empty in {lacking} of {len(table)} rows")


def require_numbers(table: pa.Table) -> None:
    """Refuse a table of scores or curves whose columns have wrong types; unknown columns are those of newer versions.

    Raises
    ------
    ArrowInvalid
        The message names the column.
    """
    for column in table.schema:
        is_real, is_null = pa.types.is_floating(column.type), pa.types.is_null(column.type)
        is_text = is_null or pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_real:  # an empty column that was read from CSV is one of numbers that are none
            is_text = not np.isfinite(table[column.name].to_numpy()).any()
        if column.name in _TEXTS and not is_text:
            raise pa.ArrowInvalid(f"its column {column.name!r} holds {column.type}, expected texts")
        is_number = is_real or is_null or pa.types.is_integer(column.type) or pa.types.is_boolean(column.type)
        if column.name in _NUMBERS and not is_number:
            raise pa.ArrowInvalid(f"its column {column.name!r} holds {column.type}, expected numbers")


# --- Names of the files of a run within its directory ----------------------------------------------------------------


def samples_name(part: int) -> str:
    """Return the file of a part's samples."""
    return part_name("samples", part)


def part_name(folder: str, part: int) -> str:
    """Return the file of a part in a folder."""
    return f"{folder}/part-{part:05d}.parquet"


def trace_name(encoder: str, part: int) -> str:
    """Return the file of an encoder's vectors of a part's intermediate images."""
    return part_name(f"{TRACE}/{folder_name(encoder)}", part)


def embeddings_name(encoder: str) -> str:
    """Return the folder of an encoder's embeddings."""
    return f"{EMBEDDINGS}/{folder_name(encoder)}"


def readings_name(reader: str, part: int | None = None) -> str:
    """Return the folder of a reader's answers, or the file of those about a part's images."""
    place = f"{READINGS}/{folder_name(reader)}"
    return place if part is None else part_name(place, part)


def folder_name(model: str) -> str:
    """Return the folder name of a model: characters that a path cannot hold become hyphens."""
    place = re.sub(r"[^A-Za-z0-9._-]+", "-", model)
    return place if place.strip(".") else "-" * len(place) or "-"  # ".." is another folder


def saved_again_name(encoder: str) -> str:
    """Return the file of how far saving a picture again moves an encoder's vectors."""
    return f"{embeddings_name(encoder)}/saved-again.parquet"


def vectors_name(encoder: str, part: int) -> str:
    """Return the file of an encoder's embeddings of a part's images."""
    return part_name(embeddings_name(encoder), part)


# --- The cards of the encoders and readers of a run, as run.json has them --------------------------------------------


class ModelCards:
    """The cards of a run's encoders, or of its readers, as run.json holds them, each by its name."""

    kind: ClassVar = "encoder"
    leaves: ClassVar = "embeddings"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._directory, self._url = ledger, ledger.directory, ledger.directory.url

    @staticmethod
    def place(name: str) -> str:
        """Return the folder of what a model leaves."""
        return embeddings_name(name)

    def _read_cards(self, which: str = "") -> dict[str, dict[str, Any]]:
        return dict(self._ledger.record.get(f"{which}{self.kind}s", {}))

    @property
    def cards(self) -> dict[str, dict[str, Any]]:
        """The cards of those that have finished once, by name: those that scores are made of."""
        return self._read_cards()

    @property
    def begun(self) -> dict[str, dict[str, Any]]:
        """The cards of those that may have left something and have never finished, by name."""
        return self._read_cards("begun_")

    @property
    def dropped(self) -> dict[str, dict[str, Any]]:
        """The cards of those that were taken out of the scores and whose files are kept, by name."""
        return self._read_cards("dropped_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left something."""
        return self.cards | self.begun | self.dropped

    def begin_anew(self) -> None:
        """Record that none has seen the whole run: more is about to be drawn."""
        self._update("", {}, begun=self.begun | self.cards)

    def _update(self, which: str, records: Mapping[str, Any], **others: Mapping[str, Any]) -> None:
        keys = {f"{which}{self.kind}s": records} | {f"{name}_{self.kind}s": other for name, other in others.items()}
        self._ledger.update(lambda record: keys)

    def begin(self, card: Card, **asked: Any) -> None:
        """Record who is about to leave something, or check that it is the one recorded under that name.

        It counts as one of the run once it has finished: one that fails, or that nobody waits for, must not keep the
        others from being scored. ``asked`` : what else its record says; where that changes, it has to finish again.
        """
        if self._ledger.worker is not None:  # the driver has recorded it
            return
        self.require(card)
        record = card_record(card) | asked
        known = self.cards.get(card.name, {})
        if known.get("fingerprint") != card.fingerprint or any(known.get(key) != value for key, value in asked.items()):
            finished = {name: other for name, other in self.cards.items() if name != card.name}
            dropped = {name: other for name, other in self.dropped.items() if name != card.name}
            self._update("", finished, begun=self.begun | {card.name: record}, dropped=dropped)

    def finish(self, card: Card) -> None:
        """Record that one has seen the whole run, and list what it wrote; a worker leaves that to the driver."""
        if self._ledger.worker is not None:
            return
        begun = self.begun
        record = begun.pop(card.name, None)
        with self._ledger.together():
            if record is not None:
                self._update("", self.cards | {card.name: record | {"notes": card.notes}}, begun=begun)
            self._ledger.list_files()

    def forget(self, name: str) -> None:
        """Remove one and what it left."""
        # Files first: without its card they would be taken for those of the next one of that name.
        files = self._directory.names(self.place(name), ".parquet")
        self._ledger.unlist(files)
        for file in files:
            self._ledger.remove(file)
        finished, begun = self.cards, self.begun
        finished.pop(name, None)
        begun.pop(name, None)
        self._update("", finished, begun=begun)

    def require(self, card: Card) -> None:
        """Refuse one whose files would mix with those of another: of its name, or in its folder.

        Raises
        ------
        RunMismatchError
            The message says what differs.
        """
        record = (self.cards | self.begun | self.dropped).get(card.name)
        is_used = bool(self._directory.names(self.place(card.name), ".parquet"))
        if record is not None and record["fingerprint"] != card.fingerprint and is_used:
            new_record = card_record(card)
            difference = difference_between({key: record.get(key) for key in new_record}, new_record)
            raise RunMismatchError(
                f"{self._url}: holds {self.leaves} of another {self.kind} named {card.name!r} ({difference}); give "
                f"another --out, or delete {self.place(card.name)}"
            )
        cards = self.all_cards()
        for name in cards if card.name not in cards else ():
            if folder_name(name).lower() == folder_name(card.name).lower():  # one folder on many systems
                raise RunMismatchError(
                    f"{self._url}: {self.kind} {card.name!r} would share {self.place(name)} with {self.kind} {name!r}; "
                    "rename its directory (letters A to Z, digits, '.', '_', '-'), or give another --out"
                )


class EncoderCards(ModelCards):
    """The cards of a run's encoders: ``run.encoders``."""

    @property
    def own(self) -> dict[str, dict[str, Any]]:
        """The cards of the model's own text encoders and of its prior, by name."""
        return self._read_cards("own_")

    def all_cards(self) -> dict[str, dict[str, Any]]:
        """Return the cards of all that may have left embeddings."""
        return super().all_cards() | self.own

    def drop(self, names: Sequence[str]) -> None:
        """Drop encoders from the scores; what they embedded stays, and naming one again brings it back.

        Raises
        ------
        RunNotFoundError
            The run holds no finished encoder of that name, or no other than those that go.
        """
        cards = self.cards
        for name in names:
            if name not in cards:
                raise RunNotFoundError.unknown_name(
                    f"{self._url} has no scores of {name!r}; it has those of {', '.join(cards) or 'none'}",
                    field="drop_encoder",
                )
        if not names:
            return
        rest = {name: card for name, card in cards.items() if name not in names}
        if not rest:
            raise RunNotFoundError.too_few(
                f"{', '.join(cards)} is all that {self._url} is scored with; add another first: "
                f"clinometer score {self._url} --encoder NAME",
                field="drop_encoder",
            )
        self._update("", rest, dropped=self.dropped | {name: cards[name] for name in names})

    def add_own(self, card: Card) -> None:
        """Record a text encoder or the prior of the model itself; the model's card already distinguishes two of them.

        A worker reports it to the driver.
        """
        if self._ledger.worker is not None:
            self._ledger.worker.own_encoders.append(card)
        elif card.name not in self.own:
            self._update("own_", {**self.own, card.name: card_record(card)})


class ReaderCards(ModelCards):
    """The cards of a run's readers, each with the questions that it was asked: ``run.readers``."""

    kind: ClassVar = "reader"
    leaves: ClassVar = "answers"

    @staticmethod
    def place(name: str) -> str:
        """Return the folder of a reader's answers."""
        return readings_name(name)

    def questions(self, reader: str) -> dict[str, QuestionSpec]:
        """Return the questions that a reader was asked, by name."""
        record = (self.cards | self.begun).get(reader, {})
        return {name: QuestionSpec.model_validate(asked) for name, asked in record.get("questions", {}).items()}

    def begin_reading(self, card: Card, asked: Sequence[QuestionSpec], *, again: int = 0) -> None:
        """Record which questions a reader is asked, beside those that it answered before.

        ``again`` : of how many pictures it is asked again before each part; 0 leaves that as it was.

        Raises
        ------
        RunMismatchError
            Another reader of that name answered, or a question of that name in other words, by whichever reader.
        """
        every = self.cards | self.begun
        for spec in asked:
            for name in every:
                known = self.questions(name).get(spec.name, spec)
                if known != spec:
                    raise RunMismatchError(
                        f"{self._url}: {name} was asked question {spec.name!r} in other words ({known.text!r}, now "
                        f"{spec.text!r}); give the other one a name of its own, or delete {readings_name(name)}"
                    )
        questions = self.questions(card.name) | {spec.name: spec for spec in asked}
        before = (self.cards | self.begun).get(card.name, {}).get("again", 0)
        more = {"again": again or before} if again or before else {}
        self.begin(card, questions={name: spec.model_dump(mode="json") for name, spec in questions.items()}, **more)

    def has_finished(self, card: Card, asked: Sequence[QuestionSpec]) -> bool:
        """Return whether a reader has answered all of it, and nothing failed."""
        record = self.cards.get(card.name, {})
        if record.get("fingerprint") != card.fingerprint or record.get("failed"):
            return False
        known = self.questions(card.name)
        return all(known.get(spec.name) == spec for spec in asked)

    def finish(self, card: Card, *, failed: int = 0) -> None:
        """Record that a reader has seen the whole run, and how many of its answers failed."""
        super().finish(card)
        record = self.cards[card.name]
        if record.get("failed", 0) != failed:
            self._update("", self.cards | {card.name: record | {"failed": failed}})
