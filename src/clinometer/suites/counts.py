"""The suite of a table of counts: concepts, groups and settings of which somebody else has counted the images."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from clinometer.suites.base import PromptSpec, Suite, SuiteTable, refuse_duplicates
from clinometer.suites.strict import Name, Number


class CountsSuite(Suite):
    """Description of a table of counts. It follows from the table (``clinometer import --counts``); it asks no model.

    ``settings`` : what was varied, in the order of the table; empty where nothing was. ``margin`` : the distance of a
    share from equal shares below which it counts as none.
    """

    study: Literal["counts"] = "counts"
    concepts: tuple[Name, ...] = Field(min_length=1)
    groups: tuple[Name, ...] = Field(min_length=2)
    settings: tuple[Name, ...] = ()
    margin: Annotated[Number, Field(gt=0, lt=1)] | None = None

    options: ClassVar[frozenset[str]] = frozenset()
    scoring_options: ClassVar[frozenset[str]] = Suite.scoring_options | {"margin"}
    draws: ClassVar[bool] = False

    @model_validator(mode="after")
    def _check_names(self) -> Self:
        for field in ("concepts", "groups", "settings"):
            refuse_duplicates(getattr(self, field), f"{field}: name used twice")
        return self

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Return nothing: no image is drawn."""
        return iter(())

    def concept_names(self) -> list[str]:
        """Return the concepts, as the table has them."""
        return list(self.concepts)

    def texts(self) -> list[str]:
        """Return nothing: no text is embedded."""
        return []

    def label_of(self, group: str) -> str:
        """Return the group itself, as the table names it."""
        return group

    def images_in_words(self) -> str:
        """Return why there are no images to count."""
        return "none are drawn: they were counted elsewhere"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Return concepts, groups and settings."""
        named = (("concepts", self.concepts), ("groups", self.groups), ("settings", self.settings))
        return (
            SuiteTable("counted", ("", "names"), tuple((name, ", ".join(names)) for name, names in named if names)),
        )
