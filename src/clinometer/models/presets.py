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
    found: list[Any] = []
    for each in encoders:
        if isinstance(each, str) and each in ENCODER_PRESETS:
            found += [name for name in ENCODER_PRESETS[each] if name not in found]
        else:
            found.append(each)
    return found
