"""A registration, what an audit will ask, written down before anything is drawn; and its journal, a line per attempt.

A registration is a small JSON file with a hash over itself. An audit under it asks what it says and nothing else, and
adds a line to the journal next to it before it begins and when it ends, so that an attempt which was killed, or whose
run was deleted, keeps its line. Each line has the hash of the one before: a line that was changed, or is missing
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
from typing import Annotated, Any, Final, Literal, Self

from filelock import FileLock, Timeout
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    model_validator,
)

from clinometer._messages import escaped, quoted, shortened
from clinometer._secrets import masked, without_home
from clinometer.errors import ClinometerError, InvalidInputError, RunMismatchError, RunStorageError
from clinometer.models.registry import require_names
from clinometer.pipeline.audits import suite_and_rounds
from clinometer.pipeline.recipes import named_encoders, one_by_one
from clinometer.pipeline.request import FREE, FREE_OF_MODELS, AuditRequest, ask
from clinometer.report import wording
from clinometer.runs import Directory, Run
from clinometer.runs.ledger import RECORD
from clinometer.runs.record import checksum_of, package_versions, registration_changes
from clinometer.runs.verification import SCORES, versions
from clinometer.studies import study_of
from clinometer.suites import Suite
from clinometer.suites.strict import Strict, code_of, explain

FORMAT: Final = "clinometer/registration/1"
MOST_BYTES: Final = 2_048
"""A registration can be put into an appendix."""

_Hash = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class Registration(Strict):
    """What was registered.

    Attributes
    ----------
    registered : when.
    clinometer, analysis : the version, and the hash of the code that computes and of what it rests on.
    asked, model_options : the options of the audit, and those of the model's adapter.
    suite_fingerprint : the hash of the suite with these options.
    images : how many there are for each target, in words; ``planned`` is how many there are in all at most.
    encoders, readers : who looks at them.
    standard_sha256 : the hash of the declared standard that shares are compared with; None without one. The hash
        of the suite leaves it out, as it changes no picture.
    policy_sha256 : the hash of the rules that the run will be held to; None where none were registered.
    checksum : SHA-256 of all this, as of run.json.
    """

    format: Literal["clinometer/registration/1"]
    registered: AwareDatetime
    clinometer: str
    analysis: _Hash
    asked: dict[str, Any]
    model_options: dict[str, Any]
    suite_fingerprint: str
    images: str
    planned: StrictInt
    encoders: list[str]
    readers: list[str]
    standard_sha256: _Hash | None
    policy_sha256: _Hash | None
    checksum: _Hash

    @model_validator(mode="before")
    @classmethod
    def _require_checksum(cls, data: Any) -> Any:
        recorded = data.get("checksum") if isinstance(data, Mapping) else None
        if isinstance(recorded, str) and (found := checksum_of(data)) != recorded:
            raise InvalidInputError.corrupt(
                f"it was changed since it was registered (checksum {quoted(recorded, 8)}, found {found[:8]}); restore "
                "it, or register again"
            )
        return data

    @model_validator(mode="after")
    def _require_known(self) -> Self:
        """Refuse options that a registration does not fix, and one without those that it always has."""
        known = set(AuditRequest.model_fields) - {*FREE, "model_options"}
        if unknown := sorted(set(self.asked) - known):
            raise InvalidInputError.unknown_name(
                f"asked: found {quoted(unknown[0])}, expected options that change what is measured"
            )
        if not (isinstance(self.asked.get("model"), str) and isinstance(self.asked.get("suite"), str)):
            raise InvalidInputError.missing("asked: expected the names of a model and of a suite")
        if type(self.asked.get("seed")) is not int:
            raise InvalidInputError.wrong_type("asked: expected a seed, a whole number")
        return self


def write_registration(file: Path, request: AuditRequest, policy_sha256: str | None = None) -> Registration:
    """Write down what an audit will ask. Nothing is loaded or drawn, and no file is replaced.

    Raises
    ------
    InvalidInputError, SuiteError, ModelError
        Something has no name that could be written down, or is not known; the file is there, cannot be written, or
        would be larger than 2 kB; a password would stand in it.
    """
    asked, model_options = _fixed_options(request)
    asked |= {name: _plain(name, getattr(request, name)) for name in ("model", "suite", "seed")}
    suite, _ = suite_and_rounds(request)
    needed = study_of(suite).encoders_needed
    prescribed = suite.protocol.encoders if request.protocol is not None and suite.protocol is not None else ()
    encoders = named_encoders(request.encoder or prescribed or "reference") if needed else []
    readers = one_by_one(request.reader)
    require_names(encoders, readers, [request.model])
    content = {
        "format": FORMAT,
        "registered": datetime.now(UTC).isoformat("T", "seconds"),
        "clinometer": package_versions()["clinometer"],
        "analysis": checksum_of(versions()),
        "asked": asked,
        "model_options": model_options,
        "suite_fingerprint": suite.fingerprint,
        "images": suite.images_in_words(),
        "planned": suite.image_count,
        "encoders": list(map(str, encoders)),
        "readers": list(map(str, readers)),
        "standard_sha256": _hash_of_standard(suite),
        "policy_sha256": policy_sha256,
    }
    content["checksum"] = checksum_of(json.loads(json.dumps(content)))
    text = json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
    if len(text) > MOST_BYTES:
        raise InvalidInputError.too_many(
            f"{file}: it would be {len(text):,} bytes, expected at most {MOST_BYTES:,}; keep long lists in a file "
            "of the suite"
        )
    if masked(text.decode()) != text.decode():
        raise InvalidInputError.untrusted(
            f"{file}: it would hold a password; give that by the environment, or with the audit"
        )
    try:
        with file.open("xb") as written:
            written.write(text)
    except FileExistsError as error:
        raise InvalidInputError.already_exists(
            f"{file}: it is there, and a registration is never replaced; name another"
        ) from error
    except OSError as error:
        raise InvalidInputError.cannot_write(file, error) from error
    return Registration.model_validate(content)


def _fixed_options(request: AuditRequest) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of a request, and of its model, that a registration fixes and that are not the defaults."""
    options = {
        name: _plain(name, value)
        for name, field in AuditRequest.model_fields.items()
        if name not in (*FREE, "model_options") and (value := getattr(request, name)) not in (field.default, None)
    }
    of_model = (request.model_options or {}).items()
    return options, {name: _plain(name, value) for name, value in of_model if name not in FREE_OF_MODELS}


def _plain(name: str, value: Any) -> Any:
    """Return an option as JSON has it."""
    value = one_by_one(value) if name in ("encoder", "reader") else value
    try:
        return json.loads(json.dumps(os.fspath(value) if isinstance(value, os.PathLike) else value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidInputError.wrong_type(
            f"found {quoted(value)}, expected its name: it is written down", field=name
        ) from error


def _hash_of_standard(suite: Suite) -> str | None:
    return None if suite.reference is None else checksum_of(suite.reference.model_dump(mode="json"))


def read_registration(file: str | os.PathLike[str]) -> Registration:
    """Read a registration.

    Raises
    ------
    InvalidInputError
        There is none, or it was changed since it was registered.
    """
    path = Path(file)
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InvalidInputError.too_many(f"{path}: more than {MOST_BYTES:,} bytes; no registration is larger")
        return Registration.model_validate(json.loads(content))
    except OSError as error:
        raise InvalidInputError.cannot_read(path, error, "give the file that clinometer register wrote") from error
    except ValidationError as error:
        raise InvalidInputError(explain(error, str(path)), code=code_of(error)) from error
    except (ValueError, RecursionError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError.malformed(
            f"{path}: no registration, expected what clinometer register wrote"
        ) from error


def with_registration(request: AuditRequest) -> AuditRequest:
    """Return what a registration asks, with the options of a request that change no number; other requests as they are.

    Raises
    ------
    InvalidInputError, SuiteError
        No such registration, or one of the future; an option says something else; the suite is not the one that was
        registered.
    """
    if request.registration is None:
        return request
    path = Path(request.registration)
    registration = read_registration(path)
    if registration.registered > (now := datetime.now(UTC)):
        raise InvalidInputError.out_of_range(
            f"{path}: registered on {registration.registered:%Y-%m-%d %H:%M:%S} UTC, and now is "
            f"{now:%Y-%m-%d %H:%M:%S}; set the clock right"
        )
    options, model_options = _fixed_options(request)
    for chosen, fixed in ((options, registration.asked), (model_options, registration.model_options)):
        for name, value in chosen.items():
            if value != (registered := fixed.get(name)):
                says = "nothing of it" if registered is None else quoted(registered)
                raise InvalidInputError.mismatch(
                    f"found {quoted(value)}, and {path} says {says}; leave it out, or register again", field=name
                )
    free = {name: getattr(request, name) for name in FREE}
    free["out"] = request.out or Path("runs") / path.stem
    merged = ask(
        **registration.asked, **free, model_options=registration.model_options | dict(request.model_options or {})
    )
    suite, _ = suite_and_rounds(merged)
    if suite.fingerprint != registration.suite_fingerprint:
        raise InvalidInputError.mismatch(
            f"{path}: suite {suite.name} is not the one that was registered (hash "
            f"{registration.suite_fingerprint[:8]}, found {suite.fingerprint[:8]}): its file was changed, or another "
            "version reads it; restore it, or register again"
        )
    if _hash_of_standard(suite) != registration.standard_sha256:
        raise InvalidInputError.mismatch(
            f"{path}: the declared standard is not the one that was registered: its file was changed; restore it, or "
            "register again"
        )
    return merged


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
        yield f"the suite is {record['suite_fingerprint'][:12]}… (registered: {registration.suite_fingerprint[:12]}…)"
    if record["seed"] != registration.asked["seed"]:
        yield f"the seed is {record['seed']} (registered: {registration.asked['seed']})"
    models = {str(line.get("model")) for line in lines if line.get("event") == "finished"}
    if len(models) > 1:
        yield f"attempts used {len(models)} models: files of the model, or what loads it, changed between them"
    if end.get("analysis") != registration.analysis:
        yield "the run was analysed by different code, or with different packages, than was registered"
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
