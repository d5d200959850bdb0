"""run.json: what a run was asked and by what, whether two were asked the same, and where it departs from its paper."""

from __future__ import annotations

import hashlib
import json
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from typing import Annotated, Any, Final, Self

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictInt, ValidationError, model_validator

from clinometer.errors import InvalidInputError, RunCorruptError, SuiteError
from clinometer.models.protocols import Card
from clinometer.suites import Protocol, Suite, load_suite, suite_from_mapping, suite_names
from clinometer.suites.base import fingerprint_of
from clinometer.suites.question import QuestionSpec
from clinometer.suites.strict import explain

COUNTED: Final = "counted"
"""The origin of a run of counts, which holds no image; the others are ``generated`` and ``imported``."""

FORMAT: Final = 2
UNCHECKED_FORMAT: Final = 1
"""Of runs that were begun before files had checksums; they are read, and stay what they are."""

_RECORDED_PACKAGES = (
    "clinometer",
    "numpy",
    "scipy",
    "pyarrow",
    "torch",
    "diffusers",
    "transformers",
    "open_clip_torch",
)


RESTORE: Final = "restore it or start a new run"
CHANGED_ON_PURPOSE: Final = (
    "Restore what it said; to score with another margin, give: clinometer score RUN --suite-option margin=…"
)


def card_record(card: Card) -> dict[str, Any]:
    """Return a card as run.json holds it."""
    return asdict(card) | {"fingerprint": card.fingerprint}


def new_record(
    suite: Suite,
    card: Card,
    *,
    seed: int,
    origin: str,
    until: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the contents of a new run's run.json.

    ``until`` is the rule by which concepts stop, where one does; ``batch_size`` how many images a call draws;
    ``options`` what else was asked that changes a number, such as how many resamples.
    """
    return with_checksum(
        {
            "format": FORMAT,
            "created": datetime.now(UTC).isoformat("T", "seconds"),
            "origin": origin,
            "seed": seed,
            "until": None if until is None else dict(until),
            "batch_size": batch_size,
            "options": dict(options or {}),
            "protocol": None,
            "suite": suite.model_dump(),
            "suite_fingerprint": suite.fingerprint,
            "model": card_record(card),
            "encoders": {},
            "begun_encoders": {},
            "dropped_encoders": {},
            "own_encoders": {},
            "versions": package_versions(),
            "machine": {"system": platform.system(), "processor": platform.machine()},
            "suite_options": [],
            "files": {},
        }
    )


def with_checksum(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record with its own checksum as the last key."""
    rest = {key: value for key, value in record.items() if key != "checksum"}
    as_read = json.loads(json.dumps(rest))  # a tuple comes back as a list, and a key as text
    return rest | {"checksum": checksum_of(as_read)}


def checksum_of(record: Mapping[str, Any]) -> str:
    """Return SHA-256 of a record without its checksum, however it is laid out: JSON with sorted keys, no spaces."""
    rest = {key: value for key, value in record.items() if key != "checksum"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def is_checked(record: Mapping[str, Any]) -> bool:
    """Return whether a record is of a format that holds checksums."""
    return record.get("format") != UNCHECKED_FORMAT


class _Model(BaseModel):
    """The card of a model or an encoder."""

    name: str
    family: str
    weights_sha256: str | None
    settings: dict[str, Any]
    fingerprint: str


class _Reader(_Model):
    """The card of a reader, and what it was asked."""

    questions: dict[str, QuestionSpec]
    failed: int = 0


class _Until(BaseModel):
    """The rule by which concepts stop."""

    precision: float | None


class _Option(BaseModel):
    """A setting of the suite that was changed for the scores."""

    option: str
    old: Any
    new: Any
    since: str


class _Departure(BaseModel):
    """Where a run is not what its paper prescribes."""

    model_config = ConfigDict(extra="forbid")

    option: str
    paper: str
    run: str
    reason: str = ""


class _Protocol(BaseModel):
    """The protocol that a run stands under."""

    departures: list[_Departure]
    typed: list[_Departure] = []


def _require_time(text: str) -> str:
    """Refuse a time that names no zone: it cannot be compared with others."""
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a zone")
    return text


class _Registered(BaseModel):
    """The registration that a run was drawn under, and what it says of what can be changed after drawing."""

    checksum: str
    registered: Annotated[str, AfterValidator(_require_time)]
    attempt: Annotated[StrictInt, Field(ge=1)]
    encoders: list[str]
    readers: list[str]
    resamples: StrictInt
    verdict_reader: str | None
    trace: bool


class _Options(BaseModel):
    """How the images are worked on; what else it says is of the study."""

    resamples: Annotated[StrictInt, Field(ge=1, lt=2**31)] = 1
    registration: _Registered | None = None


class _Trace(BaseModel):
    """At which steps the images were looked at on the way, of how many."""

    steps: list[Annotated[StrictInt, Field(ge=1)]]
    total: StrictInt
    decoder: str | None
    latents: bool = False

    @model_validator(mode="after")
    def _require_steps(self) -> Self:
        if self.steps != sorted(set(self.steps)) or not self.steps or self.steps[-1] > self.total:
            raise ValueError(f"its steps do not rise from 1 or more to {self.total} or fewer")
        return self


def _require_name(name: str) -> str:
    """Refuse a name that no file of a run has: of several lines, with a terminal's controls, or out of the run."""
    if not name.isprintable() or name.startswith("/") or ".." in name.split("/"):
        raise ValueError("no file of a run is called so")
    return name


_FileName = Annotated[str, AfterValidator(_require_name)]


class _MadeOf(BaseModel):
    """What a file was made of, and the file's own checksum."""

    of: str
    file: str


class _Record(BaseModel):
    """What every run has recorded since the first; what came later has a default."""

    created: str
    origin: str
    seed: int
    suite: dict[str, Any]
    suite_fingerprint: str
    model: _Model
    encoders: dict[str, _Model]
    versions: dict[str, str]
    machine: dict[str, str]
    until: _Until | None = None
    batch_size: int | None = None
    options: _Options = _Options()
    protocol: _Protocol | None = None
    trace: _Trace | None = None
    begun_encoders: dict[str, _Model] = {}
    dropped_encoders: dict[str, _Model] = {}
    own_encoders: dict[str, _Model] = {}
    readers: dict[str, _Reader] = {}
    begun_readers: dict[str, _Reader] = {}
    suite_options: list[_Option] = []
    pictures_of: dict[str, int] = {}
    files: dict[_FileName, str] = {}
    made_of: dict[_FileName, _MadeOf] = {}
    checksum: str | None = None


def require_whole(record: Mapping[str, Any], source: str) -> None:
    """Refuse a record of another format, or one that lacks what every run records.

    Raises
    ------
    RunCorruptError
        The message names ``source`` and what it lacks.
    """
    if type(record.get("format")) is not int or record["format"] not in (UNCHECKED_FORMAT, FORMAT):
        raise RunCorruptError(
            f"{source}: format {record.get('format')!r}, expected {FORMAT} or {UNCHECKED_FORMAT}; it was written by "
            "another version of clinometer, which can read it"
        )
    try:
        _Record.model_validate(record)
    except ValidationError as error:
        raise RunCorruptError(f"{explain(error, source)}; {RESTORE}") from error
    if is_checked(record) or "checksum" in record or "files" in record:
        _require_checksum(record, source)
    fingerprint = fingerprint_of(record["suite"])  # as it is recorded: another version may fill in further defaults
    if fingerprint != record["suite_fingerprint"]:  # a run of any format has one
        raise RunCorruptError(
            f"{source}: its suite was changed since it was written (fingerprint {record['suite_fingerprint']}, found "
            f"{fingerprint}). {CHANGED_ON_PURPOSE}"
        )


def _require_checksum(record: Mapping[str, Any], source: str) -> None:
    """Refuse a record that was changed since it was written."""
    recorded_checksum, checksum = str(record.get("checksum", "none")), checksum_of(record)
    if recorded_checksum == checksum and is_checked(record):
        return
    where = "" if fingerprint_of(record["suite"]) == record["suite_fingerprint"] else ", its suite among others"
    raise RunCorruptError(
        f"{source}: it was changed since it was written{where} (checksum {recorded_checksum[:8]}, found "
        f"{checksum[:8]}). {CHANGED_ON_PURPOSE}"
    )


def identity_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what a run was asked, in words that differ where the question does."""
    suite, model = suite_from_mapping(record["suite"], source="run.json"), record["model"]
    stopping = "'images fixed beforehand'"
    if (until := record.get("until")) is not None:
        rule = "decided" if until["precision"] is None else f"precise to {until['precision']:g}"
        stopping = f"'until differences from a baseline are {rule}'" if until.get("of") else f"'until {rule}'"
    return {
        "suite": f"{suite.name!r} ({suite.images_in_words()}; {record['suite_fingerprint']})",
        "model": f"{model['name']!r} ({model['fingerprint']})",
        "seed": str(record["seed"]),
        "stopping": stopping,
    }


def difference_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return the first few settings in which two cards differ."""
    flat = [_flat(json.loads(json.dumps(card))) for card in (old, new)]  # a tuple that was stored is a list
    changed = [
        f"{key} {_short(flat[0].get(key))} → {_short(flat[1].get(key))}"
        for key in {**flat[0], **flat[1]}
        if flat[0].get(key) != flat[1].get(key)
    ]
    return ", ".join(changed[:3]) or "same settings"


def _flat(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return a card's fields, and its settings one by one, to the last."""
    fields: dict[str, Any] = {}
    for key, value in card.items():
        if isinstance(value, Mapping) and key != "notes":
            fields |= {name if key == "settings" else f"{key}.{name}": field for name, field in _flat(value).items()}
        elif key not in ("notes", "fingerprint"):
            fields[key] = value
    return fields


def _short(value: Any) -> str:
    """Return a value as a message shows it: of a hash the first digits."""
    text = str(value)
    return text[:8] if re.fullmatch("[0-9a-f]{64}", text) else text


def package_versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that matter."""
    return {"python": platform.python_version()} | {package: _version(package) for package in _RECORDED_PACKAGES}


@cache
def _version(package: str) -> str:
    """Read once in a process: to find it takes milliseconds, and a sweep begins many runs."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


OPTION: Final = "--suite-option"

# Settings of a suite that scoring alone reads may change after drawing: images were drawn, and rounds stopped, by the
# rest. run.json keeps the suite as it was asked, and beside it each change: the old value, the new one and the date.


def suite_with_changes(suite: Suite, changes: Iterable[Mapping[str, Any]]) -> Suite:
    """Return a suite with the changes that a run has recorded, the last of each setting."""
    new = {change["option"]: change["new"] for change in changes}
    if not new:
        return suite
    return suite_from_mapping(suite.model_dump() | new, source=f"{OPTION} {', '.join(new)}")


def suite_changes(suite: Suite, options: Sequence[str], *, until: bool) -> list[dict[str, Any]]:
    """Return what options such as ``margin=0.2`` change in the recorded suite; empty where nothing changes.

    Parameters
    ----------
    until : whether the run was drawn until decided, by the suite as it is.

    Raises
    ------
    SuiteError
        The message names the setting, and those there are.
    """
    if until and any(not option.startswith("reference=") for option in options):
        raise SuiteError.unsupported(
            f"{OPTION} {options[0]}: the run's images were drawn until decided by the suite as it was; start a new run "
            "with another suite"
        )
    changes = []
    for option in options:
        name, separator, value = option.partition("=")
        name = name.strip()
        if not separator or name not in suite.scoring_options:
            settings = ", ".join(f"{setting}=…" for setting in sorted(suite.scoring_options)) or "none"
            raise SuiteError.unsupported(
                f"{OPTION} {option}: not a setting that can change after drawing; of suite {suite.name}, study "
                f"{suite.study!r}, these are: {settings}"
            )
        try:
            changes.append({"option": name, "new": yaml.safe_load(value)})
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            raise SuiteError.malformed(
                f"{OPTION} {option}: its value is not YAML, expected such as {name}=0.2"
            ) from error
    before, after = suite.model_dump(), suite_with_changes(suite, changes).model_dump()
    since = datetime.now(UTC).isoformat("T", "seconds")
    return [
        {"option": name, "old": before.get(name), "new": after.get(name), "since": since}
        for name in sorted(suite.scoring_options)
        if before.get(name) != after.get(name)
    ]


# --- Where a run departs from the protocol of its suite's paper ------------------------------------------------------


PAPER: Final = "paper"
OF_PORTRAITS: Final = ("steps", "guidance_scale")
"""Settings by which portraits are drawn: they mean nothing where portraits are given."""


@dataclass(frozen=True)
class Departure:
    """One option in which a run is not what its paper prescribes.

    Attributes
    ----------
    option : the option, by its Python name.
    paper, run : the paper's value and the run's.
    reason : why, or what it means; empty where the two values say it all.
    """

    option: str
    paper: str
    run: str
    reason: str = ""

    @property
    def sentence(self) -> str:
        """In one line.

        >>> Departure("steps", "50", "20").sentence
        'steps: the paper 50, this run 20'
        """
        more = f" ({self.reason})" if self.reason else ""
        return f"{self.option}: the paper {self.paper}, this run {self.run}{more}"


def suite_under(protocol: str | None, suite: Suite) -> Suite:
    """Return the suite as its paper asks it, where ``protocol`` says so.

    Raises
    ------
    InvalidInputError
        No such protocol.
    SuiteError
        The suite has none; the message lists those that have.
    """
    if protocol is None:
        return suite
    if protocol != PAPER:
        raise InvalidInputError.unknown_name(f"found {protocol!r}, expected {PAPER!r} or none", field="protocol")
    if suite.protocol is None:
        names = ", ".join(name for name in suite_names() if load_suite(name).protocol is not None)
        raise SuiteError.unsupported(f"suite {suite.name} has none; those that have one: {names}", field="protocol")
    return suite.as_in_the_paper()


def protocol_record(record: Mapping[str, Any], encoders: Sequence[str], typed: Sequence[Departure]) -> dict[str, Any]:
    """Return what run.json says of the protocol.

    Parameters
    ----------
    record : the run's record.
    encoders : names of the run's encoders.
    typed : departures that only the caller knows of; they are kept when the others are found again.
    """
    all_departures = [*typed, *departures(record, encoders)]
    return {
        "name": PAPER,
        "departures": [asdict(departure) for departure in all_departures],
        "typed": [asdict(departure) for departure in typed],
    }


def portrait_departures(protocol: Protocol | None, images: int | None, expression: str) -> list[Departure]:
    """Return where given portraits depart from the protocol: fewer of a group, or another expression."""
    differences = []
    if protocol is not None and protocol.portraits == "all" and images is not None:
        differences.append(Departure("images (group)", "all portraits", f"at most {images}"))
    if protocol is not None and expression.upper() != "N":
        differences.append(Departure("expression", "N (neutral)", expression.upper()))
    return differences


def recorded_departures(record: Mapping[str, Any]) -> list[Departure] | None:
    """Return the departures that a record names; None of a run without a protocol."""
    protocol = record.get("protocol")
    return None if protocol is None else [Departure(**fields) for fields in protocol["departures"]]


def departures(record: Mapping[str, Any], encoders: Sequence[str]) -> list[Departure]:
    """Return where a run departs from its suite's protocol, option by option."""
    suite = suite_from_mapping(record["suite"], source="run.json")
    protocol, card = suite.protocol, record["model"]
    if protocol is None:
        return []
    departures_so_far, settings = [], card["settings"]
    # as far as a name, a LoRA and a mitigation tell the models that the paper audited
    changed = [f" with a {what}" for key, what in (("lora", "LoRA"), ("mitigation", "mitigation")) if settings.get(key)]
    if changed or not any(model.is_called(str(card["name"])) for model in protocol.models):
        labels = " or ".join(model.label for model in protocol.models)
        departures_so_far.append(Departure("model", labels, f"{card['name']}{''.join(changed)}"))
    if settings.get("negative_prompt"):
        departures_so_far.append(Departure("negative_prompt", "none", repr(settings["negative_prompt"])))
    width, cross, height = str(settings.get("size", "")).partition("x")  # 512x768, as servers name a width and a height
    if cross and width.isdigit() and height.isdigit():
        settings = {"width": int(width), "height": int(height)} | dict(settings)
    for key, paper_setting in protocol.sampling.items():
        if "portraits" in settings and key in OF_PORTRAITS:
            continue
        if settings.get(key) is None:
            reason = "the model has no such setting, or its card names none"
            departures_so_far.append(Departure(key, f"{paper_setting:g}", "not set", reason))
        elif settings[key] != paper_setting:
            departures_so_far.append(Departure(key, f"{paper_setting:g}", f"{settings[key]:g}"))
    if protocol.encoders and set(encoders) != set(protocol.encoders):
        reason = "the paper does not say which" if protocol.leaves_open("encoder") else ""
        departures_so_far.append(
            Departure("encoder", ", ".join(protocol.encoders), ", ".join(encoders) or "none", reason)
        )
    return [*departures_so_far, *_of_questions(suite, protocol, record)]


def _of_questions(suite: Suite, protocol: Protocol, record: Mapping[str, Any]) -> Iterator[Departure]:
    text_targets = getattr(suite, "text_targets", None)
    if protocol.text_targets not in (None, text_targets):
        yield Departure("text_targets", str(protocol.text_targets), str(text_targets))
    if "portraits" not in record["model"]["settings"]:  # of given ones there are as many as there are
        images = record["suite"]["images"]
        for name, paper_count in protocol.images.items():
            if images[name] != paper_count:
                yield Departure(f"images ({name})", str(paper_count), str(images[name]))
    if (concepts := record.get("options", {}).get("concepts")) is not None:
        concepts_in_words = (
            f"the first {concepts} of each category" if isinstance(concepts, int) else ", ".join(concepts)
        )
        yield Departure("concepts", "all", concepts_in_words)
    if record.get("until") is not None:
        yield Departure("until", "images fixed beforehand", "images drawn in rounds")


# --- A run that was registered before it was drawn: what was changed afterwards --------------------------------------


def registration_changes(record: Mapping[str, Any]) -> list[str]:
    """Return what of a run differs from its registration, a phrase each; nothing for a run without a registration.

    What was asked of the images themselves cannot differ: images of another model, suite, seed or setting are another
    run. Encoders, readers, ratings and settings of scoring can be changed after the images were seen.
    """
    options = record.get("options", {})
    registered, changes = options.get("registration"), list[str]()
    if registered is None:
        return []
    if datetime.fromisoformat(record["created"]) < datetime.fromisoformat(registered["registered"]):
        changes.append(f"the run was begun on {record['created']}, before it was registered")
    for kind in ("encoder", "reader"):
        names, specs = list(record.get(f"{kind}s", {})), registered[f"{kind}s"]
        changes += [
            f"{kind} {name} was added: its numbers, and averages that it is part of, are exploratory"
            for name in names
            if not any(_is_called(name, spec) for spec in specs)
        ]
        changes += [
            f"{kind} {spec} is not there: its numbers were left out"
            for spec in specs
            if not any(_is_called(name, spec) for name in names)
        ]
    changes += [
        f"the declared standard is another since {change['since']}"
        if change["option"] == "reference"
        else f"{change['option']} is {change['new']} since {change['since']}, it was {change['old']}"
        for change in record.get("suite_options", [])
    ]
    for name in ("resamples", "verdict_reader"):
        default = registered[name]
        if (now := options.get(name, None if name == "verdict_reader" else default)) != default:
            changes.append(f"{name} is {now} (registered: {default})")
    if record.get("trace") and not registered["trace"]:
        changes.append("images were traced while they were drawn again: numbers of the trace are exploratory")
    if any(name.startswith("ratings/") for name in record.get("files", {})):
        changes.append("ratings by people were added: their numbers are exploratory")
    return changes


def registration_in_words(record: Mapping[str, Any]) -> str:
    """Return a line on when a run was registered and what was changed since; empty for a run without a registration."""
    registered = record.get("options", {}).get("registration")
    if registered is None:
        return ""
    changes = "; ".join(registration_changes(record))
    day, checksum = registered["registered"][:10], registered["checksum"][:8]
    when = f"Registered on {day} ({checksum}…), attempt {registered['attempt']}"
    return f"{when}; {f'changed since: {changes}' if changes else 'nothing was changed since'}"


def _is_called(name: str, spec: str) -> bool:
    """Return whether the card of a model that was asked for by a spec has a name: of a path it has the last part."""
    plain = spec.partition("@")[0]
    return name in (spec, plain, plain.rstrip("/").rpartition("/")[2], plain.partition(":")[2])
