"""What a paper prescribes beyond its prompts, so that one word runs its experiment: ``--protocol paper``.

See decision 55.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import Field

from clinometer.suites.strict import Name, Strict, Text, WholeNumber

Steps = Annotated[int, Field(ge=1)]
Guidance = Annotated[float, Field(ge=0)]
Side = Annotated[int, Field(ge=1)]

SAMPLING = ("steps", "guidance_scale", "height", "width", "edit_steps", "edit_guidance_scale")
"""The keys of a protocol that are settings of the model, by the names that its adapter takes them by."""


class PaperModel(Strict):
    """A model that the paper audited, and the names by which such a model may be given.

    ``names`` are last parts of a model's name: ``stable-diffusion-2`` means ``stabilityai/stable-diffusion-2`` too.
    Finished images are named as people write: ``DALL-E 2`` by its label.
    """

    label: Name
    names: tuple[Name, ...] = Field(min_length=1)

    def is_called(self, name: str) -> bool:
        """Whether a model of this name is meant.

        >>> PaperModel(label="SD", names=("stable-diffusion-2",)).is_called("stabilityai/stable-diffusion-2@main")
        True
        >>> PaperModel(label="DALL-E 2", names=("dall-e-2",)).is_called("dall-e 2")
        True
        """
        last = name.partition("@")[0].rstrip("/").rpartition("/")[2].lower()
        return last in {alias.lower() for alias in self.names} or _plain(name) == _plain(self.label)


def _plain(name: str) -> str:
    """A name without what people write or leave out at will."""
    return re.sub(r"[\s_-]", "", name).lower()


class Unsaid(Strict):
    """Something that the paper leaves open: the option that decides it, and what is taken instead."""

    option: Name
    taken: Text


class Protocol(Strict):
    """What a paper prescribes beyond its prompts. What it leaves open is listed in ``unsaid``.

    ``models`` are those that the paper audited. ``edit_steps`` and ``edit_guidance_scale`` hold for edits, where they
    differ from the portraits'. ``portraits: all`` takes every portrait of a folder. ``reader: single wording`` says
    that a gender is read by the first wording alone. ``decisions`` tell where clinometer departs from the paper on
    purpose.
    """

    paper: Text
    models: tuple[PaperModel, ...] = Field(min_length=1)
    encoders: tuple[Name, ...] = ()
    text_targets: Literal["prompt", "keyword"] | None = None
    images: dict[Name, Annotated[WholeNumber, Field(ge=1)]] = Field(default_factory=dict)
    steps: Steps | None = None
    guidance_scale: Guidance | None = None
    height: Side | None = None
    width: Side | None = None
    edit_steps: Steps | None = None
    edit_guidance_scale: Guidance | None = None
    portraits: Literal["all"] | None = None
    reader: Literal["single wording"] | None = None
    unsaid: tuple[Unsaid, ...] = ()
    decisions: tuple[Text, ...] = ()

    @property
    def sampling(self) -> dict[str, float]:
        """The settings of the model that the paper names."""
        return {key: value for key in SAMPLING if (value := getattr(self, key)) is not None}

    def leaves_open(self, option: str) -> bool:
        """Whether the paper does not say what an option should be."""
        return any(unsaid.option == option for unsaid in self.unsaid)

    def lines(self) -> list[tuple[str, str]]:
        """What is prescribed, for people: (option, value)."""
        options: dict[str, object] = {
            "model": " or ".join(model.label for model in self.models),
            "encoder": ", ".join(self.encoders),
            "text targets": self.text_targets,
            **{f"images ({name})": count for name, count in self.images.items()},
            **{key.replace("_", " "): f"{value:g}" for key, value in self.sampling.items()},
            "portraits": self.portraits,
            "reader": self.reader,
        }
        return [(name, str(value)) for name, value in options.items() if value]
