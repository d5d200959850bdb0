"""Tiny pipelines of several families with random weights: every kind of conditioning and of prediction."""

from __future__ import annotations

from typing import Any

from clinometer._torch import torch
from tests.builders import _text_config, tiny_tokenizer


def _vae(**changes: Any) -> Any:
    import diffusers

    settings = {
        "block_out_channels": (16, 32),
        "down_block_types": ("DownEncoderBlock2D",) * 2,
        "up_block_types": ("UpDecoderBlock2D",) * 2,
        "latent_channels": 4,
        "norm_num_groups": 8,
        "sample_size": 32,
    }
    return diffusers.AutoencoderKL(**(settings | changes))


def _t5(width: int = 32) -> tuple[Any, Any]:
    """A T5 that reads letter by letter."""
    from transformers import T5Config, T5EncoderModel, T5Tokenizer

    letters = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), *((chr(code), -1.0) for code in range(33, 127))]
    tokenizer = T5Tokenizer(vocab=[*letters, ("▁", -1.0)], extra_ids=0)
    config = T5Config(
        vocab_size=128, d_model=width, d_kv=8, d_ff=64, num_layers=2, num_heads=4, relative_attention_num_buckets=8
    )
    return tokenizer, T5EncoderModel(config).eval()


def tiny_sdxl(*, second_width: int = 32) -> Any:
    """Stable Diffusion XL: two text encoders, and sizes among the conditioning."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    tokenizer = tiny_tokenizer()
    text = CLIPTextConfig(**_text_config(tokenizer), projection_dim=32)
    second = CLIPTextConfig(**(_text_config(tokenizer) | {"hidden_size": second_width}), projection_dim=32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        unet = diffusers.UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            attention_head_dim=(2, 4),
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            transformer_layers_per_block=(1, 1),
            projection_class_embeddings_input_dim=80,
            cross_attention_dim=32 + second_width,
            norm_num_groups=8,
        )
        pipeline = diffusers.StableDiffusionXLPipeline(
            unet=unet,
            vae=_vae(),
            text_encoder=CLIPTextModel(text),
            text_encoder_2=CLIPTextModelWithProjection(second),
            tokenizer=tokenizer,
            tokenizer_2=tokenizer,
            scheduler=diffusers.EulerDiscreteScheduler(beta_schedule="scaled_linear", steps_offset=1),
            add_watermarker=False,
        )
    return pipeline


def tiny_sd3(*, second_width: int = 32, layers: int = 1, t5_width: int = 0) -> Any:
    """Stable Diffusion 3: a transformer trained by flow matching, pooled text states, a shifted VAE; T5 or none."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    tokenizer = tiny_tokenizer()
    text = CLIPTextConfig(**_text_config(tokenizer), projection_dim=32)
    second = CLIPTextConfig(**(_text_config(tokenizer) | {"hidden_size": second_width}), projection_dim=32)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        transformer = diffusers.SD3Transformer2DModel(
            sample_size=16,
            patch_size=2,
            in_channels=4,
            num_layers=layers,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=t5_width or 64,
            pooled_projection_dim=64,
            out_channels=4,
            pos_embed_max_size=16,
        )
        tokenizer_3, third = _t5(t5_width) if t5_width else (None, None)
        pipeline = diffusers.StableDiffusion3Pipeline(
            transformer=transformer,
            vae=_vae(shift_factor=0.0609, scaling_factor=1.5035),
            text_encoder=CLIPTextModelWithProjection(text),
            text_encoder_2=CLIPTextModelWithProjection(second),
            text_encoder_3=third,
            tokenizer=tokenizer,
            tokenizer_2=tokenizer,
            tokenizer_3=tokenizer_3,
            scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0),
        )
    return pipeline


def tiny_flux(*, guidance: bool = True) -> Any:
    """FLUX: packed latents, position ids, an embedded guidance (schnell has none), timesteps divided by 1000."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModel

    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tokenizer_2, text_encoder_2 = _t5()
        transformer = diffusers.FluxTransformer2DModel(
            patch_size=1,
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            axes_dims_rope=(4, 4, 8),
            guidance_embeds=guidance,
        )
        pipeline = diffusers.FluxPipeline(
            transformer=transformer,
            vae=_vae(shift_factor=0.0609, scaling_factor=1.5035),
            text_encoder=CLIPTextModel(CLIPTextConfig(**_text_config(tokenizer))),
            text_encoder_2=text_encoder_2,
            tokenizer=tokenizer,
            tokenizer_2=tokenizer_2,
            scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
        )
    return pipeline


FAMILIES = {"sdxl": tiny_sdxl, "sd3": tiny_sd3, "flux": tiny_flux}
