"""Tiny readers from configurations: a classifier, a model for visual question answering, a vision-language model."""

from __future__ import annotations

from clinometer._torch import torch  # before transformers
from tests.builders import VISION, tiny_tokenizer

import transformers  # isort: skip

LABELS = {0: "Male", 1: "FEMALE", 2: "woman", 3: "dog"}
SQUARE = {"size": {"height": 32, "width": 32}}
TEMPLATE = (
    "{% for message in messages %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %} :{% endif %}"
)


def classifier(path, seed=0):
    """Save a vision transformer with a head of four labels, of which two mean women."""
    torch.manual_seed(seed)
    config = transformers.ViTConfig(**VISION, id2label=LABELS, label2id={each: key for key, each in LABELS.items()})
    transformers.ViTForImageClassification(config).save_pretrained(path)
    transformers.ViTImageProcessorPil(**SQUARE).save_pretrained(path)
    return path


def answerer(path, seed=0):
    """Save a ViLT that chooses among the same four answers."""
    torch.manual_seed(seed)
    tokenizer = transformers.BertTokenizer(
        vocab={token: index for index, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"])}
    )
    config = transformers.ViltConfig(
        **VISION, vocab_size=32, type_vocab_size=2, max_position_embeddings=80, modality_type_vocab_size=2,
        id2label=LABELS, label2id={each: key for key, each in LABELS.items()},
    )  # fmt: skip
    transformers.ViltForQuestionAnswering(config).save_pretrained(path)
    pictures = transformers.ViltImageProcessorPil(size={"shortest_edge": 32}, size_divisor=8)
    transformers.ViltProcessor(pictures, tokenizer).save_pretrained(path)
    return path


def chatting(path, seed=0):
    """Save a LLaVA whose words are single characters."""
    torch.manual_seed(seed)
    tokenizer = tiny_tokenizer(1000)
    tokenizer.add_tokens(["<image>"], special_tokens=True)
    text = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, max_position_embeddings=1024,
    )  # fmt: skip
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(**VISION), text_config=text, vision_feature_layer=-1,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"), image_seq_length=16,
    )  # fmt: skip
    transformers.LlavaForConditionalGeneration(config).save_pretrained(path)
    pictures = transformers.CLIPImageProcessorPil(size={"height": 32, "width": 32}, do_center_crop=False)
    transformers.LlavaProcessor(
        pictures, tokenizer, patch_size=8, vision_feature_select_strategy="default", chat_template=TEMPLATE,
        num_additional_image_tokens=1,
    ).save_pretrained(path)  # fmt: skip
    return path
