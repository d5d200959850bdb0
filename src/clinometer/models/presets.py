"""Several encoders under one name: those that a paper used together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

ENCODER_PRESETS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "openai-clip-six": (
            "RN50/openai",
            "RN101/openai",
            "RN50x4/openai",
            "RN50x16/openai",
            "ViT-B-32/openai",
            "ViT-B-16/openai",
        ),
    }
)
"""``openai-clip-six``: the image towers that the internal-bias paper lists (Mandal, Leavy and Little 2024, §5.2)."""


def with_presets(encoders: Iterable[Any]) -> list[Any]:
    """Encoders in order, each preset replaced by those of its encoders that are not named yet.

    >>> with_presets(["RN50x4/openai", "openai-clip-six"])[:3]
    ['RN50x4/openai', 'RN50/openai', 'RN101/openai']
    """
    all_encoders: list[Any] = []
    for encoder in encoders:
        if isinstance(encoder, str) and encoder in ENCODER_PRESETS:
            all_encoders += [name for name in ENCODER_PRESETS[encoder] if name not in all_encoders]
        else:
            all_encoders.append(encoder)
    return all_encoders
