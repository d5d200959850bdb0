"""Text-only encoders: a transformer whose tokens are pooled to one vector, in the layout of sentence-transformers.

``modules.json`` names the steps: the transformer, its pooling, and perhaps normalisation. Without it the tokens are
averaged, which is what most such models were trained for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import transformers

from clinometer._torch import bytes_of, dtype_name, torch
from clinometer.errors import ModelError
from clinometer.models.encoders._encoding import (
    encode_texts_alone,
    notes_of,
    resolve_options,
    warn_of_truncation,
    working_encoder,
)
from clinometer.models.encoders.transformers_clip import load_model, load_part
from clinometer.models.protocols import Card
from clinometer.models.weights import (
    Source,
    configuration_files,
    hash_files,
    locate_files,
    require_vocabulary,
    weight_files,
)

POOLINGS = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}


class SentenceEncoder:
    """Embeds texts by pooling a transformer's last hidden states over the tokens that are not padding.

    Parameters
    ----------
    model, tokenizer : the transformer, on its device.
    card : what it is; its settings ``pooling``, ``normalised``, ``lower_case`` and ``context_length`` are followed.
    """

    def __init__(self, model: Any, tokenizer: Any, card: Card) -> None:
        self.model = model
        self.card = card
        self.context_length = int(card.settings["context_length"])
        self._tokenizer = tokenizer

    @property
    def weight_bytes(self) -> int:
        """Bytes of the device that the weights take."""
        return bytes_of([self.model])

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Embed texts: (n, d) float32. Text beyond the context is cut, with a warning."""
        if self.card.settings["lower_case"]:
            texts = [text.lower() for text in texts]
        warn_of_truncation(texts, self.exceeds_context(texts), self.context_length)
        dimension = int(self.card.settings["dimension"])
        return encode_texts_alone(texts, self._embed, dimension=dimension)

    def exceeds_context(self, texts: Sequence[str]) -> list[bool]:
        """Return, for each text, whether its end is cut off."""
        if not len(texts):
            return []
        tokens = self._tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]
        return [len(ids) > self.context_length for ids in tokens]

    def _embed(self, texts: list[str]) -> torch.Tensor:
        inputs = self._tokenizer(
            texts, padding=True, truncation=True, max_length=self.context_length, return_tensors="pt"
        ).to(self.model.device)
        states = self.model(**inputs).last_hidden_state.float()
        pooled = pool(states, inputs["attention_mask"], self.card.settings["pooling"])
        return torch.nn.functional.normalize(pooled, dim=-1) if self.card.settings["normalised"] else pooled


def pool(states: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool (n, tokens, d) hidden states to (n, d): the mean or maximum over tokens, or the first one's ("cls")."""
    if pooling == "cls":
        return states[:, 0]
    weights = mask[:, :, None].to(states.dtype)
    if pooling == "max":
        return states.masked_fill(weights == 0, float("-inf")).amax(dim=1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1)


def load(
    source: str,
    *,
    batch_size: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    offline: bool = False,
) -> SentenceEncoder:
    """Load a text encoder from a directory or a hub id ``owner/name[@revision]``.

    Parameters
    ----------
    batch_size : has no meaning here: texts are embedded one by one.
    device : auto, cpu, cuda, cuda:N, mps.
    dtype : float32 (also for auto), float16, bfloat16.
    offline : use the local cache only.

    Raises
    ------
    ModelNotFoundError, ModelError
        It is not there, without safetensors, or has a step that is neither pooling nor normalisation; or an option
        that is none.
    """
    checkpoint = locate_files(
        source, ["*.json", "*.txt", "*.model", "model*.safetensors"], without=["onnx/*", "openvino/*"], offline=offline
    )
    weights = weight_files(checkpoint.name, [checkpoint.path])
    steps = _steps(checkpoint)
    _, chosen_device, chosen_dtype = resolve_options(batch_size, device, dtype)
    model, lacking = load_model(checkpoint, chosen_dtype)
    tokenizer = load_part(checkpoint, transformers.AutoTokenizer)
    require_vocabulary(checkpoint.name, tokenizer)
    model.to(chosen_device).eval()
    sentence = _json(checkpoint.path / "sentence_bert_config.json")
    positions = int(getattr(model.config, "max_position_embeddings", tokenizer.model_max_length))
    # RoBERTa's positions begin after the padding's, so that two of them are no token's: its tokenizer knows
    longest = min(positions, int(sentence.get("max_seq_length") or tokenizer.model_max_length))
    if tokenizer.pad_token is None:  # GPT-2: any token may fill up, for padding is masked
        tokenizer.pad_token = tokenizer.eos_token or tokenizer.unk_token
    card = Card(
        kind="encoder",
        name=checkpoint.name,
        family=f"sentence/{type(model).__name__}",
        revision=checkpoint.revision,
        weights_sha256=hash_files(weights, checkpoint.path),
        settings={
            "dimension": int(model.config.hidden_size),
            "dtype": dtype_name(model.dtype),
            "pooling": steps["pooling"],
            "normalised": steps["normalised"],
            "lower_case": bool(sentence.get("do_lower_case", False)),
            "tokenizer": type(tokenizer).__name__,
            "context_length": longest,
            "text_beyond_context": "cut",
            "configuration_sha256": hash_files(configuration_files([checkpoint.path]), checkpoint.path),
        },
        notes=notes_of(
            model, transformers,
            [] if steps["pooling_is_said"] else ["pooling (tokens are averaged; no modules.json says how)"],
        ),
    )  # fmt: skip
    return working_encoder(SentenceEncoder(model, tokenizer, card), lacking)


def _steps(checkpoint: Source) -> dict[str, Any]:
    """Read what follows the transformer, from ``modules.json``: pooling, normalisation, and nothing else."""
    steps: dict[str, Any] = {"pooling": "mean", "normalised": False, "pooling_is_said": False}
    for module in _json(checkpoint.path / "modules.json", []):
        kind = str(module["type"]).rsplit(".", 1)[-1]
        if kind == "Pooling":
            steps |= {"pooling": _pooling(checkpoint, module["path"]), "pooling_is_said": True}
        elif kind == "Normalize":
            steps["normalised"] = True
        elif kind != "Transformer":
            raise ModelError.unsupported(
                f"{checkpoint.name}, modules.json: found a step {kind!r}; expected Transformer, Pooling, Normalize"
            )
    return steps


def _pooling(checkpoint: Source, folder: str) -> str:
    config = _json(checkpoint.path / folder / "config.json")
    named = config.get("pooling_mode")  # newer files name it, older ones have a switch for each
    switched = [name for key, name in POOLINGS.items() if config.get(key)]
    unknown = [
        key for key, on in config.items() if key.startswith("pooling_mode_") and on is True and key not in POOLINGS
    ]
    modes = [named] if named else switched
    if unknown or len(modes) != 1 or modes[0] not in POOLINGS.values():
        raise ModelError.unsupported(
            f"{checkpoint.name}, {folder}/config.json: found pooling "
            f"{', '.join([*map(str, modes), *unknown]) or 'none'}; expected one of {', '.join(POOLINGS.values())}"
        )
    return str(modes[0])


def _json(path: Path, default: Any = None) -> Any:
    if not path.is_file():
        return {} if default is None else default
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError.unreadable(f"{path.name}: not valid JSON: {error}") from error
