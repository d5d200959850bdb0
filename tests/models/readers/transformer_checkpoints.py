"""Stable Diffusion 3 and FLUX as one file in their authors' layout: names mapped back from diffusers'."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from clinometer._torch import torch
from tests.models.diffusers.checkpoints import Weights, clip_weights, save, vae_weights

SD3 = {
    r"pos_embed\.pos_embed": "pos_embed",
    r"pos_embed\.proj": "x_embedder.proj",
    r"time_text_embed\.timestep_embedder\.linear_1": "t_embedder.mlp.0",
    r"time_text_embed\.timestep_embedder\.linear_2": "t_embedder.mlp.2",
    r"time_text_embed\.text_embedder\.linear_1": "y_embedder.mlp.0",
    r"time_text_embed\.text_embedder\.linear_2": "y_embedder.mlp.2",
    r"context_embedder": "context_embedder",
    r"proj_out": "final_layer.linear",
    r"norm_out\.linear": "final_layer.adaLN_modulation.1",
    r"transformer_blocks\.(\d+)\.attn\.to_q": r"joint_blocks.\1.x_block.attn.qkv",
    r"transformer_blocks\.(\d+)\.attn\.add_q_proj": r"joint_blocks.\1.context_block.attn.qkv",
    r"transformer_blocks\.(\d+)\.attn\.to_out\.0": r"joint_blocks.\1.x_block.attn.proj",
    r"transformer_blocks\.(\d+)\.attn\.to_add_out": r"joint_blocks.\1.context_block.attn.proj",
    r"transformer_blocks\.(\d+)\.norm1\.linear": r"joint_blocks.\1.x_block.adaLN_modulation.1",
    r"transformer_blocks\.(\d+)\.norm1_context\.linear": r"joint_blocks.\1.context_block.adaLN_modulation.1",
    r"transformer_blocks\.(\d+)\.ff\.net\.0\.proj": r"joint_blocks.\1.x_block.mlp.fc1",
    r"transformer_blocks\.(\d+)\.ff\.net\.2": r"joint_blocks.\1.x_block.mlp.fc2",
    r"transformer_blocks\.(\d+)\.ff_context\.net\.0\.proj": r"joint_blocks.\1.context_block.mlp.fc1",
    r"transformer_blocks\.(\d+)\.ff_context\.net\.2": r"joint_blocks.\1.context_block.mlp.fc2",
}
FLUX = {
    r"time_text_embed\.timestep_embedder\.linear_1": "time_in.in_layer",
    r"time_text_embed\.timestep_embedder\.linear_2": "time_in.out_layer",
    r"time_text_embed\.text_embedder\.linear_1": "vector_in.in_layer",
    r"time_text_embed\.text_embedder\.linear_2": "vector_in.out_layer",
    r"time_text_embed\.guidance_embedder\.linear_1": "guidance_in.in_layer",
    r"time_text_embed\.guidance_embedder\.linear_2": "guidance_in.out_layer",
    r"context_embedder": "txt_in",
    r"x_embedder": "img_in",
    r"proj_out": "final_layer.linear",
    r"norm_out\.linear": "final_layer.adaLN_modulation.1",
    r"transformer_blocks\.(\d+)\.norm1\.linear": r"double_blocks.\1.img_mod.lin",
    r"transformer_blocks\.(\d+)\.norm1_context\.linear": r"double_blocks.\1.txt_mod.lin",
    r"transformer_blocks\.(\d+)\.attn\.to_q": r"double_blocks.\1.img_attn.qkv",
    r"transformer_blocks\.(\d+)\.attn\.add_q_proj": r"double_blocks.\1.txt_attn.qkv",
    r"transformer_blocks\.(\d+)\.attn\.norm_q": r"double_blocks.\1.img_attn.norm.query_norm",
    r"transformer_blocks\.(\d+)\.attn\.norm_k": r"double_blocks.\1.img_attn.norm.key_norm",
    r"transformer_blocks\.(\d+)\.attn\.norm_added_q": r"double_blocks.\1.txt_attn.norm.query_norm",
    r"transformer_blocks\.(\d+)\.attn\.norm_added_k": r"double_blocks.\1.txt_attn.norm.key_norm",
    r"transformer_blocks\.(\d+)\.attn\.to_out\.0": r"double_blocks.\1.img_attn.proj",
    r"transformer_blocks\.(\d+)\.attn\.to_add_out": r"double_blocks.\1.txt_attn.proj",
    r"transformer_blocks\.(\d+)\.ff\.net\.0\.proj": r"double_blocks.\1.img_mlp.0",
    r"transformer_blocks\.(\d+)\.ff\.net\.2": r"double_blocks.\1.img_mlp.2",
    r"transformer_blocks\.(\d+)\.ff_context\.net\.0\.proj": r"double_blocks.\1.txt_mlp.0",
    r"transformer_blocks\.(\d+)\.ff_context\.net\.2": r"double_blocks.\1.txt_mlp.2",
    r"single_transformer_blocks\.(\d+)\.norm\.linear": r"single_blocks.\1.modulation.lin",
    r"single_transformer_blocks\.(\d+)\.attn\.to_q": r"single_blocks.\1.linear1",
    r"single_transformer_blocks\.(\d+)\.attn\.norm_q": r"single_blocks.\1.norm.query_norm",
    r"single_transformer_blocks\.(\d+)\.attn\.norm_k": r"single_blocks.\1.norm.key_norm",
    r"single_transformer_blocks\.(\d+)\.proj_out": r"single_blocks.\1.linear2",
}


def single_sd3_file(pipeline: Any, path: Path) -> Path:
    """Save a Stable Diffusion 3 pipeline, text towers included; the first one's projection is not in such files."""
    first = clip_weights("text_encoders.clip_l.transformer.")(pipeline.text_encoder)
    weights = original_weights(pipeline.transformer, SD3)
    last = f"joint_blocks.{len(pipeline.transformer.transformer_blocks) - 1}.context_block.adaLN_modulation.1"
    for kind in ("weight", "bias"):
        weights[f"{last}.{kind}"] = _swapped(weights[f"{last}.{kind}"])
    return save(
        path,
        {f"model.diffusion_model.{name}": tensor for name, tensor in weights.items()},
        vae_weights(pipeline.vae),
        {name: tensor for name, tensor in first.items() if "text_projection" not in name},
        clip_weights("text_encoders.clip_g.transformer.")(pipeline.text_encoder_2),
        {f"text_encoders.t5xxl.transformer.{name}": x for name, x in pipeline.text_encoder_3.state_dict().items()},
    )


def single_flux_file(pipeline: Any, path: Path) -> Path:
    """Save FLUX's transformer alone and without any prefix, as its authors publish it."""
    return save(path, original_weights(pipeline.transformer, FLUX))


def original_weights(transformer: Any, table: dict[str, str]) -> Weights:
    """The weights under their authors' names: fused queries, keys and values; shift before scale at the end."""
    named = dict(transformer.state_dict())
    weights: Weights = {}
    for name in named:
        module, _, kind = name.rpartition(".")
        if re.search(r"\.(to|add)_[kv](_proj)?$|\.proj_mlp$", module):
            continue  # in the fused matrix
        tensor = torch.cat([named[each] for each in _fused(name, named)])
        if name in ("norm_out.linear.weight", "norm_out.linear.bias"):
            tensor = _swapped(tensor)
        weights[_original(name, module, kind, table)] = tensor
    return weights


def _original(name: str, module: str, kind: str, table: dict[str, str]) -> str:
    for pattern, original in table.items():
        if re.fullmatch(pattern, name):
            return original  # no module's weight: it stands for itself
        if re.fullmatch(pattern, module):
            kind = "scale" if original.endswith("_norm") else kind
            return f"{re.sub(pattern, original, module)}.{kind}"
    raise AssertionError(f"no original name for {name}")


def _fused(name: str, named: Weights) -> list[str]:
    """A query's matrix with its key's and value's, and in a single block the feed-forward's first; others alone."""
    if not re.search(r"\.(to|add)_q(_proj)?\.", name):
        return [name]
    parts = [re.sub("_q", f"_{each}", name) for each in "qkv"]
    mlp = name.replace("attn.to_q", "proj_mlp")
    return [*parts, mlp] if mlp in named and mlp != name else parts


def _swapped(tensor: torch.Tensor) -> torch.Tensor:
    return torch.cat(tensor.chunk(2)[::-1])
