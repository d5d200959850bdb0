"""Tiny pipelines with random weights of families that differ from the others in one way each."""

from __future__ import annotations

from typing import Any

from clinometer._torch import torch
from tests.builders import VISION, _image_processor, _text_config, tiny_tokenizer
from tests.models.diffusers.pipelines import _t5, _vae


def _deep_vae(**changes: Any) -> Any:
    """A VAE that makes a side eight times smaller, for pipelines that take every VAE to do so."""
    deep = {
        "block_out_channels": (8,) * 4,
        "down_block_types": ("DownEncoderBlock2D",) * 4,
        "up_block_types": ("UpDecoderBlock2D",) * 4,
    }
    return _vae(**deep, **changes)


def tiny_hunyuan_dit() -> Any:
    """Hunyuan-DiT: BERT beside T5, a DDPM whose noise is drawn at every step."""
    import diffusers
    from transformers import BertConfig, BertModel, BertTokenizer

    letters = [chr(code) for code in range(33, 127)]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *("##" + letter for letter in letters)]
    bert = BertConfig(
        vocab_size=len(tokens), hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    tokenizer_2, text_encoder_2 = _t5()
    transformer = diffusers.HunyuanDiT2DModel(
        sample_size=4,
        num_layers=2,
        patch_size=2,
        attention_head_dim=8,
        num_attention_heads=3,
        in_channels=4,
        cross_attention_dim=32,
        cross_attention_dim_t5=32,
        pooled_projection_dim=16,
        hidden_size=24,
        activation_fn="gelu-approximate",
    )
    return diffusers.HunyuanDiTPipeline(
        transformer=transformer,
        vae=_deep_vae(),
        scheduler=diffusers.DDPMScheduler(),
        text_encoder=BertModel(bert).eval(),
        tokenizer=BertTokenizer(vocab={token: index for index, token in enumerate(tokens)}, model_max_length=77),
        text_encoder_2=text_encoder_2,
        tokenizer_2=tokenizer_2,
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def tiny_cogview4() -> Any:
    """CogView4: a decoder-only text encoder, padded to the longest prompt of a batch and not masked."""
    import diffusers
    from transformers import GlmConfig, GlmModel

    tokenizer = tiny_tokenizer(1024)
    tokenizer.padding_side = "left"
    text = GlmConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=8,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=1.0,
    )
    transformer = diffusers.CogView4Transformer2DModel(
        patch_size=2,
        in_channels=4,
        num_layers=1,
        attention_head_dim=4,
        num_attention_heads=4,
        out_channels=4,
        text_embed_dim=32,
        time_embed_dim=8,
        condition_dim=4,
        sample_size=16,
    )
    return diffusers.CogView4Pipeline(
        transformer=transformer,
        vae=_vae(),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(
            base_shift=0.25, max_shift=0.75, use_dynamic_shifting=True, time_shift_type="linear"
        ),
        text_encoder=GlmModel(text).eval(),
        tokenizer=tokenizer,
    )


def tiny_lumina2() -> Any:
    """Lumina 2: time runs from noise to image, and guidance is normalised."""
    import diffusers
    from transformers import Gemma2Config, Gemma2Model

    tokenizer = tiny_tokenizer(512)
    text = Gemma2Config(
        head_dim=4,
        hidden_size=8,
        intermediate_size=8,
        num_attention_heads=2,
        num_hidden_layers=2,
        num_key_value_heads=2,
        vocab_size=len(tokenizer),
        initializer_range=1.0,
    )
    transformer = diffusers.Lumina2Transformer2DModel(
        sample_size=4,
        patch_size=2,
        in_channels=4,
        hidden_size=8,
        num_layers=1,
        num_attention_heads=1,
        num_kv_heads=1,
        multiple_of=16,
        axes_dim_rope=(4, 2, 2),
        cap_feat_dim=8,
    )
    return diffusers.Lumina2Pipeline(
        transformer=transformer,
        vae=_deep_vae(shift_factor=0.0609, scaling_factor=1.5035),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        text_encoder=Gemma2Model(text).eval(),
        tokenizer=tokenizer,
    )


def tiny_chroma() -> Any:
    """Chroma: FLUX with guidance by a negative prompt in place of an embedded one."""
    import diffusers

    tokenizer, text_encoder = _t5()
    transformer = diffusers.ChromaTransformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=32,
        axes_dims_rope=(4, 4, 8),
        approximator_hidden_dim=32,
        approximator_layers=1,
        approximator_num_channels=16,
    )
    return diffusers.ChromaPipeline(
        transformer=transformer,
        vae=_vae(shift_factor=0.0609, scaling_factor=1.5035),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        text_encoder=text_encoder,
        tokenizer=tokenizer,
    )


def _qwen3(layers: int) -> tuple[Any, Any]:
    """A tokenizer that reads letter by letter, with a chat's template, and the configuration of a Qwen 3."""
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import Qwen2Tokenizer, Qwen3Config

    letters = {letter: index for index, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = Qwen2Tokenizer(vocab=letters, merges=[])
    tokenizer.chat_template = "{% for message in messages %}<{{ message.content }}>{% endfor %}"
    config = Qwen3Config(
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=8,
        vocab_size=len(tokenizer),
        max_position_embeddings=512,
    )
    return tokenizer, config


def tiny_flux2_klein() -> Any:
    """FLUX.2 klein: an image beside the prompt changes what is drawn, and to no degree."""
    import diffusers
    from transformers import Qwen3ForCausalLM

    tokenizer, text = _qwen3(layers=28)  # it reads the states of layers 9, 18 and 27
    transformer = diffusers.Flux2Transformer2DModel(
        patch_size=1,
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=48,
        axes_dims_rope=(4, 4, 4, 4),
        guidance_embeds=False,
    )
    vae = diffusers.AutoencoderKLFlux2(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(8, 8),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=32,
    )
    return diffusers.Flux2KleinPipeline(
        transformer=transformer,
        vae=vae,
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True),
        text_encoder=Qwen3ForCausalLM(text).eval(),
        tokenizer=tokenizer,
    )


def tiny_z_image() -> Any:
    """Z-Image: its network takes lists of latents and texts of any length, and guidance is on above 0."""
    import diffusers
    from transformers import Qwen3Model

    tokenizer, text = _qwen3(layers=2)
    transformer = diffusers.ZImageTransformer2DModel(
        all_patch_size=(2,),
        all_f_patch_size=(1,),
        in_channels=4,
        dim=32,
        n_layers=1,
        n_refiner_layers=1,
        n_heads=2,
        n_kv_heads=2,
        cap_feat_dim=16,
        rope_theta=256.0,
        t_scale=1000.0,
        axes_dims=[8, 4, 4],
        axes_lens=[1024, 32, 32],
    )
    for padding in (transformer.x_pad_token, transformer.cap_pad_token):
        torch.nn.init.ones_(padding)  # made empty, and so of any value
    return diffusers.ZImagePipeline(
        transformer=transformer,
        vae=_vae(shift_factor=0.0609, scaling_factor=1.5035),
        scheduler=diffusers.FlowMatchEulerDiscreteScheduler(),
        text_encoder=Qwen3Model(text).eval(),
        tokenizer=tokenizer,
    )


def tiny_deepfloyd(*, checked: bool = False) -> Any:
    """DeepFloyd IF, first stage: pixels and no latents, a learned variance; its checker may flag every image."""
    import diffusers
    from diffusers.pipelines.deepfloyd_if.safety_checker import IFSafetyChecker
    from transformers import CLIPConfig

    tokenizer, text_encoder = _t5()
    unet = diffusers.UNet2DConditionModel(
        sample_size=32,
        layers_per_block=1,
        block_out_channels=(32, 32),
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        in_channels=3,
        out_channels=6,
        cross_attention_dim=32,
        encoder_hid_dim=32,
        attention_head_dim=8,
        addition_embed_type="text",
        addition_embed_type_num_heads=2,
        cross_attention_norm="group_norm",
        resnet_time_scale_shift="scale_shift",
        norm_num_groups=8,
    )
    checker = None
    if checked:
        text = _text_config(tiny_tokenizer())
        checker = IFSafetyChecker(CLIPConfig(vision_config=VISION | {"projection_dim": 16}, text_config=text))
        torch.nn.init.constant_(checker.p_head.bias, 100.0)
    return diffusers.IFPipeline(
        text_encoder=text_encoder,
        tokenizer=tokenizer,
        unet=unet,
        scheduler=diffusers.DDPMScheduler(
            beta_schedule="squaredcos_cap_v2", thresholding=True, variance_type="learned_range"
        ),
        safety_checker=checker,
        feature_extractor=_image_processor() if checked else None,
        watermarker=None,
        requires_safety_checker=checked,
    )


def tiny_sana_sprint(sana: Any) -> Any:
    """Sana Sprint: a consistency model of two steps, made of Sana's parts."""
    import diffusers

    network = {name: value for name, value in sana.transformer.config.items() if not name.startswith("_")}
    network |= {"qk_norm": "rms_norm_across_heads", "guidance_embeds": True}
    parts = sana.components | {
        "transformer": diffusers.SanaTransformer2DModel(**network),
        "scheduler": diffusers.SCMScheduler(),
    }
    return diffusers.SanaSprintPipeline(**parts)


def tiny_amused() -> Any:
    """aMUSEd: tokens that are unmasked in place of noise; it takes one generator and no list of them."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModelWithProjection

    tokenizer = tiny_tokenizer()
    text = CLIPTextConfig(**_text_config(tokenizer), projection_dim=32)
    transformer = diffusers.UVit2DModel(
        hidden_size=32,
        hidden_dropout=0.0,
        cond_embed_dim=32,
        micro_cond_encode_dim=2,
        micro_cond_embed_dim=10,
        encoder_hidden_size=32,
        vocab_size=32,
        codebook_size=32,
        in_channels=32,
        block_out_channels=32,
        num_res_blocks=1,
        downsample=True,
        upsample=True,
        block_num_heads=1,
        num_hidden_layers=1,
        num_attention_heads=1,
        attention_dropout=0.0,
        intermediate_size=32,
        sample_size=16,
    )
    vqvae = diffusers.VQModel(
        block_out_channels=(32, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        latent_channels=32,
        norm_num_groups=8,
        num_vq_embeddings=32,
        sample_size=32,
        mid_block_add_attention=False,
        lookup_from_codebook=True,
    )
    return diffusers.AmusedPipeline(
        transformer=transformer,
        vqvae=vqvae,
        scheduler=diffusers.AmusedScheduler(mask_token_id=31),
        text_encoder=CLIPTextModelWithProjection(text).eval(),
        tokenizer=tokenizer,
    )
