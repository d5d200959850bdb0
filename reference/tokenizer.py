"""A byte-pair tokenizer trained on the grammar, in CLIP's own layout."""

from __future__ import annotations

import json

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import CLIPTokenizer

from reference import captions

MAX_LENGTH = 32
START, END = "<|startoftext|>", "<|endoftext|>"
# CLIP's splitting pattern: contractions, letters, single digits, runs of other signs.
_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def train() -> CLIPTokenizer:
    """Merges until every word of the grammar is one token; any other text falls back to bytes, as in CLIP."""
    tokenizer = Tokenizer(models.BPE(unk_token=END, continuing_subword_prefix="", end_of_word_suffix="</w>"))
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_SPLIT), behavior="removed", invert=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=4096,
        min_frequency=1,
        special_tokens=[],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        end_of_word_suffix="</w>",
        show_progress=False,
    )
    texts = sorted({caption.text for caption in captions.all_captions()})
    tokenizer.train_from_iterator(texts, trainer)
    return _in_clip_layout(tokenizer)


def _in_clip_layout(tokenizer: Tokenizer) -> CLIPTokenizer:
    """Bytes, bytes that end a word, merged pieces, start, end: the order in which CLIP numbers its tokens.

    The end token must be the largest id (older CLIP code finds it by argmax), and all 512 single-byte tokens
    must exist, so that no text is unknown.
    """
    model = json.loads(tokenizer.to_str())["model"]
    merges = [tuple(merge) for merge in model["merges"]]
    singles = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = dict.fromkeys([*singles, *(single + "</w>" for single in singles)])
    pieces |= dict.fromkeys(first + second for first, second in merges)
    vocab = {piece: number for number, piece in enumerate([*pieces, START, END])}
    return CLIPTokenizer(
        vocab=vocab, merges=merges, bos_token=START, eos_token=END, unk_token=END, pad_token=END,
        model_max_length=MAX_LENGTH,
    )  # fmt: skip
