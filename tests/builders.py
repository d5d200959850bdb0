"""Small, real models with random weights, saved as their libraries save them; shared by all rooms' tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from clinometer._torch import torch  # before transformers, whose CLIP needs torchvision's operators declared


def tiny_tokenizer(context_length: int = 77) -> Any:
    """A CLIP tokenizer that reads letter by letter."""
    from transformers import CLIPTokenizer

    letters = [chr(code) for code in range(33, 127)]
    tokens = [*letters, *(letter + "</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=context_length)


def _text_config(tokenizer: Any) -> dict[str, Any]:
    return {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "max_position_embeddings": tokenizer.model_max_length,
        "bos_token_id": tokenizer.bos_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }


VISION = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}


def tiny_stable_diffusion(
    path: Path,
    *,
    seed: int = 0,
    prediction_type: str = "epsilon",
    safety_checker: bool = False,
    safe_serialization: bool = True,
    **save_options: Any,
) -> Path:
    """Save a Stable Diffusion pipeline of 32 x 32 pixels; its random weights follow from the seed."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModel

    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        unet = diffusers.UNet2DConditionModel(
            sample_size=16,
            block_out_channels=(32, 32),
            layers_per_block=1,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            cross_attention_dim=32,
            attention_head_dim=2,
            norm_num_groups=8,
        )
        vae = diffusers.AutoencoderKL(
            block_out_channels=(16, 32),
            down_block_types=("DownEncoderBlock2D",) * 2,
            up_block_types=("UpDecoderBlock2D",) * 2,
            latent_channels=4,
            norm_num_groups=8,
            sample_size=32,
        )
        pipeline = diffusers.StableDiffusionPipeline(
            unet=unet,
            vae=vae,
            text_encoder=CLIPTextModel(CLIPTextConfig(**_text_config(tokenizer))),
            tokenizer=tokenizer,
            scheduler=diffusers.DDIMScheduler(
                beta_schedule="scaled_linear",
                prediction_type=prediction_type,
                clip_sample=False,
                steps_offset=1,
            ),
            requires_safety_checker=safety_checker,
            **_safety(safety_checker),
        )
    pipeline.save_pretrained(path, safe_serialization=safe_serialization, **save_options)
    return path


def _safety(wanted: bool) -> dict[str, Any]:
    """A safety checker that flags every image, and its preprocessor; or none."""
    if not wanted:
        return {"safety_checker": None, "feature_extractor": None}
    from diffusers.pipelines.stable_diffusion.safety_checker import StableDiffusionSafetyChecker
    from transformers import CLIPConfig

    config = CLIPConfig(vision_config=VISION, text_config=_text_config(tiny_tokenizer()), projection_dim=16)
    checker = StableDiffusionSafetyChecker(config)
    checker.concept_embeds_weights.data.fill_(-2.0)  # a cosine is always above it
    return {"safety_checker": checker, "feature_extractor": _image_processor()}


def _image_processor() -> Any:
    from transformers import CLIPImageProcessor

    return CLIPImageProcessor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})


def without_weights(path: Path, part: str) -> Path:
    """Take the weights with ``part`` in their names out of a saved model."""
    from safetensors.torch import load_file, save_file

    file = path / "model.safetensors"
    weights = load_file(file)
    kept = {name: weight for name, weight in weights.items() if part not in name}
    assert 0 < len(kept) < len(weights)
    save_file(kept, file, metadata={"format": "pt"})
    return path


def tiny_clip(path: Path, *, seed: int = 0, **save_options: Any) -> Path:
    """Save a CLIP with a shared space of 16 dimensions, 32 x 32 pixels and 77 tokens, with random weights."""
    from transformers import CLIPConfig, CLIPModel

    tokenizer = tiny_tokenizer()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = CLIPModel(CLIPConfig(vision_config=VISION, text_config=_text_config(tokenizer), projection_dim=16))
    model.save_pretrained(path, **save_options)
    tokenizer.save_pretrained(path)
    _image_processor().save_pretrained(path)
    return path
