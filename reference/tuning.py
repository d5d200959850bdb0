"""The last stage of the CLIP: its image tower learns what the model's own samples look like.

A sample is not quite an artwork: hair ends blur, styles mix. The tower is tuned on samples of two kinds. Told
ones are drawn under captions that tell concept, gender and tone, and labelled by those captions. Open ones, like
those of an audit, are drawn under captions that leave the gender open and mix its signs more often; the denoiser
itself says which it drew, by the caption under which it denoises the sample better. The judge has no part in
either, nor have the held-out combinations. The text tower stays as it is, because the UNet listens to it.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from diffusers import StableDiffusionPipeline
from PIL import Image
from transformers import CLIPModel, CLIPTokenizer

from clinometer.models.diffusers.classifier import DiffusionClassifier
from clinometer.models.diffusers.denoiser import DiffusersDenoiser
from clinometer.models.protocols import Card
from reference import art, augment, captions, clip, sampling, unet, vae
from reference.sampling import UNJUDGEABLE, Recipe, audited
from reference.training import Loss, Run, Schedule

SCHEDULE = Schedule(steps=2_000, learning_rate=5e-4, warmup=50, decay=0.8, weight_decay=0.05, ema=0.99, seed=4)
RECIPE = Recipe(seed=4, steps=10, guidance=1.0)
OPEN_RECIPE = Recipe(seed=5, steps=10, guidance=1.0)
TOLD_PER_COMBINATION = 3
OPEN_PER_CONCEPT_AND_TONE = 18
TRIALS = 10
FROM_ART, FROM_SAMPLES = 48, 64


def samples(pipeline: StableDiffusionPipeline) -> art.Pictures:
    """What the tower is tuned on besides artwork; `set` says nothing.

    Drawn without fresh noise, which is quicker and leaves more pictures of mixed signs: the harder cases.
    """
    shipped, pipeline.scheduler = pipeline.scheduler, unet.deterministic_schedule()
    drawn = _joined(told_samples(pipeline), open_samples(pipeline))
    pipeline.scheduler = shipped
    return drawn


def told_samples(pipeline: StableDiffusionPipeline) -> art.Pictures:
    """Samples of every training combination, labelled by their captions."""
    combinations = [axis.reshape(-1, len(art.SETS))[:, 0] for axis in art.labels()]
    labels = art.Pictures(np.empty(0, np.uint8), *combinations)
    rows = np.repeat(np.flatnonzero(~art.split(labels)), TOLD_PER_COMBINATION)
    concept, gender, tone, of_set = (axis[rows] for axis in combinations)
    told = zip(concept, gender, tone, strict=True)
    prompts = [f"an image of {captions.noun_phrases(c, g, t)[0]}" for c, g, t in told]
    return art.Pictures(sampling.draw(pipeline, prompts, RECIPE), concept, gender, tone, of_set)


def open_samples(pipeline: StableDiffusionPipeline) -> art.Pictures:
    """Samples of the audited concepts under captions that tell the tone and no gender, labelled by the denoiser."""
    which = [concept for concept in audited() if art.concepts()[concept].name not in UNJUDGEABLE]
    cells = [(concept, tone) for concept in which for tone in range(len(art.TONES))]
    concept, tone = np.repeat(cells, OPEN_PER_CONCEPT_AND_TONE, axis=0).T
    prompts = [f"an image of {captions.noun_phrases(c, None, t)[0]}" for c, t in zip(concept, tone, strict=True)]
    images = sampling.draw(pipeline, prompts, OPEN_RECIPE)
    gender = np.concatenate(
        [_drawn_gender(pipeline, images[(concept == c) & (tone == t)], c, t) for c, t in cells]  # in the order of cells
    )
    labels = art.Pictures(images, concept, gender, tone, np.zeros_like(tone))
    return clip.Sampler(labels).subset(np.flatnonzero(~art.split(labels)))


def _drawn_gender(pipeline: StableDiffusionPipeline, images: np.ndarray, concept: int, tone: int) -> np.ndarray:
    """0 where the denoiser takes a sample for a man, 1 for a woman."""
    denoiser = DiffusersDenoiser(
        pipeline, Card("generator", "reference", "diffusers"), size=(art.SIZE, art.SIZE), batch_size=64
    )
    labels = [f"an image of {captions.noun_phrases(concept, gender, tone)[0]}" for gender in (0, 1)]
    classifier = DiffusionClassifier(denoiser, labels, trials=TRIALS, seed=OPEN_RECIPE.seed)
    return np.array([labels.index(c.label) for c in classifier.classify([Image.fromarray(i) for i in images])])


def _joined(first: art.Pictures, second: art.Pictures) -> art.Pictures:
    parts = zip(
        (first.images, first.concept, first.gender, first.tone, first.set),
        (second.images, second.concept, second.gender, second.tone, second.set),
        strict=True,
    )
    return art.Pictures(*(np.concatenate(part) for part in parts))


def train(
    model: CLIPModel, tokenizer: CLIPTokenizer, pictures: art.Pictures, bank: np.ndarray, samples: art.Pictures
) -> Run:
    """Half artwork (as in clip.train), half samples."""
    device = model.device
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(("vision_model", "visual_projection")))
    run = Run("tuned", model, SCHEDULE, device)
    everything = captions.all_captions()
    table = clip.TextTable(tokenizer, [caption.text for caption in everything])
    embedded = _embedded(model, table, [caption.text for caption in everything], device)
    rows = {caption.text: row for row, caption in enumerate(everything)}
    words = list(captions.word_captions())
    sampler, drawn = clip.Sampler(pictures), clip.Sampler(samples)

    def losses_of(generator: torch.Generator) -> list[Loss]:
        return [partial(loss_of, generator)]

    def loss_of(generator: torch.Generator) -> torch.Tensor:
        rng = np.random.default_rng(int(torch.randint(2**62, (1,), generator=generator)))
        index = rng.permutation(sampler.draw(rng))[:FROM_ART]
        of_art = sampler.subset(index)
        of_samples = drawn.subset(rng.integers(len(samples), size=FROM_SAMPLES))
        shown = _joined(of_art, of_samples)
        pixels = np.concatenate([bank[rng.integers(len(bank), size=FROM_ART), index], of_samples.images])
        told = zip(shown.concept, shown.gender, shown.tone, strict=True)
        said = [clip.caption_for(c, g, t, rng) for c, g, t in told]
        images = augment.augment(vae.to_tensor(pixels), generator).to(device)
        with torch.autocast(device.type, torch.bfloat16):
            image = clip.embed_images(model, images)
        sides = ((embedded[[rows[c.text] for c in group]], group) for group in (said, words))
        return clip.contrast(model, image, tuple(sides), shown)

    run.fit(losses_of, every=500, monitor=lambda run: clip.report(run.average, pictures, bank, table, device))
    return run


@torch.no_grad()
def _embedded(model: CLIPModel, table: clip.TextTable, texts: list[str], device: torch.device) -> torch.Tensor:
    """The frozen text tower's embedding of every caption, once."""
    parts = (texts[start : start + 1024] for start in range(0, len(texts), 1024))
    return torch.cat([clip.embed_texts(model, table.batch(part, device)) for part in parts])
