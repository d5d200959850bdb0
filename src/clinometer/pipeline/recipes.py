"""Models as they are asked for, each loaded once; and how a worker gets one, by its name or sent as it is.

Of generators one is on its device, and others wait in the memory of the host to come back: two may not fit on a device,
and how many images one draws at once must not depend on which others were loaded before. So one that makes room takes
its weights along, if it can (`Parks`) and the host has room; else it is loaded again. See decision 37.

What a run asks of its encoders is checked before anything is drawn: a wrong one must not cost an hour of images. See
decision 40.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol
from uuid import uuid4

from clinometer._memory import give_back_freed_memory, memory
from clinometer._messages import quoted
from clinometer.errors import ModelError
from clinometer.models import load_encoder, load_generator, load_reader
from clinometer.models.files.source import EmbeddedSource, FolderSource, PortraitSource
from clinometer.models.protocols import (
    SETTINGS,
    Card,
    Encoder,
    Generator,
    Parks,
    ReadsTexts,
    Releases,
    SeesImages,
    TakesSettings,
    offers,
)
from clinometer.models.readers import Reader, require_answer
from clinometer.models.registry import with_presets
from clinometer.pipeline.request import Encoders, Readers
from clinometer.runs.answers import reader_question
from clinometer.runs.drawing import WatchedGenerator
from clinometer.runs.ledger import embeddings_name, readings_name
from clinometer.studies import study_of
from clinometer.suites import Suite
from clinometer.suites.question import QuestionSpec

KEPT_FREE: Final = 0.25
"""Share of memory that stays free beside what waits: the next model passes through it, and others need some too.

What counts is what is free at the time, so processes that keep models side by side leave it together.
"""


class LoadedGenerators:
    """Generators by a key for each: one at work, and those that wait."""

    def __init__(self) -> None:
        self._at_work: tuple[str, Any] | None = None
        self._waiting: dict[str, Any] = {}

    def take(self, key: str, load: Callable[[], Any]) -> Any:
        """Return the active model: the current one, a parked one, or one loaded now. The one before makes room."""
        if self._at_work is None or self._at_work[0] != key:
            self._set_aside(key)
            model = self._waiting.pop(key, None)
            if model is not None and not _is_done(model.unpark):  # it cannot come back
                model = None
                give_back_freed_memory()
            self._at_work = key, load() if model is None else model
        return self._at_work[1]

    def release(self) -> None:
        """Release all weights, even where others still hold the models."""
        at_work, self._at_work = self._at_work, None
        self._waiting.clear()
        release([] if at_work is None else [at_work[1]])

    def _set_aside(self, following: str) -> None:
        """Deactivate the active model, and note which follows: that one need not leave when memory is short.

        Where there is no room for all, those that wait stay: rounds come to them before the one that was at work.
        """
        for other in [other for other in self._waiting if other != following]:
            if room() < 0:  # other processes have grown
                del self._waiting[other]
                give_back_freed_memory()
        if self._at_work is None:
            return
        (key, model), self._at_work = self._at_work, None
        if offers(model, Parks) and 0 < model.weight_bytes <= room() and _is_done(model.park):
            self._waiting[key] = model
        else:
            del model
            give_back_freed_memory()


def release(models: Iterable[Any]) -> None:
    """Release the weights of models that can."""
    for model in models:
        if offers(model, Releases):
            _is_done(model.release)
    give_back_freed_memory()


def room() -> int:
    """Return how many bytes models may take while they wait, besides what they take already."""
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
        """Return the generator, which may already be loaded."""
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


_GENERATORS: Final = LoadedGenerators()
"""The generators that a worker has loaded, by the keys of their recipes."""


@dataclass(frozen=True)
class ReadyModel:
    """A model that is sent as it is: an object of Python's, or a source of files."""

    model: Any
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Return it."""
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
    """Finished images, and the encoders that embed them, each by its card and how a worker gets it."""

    source: ReadyModel
    encoders: tuple[tuple[Recipe, Card], ...]
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Load the encoders."""
        return EmbeddedSource(self.source.build(), [load_once(recipe, card) for recipe, card in self.encoders])


@dataclass(frozen=True)
class TracedGenerator:
    """A generator whose intermediate images are kept, and the encoders that embed them.

    Attributes
    ----------
    watches : steps, decoder and latents to trace; keywords of :class:`clinometer.runs.drawing.WatchedGenerator`.
    """

    generator: Recipe
    encoders: tuple[tuple[Recipe, Card], ...]
    watches: Mapping[str, Any]
    key: str = field(default_factory=_new_key)

    def build(self) -> Any:
        """Load all of them."""
        encoders = [load_once(recipe, card) for recipe, card in self.encoders]
        return WatchedGenerator(self.generator.build(), encoders, **self.watches)


_BUILT: dict[str, Any] = {}


def load_once(recipe: Recipe, card: Card) -> Any:
    """Return the model of a recipe, built once in a process.

    Raises
    ------
    ModelError
        It is not the driver's: other weights or settings on another machine.
    """
    if recipe.key not in _BUILT:
        # a model goes when another comes: there is one generator, and no encoder twice for a later audit
        alike = {key: other.card for key, other in _BUILT.items() if other.card.kind == card.kind}
        for key, other in alike.items():
            if card.kind == "generator" or other.fingerprint == card.fingerprint:
                del _BUILT[key]
        model = recipe.build()
        if model.card.fingerprint != card.fingerprint:
            raise ModelError.mismatch(
                f"{card.name}: a worker found another model of that name (fingerprint {model.card.fingerprint}, "
                f"expected {card.fingerprint}); see that all machines have the same weights, settings and devices"
            )
        _BUILT[recipe.key] = model
    return _BUILT[recipe.key]


# --- what is loaded --------------------------------------------------------------------------------------------------


@dataclass
class Models:
    """What is loaded. Of generators one is on its device, the last: two may not fit."""

    _generators: LoadedGenerators = field(default_factory=LoadedGenerators)
    _recipes: dict[str, Loaded] = field(default_factory=dict)
    _encoders: dict[tuple[str, str], tuple[Encoder, Recipe]] = field(default_factory=dict)

    def generator(
        self,
        model: str | Generator,
        options: Mapping[str, Any],
        device: str,
        *,
        prefer: Mapping[str, Any] | None = None,
    ) -> tuple[Generator, Recipe]:
        """Return the model, and how workers get it. One given as an object takes no options.

        Raises
        ------
        ModelError
            It cannot be loaded, or does not take an option.
        """
        if not isinstance(model, str | os.PathLike):
            if names := [name for name, value in options.items() if value not in (None, "auto")]:
                raise ModelError.conflict(
                    f"{model.card.name} is loaded already and keeps its own; give such options where it is loaded, or "
                    "the model by its name",
                    field=names,
                )
            return model, ReadyModel(model)
        load_options = {name: value for name, value in options.items() if value not in (None, "auto")}
        load_options |= {"device": device, "prefer": dict(prefer or {})}
        weights, generator = self._weights(os.fspath(model), load_options)
        if not offers(generator, TakesSettings):
            return generator, weights
        settings = _split(load_options)[0]
        same = weights.options == load_options
        return (generator if same else generator.with_settings(**settings)), AtSettings(weights, settings)

    def _weights(self, spec: str, options: Mapping[str, Any]) -> tuple[Loaded, Generator]:
        """Load the weights on their device, with one recipe for as long as this lives: workers know them by it."""
        for_any, for_these = (
            json.dumps([what, spec, key_options], sort_keys=True, default=str)
            for what, key_options in (("any settings", _split(options)[1]), ("these", options))
        )
        known = self._recipes.get(for_any) or self._recipes.get(for_these)
        recipe = known or Loaded("generator", spec, options)
        generator: Generator = self._generators.take(recipe.key, recipe.load)
        self._recipes[for_any if offers(generator, TakesSettings) else for_these] = recipe
        return recipe, generator

    def release(self, *, generator: bool) -> None:
        """Release the weights of what was loaded here: workers have their own. The user's own objects stay whole.

        ``generator`` : of the generator, too.
        """
        if generator:
            self._generators.release()
        release(encoder for encoder, _ in self._encoders.values())
        self._encoders.clear()

    def encoders(self, specs: Encoders, device: str) -> tuple[list[Encoder], dict[str, Recipe]]:
        """Return the encoders, and how workers get each, by its name.

        Raises
        ------
        ModelError
            One cannot be loaded or sees no images, or two have one name.
        """
        pairs: list[tuple[Encoder, Recipe]] = []
        for spec in named_encoders(specs):
            if not isinstance(spec, str | os.PathLike):
                pairs.append((spec, ReadyModel(spec)))
                continue
            key = os.fspath(spec), device
            if key not in self._encoders:
                recipe = Loaded("encoder", key[0], {"device": device})
                self._encoders[key] = recipe.load(), recipe
            pairs.append(self._encoders[key])
        encoders = [encoder for encoder, _ in pairs]
        for encoder in encoders:
            if not offers(encoder, SeesImages):
                raise ModelError.unsupported(
                    f"encoder {encoder.card.name}: it embeds texts only, and a run holds images; name a dual encoder, "
                    "such as ViT-B-32/openai (clinometer test takes any encoder)"
                )
        require_names(encoders)
        return encoders, {encoder.card.name: recipe for encoder, recipe in pairs}

    def readers(
        self, specs: Readers | None, device: str, asked: Sequence[QuestionSpec], server: Mapping[str, Any]
    ) -> tuple[list[Reader], dict[str, Recipe]]:
        """Load the readers, with a recipe for workers, by name; ``server`` : options of those behind an endpoint.

        Raises
        ------
        ModelError
            One cannot be loaded or cannot answer what is ``asked``, or two have one name.
        """
        named_ones = one_by_one(specs)
        given = {key: value for key, value in server.items() if value is not None}
        of_any = {"device": device} | {key: given.pop(key) for key in ("batch_size",) if key in given}
        # where none is behind an endpoint, the first one says that it does not take its options
        served = [spec for spec in named_ones if str(spec).startswith("openai:")] or named_ones
        readers, recipes = list[Reader](), dict[str, Recipe]()
        for spec in named_ones:
            recipe: Recipe = ReadyModel(spec)
            if isinstance(spec, str | os.PathLike):
                recipe = Loaded("reader", os.fspath(spec), of_any | (given if spec in served else {}))
            reader = recipe.build()
            for question in asked:
                require_answer(reader, reader_question(question))
            readers.append(reader)
            recipes[reader.card.name] = recipe
        require_names(readers)
        return readers, recipes


def named_encoders(specs: Encoders) -> Sequence[str | Encoder]:
    """Return encoders as they were given, one by one, with presets replaced by what they name."""
    return with_presets(one_by_one(specs))


def one_by_one(specs: Encoders | Readers | None) -> list[Any]:
    """Return encoders or readers as a list, whether one was given, by name or as an object, or several."""
    alone = isinstance(specs, str | os.PathLike) or hasattr(specs, "card")
    return [specs] if alone else list(specs or ())  # type: ignore[arg-type]


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Split options into settings of a call and what the weights depend on."""
    settings = {name: value for name, value in options.items() if name in SETTINGS}
    return settings, {name: value for name, value in options.items() if name not in SETTINGS}


LONGEST_NAME = 200


def require_texts(encoders: Sequence[Encoder], suite: Suite, *, until: bool) -> None:
    """Refuse an encoder that reads none, where scores need it or where they decide how many images there are."""
    needed = until or study_of(suite).texts_needed
    for encoder in encoders:
        if needed and not offers(encoder, ReadsTexts):
            raise ModelError.unsupported(
                f"encoder {encoder.card.name}: it embeds images only, and a suite of study {suite.study} asks by words "
                "what they show; name a dual encoder, such as ViT-B-32/openai"
            )


def require_names(models: Sequence[Encoder | Reader]) -> None:
    """Refuse the name that scores reserve, and two encoders, or readers, whose files would share a folder."""
    by_place: dict[str, Card] = {}
    for card in (model.card for model in models):
        leaves, place_of = ("answers", readings_name) if card.kind == "reader" else ("embeddings", embeddings_name)
        if card.name == "mean":
            raise ModelError.conflict(
                f"{card.kind} 'mean': in the scores that name is the mean over all; rename its directory"
            )
        if not card.name.strip("./\\ ") or len(card.name) > LONGEST_NAME:
            raise ModelError.malformed(
                f"{card.kind} {quoted(card.name)}: its {leaves} are kept in a folder of that name, and none can "
                f"be called so; give it a name of letters and digits, of at most {LONGEST_NAME} characters"
            )
        place = place_of(card.name)
        other = by_place.setdefault(place.lower(), card)  # one place on systems that know no case
        if other.fingerprint != card.fingerprint:
            raise ModelError.conflict(
                f"{card.kind}s {other.name!r} ({other.family}) and {card.name!r} ({card.family})"
                f": the {leaves} of both would lie in {place}; rename the directory of one, or give one only"
            )
