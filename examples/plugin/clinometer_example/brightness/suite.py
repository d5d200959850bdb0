"""The shape of its suites: prompts by name, and how many images of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from clinometer.suites import PromptSpec, Suite, SuiteTable


class BrightnessSuite(Suite):
    """Prompts by name."""

    study: Literal["brightness"] = "brightness"
    prompts: dict[str, str]
    images: int = 12

    options: ClassVar[frozenset[str]] = frozenset({"images"})

    def prompt_specs(self) -> Iterator[PromptSpec]:
        """Ask for the images of each prompt."""
        for name, prompt in self.prompts.items():
            yield PromptSpec(prompt, "target", concept=name, images=self.images)

    def texts(self) -> list[str]:
        """Embed no text."""
        return []

    def label_of(self, group: str) -> str:
        """Name a group."""
        return group

    def images_in_words(self) -> str:
        """Say how many images are drawn."""
        return f"{self.images} images a prompt"

    def sheets(self) -> tuple[SuiteTable, ...]:
        """Show the prompts."""
        return (SuiteTable("prompts", ("name", "prompt"), tuple(self.prompts.items())),)

    def _changed(self, **options: Any) -> dict[str, Any]:
        return self.model_dump() | options
