"""How it was measured, and what that cannot say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from clinometer.report import wording
from clinometer.report.view import View

_CARD_FIELDS: Final = ("name", "family", "revision", "weights_sha256", "fingerprint")
_LONGEST: Final = 240
"""Characters of a setting or a note that are shown: a vocabulary has thousands. ``run.json`` has all."""

_OF_IMAGES: Final = ("folder", "dataset")
"""Families of finished images: what their cards have a hash of is these."""


def measured_how(view: View) -> dict[str, Any]:
    """What the section says of every study: cards, settings, the suite, the tests."""
    report = view.report
    return {
        "generator": card(report.model_card),
        "encoders": [card(encoder_card) for encoder_card in report.encoder_cards.values()],
        "settings": list(flat(report.settings).items()),
        "suite": report.suite,
        "planted": report.planted is not None,
        "tests": sorted({row.test for row in view.scores if row.test}),
        "one_encoder": len(view.encoders) < 2,
    }


def card(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Split a card in lists of (name, value): identity, settings, notes."""
    hashed = "images" if fields.get("family") in _OF_IMAGES else "weights"
    labels = {"weights_sha256": f"{hashed} (SHA-256)"}
    identity = {labels.get(name, name): fields.get(name) for name in _CARD_FIELDS}
    return {
        "name": str(fields.get("name", "unnamed")),
        "identity": [(name, _value_text(value)) for name, value in identity.items() if value],
        "settings": list(flat(fields.get("settings") or {}).items()),
        "notes": list(flat(fields.get("notes") or {}).items()),
    }


def flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested settings as one list of names and values."""
    lines: dict[str, str] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            lines |= flat(value, f"{prefix}{name}.")
        else:
            lines[f"{prefix}{name}"] = _value_text(value)
    return lines


def _value_text(value: Any) -> str:
    if value is None or value == "":
        return wording.MISSING
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return wording.shortened(str(value), _LONGEST)
