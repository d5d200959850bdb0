"""run.json: what a run was asked and by what, and whether two were asked the same."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from typing import Any

from pydantic import BaseModel, ValidationError

from clinometer.errors import RunCorruptError
from clinometer.models.protocols import Card
from clinometer.suites import Suite, suite_from_mapping
from clinometer.suites.base import explain

FORMAT = 1

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


def card_record(card: Card) -> dict[str, Any]:
    """A card as run.json holds it."""
    return asdict(card) | {"fingerprint": card.fingerprint}


def new_record(
    suite: Suite,
    card: Card,
    *,
    seed: int,
    origin: str,
    until: Mapping[str, Any] | None = None,
    batch_size: int | None = None,
) -> dict[str, Any]:
    """The contents of a new run's run.json.

    ``until`` is the rule by which concepts stop, where one does; ``batch_size`` how many images a call draws.
    """
    return {
        "format": FORMAT,
        "created": datetime.now(UTC).isoformat("T", "seconds"),
        "origin": origin,
        "seed": seed,
        "until": None if until is None else dict(until),
        "batch_size": batch_size,
        "protocol": None,
        "suite": suite.model_dump(),
        "suite_fingerprint": suite.fingerprint,
        "model": card_record(card),
        "encoders": {},
        "begun_encoders": {},
        "dropped_encoders": {},
        "own_encoders": {},
        "versions": {"python": platform.python_version(), **_package_versions()},
        "machine": {"system": platform.system(), "processor": platform.machine()},
    }


class _Model(BaseModel):
    """The card of a model or an encoder."""

    name: str
    family: str
    weights_sha256: str | None
    settings: dict[str, Any]
    fingerprint: str


class _Record(BaseModel):
    """What every run has recorded since the first."""

    created: str
    origin: str
    seed: int
    suite: dict[str, Any]
    suite_fingerprint: str
    model: _Model
    encoders: dict[str, _Model]
    versions: dict[str, str]
    machine: dict[str, str]


def require_whole(record: Mapping[str, Any], source: str) -> None:
    """Refuse a record of another format, or one that lacks what every run records.

    Raises
    ------
    RunCorruptError
        The message names ``source`` and what it lacks.
    """
    if record.get("format") != FORMAT:
        raise RunCorruptError(
            f"{source}: format {record.get('format')!r}, expected {FORMAT}; it was written by another version of "
            "clinometer, which can read it"
        )
    try:
        _Record.model_validate(record)
    except ValidationError as error:
        raise RunCorruptError(f"{explain(error, source)}; restore it or start a new run") from error


def question_of(record: Mapping[str, Any]) -> dict[str, str]:
    """What a run was asked, in words that differ where the question does."""
    suite, model = suite_from_mapping(record["suite"], source="run.json"), record["model"]
    return {
        "suite": f"{suite.name!r} ({suite.images_in_words()}; {record['suite_fingerprint']})",
        "model": f"{model['name']!r} ({model['fingerprint']})",
        "seed": str(record["seed"]),
        "stopping": _stopping(record.get("until")),
    }


def _stopping(until: Mapping[str, Any] | None) -> str:
    """The rule by which a run was drawn, in words."""
    if until is None:
        return "'images fixed beforehand'"
    return "'until decided'" if until["precision"] is None else f"'until precise to {until['precision']:g}'"


def difference_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first few settings in which two cards differ."""
    flat = [_flat(json.loads(json.dumps(card))) for card in (old, new)]  # a tuple that was stored is a list
    changed = [
        f"{key} {_short(flat[0].get(key))} → {_short(flat[1].get(key))}"
        for key in {**flat[0], **flat[1]}
        if flat[0].get(key) != flat[1].get(key)
    ]
    return ", ".join(changed[:3]) or "same settings"


def _flat(card: Mapping[str, Any]) -> dict[str, Any]:
    """A card's fields, and its settings one by one, to the last."""
    found: dict[str, Any] = {}
    for key, value in card.items():
        if isinstance(value, Mapping) and key != "notes":
            found |= {name if key == "settings" else f"{key}.{name}": each for name, each in _flat(value).items()}
        elif key not in ("notes", "fingerprint"):
            found[key] = value
    return found


def _short(value: Any) -> str:
    """A value as a message shows it: of a hash the first digits."""
    text = str(value)
    return text[:8] if re.fullmatch("[0-9a-f]{64}", text) else text


def _package_versions() -> dict[str, str]:
    found = {}
    for package in _RECORDED_PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found
