"""The journal of a registration: a line for every attempt, and the review of a run by them.

An audit under a registration adds a line before it begins and when it ends, so that an attempt which was killed, or
whose run was deleted, keeps its line. Each line has the hash of the one before: a line that was changed, or is missing
between others, is found. That the last lines are missing is found only by a run that they are about, so a journal is as
good as its copies: keep it where others can see it, such as in a repository. See docs/registration.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Final

from filelock import FileLock, Timeout
from pydantic import AfterValidator, BaseModel, ConfigDict, StrictInt, ValidationError

from clinometer._messages import escaped, shortened
from clinometer._secrets import masked, without_home
from clinometer.errors import ClinometerError, InvalidInputError, RunMismatchError, RunStorageError
from clinometer.gates.registration import Registration, read_registration, with_registration
from clinometer.pipeline.request import AuditRequest
from clinometer.report import wording
from clinometer.runs import Directory, Run
from clinometer.runs.departures import registration_changes
from clinometer.runs.ledger import RECORD
from clinometer.runs.record import checksum_of
from clinometer.runs.verification import SCORES, versions

MOST_JOURNAL: Final = 2**24

_SUFFIX: Final = ".journal.jsonl"
_WAIT: Final = 60
_ENDS: Final = ("finished", "failed", "interrupted")


def _require_aware(text: str) -> str:
    """Refuse a time that is none, or that names no zone."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise InvalidInputError.malformed("a time without a zone")
    return text


class _Line(BaseModel):
    """A line of a journal; facts beside these are of its event."""

    model_config = ConfigDict(extra="allow")

    line: StrictInt
    event: str
    attempt: StrictInt
    time: Annotated[str, AfterValidator(_require_aware)]
    previous: str
    hash: str


def audit_registered(request: AuditRequest, audit: Callable[[AuditRequest], str]) -> str:
    """Audit under the registration that a request names, and note the attempt in its journal. Returns the run's place.

    Raises
    ------
    InvalidInputError, RunMismatchError, RunStorageError, SuiteError
        As of :func:`with_registration`; the directory holds a run of no registration or of another; the journal was
        changed, or cannot be written, before anything is drawn.
    """
    merged = with_registration(request)
    assert merged.registration is not None
    path, directory = Path(merged.registration), Directory(merged.out or "")
    registration = read_registration(path)
    journal = Journal(path, registration)
    begun = Run(directory.url).record["options"].get("registration", {}) if directory.exists(RECORD) else None
    if begun is not None and begun.get("checksum") != registration.checksum:
        raise RunMismatchError(
            f"{directory.shown}: a run that was not begun under {path}; give another --out, so that it is drawn again"
        )
    name = escaped(shortened(directory.shown.rstrip("/").rpartition("/")[2]))  # the whole path may name a user
    attempt = journal.start(name, None if begun is None else int(begun["attempt"]))
    asked = registration.asked
    registered = {
        "checksum": registration.checksum,
        "registered": registration.registered.isoformat(),
        "attempt": attempt,
        "encoders": registration.encoders,
        "readers": registration.readers,
        "resamples": merged.resamples,
        "verdict_reader": asked.get("verdict_reader"),
        "trace": bool(asked.get("trace")),
    }
    try:
        place = audit(merged.under(registered))
    except BaseException as error:
        event = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        problem = without_home(masked(escaped(shortened(f"{type(error).__name__}: {error}", 200))))
        with suppress(ClinometerError):  # else the attempt has no end, as if it had been killed
            journal.add(event=event, attempt=attempt, problem=problem)
        raise
    run = Run(place)
    journal.add(
        event="finished", attempt=attempt, created=run.record["created"], run=run.record["checksum"],
        scores=run.directory.sha256(SCORES), model=run.record["model"]["fingerprint"], images=len(run.plan),
        analysis=checksum_of(versions()),
    )  # fmt: skip
    return place


class Journal:
    """The attempts under a registration, a line of JSON each, beside it.

    A line holds its number, the event, the time, facts, ``previous`` (the hash of the line before; of the first the
    registration's) and ``hash``, SHA-256 of all these. ``started`` begins an attempt, ``continued`` goes on with one
    whose run is there; ``finished``, ``failed`` and ``interrupted`` end it.
    """

    def __init__(self, file: Path, registration: Registration) -> None:
        self.path, self._registration = file.with_suffix(_SUFFIX), registration

    def start(self, run: str, attempt: int | None) -> int:
        """Note that an attempt begins, or that the attempt of this number goes on; return the number."""
        with self._locked():
            lines = self.lines()
            number = attempt or sum(line.get("event") == "started" for line in lines) + 1
            event = "started" if attempt is None else "continued"
            self._append(lines, {"event": event, "attempt": number, "run": run})
        return number

    def add(self, **facts: Any) -> None:
        """Note what became of an attempt."""
        with self._locked():
            self._append(self.lines(), facts)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            with FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=_WAIT):
                yield
        except Timeout as error:
            raise RunStorageError.locked(f"{self.path}: another audit has held it for {_WAIT} s; try again") from error
        except OSError as error:
            raise RunStorageError(
                f"{self.path}: it cannot be written: {error.strerror or error}; no attempt goes without its line, so "
                "make it writable, and give the same command again"
            ) from error

    def _append(self, lines: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
        line: dict[str, Any] = {"line": len(lines) + 1, **facts}
        line["time"] = datetime.now(UTC).isoformat("T", "seconds")
        line["previous"] = self._last_hash(lines)
        line["hash"] = checksum_of(line)
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(size - 1)
            torn = b"\n" if size and file.read(1) != b"\n" else b""  # a line that was cut off stays, and is reported
            file.write(torn + json.dumps(line, ensure_ascii=False).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def lines(self) -> list[dict[str, Any]]:
        """Read the lines; of one that was cut off while it was written, ``{"torn": True}``.

        Raises
        ------
        InvalidInputError
            It cannot be read, is of another registration, or a line was changed or is missing.
        """
        try:
            with self.path.open("rb") as file:
                content = file.read(MOST_JOURNAL + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise InvalidInputError.cannot_read(self.path, error) from error
        if len(content) > MOST_JOURNAL:
            raise InvalidInputError.too_many(
                f"{self.path}: more than {MOST_JOURNAL >> 20} MiB; no journal is that long"
            )
        lines = list[dict[str, Any]]()
        for number, text in enumerate(content.removesuffix(b"\n").split(b"\n"), 1):
            try:
                line = _Line.model_validate_json(text).model_dump(exclude_unset=True)
            except ValidationError:
                lines.append({"torn": True})
                continue
            hashed = {name: value for name, value in line.items() if name != "hash"}
            if line["hash"] != checksum_of(hashed) or line["previous"] != self._last_hash(lines):
                raise InvalidInputError.corrupt(
                    f"{self.path}: line {number} was changed, or one before it is missing, or it is of another "
                    "registration; restore it from a copy"
                )
            lines.append(line)
        return lines

    def _last_hash(self, lines: Sequence[Mapping[str, Any]]) -> str:
        whole = [line for line in lines if "hash" in line]
        return str(whole[-1]["hash"]) if whole else self._registration.checksum


@dataclass(frozen=True)
class Review:
    """The history of a registration, and how a run differs from it.

    Attributes
    ----------
    registered : when, and under which checksum.
    attempts : every attempt in a line, in order.
    changes : what of the run, or of how it came about, is not as registered; empty where nothing was changed.
    """

    registered: str
    attempts: tuple[str, ...]
    changes: tuple[str, ...]

    def lines(self) -> list[str]:
        """Return the review as lines."""
        changes = [f"Changed: {change}." for change in self.changes] or ["Nothing was changed."]
        return [f"{self.registered}.", *(f"{attempt}." for attempt in self.attempts), *changes]


def review(run: Run, file: str | os.PathLike[str], policy_sha256: str | None = None) -> Review:
    """Compare a run with its registration and the journal beside it.

    ``policy_sha256`` : the hash of the rules that it was held to, where it was.

    Raises
    ------
    InvalidInputError
        The registration or its journal was changed, or there is none.
    RunMismatchError
        The run was not drawn under it, or its journal does not know the run.
    """
    path = Path(file)
    registration = read_registration(path)
    journal = Journal(path, registration)
    lines = journal.lines()
    drawn_under = run.record.get("options", {}).get("registration") or {}
    if drawn_under.get("checksum") != registration.checksum:
        named = f"the registration {str(drawn_under['checksum'])[:12]}…" if drawn_under else "no registration"
        raise RunMismatchError(f"{run.url}: it was not drawn under {path}; run.json names {named}")
    attempt, created = int(drawn_under["attempt"]), run.record["created"]
    expected = {"event": "finished", "attempt": attempt, "created": created}
    end = next((line for line in reversed(lines) if expected.items() <= line.items()), None)
    if end is None:
        raise RunMismatchError(
            f"{journal.path}: it knows no end of this run (attempt {attempt}, begun on {created}); lines are missing, "
            "or the run was not finished under it"
        )
    return Review(
        f"Registered on {registration.registered:%Y-%m-%d %H:%M:%S} UTC ({registration.checksum[:12]}…)",
        tuple(_attempts(lines, attempt)),
        tuple(_changes(run, registration, lines, end, policy_sha256)),
    )


def _attempts(lines: Sequence[Mapping[str, Any]], this: int) -> Iterator[str]:
    """Yield when each attempt began and how it ended; one without an end was killed, or is at work."""
    for start in (line for line in lines if line.get("event") == "started"):
        number = start["attempt"]
        about = [line for line in lines if line.get("attempt") == number]
        last = about[-1]
        ended = f"{last['event']} on {last['time']}" if last["event"] in _ENDS else "no end: killed, or still at work"
        problem = f" ({last['problem']})" if "problem" in last else ""
        again = sum(line["event"] == "continued" for line in about)
        more = f", continued {again} times" if again > 1 else ", continued once" if again else ""
        whose = "this run" if number == this else "left out"
        yield f"Attempt {number} ({whose}: {start.get('run')}) started on {start['time']}{more}; {ended}{problem}"


def _changes(
    run: Run, registration: Registration, lines: Sequence[Mapping[str, Any]], end: Mapping[str, Any], policy: str | None
) -> Iterator[str]:
    """Yield what differs from the registration."""
    record = run.record
    yield from registration_changes(record)
    if record["suite_fingerprint"] != registration.suite_fingerprint:
        yield f"the suite is {record['suite_fingerprint'][:12]}…, registered was {registration.suite_fingerprint[:12]}…"
    if record["seed"] != registration.asked["seed"]:
        yield f"the seed is {record['seed']}, registered was {registration.asked['seed']}"
    models = {str(line.get("model")) for line in lines if line.get("event") == "finished"}
    if len(models) > 1:
        yield f"attempts were of {len(models)} models: files of the model, or what loads it, changed between them"
    if end.get("analysis") != registration.analysis:
        yield "the run was analysed by other code, or on other packages, than was registered"
    if run.directory.sha256(SCORES) != end.get("scores"):
        yield "it was scored again since the attempt ended"
    if policy is not None and policy != registration.policy_sha256:
        none = registration.policy_sha256 is None
        yield f"it is held to a policy that is not the registered one{': none was registered' if none else ''}"
    if torn := sum("torn" in line for line in lines):
        lines_were = wording.count(torn, "line of the journal was", "lines of the journal were")
        yield f"{lines_were} cut off while being written"
    times = [registration.registered.isoformat(), *(str(line["time"]) for line in lines if "time" in line)]
    moments = [datetime.fromisoformat(time) for time in times]
    if any(later < earlier for earlier, later in pairwise(moments)):
        yield "a clock ran backwards: a line of the journal is earlier than the one before it, or than the registration"


def copy_registration(folder: Directory, file: str | os.PathLike[str], reviewed: Review) -> list[str]:
    """Copy a registration and its journal into a folder, with the review of a run; return the names of the files."""
    path = Path(file)
    copies = {"registration.json": path, "registration.journal.jsonl": path.with_suffix(_SUFFIX)}
    for name, source in copies.items():
        if folder.path(name) != os.path.abspath(source):
            folder.write_bytes(name, source.read_bytes())
    folder.write_bytes("registration.txt", "".join(f"{line}\n" for line in reviewed.lines()).encode())
    return [*copies, "registration.txt"]
