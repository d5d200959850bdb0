"""A registration: what an audit will ask, written down before anything is drawn.

It is a small JSON file with a hash over itself. An audit under it asks what it says and nothing else, and notes every
attempt in a journal next to it (:mod:`clinometer.gates.journal`). See docs/registration.md.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AwareDatetime, Field, StrictInt, ValidationError, model_validator

from clinometer._messages import quoted
from clinometer._secrets import masked
from clinometer.errors import InvalidInputError
from clinometer.models.registry import require_names
from clinometer.pipeline.audits import suite_and_rounds
from clinometer.pipeline.recipes import named_encoders, one_by_one
from clinometer.pipeline.request import FREE, FREE_OF_MODELS, AuditRequest, ask
from clinometer.runs.record import checksum_of, package_versions
from clinometer.runs.verification import versions
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
