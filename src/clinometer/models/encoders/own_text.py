"""The text encoders that guide a text-to-image model, as encoders of their own: what TT is inside the model audited.

See decision 18.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from clinometer._cores import one_thread
from clinometer._torch import dtype_name, torch
from clinometer.models.protocols import Card, ShowsPipeline, offers

OWN: Final = "own:"
"""The beginning of the names of these encoders."""

LONGEST = 512
"""Tokens of a text, where a tokenizer names no limit."""


class OwnTextEncoder:
    """Embeds texts as one text encoder of a pipeline does: one vector a text, each text alone and without padding.

    The vector is the first of these that the encoder gives: the projected state of the end-of-text token (CLIP with a
    projection), that state without one (CLIP), the mean of the last hidden states of its tokens (T5, BERT and
    decoders). M-CLIP gives but one vector, the projection of that mean.
    The text is embedded as it is, without the instructions that some pipelines put around a prompt.
    """

    def __init__(self, pipeline: Any, component: str, model: Card) -> None:
        self._pipeline = pipeline
        self._encoder = pipeline.components[component]
        self._tokenizer = pipeline.components[component.replace("text_encoder", "tokenizer")]
        self._model = model
        self.name = f"{OWN}{component}"

    @cached_property
    def card(self) -> Card:
        """Its card. A text is embedded to see which vector it gives: an encoder of an unknown kind may fail here."""
        kind, _ = self._embed("a person")
        return Card(
            kind="encoder",
            name=self.name,
            family=f"transformers/{type(self._encoder).__name__}",
            revision=self._model.revision,
            weights_sha256=self._model.weights_sha256,
            settings={"model": self._model.name, "vector": kind, "dtype": dtype_name(self._encoder.dtype)},
        )

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32, not normalised."""
        return np.stack([self._embed(text)[1] for text in texts])

    def _embed(self, text: str) -> tuple[str, np.ndarray]:
        limit = min(self._tokenizer.model_max_length, LONGEST)
        tokens = self._tokenizer(text, truncation=True, max_length=limit, return_tensors="pt")
        device = self._pipeline._execution_device
        # Encoders of transformers may take the question for their hidden states among further arguments; diffusers' own
        # (M-CLIP of Kandinsky 2.1) gives a vector and takes none.
        parameters = inspect.signature(self._encoder.forward).parameters.values()
        is_asked = any(each.name == "output_hidden_states" or each.kind is each.VAR_KEYWORD for each in parameters)
        options = {"output_hidden_states": True} if is_asked else {}
        with torch.no_grad(), one_thread():
            output = self._encoder(
                input_ids=tokens.input_ids.to(device),
                attention_mask=torch.ones_like(tokens.input_ids).to(device),
                **options,
            )
        kind, vector = _vector(output, self._encoder, tokens.input_ids[0].tolist(), self._tokenizer.eos_token_id)
        return kind, vector.float().cpu().numpy()


def own_text_encoders(generator: Any) -> Iterator[OwnTextEncoder]:
    """Return a loaded generator's text encoders that have tokenizers; none where it exposes no pipeline."""
    for name in own_text_components(generator):
        yield OwnTextEncoder(generator.pipeline, name, generator.card)


def own_text_components(generator: Any) -> Iterator[str]:
    """Return the names of their components, such as ``text_encoder_2``; nothing is embedded."""
    components = components_of(generator)
    for name, module in components.items():
        tokenizer = components.get(name.replace("text_encoder", "tokenizer"))  # text_encoder_2 has tokenizer_2
        if "text_encoder" in name and module is not None and tokenizer is not None:
            yield name


def components_of(generator: Any) -> dict[str, Any]:
    """Return the components of a generator's pipeline; none where it shows none."""
    return dict(getattr(generator.pipeline, "components", {})) if offers(generator, ShowsPipeline) else {}


def _vector(output: Any, encoder: Any, tokens: Sequence[int], end: int | None) -> tuple[str, Any]:
    """Return one vector of a text's output, and what it is, as far as output and tokenizer show it.

    ``tokens`` : those of the text. ``end`` : the one that ends a text, as the tokenizer says.
    """
    if isinstance(output, tuple):
        known = type(encoder).__name__ == "MultilingualCLIP"
        return "projected mean of the last hidden states" if known else "unknown: its first output", output[0][0]
    if getattr(output, "text_embeds", None) is not None:
        project, states = getattr(encoder, "text_projection", None), getattr(output, "last_hidden_state", None)
        projected = None if project is None or states is None else project(states[0])
        return f"projected {_whose(output.text_embeds[0], projected, tokens, end)}", output.text_embeds[0]
    states = output.hidden_states[-1]
    states = states[0] if len(states) == 1 else states[:, 0]  # ChatGLM (Kolors) puts the tokens before the texts
    pooled = getattr(output, "pooler_output", None)
    whose = UNKNOWN if pooled is None else _whose(pooled[0], output.last_hidden_state[0], tokens, end)
    if pooled is not None and whose != UNKNOWN:
        return whose, pooled[0]  # BERT's is no state of a token: a layer that drawing leaves aside
    return "mean of the last hidden states", states.mean(dim=0)


UNKNOWN: Final = "state of an unknown token"


def _whose(vector: Any, states: Any, tokens: Sequence[int], end: int | None) -> str:
    """Return which token's state a vector is: encoder and tokenizer may take different tokens for the text's end."""
    places = [] if states is None else torch.isclose(states, vector, rtol=1e-4).all(dim=-1).nonzero().flatten().tolist()
    if not places:
        return UNKNOWN
    if any(tokens[place] == end for place in places):
        return "end-of-text state"
    named = {0: "first", len(tokens) - 1: "last"}.get(places[0], f"{places[0] + 1}th")
    return f"state of the {named} token, which does not end the text"
