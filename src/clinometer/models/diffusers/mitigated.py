"""Mitigations and LoRAs of a diffusers pipeline: what they change in embeddings, cross-attention and weights.

::

    text embedding             x' = P x                    each token of a prompt; P takes the group direction out
    unconditional embedding    u' = u + α_c d̂              d̂: unit direction from other groups to one, token by token;
                                                           α_c: of this prompt (Stay Fair, arXiv 2605.28036)
    cross-attention            y' = ‖y‖ · n(y − QQᵀy + QQᵀ(m + γ(m_g − m)))
                                                           y: a layer's output at a pixel; m_g: its mean over pixels of
                                                           images under prompts that name group g; m: their mean over
                                                           groups; Q: basis of all m_g − m; g: the group that the
                                                           image's seed draws; n(x) = x/‖x‖. With two groups and γ = 1
                                                           this is EquiSteer's (arXiv 2607.01147)

    weights                    (W + m s B A) x             m: 0 of an image whose prompt the gate spares, else 1; s: of
                                                           the LoRA

A prompt that the gate spares is drawn as it was. In a guided call, the unconditional half is not steered; a LoRA is in
both halves or in neither.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from clinometer._messages import quoted
from clinometer._torch import torch
from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models.diffusers.denoiser import network_of
from clinometer.models.mitigation import IN_WORDS, TENSORS, Mitigation, find_mitigation, read_mitigation
from clinometer.models.weights import (
    Source,
    damage,
    hash_files,
    in_words,
    locate_files,
    named_by,
    quiet_loading,
    user_path,
)

ATTENTION: Final = "attn2"
"""The name of the cross-attention of a UNet's transformer block in diffusers."""


def cross_attentions(network: Any) -> dict[str, Any]:
    """Find the cross-attention layers of a UNet by their names, in their order."""
    return {name: module for name, module in network.named_modules() if name.rpartition(".")[2] == ATTENTION}


class Mitigator:
    """Does to each batch of a pipeline what a mitigation says.

    Parameters
    ----------
    pipeline : a loaded pipeline, whose cross-attention or LoRA is hooked where the mitigation acts on it.
    mitigation : what to do.
    tensors : what was computed when it was made, by name.
    """

    def __init__(self, pipeline: Any, mitigation: Mitigation, tensors: dict[str, torch.Tensor]) -> None:
        self.mitigation = mitigation
        self._tensors = tensors
        self._groups: list[int | None] = []
        self._spared: list[bool] = []
        self._step = 0
        if mitigation.acts_on == "weights":
            self._gate_lora(pipeline)
        if mitigation.acts_on == "cross-attention":
            self._names = list(mitigation.target)
            layers = cross_attentions(network_with_attention(pipeline, mitigation.method))
            wanted = {name.partition("/")[2] for name in tensors if name.startswith("apart/")}
            if set(layers) != wanted:
                raise ModelError.mismatch(
                    f"it steers {len(wanted)} layers, and this model has {len(layers)} of other names; make one for it "
                    "by clinometer mitigate",
                    field="mitigation",
                )

            def note_step(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
                t = float(torch.as_tensor(named["timestep"] if "timestep" in named else arguments[1]).flatten()[0])
                self._step = int((self._tensors["timesteps"] - t).abs().argmin())  # the nearest that is known

            pipeline.unet.register_forward_pre_hook(note_step, with_kwargs=True)
            for name, layer in layers.items():
                layer.register_forward_hook(lambda *call, name=name: self._steer(name, call[-1]))

    @classmethod
    def of(
        cls, pipeline: Any, place: Path, name: str, weights_sha256: str | None, lora: str | None = None
    ) -> Mitigator:
        """Read a mitigation for a pipeline that is called ``name``.

        Raises
        ------
        ModelNotFoundError, ModelError
            It is not there, is damaged, or was made for another model.
        """
        mitigation, file = read_mitigation(place)
        if mitigation.acts_on == "weights":
            way_out = "it is given as that already; leave this out" if lora else f"give --lora {file.parent}"
            raise ModelError.conflict(f"{file.parent} is a LoRA: {way_out}", field="mitigation")
        made_for = mitigation.made_for
        if mitigation.acts_on not in IN_WORDS and made_for.get("weights_sha256") != weights_sha256:
            raise ModelError.mismatch(
                f"its {mitigation.acts_on} mitigation was made for {made_for.get('name')}, and {name} has other "
                "weights; make one for it by clinometer mitigate",
                field="mitigation",
            )
        if mitigation.acts_on in ("text embedding", "unconditional embedding"):
            require_embeddings(pipeline, mitigation.method)
        if mitigation.tensors_sha256 is None:
            return cls(pipeline, mitigation, {})
        from safetensors.torch import load_file

        return cls(pipeline, mitigation, load_file(file.with_name(TENSORS)))

    def completed(self, options: dict[str, Any]) -> dict[str, Any]:
        """Complete settings of a call by those that the mitigation was made at, where nothing else is asked for."""
        wished = {name: value for name, value in options.items() if value is not None}
        made_at: dict[str, Any] = {str(name): value for name, value in self.mitigation.drawn_at.items()}
        if "steps" in made_at:
            made_at["steps"] = int(made_at["steps"])
        return {name: value for name, value in made_at.items() if name not in (options.get("prefer") or {})} | wished

    def intervene(self, prompts: Sequence[str], seeds: Sequence[int], arguments: dict[str, Any]) -> None:
        """Change the embeddings of a batch, and note which group each of its images is drawn to.

        ``arguments`` : of the pipeline's call; those with embeddings are replaced.
        """
        acts_on, spared = self.mitigation.acts_on, [self.mitigation.spares(prompt) for prompt in prompts]
        self._spared = spared
        if acts_on == "cross-attention":
            drawn = [
                self._names.index(self.mitigation.group_of(seed, prompt))
                for prompt, seed in zip(prompts, seeds, strict=True)
            ]
            self._groups = [None if left else group for left, group in zip(spared, drawn, strict=True)]
        elif acts_on == "text embedding":
            embeddings = arguments["prompt_embeds"]
            projection = self._tensors["projection"].to(embeddings)
            changed = torch.tensor([not left for left in spared], device=embeddings.device)[:, None, None]
            arguments["prompt_embeds"] = torch.where(changed, embeddings @ projection.T, embeddings)
        elif acts_on == "unconditional embedding":
            embeddings = arguments["negative_prompt_embeds"]
            offsets = [
                0.0 if left else self.mitigation.offsets.get(p, 0.0) for left, p in zip(spared, prompts, strict=True)
            ]
            alpha = torch.tensor(offsets).to(embeddings)[:, None, None]
            arguments["negative_prompt_embeds"] = embeddings + alpha * self._tensors["direction"].to(embeddings)

    def _gate_lora(self, pipeline: Any) -> None:
        """Disable the LoRA in each layer of the denoising network for images that are spared.

        Of a guided call that is both halves.

        Raises
        ------
        ModelError
            It changes other parts, too, such as a text encoder, which know of no image.
        """

        def gate(_: Any, __: Any, output: torch.Tensor) -> torch.Tensor:
            if not any(self._spared):
                return output
            left = torch.tensor(self._spared, device=output.device).repeat(len(output) // len(self._spared))
            return torch.where(left.view(-1, *[1] * (output.ndim - 1)), torch.zeros_like(output), output)

        network = network_of(pipeline)
        for part in pipeline.components.values():
            if not isinstance(part, torch.nn.Module):
                continue
            layers = [module for name, module in part.named_modules() if name.rpartition(".")[0].endswith("lora_B")]
            if layers and part is not network:
                raise ModelError.unsupported(
                    f"its LoRA changes a {type(part).__name__}, and a gate can only leave it out of the denoising "
                    "network; give --mitigation none, which takes the LoRA without its gate",
                    field="mitigation",
                )
            for layer in layers:
                layer.register_forward_hook(gate)

    def _steer(self, layer: str, output: torch.Tensor) -> torch.Tensor:
        """Steer what a layer gives at each pixel, (images, pixels, channels); of a guided call, the second half."""
        rows = [(row, group) for row, group in enumerate(self._groups) if group is not None]
        if not rows or len(output) % len(self._groups):
            return output
        first = len(output) - len(self._groups)
        at, groups = torch.tensor([first + row for row, _ in rows]), torch.tensor([group for _, group in rows])
        apart = self._tensors[f"apart/{layer}"][self._step].to(output)  # groups × channels
        middle = self._tensors[f"middles/{layer}"][self._step].to(output)
        steered = steer(output[at], apart, (middle + self.mitigation.strength * apart)[groups])
        return output.index_copy(0, at.to(output.device), steered)


def steer(output: torch.Tensor, apart: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Move each image's pixels within the space between the groups to one place, and keep each pixel's length.

    ``output`` : images × pixels × channels; ``apart`` : groups × channels, which span the space; ``places`` : images ×
    channels, of which only what lies in that space counts.
    """
    basis = torch.linalg.svd(apart.float(), full_matrices=False)
    space = basis.Vh[1e-4 * basis.S.max() < basis.S].to(output)
    moved = output + ((places[:, None] - output) @ space.T) @ space
    length = torch.linalg.vector_norm(output, dim=-1, keepdim=True)
    steered: torch.Tensor = moved * length / torch.linalg.vector_norm(moved, dim=-1, keepdim=True).clamp(min=1e-8)
    return steered


def network_with_attention(pipeline: Any, method: str) -> Any:
    """Return the UNet of a pipeline, whose cross-attention can be steered.

    Raises
    ------
    ModelError
        It has none.
    """
    network = getattr(pipeline, "unet", None)
    if network is None or not cross_attentions(network):
        raise ModelError.unsupported(
            f"method {method} acts on the cross-attention of a UNet, and a {type(pipeline).__name__} has none; use "
            "prompt or balanced",
            field="mitigation",
        )
    return network


def require_embeddings(pipeline: Any, method: str) -> None:
    """Refuse a pipeline whose text embeddings are not those of one text encoder that it is guided by.

    Raises
    ------
    ModelError
        It has several, or encodes its prompts by itself.
    """
    if type(pipeline).__name__ != "StableDiffusionPipeline":
        raise ModelError.unsupported(
            f"method {method} acts on the embeddings of one text encoder, and a {type(pipeline).__name__} has another "
            "way to its prompts; use prompt or balanced",
            field="mitigation",
        )


# --- LoRAs that somebody else made, merged into the weights of a pipeline --------------------------------------------
#
# diffusers takes a LoRA's settings from its file, and PEFT takes parts of those settings, and names of weights, for
# regular expressions, for ranks to reserve memory for and for ways to change the model's own weights. Whatever does
# more than say how strong the LoRA is, and of which layers, is refused before either of them reads it.


LEAST_PLACED: Final = 0.9
"""Share of a LoRA's weights that have to find a place in the model, unless the user says otherwise."""

OF_PEFT: Final = "base_model.model."
"""The prefix of weight names in files saved by PEFT; they do not name the component of the pipeline."""

_PLAIN: Final = re.compile(r"[\w./@: -]{0,300}")
"""Names and other texts in a file: those that, taken for a regular expression, match in linear time."""

_LAYERS: Final = ("target_modules", "exclude_modules", "layers_to_transform", "auto_mapping")
_PATTERNS: Final = ("rank_pattern", "alpha_pattern")


def apply_lora(
    pipeline: Any, spec: str, scale: float, *, offline: bool = False, gated: bool = True, partly: bool = False
) -> tuple[dict[str, Any], Mitigation | None, str]:
    """Merge a LoRA into a pipeline's weights, ``W + scale · B A``.

    Parameters
    ----------
    spec : a safetensors file, a directory with one, or a hub id ``owner/name[@revision]``.
    scale : how strongly; 1 is as it was trained, 0 leaves the pipeline as it is.
    gated : one that ``clinometer mitigate`` made and that has a gate is added next to the weights instead, for
        `Mitigator` to leave it out of some images.
    partly : whether one of which few weights find a place in the model is merged all the same.

    Returns
    -------
    What a card records of it; the mitigation whose gate is still to be kept, None where it was merged; and how many of
    its weights found a place.

    Raises
    ------
    ModelError
        It is not there, is a pickle, does not fit the pipeline, or the package peft is missing.
    """
    if importlib.util.find_spec("peft") is None:
        raise ModelError.lacks_package("peft", "peft", field="lora")
    if not hasattr(pipeline, "load_lora_weights"):
        raise ModelError.unsupported("this model takes none; leave it out", field="lora")
    source, file = _lora_file(spec, offline)
    place = find_mitigation(file.parent)
    mitigation = None if place is None else read_mitigation(place)[0]
    has_gate = gated and mitigation is not None and mitigation.gate == "words"
    try:
        with quiet_loading():
            placed, weights = _lay_beside(pipeline, spec, file, partly)
            if has_gate:
                pipeline.set_adapters("lora", adapter_weights=scale)
            else:
                pipeline.fuse_lora(lora_scale=scale)
            _require_finite(pipeline, file.name)
            if not has_gate:
                pipeline.unload_lora_weights()
    except ModelError:
        raise
    except Exception as error:  # keys and shapes that do not fit, damaged files: many kinds
        raise ModelError.mismatch(
            f"{spec} does not fit this model: {in_words(error)}{damage(error)}; name one made for it", field="lora"
        ) from error
    card: dict[str, Any] = {
        "name": source.name,
        "revision": source.revision,
        "weights_sha256": hash_files([file], file.parent),
        "scale": scale,
    }
    found_place = f"{placed} of {weights} weights"
    if placed < weights:
        card["placed"] = found_place
    if mitigation is not None:
        card["mitigation"] = mitigation.settings | ({} if has_gate else {"gate": "none"})
    return card, mitigation if has_gate else None, found_place


def _lay_beside(pipeline: Any, spec: str, file: Path, partly: bool) -> tuple[int, int]:
    """Add a LoRA to the weights of a pipeline; return how many of its own found a place, and how many it has.

    Raises
    ------
    ModelError
        Too few of them did, or the file holds what no LoRA needs.
    """
    weights_of_file = _checked(pipeline, file)
    pipeline.load_lora_weights(**weights_of_file, adapter_name="lora")
    if not pipeline.get_list_adapters():
        raise ModelError.mismatch(
            f"none of the weights of {spec} belong to this model; name one made for it", field="lora"
        )
    placed, weights = placed_weights(pipeline, file.name, weights_of_file)
    if placed < LEAST_PLACED * weights and not partly:
        raise ModelError.mismatch(
            f"{placed} of the {weights} weights of {spec} find a place in this model; name one made for it, or give "
            "--lora-partly to merge what fits",
            field="lora",
        )
    return placed, weights


def _checked(pipeline: Any, file: Path) -> dict[str, Any]:
    """Check a LoRA's names and settings, and return what `load_lora_weights` and `lora_state_dict` read it by.

    Raises
    ------
    ModelError
        A name or a setting is none that a LoRA needs.
    """
    from safetensors import safe_open

    with safe_open(file, framework="pt") as opened:
        names, metadata = list(opened.keys()), (opened.metadata() or {}).get("lora_adapter_metadata") or "{}"
        largest = max((side for name in names for side in opened.get_slice(name).get_shape()), default=0)
        odd = next((name for name in names if not _PLAIN.fullmatch(name)), None)
        if odd is not None:
            raise ModelError.malformed(
                f"{file.name}: {quoted(odd)} is not a valid name for a weight; export the LoRA again", field="lora"
            )
        for key, value in json.loads(metadata).items():
            if not _is_harmless(key.rpartition(".")[2], value, largest):
                raise ModelError.untrusted(
                    f"{file.name}: found the setting {quoted(key)}: {quoted(value)}, which merging does not need and "
                    "could run or reserve anything; save the LoRA again without it",
                    field="lora",
                )
        of_peft = names and all(name.startswith(OF_PEFT) for name in names)
        has_alphas = hasattr(pipeline, "unet") and any(name.endswith(".alpha") for name in names)
        if of_peft or has_alphas:
            weights = {name: opened.get_tensor(name) for name in names}
            renamed = _from_peft(pipeline, file, weights) if of_peft else _with_strengths(weights)
            return {"pretrained_model_name_or_path_or_dict": renamed}
    return {
        "pretrained_model_name_or_path_or_dict": file.parent, "weight_name": file.name, "local_files_only": True,
    }  # fmt: skip


def _is_harmless(name: str, value: Any, largest: int) -> bool:
    """Return whether a setting of `peft.LoraConfig` only says how strong a LoRA is, and of which layers.

    ``largest`` : the largest side of its matrices; a rank beyond would reserve memory for what is not there.
    """
    if name == "r":
        return type(value) is int and 1 <= value <= largest
    if name == "init_lora_weights":  # others change the model's own weights
        return value in (True, False, None, "gaussian")
    if name in _PATTERNS:
        plain = isinstance(value, dict) and all(_PLAIN.fullmatch(key.removeprefix("^")) for key in value)
        numbers = value.values() if plain else [None]
        return all(_is_harmless("r" if name == "rank_pattern" else "alpha", each, largest) for each in numbers)
    if isinstance(value, list | dict):
        return not value or (name in _LAYERS and all(_is_harmless("", each, largest) for each in value))
    if isinstance(value, str):
        return bool(_PLAIN.fullmatch(value))
    return value is None or (isinstance(value, int | float) and math.isfinite(value))


def _with_strengths(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Multiply each layer's own strength, ``alpha / rank``, into its matrix B, as kohya's trainers mean it.

    Of a UNet whose layers have several, diffusers hands PEFT patterns of names that are no layers', so that all are
    merged with the commonest; of one without an alpha it takes 1.
    """
    for layer in [name.removesuffix(".alpha") for name in weights if name.endswith(".alpha")]:
        for down, up in (("lora_down", "lora_up"), ("lora_A", "lora_B")):
            if f"{layer}.{down}.weight" in weights:
                alpha, rank = weights.pop(f"{layer}.alpha").item(), len(weights[f"{layer}.{down}.weight"])
                weights[f"{layer}.{up}.weight"] = weights[f"{layer}.{up}.weight"] * (alpha / rank)
                break
    return weights


def _from_peft(pipeline: Any, file: Path, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Rename the weights of a file of PEFT's own as diffusers names them, with its strength multiplied in.

    PEFT adds ``(alpha / r) · B A`` to a weight, or ``(alpha / √r) · B A`` of a rank-stabilised LoRA; its folder's
    adapter_config.json says by which alpha and r.

    Raises
    ------
    ModelError
        The configuration is missing, or has no such numbers.
    """
    place = file.with_name("adapter_config.json")
    try:
        config = json.loads(place.read_text(encoding="utf-8"))
        rank = config["r"] ** 0.5 if config.get("use_rslora") else config["r"]
        strength = float(config["lora_alpha"] / rank)
        if any(config.get(pattern) for pattern in _PATTERNS) or not math.isfinite(strength):
            raise ValueError("its layers have strengths of their own")
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError, ZeroDivisionError) as error:
        raise ModelError.unreadable(
            f"{file.name} was saved by PEFT, whose {place.name} beside it says how strong it is and cannot be read "
            f"({in_words(error)}); save it with the pipeline's save_lora_weights",
            field="lora",
        ) from error
    network = "unet" if hasattr(pipeline, "unet") else "transformer"
    renamed = {}
    for name, value in weights.items():
        layer = name.removeprefix(OF_PEFT)
        part = "text_encoder" if layer.startswith("text_model.") else network
        renamed[f"{part}.{layer}"] = value * strength if ".lora_B." in layer else value
    return renamed


def placed_weights(pipeline: Any, name: str, weights_of_file: Mapping[str, Any]) -> tuple[int, int]:
    """Count how many of a LoRA's matrices the pipeline's layers hold, and how many it has.

    By their values, as each format names layers in its own way and diffusers those of another: a matrix is there where
    a layer holds one of its shape and numbers, in the layer's precision.

    Raises
    ------
    ModelError
        A number of it is not finite.
    """
    read = pipeline.lora_state_dict(**weights_of_file)
    every = (read[0] if isinstance(read, tuple) else read).values()
    if not all(bool(torch.isfinite(value.float()).all()) for value in every):
        raise ModelError.not_finite(
            f"{name} holds numbers that are not finite; train or download it again", field="lora"
        )
    weights = [value for value in every if value.ndim > 1]
    in_layers = [
        value.detach()
        for part in pipeline.components.values()
        if isinstance(part, torch.nn.Module)
        for name, value in part.named_parameters()
        if ".lora_" in name and value.ndim > 1
    ]
    kinds = {value.dtype for value in in_layers}
    there = {_content(value) for value in in_layers}
    placed = sum(any(_content(value.to(kind)) in there for kind in kinds) for value in weights)
    return placed, len(weights)


def _require_finite(pipeline: Any, name: str) -> None:
    """Refuse a LoRA whose strength is no number, or that makes weights that are none, in the model's precision.

    Raises
    ------
    ModelError
        It is so.
    """
    from peft.tuners.tuners_utils import BaseTunerLayer

    parts = (part for part in pipeline.components.values() if isinstance(part, torch.nn.Module))
    layers = (layer for part in parts for layer in part.modules() if isinstance(layer, BaseTunerLayer))
    for layer in layers:
        strengths = getattr(layer, "scaling", {}).values()
        weight: Any = layer.get_base_layer().weight
        if not (all(map(math.isfinite, strengths)) and bool(torch.isfinite(weight).all())):
            raise ModelError.not_finite(
                f"{name}: merged, it makes weights of the model that are not finite, for its numbers or its alpha are "
                f"too large for {str(weight.dtype).removeprefix('torch.')}, or none; download it again",
                field="lora",
            )


def _content(values: torch.Tensor) -> bytes:
    """Return a key that identifies a matrix, however its dimensions of 1 are written."""
    numbers = values.float().cpu().contiguous().numpy()
    return hashlib.sha256(repr(numbers.size).encode() + numbers.tobytes()).digest()


def _lora_file(spec: str, offline: bool) -> tuple[Source, Path]:
    """Find the file of a LoRA, and where it comes from."""
    path = user_path(spec)
    if path.is_file():
        source = Source(name=path.name, path=path.parent)
        files = [path]
    else:
        if path.suffix == ".safetensors" and not path.is_dir():
            raise ModelNotFoundError(
                f"no file {spec}; give a safetensors file, a directory with one, or a hub id", field="lora"
            )
        with named_by("lora"):
            source = locate_files(spec, ["*.safetensors", "*.json"], offline=offline)
        files = sorted(source.path.glob("*.safetensors"))
    if len(files) != 1 or files[0].suffix != ".safetensors":
        names = ", ".join(file.name for file in files) or "none"
        raise ModelNotFoundError(
            f"found {names} in {spec}, expected one safetensors file; name the file itself, as DIRECTORY/FILE",
            code=Code.TOO_MANY if len(files) > 1 else Code.NOT_FOUND,
            field="lora",
        )
    return source, files[0]
