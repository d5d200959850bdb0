"""The CLIP: a small ViT and a small text transformer, trained on balanced captions.

Balance is what makes it a usable instrument: every concept is seen equally often with every gender and tone,
so nothing in the pictures ties a profession to a gender, and one loss term keeps neutral captions half-way
between the word lists.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch.nn import functional
from transformers import CLIPConfig, CLIPModel, CLIPTokenizer

from reference import art, augment, captions, vae
from reference.captions import Caption
from reference.tokenizer import MAX_LENGTH
from reference.training import Loss, Run, Schedule

SCHEDULE = Schedule(steps=5_000, learning_rate=1e-3, warmup=300, decay=0.4, weight_decay=0.05, ema=0.998, seed=2)
TRIPLES, SINGLES = 20, 36
NEUTRAL_WEIGHT = 2.0

# What a picture's caption says: (concept?, gender?, tone?) and how often.
SAYINGS = {
    (True, False, False): 0.15,
    (True, True, False): 0.30,
    (True, False, True): 0.10,
    (True, True, True): 0.20,
    (False, True, False): 0.15,
    (False, True, True): 0.10,
}


def build(tokenizer: CLIPTokenizer) -> CLIPModel:
    tower = {
        "hidden_size": 128,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "hidden_act": "quick_gelu",
    }
    config = CLIPConfig(
        text_config=tower
        | {
            "vocab_size": len(tokenizer),
            "num_hidden_layers": 3,
            "max_position_embeddings": MAX_LENGTH,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.eos_token_id,
            "projection_dim": 96,
        },
        vision_config=tower | {"num_hidden_layers": 4, "image_size": art.SIZE, "patch_size": 8, "projection_dim": 96},
        projection_dim=96,
    )
    # At these sizes the plain attention is faster in bf16 on a CPU than the fused one.
    config._attn_implementation = "eager"
    return CLIPModel(config)


@dataclass(frozen=True)
class Tokens:
    """A batch of texts, padded to the longest."""

    ids: torch.Tensor
    mask: torch.Tensor


class TextTable:
    """Every caption tokenised once."""

    def __init__(self, tokenizer: CLIPTokenizer, texts: list[str]) -> None:
        self._end = tokenizer.eos_token_id
        self._rows = {text: ids for text, ids in zip(texts, tokenizer(texts).input_ids, strict=True)}

    def batch(self, texts: list[str], device: torch.device, length: int | None = None) -> Tokens:
        rows = [self._rows[text] for text in texts]
        length = length or max(map(len, rows))
        ids = torch.tensor([row + [self._end] * (length - len(row)) for row in rows])
        mask = torch.tensor([[1] * len(row) + [0] * (length - len(row)) for row in rows])
        return Tokens(ids.to(device), mask.to(device))


def embed_texts(model: CLIPModel, tokens: Tokens) -> torch.Tensor:
    """Unit rows."""
    states = model.text_model(input_ids=tokens.ids, attention_mask=tokens.mask).pooler_output
    return functional.normalize(model.text_projection(states).float(), dim=-1)


def embed_images(model: CLIPModel, images: torch.Tensor) -> torch.Tensor:
    """Unit rows, of a float batch in [−1, 1]."""
    states = model.vision_model(pixel_values=images).pooler_output
    return functional.normalize(model.visual_projection(states).float(), dim=-1)


def caption_for(concept: int, gender: int, tone: int, rng: np.random.Generator) -> Caption:
    """A random caption that is true of the picture."""
    says = list(SAYINGS)[rng.choice(len(SAYINGS), p=list(SAYINGS.values()))]
    told_gender, told_tone = gender if says[1] else None, tone if says[2] else None
    if not says[0]:
        child = art.concepts()[concept].name == "child"
        concept = captions.concept_index("child" if child else "adult")
    choices = list(captions.captions_of(concept, told_gender, told_tone))
    return choices[rng.integers(len(choices))]


def _truth(batch: list[Caption], pictures: art.Pictures) -> torch.Tensor:
    return torch.from_numpy(np.stack([caption.true_of(pictures) for caption in batch])).float()


def _soft_cross_entropy(logits: torch.Tensor, truth: torch.Tensor) -> torch.Tensor:
    """Rows against a uniform target over the true columns; rows without any are left out."""
    count = truth.sum(1, keepdim=True)
    rows = -(truth / count.clamp(min=1) * functional.log_softmax(logits, 1)).sum(1)
    return rows[count.squeeze(1) > 0].mean()


def contrast(
    model: CLIPModel,
    image: torch.Tensor,
    sides: tuple[tuple[torch.Tensor, list[Caption]], ...],
    shown: art.Pictures,
) -> torch.Tensor:
    """CLIP's loss in both directions with soft targets, a mean over groups of texts (captions, single words)."""
    scale = model.logit_scale.clamp(max=np.log(50)).exp()
    loss = torch.zeros((), device=image.device)
    for side, group in sides:
        truth = _truth(group, shown).to(image.device)
        logits = scale * side @ image.T
        loss = loss + _soft_cross_entropy(logits, truth) + _soft_cross_entropy(logits.T, truth.T)
    return loss / len(sides)


class Sampler:
    """Balanced batches from the training combinations: triples that differ in gender alone, and single
    pictures.
    """

    def __init__(self, pictures: art.Pictures) -> None:
        self.pictures = pictures
        self.allowed = np.flatnonzero(~art.split(pictures))
        self._free = ~art.split(pictures)

    def draw(self, rng: np.random.Generator) -> np.ndarray:
        shape = (len(art.concepts()), 3, len(art.TONES), len(art.SETS))
        triples = (
            np.arange(len(self.pictures))
            .reshape(shape)[
                rng.integers(shape[0], size=TRIPLES),
                :,
                rng.integers(shape[2], size=TRIPLES),
                rng.integers(shape[3], size=TRIPLES),
            ]
            .ravel()
        )
        triples = triples[self._free[triples]]
        return np.concatenate([triples, rng.choice(self.allowed, 3 * TRIPLES + SINGLES - len(triples))])

    def subset(self, index: np.ndarray) -> art.Pictures:
        of = self.pictures
        return art.Pictures(of.images[index], of.concept[index], of.gender[index], of.tone[index], of.set[index])


def train(pictures: art.Pictures, bank: np.ndarray, tokenizer: CLIPTokenizer, device: torch.device) -> Run:
    """`bank` is augment.picture_bank; only the training combinations are ever drawn."""
    torch.manual_seed(SCHEDULE.seed)
    model = build(tokenizer)
    run = Run("clip", model, SCHEDULE, device)
    table = TextTable(tokenizer, [caption.text for caption in captions.all_captions()])
    words = list(captions.word_captions())
    word_gender = np.array([-1 if word.gender is None else word.gender for word in words])
    sampler = Sampler(pictures)

    def losses_of(generator: torch.Generator) -> list[Loss]:
        return [partial(loss_of, generator)]

    def loss_of(generator: torch.Generator) -> torch.Tensor:
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        index = sampler.draw(rng)
        shown = sampler.subset(index)
        said = [caption_for(c, g, t, rng) for c, g, t in zip(shown.concept, shown.gender, shown.tone, strict=True)]
        images = augment.augment(vae.to_tensor(bank[rng.integers(len(bank), size=len(index)), index]), generator)
        with torch.autocast(device.type, torch.bfloat16):
            image = embed_images(model, images.to(device))
            text = embed_texts(model, table.batch([caption.text for caption in said], device))
            word = embed_texts(model, table.batch([caption.text for caption in words], device))
        loss = contrast(model, image, ((text, said), (word, words)), shown)
        return loss + NEUTRAL_WEIGHT * _neutrality(text, said, word, word_gender)

    run.fit(losses_of, every=500, monitor=lambda run: report(run.average, pictures, bank, table, device))
    return run


def _neutrality(text: torch.Tensor, said: list[Caption], word: torch.Tensor, word_gender: np.ndarray) -> torch.Tensor:
    """Mean square of s(t, man words, woman words) over the batch's captions that say nothing of gender: TT's
    target is 0.
    """
    direction = word[word_gender == 0].mean(0) - word[word_gender == 1].mean(0)
    neutral = torch.tensor([caption.gender is None for caption in said], device=text.device)
    return (text[neutral] @ direction).square().mean()


@torch.no_grad()
def images_to_embeddings(model: CLIPModel, images: np.ndarray, device: torch.device, batch: int = 256) -> torch.Tensor:
    parts = (images[i : i + batch] for i in range(0, len(images), batch))
    return torch.cat([embed_images(model, vae.to_tensor(part).to(device)).cpu() for part in parts])


@torch.no_grad()
def texts_to_embeddings(model: CLIPModel, table: TextTable, texts: list[str], device: torch.device) -> torch.Tensor:
    return embed_texts(model, table.batch(texts, device)).cpu()


def readings(model: CLIPModel, table: TextTable, images: np.ndarray, device: torch.device) -> dict[str, np.ndarray]:
    """Zero-shot reading of pictures: `gender` (man or woman), `group` (three ways), `concept` and `tone`, as
    indices.

    "A person" is true of every picture, so the adult portrait is no class of `concept`.
    """
    image = images_to_embeddings(model, images, device)

    def nearest(texts: list[str]) -> np.ndarray:
        return (image @ texts_to_embeddings(model, table, texts, device).T).argmax(1).numpy()

    phrases = [captions.noun_phrases(i, None, None)[0] for i in range(len(art.concepts()))]
    adult = captions.concept_index("adult")
    kinds = [i for i in range(len(phrases)) if i != adult]
    return {
        "gender": nearest(["a photo of a man", "a photo of a woman"]),
        "group": nearest(["a photo of a man", "a photo of a woman", "a photo of a non-binary person"]),
        "concept": np.array(kinds)[nearest([f"an image of {phrases[i]}" for i in kinds])],
        "tone": nearest([f"a photo of a person with {tone} skin" for tone in art.TONES]),
    }


def accuracy(read: dict[str, np.ndarray], truth: art.Pictures) -> dict[str, float]:
    """Shares read right. `tone within one` counts neighbours on the scale light…dark; yellow has no
    neighbour.
    """
    binary = truth.gender < 2
    named = truth.concept != captions.concept_index("adult")
    near = (np.abs(read["tone"] - truth.tone) <= 1) & ((read["tone"] == 0) == (truth.tone == 0))
    return {
        "man/woman": float(np.mean(read["gender"][binary] == truth.gender[binary])),
        "three groups": float(np.mean(read["group"] == truth.gender)),
        "concept top-1": float(np.mean(read["concept"][named] == truth.concept[named])),
        "tone": float(np.mean(read["tone"] == truth.tone)),
        "tone within one": float(np.mean(near)),
    }


def text_association(model: CLIPModel, table: TextTable, device: torch.device) -> np.ndarray:
    """TT of every concept's neutral prompt: mean cosine with the man words minus mean cosine with the woman
    words.
    """
    man, woman = (
        texts_to_embeddings(model, table, captions.attribute_words(g), device).mean(0) for g in ("man", "woman")
    )
    prompts = [f"an image of {captions.noun_phrases(i, None, None)[0]}" for i in range(len(art.concepts()))]
    return (texts_to_embeddings(model, table, prompts, device) @ (man - woman)).numpy()


def report(model: CLIPModel, pictures: art.Pictures, bank: np.ndarray, table: TextTable, device: torch.device) -> None:
    held_out = np.flatnonzero(art.split(pictures))
    truth = Sampler(pictures).subset(held_out)
    for which, name in ((0, "art"), (2, "noisy latents")):
        shares = accuracy(readings(model, table, bank[which][held_out], device), truth)
        print(f"clip held out, {name}: " + ", ".join(f"{k} {v:.3f}" for k, v in shares.items()), flush=True)
    print(f"clip largest |TT| {np.abs(text_association(model, table, device)).max():.4f}", flush=True)
