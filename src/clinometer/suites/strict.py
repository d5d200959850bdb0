"""What every part of a suite is made of: names, texts, numbers of images, and records that know their keys."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

LONGEST_NAME: Final = 200
LONGEST_TEXT: Final = 4_000
"""Characters of a name, and of a prompt or a description."""

MOST_EACH: Final = 100_000
"""Images of a prompt: a plan is held in memory."""

Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f]+$")
]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=LONGEST_TEXT)]


def _no_truth(entry: Any) -> Any:
    """Refuse ``yes`` and ``true``, which would pass for the number 1."""
    if isinstance(entry, bool):
        raise ValueError(f"expected a number, found {str(entry).lower()}")
    return entry


Number = Annotated[float, BeforeValidator(_no_truth)]
WholeNumber = Annotated[int, BeforeValidator(_no_truth)]
ImageCount = Annotated[WholeNumber, Field(ge=1, le=MOST_EACH)]


def several(entry: Any) -> Any:
    """One value as a list of one."""
    return list(entry) if isinstance(entry, list | tuple) else [entry]


class Strict(BaseModel):
    """A part of a suite: fixed once read, and no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
