"""Pipelines of the shape of well-known models, with random weights: their images are noise, their speed is the same.

Small ones have the blocks of the full ones and a fraction of their channels, for a machine without a GPU.
"""

from pathlib import Path

from clinometer._torch import torch

# isort: split
import diffusers
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection, CLIPTokenizer

SCHEDULE = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
LETTERS = [chr(code) for code in range(33, 127)]


def save(name: str, folder: Path, *, full: bool, device: str) -> Path:
    """Save the pipeline ``sd-2.1`` or ``sdxl``; full ones in float16."""
    torch.manual_seed(0)
    with torch.device(device):
        pipeline = {"sd-2.1": stable_diffusion, "sdxl": stable_diffusion_xl}[name](full)
    if full:
        pipeline.to(dtype=torch.float16)
    pipeline.save_pretrained(folder / name)
    return folder / name


def stable_diffusion(full: bool) -> diffusers.StableDiffusionPipeline:
    """Stable Diffusion 2.1 (base): 512 x 512, 866 million parameters in the UNet."""
    width = 1024 if full else 64
    unet = diffusers.UNet2DConditionModel(
        sample_size=64 if full else 16,
        block_out_channels=(320, 640, 1280, 1280) if full else (32, 64, 64, 64),
        attention_head_dim=(5, 10, 20, 20) if full else (2, 4, 4, 4),
        cross_attention_dim=width,
        use_linear_projection=True,
    )
    return diffusers.StableDiffusionPipeline(
        unet=unet,
        vae=autoencoder(full),
        text_encoder=CLIPTextModel(text_config(width, 23 if full else 2, 16 if full else 4)),
        tokenizer=tokenizer(),
        scheduler=diffusers.DDIMScheduler(clip_sample=False, set_alpha_to_one=False, **SCHEDULE),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def stable_diffusion_xl(full: bool) -> diffusers.StableDiffusionXLPipeline:
    """Stable Diffusion XL (base): 1024 x 1024, 2.6 billion parameters in the UNet."""
    widths = (768, 1280) if full else (32, 64)
    unet = diffusers.UNet2DConditionModel(
        sample_size=128 if full else 16,
        block_out_channels=(320, 640, 1280) if full else (32, 64, 64),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        transformer_layers_per_block=(1, 2, 10) if full else (1, 1, 2),
        attention_head_dim=(5, 10, 20) if full else (2, 4, 4),
        cross_attention_dim=sum(widths),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=widths[1] + 6 * 256,
    )
    first, second = (
        text_config(widths[0], 12 if full else 2, 12 if full else 4),
        text_config(widths[1], 32 if full else 2, 20 if full else 4),
    )
    return diffusers.StableDiffusionXLPipeline(
        unet=unet,
        vae=autoencoder(full, scaling_factor=0.13025, force_upcast=full),
        text_encoder=CLIPTextModel(first),
        text_encoder_2=CLIPTextModelWithProjection(second),
        tokenizer=tokenizer(),
        tokenizer_2=tokenizer(),
        scheduler=diffusers.EulerDiscreteScheduler(timestep_spacing="leading", **SCHEDULE),
    )


def autoencoder(full: bool, **options: object) -> diffusers.AutoencoderKL:
    """The autoencoder of both: 8 pixels a latent."""
    return diffusers.AutoencoderKL(
        block_out_channels=(128, 256, 512, 512) if full else (32, 32, 64, 64),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=2,
        latent_channels=4,
        **options,
    )


def text_config(width: int, layers: int, heads: int) -> CLIPTextConfig:
    """A CLIP text encoder's configuration."""
    words = tokenizer()
    return CLIPTextConfig(
        vocab_size=len(words),
        hidden_size=width,
        intermediate_size=4 * width,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        projection_dim=width,
        bos_token_id=words.bos_token_id,
        eos_token_id=words.eos_token_id,
        pad_token_id=words.pad_token_id,
    )


def tokenizer() -> CLIPTokenizer:
    """A CLIP tokenizer that reads letter by letter; what a prompt means is of no matter here."""
    tokens = [*LETTERS, *(letter + "</w>" for letter in LETTERS), "<|startoftext|>", "<|endoftext|>"]
    return CLIPTokenizer(vocab={token: at for at, token in enumerate(tokens)}, merges=[], model_max_length=77)
