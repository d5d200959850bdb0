"""A Stable Diffusion pipeline as one file in its authors' layout: the names of weights, mapped back from diffusers'."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from clinometer._torch import torch

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
}
VAE_ATTENTION = {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v", "to_out.0": "proj_out"}


def original_unet_name(name: str, layers: int = 1) -> str:
    """The authors' name of a UNet's weight: blocks are counted through, ``layers`` and a sampler to each."""
    module, _, kind = name.rpartition(".")
    if module in UNET_ENDS:
        return f"{UNET_ENDS[module]}.{kind}"
    if sampler := re.fullmatch(r"(down|up)_blocks\.(\d+)\.\w+samplers\.0\.conv", module):
        side, block = sampler[1], int(sampler[2])
        place = (block + 1) * (layers + 1)
        # the up block of these pipelines that has a sampler has no attention, so the sampler comes second
        return f"input_blocks.{place}.0.op.{kind}" if side == "down" else f"output_blocks.{place - 1}.1.conv.{kind}"
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


def single_file(pipeline: Any, path: Path, *, parts: tuple[str, ...] = ("unet", "vae", "text_encoder")) -> Path:
    """Save parts of a Stable Diffusion pipeline as its authors' repository saved them."""
    prefixes: dict[str, tuple[str, Callable[[str], str]]] = {
        "unet": ("model.diffusion_model.", original_unet_name),
        "vae": ("first_stage_model.", original_vae_name),
        "text_encoder": ("cond_stage_model.transformer.text_model.", lambda name: name.removeprefix("text_model.")),
    }
    weights = {}
    for part in parts:
        prefix, rename = prefixes[part]
        module: torch.nn.Module = getattr(pipeline, part)
        for name, tensor in module.state_dict().items():
            weights[prefix + rename(name)] = tensor.clone()
    save_file(weights, path)
    return path
