"""Pipelines of the Stable Diffusion family as one file in their authors' layout: names mapped back from diffusers'."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from clinometer._torch import torch

Weights = dict[str, torch.Tensor]

RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "time_emb_proj": "emb_layers.1",
    "conv_shortcut": "skip_connection",
}
UNET_ENDS = {
    "time_embedding.linear_1": "time_embed.0",
    "time_embedding.linear_2": "time_embed.2",
    "conv_in": "input_blocks.0.0",
    "conv_norm_out": "out.0",
    "conv_out": "out.2",
    "add_embedding.linear_1": "label_emb.0.0",
    "add_embedding.linear_2": "label_emb.0.2",
}
OPEN_CLIP_ENDS = {
    "embeddings.position_embedding.weight": "positional_embedding",
    "embeddings.token_embedding.weight": "token_embedding.weight",
    "final_layer_norm.weight": "ln_final.weight",
    "final_layer_norm.bias": "ln_final.bias",
}
OPEN_CLIP = {
    "encoder.layers": "transformer.resblocks",
    "self_attn": "attn",
    "layer_norm1": "ln_1",
    "layer_norm2": "ln_2",
    "fc1": "c_fc",
    "fc2": "c_proj",
}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def original_unet_name(name: str, layers: int = 1, *, attended: bool = False) -> str:
    """The authors' name of a UNet's weight: blocks are counted through, ``layers`` and a sampler to each.

    ``attended``: the up block that has a sampler has attention as well, and the sampler comes after it.
    """
    module, _, kind = name.rpartition(".")
    if module in UNET_ENDS:
        return f"{UNET_ENDS[module]}.{kind}"
    if sampler := re.fullmatch(r"(down|up)_blocks\.(\d+)\.\w+samplers\.0\.conv", module):
        side, block = sampler[1], int(sampler[2])
        place = (block + 1) * (layers + 1)
        after = 2 if attended else 1
        return (
            f"input_blocks.{place}.0.op.{kind}" if side == "down" else f"output_blocks.{place - 1}.{after}.conv.{kind}"
        )
    if middle := re.match(r"mid_block\.(resnets|attentions)\.(\d+)\.", name):
        place = 2 * int(middle[2]) if middle[1] == "resnets" else 1
        return f"middle_block.{place}." + _inside(name[middle.end() :], middle[1])
    found = re.match(r"(down|up)_blocks\.(\d+)\.(resnets|attentions)\.(\d+)\.", name)
    assert found, name
    place = int(found[2]) * (layers + 1) + int(found[4]) + (found[1] == "down")
    side = "input_blocks" if found[1] == "down" else "output_blocks"
    return f"{side}.{place}.{int(found[3] == 'attentions')}." + _inside(name[found.end() :], found[3])


def _inside(rest: str, kind: str) -> str:
    return re.sub("|".join(RESNET), lambda found: RESNET[found[0]], rest) if kind == "resnets" else rest


def original_vae_name(name: str, blocks: int = 2) -> str:
    """The authors' name of an autoencoder's weight; they count the decoder's blocks from the other end."""
    name = name.replace("conv_norm_out", "norm_out").replace("conv_shortcut", "nin_shortcut")
    name = re.sub(r"mid_block\.resnets\.(\d)", lambda found: f"mid.block_{int(found[1]) + 1}", name)
    if "mid_block.attentions.0" in name:
        name = name.replace("mid_block.attentions.0", "mid.attn_1")
        return re.sub("|".join(VAE_ATTENTION), lambda found: VAE_ATTENTION[found[0]], name)
    name = re.sub(r"down_blocks\.(\d)\.resnets", r"down.\1.block", name)
    name = re.sub(r"down_blocks\.(\d)\.downsamplers\.0", r"down.\1.downsample", name)
    name = re.sub(r"up_blocks\.(\d)\.resnets", lambda f: f"up.{blocks - 1 - int(f[1])}.block", name)
    return re.sub(r"up_blocks\.(\d)\.upsamplers\.0", lambda f: f"up.{blocks - 1 - int(f[1])}.upsample", name)


def open_clip_weights(encoder: Any) -> dict[str, torch.Tensor]:
    """A text tower's weights as open_clip names them; queries, keys and values are one matrix, the projection a row.

    Such a file has a projection whether or not the pipeline uses it.
    """
    named = dict(encoder.state_dict())
    projection = named.pop("text_projection.weight", torch.eye(encoder.config.hidden_size))
    weights = {"text_projection": projection.T.contiguous()}
    for name, tensor in named.items():
        inside = name.removeprefix("text_model.")
        if inside in OPEN_CLIP_ENDS:
            weights[OPEN_CLIP_ENDS[inside]] = tensor
        elif found := re.fullmatch(r"encoder\.layers\.(\d+)\.self_attn\.q_proj\.(weight|bias)", inside):
            fused = torch.cat([named[name.replace("q_proj", each)] for each in ("q_proj", "k_proj", "v_proj")])
            weights[f"transformer.resblocks.{found[1]}.attn.in_proj_{found[2]}"] = fused
        elif not re.search(r"[kv]_proj", inside):
            weights[re.sub("|".join(OPEN_CLIP), lambda found: OPEN_CLIP[found[0]], inside)] = tensor
    return weights


def single_file(pipeline: Any, path: Path, *, parts: tuple[str, ...] = ("unet", "vae", "text_encoder")) -> Path:
    """Save parts of a Stable Diffusion pipeline as its authors' repository saved them."""
    made = {"unet": unet_weights, "vae": vae_weights, "text_encoder": clip_weights("cond_stage_model.transformer.")}
    return save(path, *(made[part](getattr(pipeline, part)) for part in parts))


def single_sd2_file(pipeline: Any, path: Path) -> Path:
    """Save a Stable Diffusion 2 pipeline as its authors' repository saved it: its text tower is open_clip's."""
    text = {f"cond_stage_model.model.{name}": each for name, each in open_clip_weights(pipeline.text_encoder).items()}
    return save(path, unet_weights(pipeline.unet), vae_weights(pipeline.vae), text)


def single_sdxl_file(pipeline: Any, path: Path) -> Path:
    """Save a Stable Diffusion XL pipeline as its authors' repository saved it: two text towers, in two layouts."""
    second = open_clip_weights(pipeline.text_encoder_2)
    return save(
        path,
        {
            f"model.diffusion_model.{original_unet_name(name, attended=True)}": tensor
            for name, tensor in pipeline.unet.state_dict().items()
        },
        vae_weights(pipeline.vae),
        clip_weights("conditioner.embedders.0.transformer.")(pipeline.text_encoder),
        {f"conditioner.embedders.1.model.{name}": tensor for name, tensor in second.items()},
    )


def unet_weights(unet: Any) -> Weights:
    """A UNet's weights."""
    return {f"model.diffusion_model.{original_unet_name(name)}": tensor for name, tensor in unet.state_dict().items()}


def vae_weights(vae: Any) -> Weights:
    """An autoencoder's weights."""
    return {f"first_stage_model.{original_vae_name(name)}": tensor for name, tensor in vae.state_dict().items()}


def clip_weights(prefix: str) -> Callable[[Any], Weights]:
    """The weights of a text tower that keeps the names of transformers, under a prefix."""

    def named(encoder: Any) -> Weights:
        return {
            f"{prefix}{'' if name.startswith('text_') else 'text_model.'}{name}": tensor
            for name, tensor in encoder.state_dict().items()
        }

    return named


def save(path: Path, *weights: Weights) -> Path:
    """Write the weights of all parts into one file."""
    save_file({name: tensor.clone() for part in weights for name, tensor in part.items()}, path)
    return path
