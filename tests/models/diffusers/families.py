"""A tiny pipeline with random weights of every further family of text-to-image models.

Those that the diffusion classifier is tested with are in ``pipelines``; all together are `ALL`.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clinometer._torch import torch
from tests.builders import VISION, _image_processor, _text_config, tiny_stable_diffusion, tiny_tokenizer
from tests.models.diffusers import further_families as further
from tests.models.diffusers.pipelines import FAMILIES, _t5, _vae
from tests.quick import thorough_but


def _clip_text(*, projected: bool = False, **changes: Any) -> tuple[Any, Any]:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    tokenizer = tiny_tokenizer()
    config = CLIPTextConfig(**_text_config(tokenizer), **changes)
    return tokenizer, (CLIPTextModelWithProjection if projected else CLIPTextModel)(config).eval()


def _unet(**changes: Any) -> Any:
    import diffusers

    settings = {
        "sample_size": 16,
        "block_out_channels": (32, 32),
        "layers_per_block": 1,
        "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
        "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
        "cross_attention_dim": 32,
        "attention_head_dim": 2,
        "norm_num_groups": 8,
    }
    return diffusers.UNet2DConditionModel(**(settings | changes))


def tiny_lcm() -> Any:
    """A latent consistency model: guidance is an embedding, and four steps are enough."""
    import diffusers

    tokenizer, text_encoder = _clip_text()
    return diffusers.LatentConsistencyModelPipeline(
        unet=_unet(time_cond_proj_dim=32),
        vae=_vae(),
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        scheduler=diffusers.LCMScheduler(beta_schedule="scaled_linear"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def tiny_pixart() -> Any:
    """PixArt: a transformer in place of the UNet, T5, a learned variance."""
    import diffusers

    tokenizer, text_encoder = _t5()
    transformer = diffusers.PixArtTransformer2DModel(
        sample_size=16,
        num_layers=2,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=3,
        caption_channels=32,
        in_channels=4,
        cross_attention_dim=24,
        out_channels=8,
        norm_type="ada_norm_single",
        use_additional_conditions=False,
    )
    return diffusers.PixArtSigmaPipeline(
        transformer=transformer,
        vae=_vae(),
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        scheduler=diffusers.DDIMScheduler(),
    )


def tiny_sana() -> Any:
    """Sana: linear attention, a deep-compression autoencoder, a decoder-only language model for the text."""
    import diffusers
    from transformers import Gemma2Config, Gemma2Model

    tokenizer = tiny_tokenizer(512)
    text = Gemma2Config(
        head_dim=16,
        hidden_size=8,
        intermediate_size=64,
        num_attention_heads=2,
        num_hidden_layers=1,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        query_pre_attn_scalar=16,
        initializer_range=1.0,
    )
    transformer = diffusers.SanaTransformer2DModel(
        patch_size=1,
        in_channels=4,
        out_channels=4,
        num_layers=1,
        num_attention_heads=2,
        attention_head_dim=4,
        num_cross_attention_heads=2,
        cross_attention_head_dim=4,
        cross_attention_dim=8,
        caption_channels=8,
        sample_size=16,
    )
    vae = diffusers.AutoencoderDC(
        in_channels=3,
        latent_channels=4,
        attention_head_dim=2,
        encoder_block_types=("ResBlock", "EfficientViTBlock"),
        decoder_block_types=("ResBlock", "EfficientViTBlock"),
        encoder_block_out_channels=(8, 8),
        decoder_block_out_channels=(8, 8),
        encoder_qkv_multiscales=((), (5,)),
        decoder_qkv_multiscales=((), (5,)),
        encoder_layers_per_block=(1, 1),
        decoder_layers_per_block=[1, 1],
        downsample_block_type="conv",
        upsample_block_type="interpolate",
        decoder_norm_types="rms_norm",
        decoder_act_fns="silu",
        scaling_factor=0.41407,
    )
    return diffusers.SanaPipeline(
        transformer=transformer,
        vae=vae,
        text_encoder=Gemma2Model(text).eval(),
        tokenizer=tokenizer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=7.0),
    )


def _qwen_text() -> tuple[Any, Any]:
    """A vision-language model that reads letter by letter, and its tokenizer."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration, Qwen2Tokenizer

    letters = {letter: index for index, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=letters, merges=[])
    config = Qwen2_5_VLConfig(
        text_config={
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
            "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1000000.0},
            "vocab_size": len(tokenizer),
        },
        vision_config={
            "depth": 1,
            "hidden_size": 16,
            "intermediate_size": 16,
            "num_heads": 2,
            "out_hidden_size": 16,
        },
        hidden_size=16,
        vocab_size=len(tokenizer),
    )
    return tokenizer, Qwen2_5_VLForConditionalGeneration(config).eval()


def tiny_qwen_image() -> Any:
    """Qwen-Image: a vision-language model reads the prompt, and texts of a batch are padded to the longest."""
    import diffusers

    tokenizer, text_encoder = _qwen_text()
    transformer = diffusers.QwenImageTransformer2DModel(
        patch_size=2,
        in_channels=16,
        out_channels=4,
        num_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        guidance_embeds=False,
        axes_dims_rope=(8, 4, 4),
    )
    vae = diffusers.AutoencoderKLQwenImage(
        base_dim=24,
        z_dim=4,
        dim_mult=[1, 2, 4],
        num_res_blocks=1,
        temperal_downsample=[False, True],
        latents_mean=[0.0] * 4,
        latents_std=[1.0] * 4,
    )
    return diffusers.QwenImagePipeline(
        transformer=transformer,
        vae=vae,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0, use_dynamic_shifting=True),
    )


def tiny_auraflow() -> Any:
    """AuraFlow: one of the newcomers that this package does not know by name."""
    import diffusers
    from transformers import UMT5Config, UMT5EncoderModel

    tokenizer, _ = _t5()
    text = UMT5Config(vocab_size=128, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, initializer_factor=30.0)
    transformer = diffusers.AuraFlowTransformer2DModel(
        sample_size=16,
        patch_size=2,
        in_channels=4,
        num_mmdit_layers=1,
        num_single_dit_layers=1,
        attention_head_dim=8,
        num_attention_heads=4,
        caption_projection_dim=32,
        joint_attention_dim=32,
        out_channels=4,
        pos_embed_max_size=256,
    )
    return diffusers.AuraFlowPipeline(
        transformer=transformer,
        vae=_vae(),
        text_encoder=UMT5EncoderModel(text).eval(),
        tokenizer=tokenizer,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(shift=1.0),
    )


def _prior() -> Any:
    import diffusers

    return diffusers.PriorTransformer(
        num_attention_heads=2, attention_head_dim=12, embedding_dim=32, num_layers=1, num_embeddings=77
    )


def _prior_scheduler() -> Any:
    from diffusers import UnCLIPScheduler

    return UnCLIPScheduler(
        variance_type="fixed_small_log",
        prediction_type="sample",
        num_train_timesteps=1000,
        clip_sample=True,
        clip_sample_range=5.0,
    )


def tiny_kandinsky_prior() -> Any:
    """Kandinsky 2.2's prior: from text to an image embedding."""
    import diffusers
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection

    tokenizer, text_encoder = _clip_text(projected=True, projection_dim=32)
    prior = _prior()
    prior.clip_std.data.fill_(1.0)
    return diffusers.KandinskyV22PriorPipeline(
        prior=prior,
        image_encoder=CLIPVisionModelWithProjection(CLIPVisionConfig(**VISION, projection_dim=32)).eval(),
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        scheduler=_prior_scheduler(),
        image_processor=_image_processor(),
    )


def tiny_kandinsky_decoder() -> Any:
    """Kandinsky 2.2's decoder: from an image embedding to an image."""
    import diffusers

    unet = _unet(
        in_channels=4,
        out_channels=8,
        addition_embed_type="image",
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        encoder_hid_dim=32,
        encoder_hid_dim_type="image_proj",
        resnet_time_scale_shift="scale_shift",
        class_embed_type=None,
    )
    movq = diffusers.VQModel(
        block_out_channels=(32, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        norm_num_groups=8,
        norm_type="spatial",
        num_vq_embeddings=12,
        latent_channels=4,
        vq_embed_dim=4,
    )
    return diffusers.KandinskyV22Pipeline(
        unet=unet,
        scheduler=diffusers.DDIMScheduler(
            beta_schedule="linear", beta_start=0.00085, beta_end=0.012, clip_sample=False, set_alpha_to_one=False
        ),
        movq=movq,
    )


def tiny_kandinsky() -> Any:
    """Kandinsky 2.2 as one pipeline: text to prior to image."""
    import diffusers

    prior, decoder = tiny_kandinsky_prior(), tiny_kandinsky_decoder()
    return diffusers.KandinskyV22CombinedPipeline(
        **decoder.components, **{f"prior_{name}": each for name, each in prior.components.items()}
    )


def tiny_unclip() -> Any:
    """UnCLIP (Karlo, the open DALL-E 2 design): prior, decoder, two super-resolution networks on pixels."""
    import diffusers
    from diffusers.pipelines.deprecated.unclip import UnCLIPPipeline, UnCLIPTextProjModel

    tokenizer, text_encoder = _clip_text(projected=True, projection_dim=32)
    prior = _prior()
    prior.clip_std.data.fill_(1.0)
    decoder = _unet(
        in_channels=3,
        out_channels=6,
        cross_attention_dim=16,
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        class_embed_type="identity",
        resnet_time_scale_shift="scale_shift",
    )

    def super_resolution() -> Any:
        return diffusers.UNet2DModel(
            sample_size=32,
            layers_per_block=1,
            down_block_types=("ResnetDownsampleBlock2D",) * 2,
            up_block_types=("ResnetUpsampleBlock2D",) * 2,
            block_out_channels=(32, 32),
            in_channels=6,
            out_channels=3,
            norm_num_groups=8,
        )

    return UnCLIPPipeline(
        prior=prior,
        decoder=decoder,
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        text_proj=UnCLIPTextProjModel(
            clip_embeddings_dim=32, time_embed_dim=32 * 4, cross_attention_dim=16, clip_extra_context_tokens=2
        ),
        super_res_first=super_resolution(),
        super_res_last=super_resolution(),
        prior_scheduler=_prior_scheduler(),
        decoder_scheduler=diffusers.UnCLIPScheduler(
            variance_type="learned_range", prediction_type="epsilon", num_train_timesteps=1000
        ),
        super_res_scheduler=diffusers.UnCLIPScheduler(
            variance_type="fixed_small_log", prediction_type="epsilon", num_train_timesteps=1000
        ),
    )


MADE: dict[str, Callable[[], Any]] = {
    **FAMILIES,
    "lcm": tiny_lcm,
    "pixart": tiny_pixart,
    "sana": tiny_sana,
    "qwen-image": tiny_qwen_image,
    "kandinsky-2.2": tiny_kandinsky,
    "unclip": tiny_unclip,
    "auraflow": tiny_auraflow,
    "hunyuan-dit": further.tiny_hunyuan_dit,
    "cogview4": further.tiny_cogview4,
    "lumina2": further.tiny_lumina2,
    "chroma": further.tiny_chroma,
    "flux2-klein": further.tiny_flux2_klein,
    "z-image": further.tiny_z_image,
    "deepfloyd-if": further.tiny_deepfloyd,
    "sana-sprint": lambda: further.tiny_sana_sprint(tiny_sana()),
    "amused": further.tiny_amused,
}
ALL = ("sd-1", "sd-2", *MADE)
"""Every family that is tested, by the name that the documentation's table gives it."""

ARCHITECTURES = {
    "sdxl": "a UNet on latents",
    "pixart": "a transformer that attends to the text",
    "flux": "a transformer of image and text together",
    "kandinsky-2.2": "a prior, and what decodes it",
    "deepfloyd-if": "pixels, in stages",
    "amused": "tokens",
}
EACH = thorough_but(ALL, *ARCHITECTURES)
"""All families; `make test` takes one of each architecture."""


def save_family(name: str, folder: Path) -> Path:
    """Save a family's tiny pipeline as its library saves it; its weights follow from nothing but the name."""
    path = folder / name
    if name in ("sd-1", "sd-2"):
        return tiny_stable_diffusion(path, prediction_type="epsilon" if name == "sd-1" else "v_prediction")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        MADE[name]().save_pretrained(path)
    return path
