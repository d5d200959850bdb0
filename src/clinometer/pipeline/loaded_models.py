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
from clinometer.models.protocols import SETTINGS, Encoder, Generator
from clinometer.models.registry import with_presets
from clinometer.models.residents import Residents, release
from clinometer.pipeline.recipes import AtSettings, Given, Loaded, Recipe
from clinometer.pipeline.request import Encoders
from clinometer.runs.ledger import embeddings_name
from clinometer.studies import study_of
from clinometer.suites import Suite


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


def require_names(encoders: Sequence[Encoder]) -> None:
    """Refuse the name that scores reserve, and two encoders whose embeddings would share a folder."""
    by_place: dict[str, Encoder] = {}
    for encoder in encoders:
        if encoder.card.name == "mean":
            raise ModelError("encoder 'mean': in the scores that name is the mean over encoders; rename its directory")
        if not encoder.card.name.strip("./\\ ") or len(encoder.card.name) > LONGEST_NAME:
            raise ModelError(
                f"encoder {quoted(encoder.card.name)}: its embeddings are kept in a folder of that name, and none can "
                f"be called so; give it a name of letters and digits, of at most {LONGEST_NAME} characters"
            )
        place = embeddings_name(encoder.card.name)
        other = by_place.setdefault(place.lower(), encoder)  # one place on systems that know no case
        if other.card.fingerprint != encoder.card.fingerprint:
            raise ModelError(
                f"encoders {other.card.name!r} ({other.card.family}) and {encoder.card.name!r} ({encoder.card.family})"
                f": the embeddings of both would lie in {place}; rename the directory of one, or give one only"
            )
