"""How a worker comes by a model, loaded again by its name or sent as it is; and what stays loaded.

Of generators one is on its device, and others wait in the memory of the host to come back: two may not fit on a device,
and how many images one draws at once must not depend on which others were loaded before. So one that makes room takes
its weights along, if it can (`Parks`) and the host has room; else it is loaded again. See decision 37.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from clinometer._memory import give_back_freed_memory, memory
from clinometer.errors import ModelError
from clinometer.models import load_encoder, load_generator, load_reader
from clinometer.models.abilities import Parks, Releases, offers
from clinometer.models.files.source import EmbeddedSource, FolderSource, PortraitSource
from clinometer.models.protocols import Card
from clinometer.runs.tracing import WatchedGenerator

KEPT_FREE: Final = 0.25
"""Share of memory that stays free beside what waits: the next model passes through it, and others need some too.

What counts is what is free at the time, so processes that keep models side by side leave it together.
"""


class Residents:
    """Generators by a key for each: one at work, and those that wait."""

    def __init__(self) -> None:
        self._at_work: tuple[str, Any] | None = None
        self._waiting: dict[str, Any] = {}

    def take(self, key: str, load: Callable[[], Any]) -> Any:
        """Have one at work: the one that is, one that waits, or one that is loaded. The one before makes room."""
        if self._at_work is None or self._at_work[0] != key:
            self._set_aside(key)
            model = self._fetched(key)
            self._at_work = key, load() if model is None else model
        return self._at_work[1]

    def release(self) -> None:
        """Let go of all weights, also where others still hold the models."""
        at_work, self._at_work = self._at_work, None
        self._waiting.clear()
        release([] if at_work is None else [at_work[1]])

    def _set_aside(self, following: str) -> None:
        """Have none at work, and tell which is to follow: it need not leave where memory has become scarce.

        Where there is no room for all, those that wait stay: rounds come to them before the one that was at work.
        """
        for other in [other for other in self._waiting if other != following]:
            if room() < 0:  # other processes have grown
                del self._waiting[other]
                give_back_freed_memory()
        if self._at_work is None:
            return
        (key, model), self._at_work = self._at_work, None
        if _fits(model) and _is_done(model.park):
            self._waiting[key] = model
        else:
            del model
            give_back_freed_memory()

    def _fetched(self, key: str) -> Any:
        """One that waits, back on its device; None where there is none, or it cannot come back."""
        model = self._waiting.pop(key, None)
        if model is None or _is_done(model.unpark):
            return model
        del model
        give_back_freed_memory()
        return None


def release(models: Iterable[Any]) -> None:
    """Have models let go of their weights, those that can."""
    for model in models:
        if offers(model, Releases):
            _is_done(model.release)
    give_back_freed_memory()


def _fits(model: Any) -> bool:
    """Whether a model may wait."""
    return offers(model, Parks) and 0 < model.weight_bytes <= room()


def room() -> int:
    """Bytes that models may take while they wait, besides what they take already."""
    now = memory()
    return now.available - int(KEPT_FREE * now.total)


def _is_done(move: Callable[[], None]) -> bool:
    """Move a model; False where it cannot, whatever the reason: out of memory, or a library that refuses."""
    try:
        move()
    except Exception:  # it is loaded again, which says what is wrong if that fails too
        return False
    return True


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
