"""Models as they are asked for by name, each loaded once: audits that share them share the loading.

What a run asks of its encoders is checked before anything is drawn: a wrong one must not cost an hour of images. See
decision 40.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clinometer._messages import quoted
from clinometer.errors import ModelError
from clinometer.models.abilities import ReadsTexts, SeesImages, TakesSettings, offers
from clinometer.models.protocols import SETTINGS, Card, Encoder, Generator, Reader
from clinometer.models.registry import with_presets
from clinometer.pipeline.recipes import AtSettings, Given, Loaded, Recipe, Residents, release
from clinometer.pipeline.request import Encoders, Readers
from clinometer.runs.answers import question_of
from clinometer.runs.ledger import embeddings_name, readings_name
from clinometer.studies import study_of
from clinometer.suites import Suite
from clinometer.suites.question import QuestionSpec


@dataclass
class Models:
    """What is loaded. Of generators one is on its device, the last: two may not fit."""

    _generators: Residents = field(default_factory=Residents)
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
        """The model, and how workers come by it. One given as an object takes no options.

        Raises
        ------
        ModelError
            It cannot be loaded, or does not take an option.
        """
        if not isinstance(model, str | os.PathLike):
            _refuse_options(model, options)
            return model, Given(model)
        load_options = {name: value for name, value in options.items() if value not in (None, "auto")}
        load_options |= {"device": device, "prefer": dict(prefer or {})}
        weights, generator = self._weights(os.fspath(model), load_options)
        if not offers(generator, TakesSettings):
            return generator, weights
        settings = _split(load_options)[0]
        same = weights.options == load_options
        return (generator if same else generator.with_settings(**settings)), AtSettings(weights, settings)

    def _weights(self, spec: str, options: Mapping[str, Any]) -> tuple[Loaded, Generator]:
        """The weights on their device, and their recipe, one for as long as this lives: workers know them by it."""
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
        """Let go of the weights of what was loaded here: workers have their own. Objects of the user's stay whole.

        ``generator`` : of the generator, too.
        """
        if generator:
            self._generators.release()
        release(encoder for encoder, _ in self._encoders.values())
        self._encoders.clear()

    def encoders(self, specs: Encoders, device: str) -> tuple[list[Encoder], dict[str, Recipe]]:
        """The encoders, and how workers come by each, by its name.

        Raises
        ------
        ModelError
            One cannot be loaded or sees no images, or two have one name.
        """
        pairs = [self._encoder(spec, device) for spec in named_encoders(specs)]
        encoders = [encoder for encoder, _ in pairs]
        for encoder in encoders:
            require_images(encoder)
        require_names(encoders)
        return encoders, {encoder.card.name: recipe for encoder, recipe in pairs}

    def readers(
        self, specs: Readers | None, device: str, asked: Sequence[QuestionSpec], server: Mapping[str, Any]
    ) -> tuple[list[Reader], dict[str, Recipe]]:
        """The readers, and how workers come by each, by its name; ``server`` : what those behind an endpoint take.

        Raises
        ------
        ModelError
            One cannot be loaded or cannot answer what is ``asked``, or two have one name.
        """
        alone = isinstance(specs, str | os.PathLike) or hasattr(specs, "card")
        named_ones: Sequence[Any] = [specs] if alone else list(specs or ())  # type: ignore[arg-type]
        given = {key: value for key, value in server.items() if value is not None}
        of_any = {"device": device} | {key: given.pop(key) for key in ("batch_size",) if key in given}
        # where none is behind an endpoint, the first one says that it does not take its options
        served = [spec for spec in named_ones if str(spec).startswith("openai:")] or named_ones
        readers, recipes = list[Reader](), dict[str, Recipe]()
        for spec in named_ones:
            recipe: Recipe = Given(spec)
            if isinstance(spec, str | os.PathLike):
                recipe = Loaded("reader", os.fspath(spec), of_any | (given if spec in served else {}))
            reader = recipe.build()
            for question in asked:
                reader.offers(question_of(question))
            readers.append(reader)
            recipes[reader.card.name] = recipe
        require_names(readers)
        return readers, recipes

    def _encoder(self, spec: str | Encoder, device: str) -> tuple[Encoder, Recipe]:
        if not isinstance(spec, str | os.PathLike):
            return spec, Given(spec)
        key = os.fspath(spec), device
        if key not in self._encoders:
            recipe = Loaded("encoder", key[0], {"device": device})
            self._encoders[key] = recipe.load(), recipe
        return self._encoders[key]


def named_encoders(specs: Encoders) -> Sequence[str | Encoder]:
    """Encoders as they were given, one by one."""
    alone = isinstance(specs, str | os.PathLike) or hasattr(specs, "card")
    return with_presets([specs] if alone else specs)  # type: ignore[arg-type]


def _split(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings of a call, and what the weights depend on."""
    settings = {name: value for name, value in options.items() if name in SETTINGS}
    return settings, {name: value for name, value in options.items() if name not in SETTINGS}


def _refuse_options(model: Generator, options: Mapping[str, Any]) -> None:
    names = [name for name, value in options.items() if value not in (None, "auto")]
    if names:
        raise ModelError(
            f"{model.card.name} is loaded already and keeps its own; give such options where it is loaded, or the "
            "model by its name",
            field=names,
        )


LONGEST_NAME = 200


def require_images(encoder: Encoder) -> None:
    """Refuse an encoder that sees none."""
    if not offers(encoder, SeesImages):
        raise ModelError(
            f"encoder {encoder.card.name}: it embeds texts only, and a run holds images; name a dual encoder, such as "
            "ViT-B-32/openai (clinometer test takes any encoder)"
        )


def require_texts(encoders: Sequence[Encoder], suite: Suite, *, until: bool) -> None:
    """Refuse an encoder that reads none, where scores need it or where they decide how many images there are."""
    needed = until or study_of(suite).texts_needed
    for encoder in encoders:
        if needed and not offers(encoder, ReadsTexts):
            raise ModelError(
                f"encoder {encoder.card.name}: it embeds images only, and a suite of study {suite.study} asks by words "
                "what they show; name a dual encoder, such as ViT-B-32/openai"
            )


def require_names(models: Sequence[Encoder | Reader]) -> None:
    """Refuse the name that scores reserve, and two encoders, or readers, whose files would share a folder."""
    by_place: dict[str, Card] = {}
    for card in (model.card for model in models):
        leaves, place_of = ("answers", readings_name) if card.kind == "reader" else ("embeddings", embeddings_name)
        if card.name == "mean":
            raise ModelError(f"{card.kind} 'mean': in the scores that name is the mean over all; rename its directory")
        if not card.name.strip("./\\ ") or len(card.name) > LONGEST_NAME:
            raise ModelError(
                f"{card.kind} {quoted(card.name)}: its {leaves} are kept in a folder of that name, and none can "
                f"be called so; give it a name of letters and digits, of at most {LONGEST_NAME} characters"
            )
        place = place_of(card.name)
        other = by_place.setdefault(place.lower(), card)  # one place on systems that know no case
        if other.fingerprint != card.fingerprint:
            raise ModelError(
                f"{card.kind}s {other.name!r} ({other.family}) and {card.name!r} ({card.family})"
                f": the {leaves} of both would lie in {place}; rename the directory of one, or give one only"
            )
