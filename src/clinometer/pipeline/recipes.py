"""How a worker comes by a model: loaded again by its name, or sent as it is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from clinometer.errors import ModelError
from clinometer.models import load_encoder, load_generator, load_reader
from clinometer.models.files.portraits import PortraitSource
from clinometer.models.files.source import EmbeddedSource, FolderSource
from clinometer.models.protocols import Card
from clinometer.pipeline.loaded_models import Residents
from clinometer.runs.tracing import WatchedGenerator


class Recipe(Protocol):
    """Makes a model in another process."""

    @property
    def key(self) -> str:
        """One for all copies of a recipe."""
        ...

    def build(self) -> Any:
        """Load the model."""
        ...


def _new_key() -> str:
    return uuid4().hex


@dataclass(frozen=True)
class Loaded:
    """A model that is loaded by its name, with the options that the driver's had."""

    kind: Literal["generator", "encoder", "reader"]
    spec: str
    options: Mapping[str, Any]
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Have it: a generator may still be here."""
        return _GENERATORS.take(self.key, self.load) if self.kind == "generator" else self.load()

    def load(self) -> Any:
        """Load it, whatever is here."""
        load = {"generator": load_generator, "encoder": load_encoder, "reader": load_reader}[self.kind]
        return load(self.spec, **self.options)  # type: ignore[operator]


@dataclass(frozen=True)
class AtSettings:
    """A generator at some settings, of weights that are loaded once for all settings.

    Attributes
    ----------
    weights : loads it; of several recipes with one such key, a process does so once.
    settings : those that it draws at, the ones of ``weights`` among them.
    """

    weights: Loaded
    settings: Mapping[str, Any]

    @property
    def key(self) -> str:
        """One for all copies, and for all recipes of these weights at these settings."""
        return f"{self.weights.key} {json.dumps(dict(self.settings), sort_keys=True)}"

    def build(self) -> Any:
        """Load it, or set what is loaded."""
        return self.weights.build().with_settings(**self.settings)


_GENERATORS: Final = Residents()
"""The generators that a worker has loaded, by the keys of their recipes."""


@dataclass(frozen=True)
class Given:
    """A model that is sent as it is: an object of Python's, or a source of files."""

    model: Any
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Give it."""
        return self.model


@dataclass(frozen=True)
class WithPortraits:
    """Portraits from a folder, and a model that works on them."""

    source: FolderSource
    model: Recipe
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Load the model, and put the portraits before it."""
        return PortraitSource(self.source, self.model.build())


@dataclass(frozen=True)
class WithEncoders:
    """Finished images, and the encoders that embed them, each by its card and how a worker comes by it."""

    source: Given
    encoders: tuple[tuple[Recipe, Card], ...]
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Load the encoders."""
        return EmbeddedSource(self.source.build(), [built(recipe, card) for recipe, card in self.encoders])


@dataclass(frozen=True)
class Watched:
    """A generator that tells what it takes images for on the way, and the encoders that look at it.

    Attributes
    ----------
    watches : as of :class:`clinometer.runs.tracing.WatchedGenerator`.
    """

    generator: Recipe
    encoders: tuple[tuple[Recipe, Card], ...]
    watches: Mapping[str, Any]
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Load all of them."""
        encoders = [built(recipe, card) for recipe, card in self.encoders]
        return WatchedGenerator(self.generator.build(), encoders, **self.watches)


_BUILT: dict[str, Any] = {}


def _is_replaced(other: Card, card: Card) -> bool:
    """Whether a model goes when another comes: there is one generator, and no encoder twice for a later audit."""
    return other.kind == card.kind and (card.kind == "generator" or other.fingerprint == card.fingerprint)


def built(recipe: Recipe, card: Card) -> Any:
    """The model of a recipe, built once in a process.

    Raises
    ------
    ModelError
        It is not the driver's: other weights or settings on another machine.
    """
    if recipe.key not in _BUILT:
        for key in [key for key, other in _BUILT.items() if _is_replaced(other.card, card)]:
            del _BUILT[key]
        model = recipe.build()
        if model.card.fingerprint != card.fingerprint:
            raise ModelError(
                f"{card.name}: a worker found another model of that name (fingerprint {model.card.fingerprint}, "
                f"expected {card.fingerprint}); see that all machines have the same weights, settings and devices"
            )
        _BUILT[recipe.key] = model
    return _BUILT[recipe.key]
