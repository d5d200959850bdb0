"""What every part of a suite is made of: names, texts, and records that know their keys."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, StringConstraints

Name = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\x00-\x1f]+$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class Strict(BaseModel):
    """A part of a suite: fixed once read, and no key that it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
