"""A LoRA of the denoising network, trained so that each concept's images follow a target distribution over groups.

One of two losses teaches it: the leaning of images as an encoder sees it (:func:`train`, of two groups), or the
network's own answers where a group is named (:func:`train_answers`).

**By the leaning of images.** The leaning of an image is the image part of MCAS, ``s = II + ITA``, of that image alone,
with its gradient (:func:`clinometer.metrics.mcas`). What is learned follows Shen et al. (2024, *Finetuning
text-to-image diffusion models for fairness*):

- **Distribution alignment.** Of n images of a concept, sorted by leaning, the k furthest to group a are to be of a and
  the others of b, which changes the fewest. k is binomial with the target's share, so image r is to be of a with
  probability ``P(k > r)``; one for which neither group has 80 % is left as it is. The loss is the cross-entropy of
  ``s / scale``, ``scale`` making the groups' own images lie at ±`SHARPNESS`.
- **Direct fine-tuning, adjusted.** Images are drawn without a gradient by the model's own sampler. The gradient at the
  finished latents is given to the network's estimate of them at some of the steps, each by itself: the chain from step
  to step, whose gradient explodes, is left out. It takes the memory of one step.
- **Preservation.** An image's embedding is to stay what it was without the LoRA, but for the direction between the
  groups; and under prompts that name a group the network is to answer as it did.

**By answers.** A neutral prompt is answered as the network answers where a group is named::

    L = Σ_g π_g E w(t) ‖ f_θ(x_t, t, c) − f(x_t, t, c_g) ‖²        x_t = √ᾱ x_g + √(1 − ᾱ) ε

    π_g   the target's share of group g           c, c_g   a concept's neutral prompt, and the same naming g
    x_g   latents that the network draws under c_g         f, f_θ   the network as it was, and with the LoRA

Of all answers to x_t, the one with the least loss is the average of f(x_t, t, c_g) over the groups as likely as x_t
leaves them: that of a network whose images of c are of g with probability π_g. So the distribution is aligned by what
the network itself knows of the groups, and neither encoder nor judge takes part. Nothing is decoded and no gradient
goes through more than one answer, which makes a step cheap. All groups of a step share their noise and time, so what
differs between them is the group alone.

``w`` makes the answers of networks that predict noise, velocity or images weigh as velocities do. Times are drawn
mostly where it is decided what an image shows: the noisier half, and the noisiest time of all, from which a sampler
starts. A quarter as many answers under c_g are trained to stay as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import scipy

from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.metrics import mcas
from clinometer.models import reference
from clinometer.models.weights import user_path

SHARPNESS: Final = 3.0
CERTAIN: Final = 0.8
"""From this probability on an image is to be of one group."""
NOT_FINITE: Final = "nothing was written; train in float32, or with a smaller learning rate"
TARGETS: Final = ("to_q", "to_k", "to_v", "to_out.0")


@dataclass(frozen=True)
class ScoreSettings:
    """Settings of the training by scores of images.

    Attributes
    ----------
    steps, batch : steps of the optimizer, and images of a concept in each; ``concepts`` of them a step.
    rank, learning_rate : of the LoRA, and of AdamW.
    through : of the sampler's steps, how many get the gradient, drawn at random.
    keep, keep_named : weights of the two parts that preserve.
    seed : which noise and which concepts.
    """

    steps: int = 60
    batch: int = 12
    concepts: int = 2
    rank: int = 8
    learning_rate: float = 2e-3
    through: int = 3
    keep: float = 1.0
    keep_named: float = 10.0
    seed: int = 0


@dataclass
class ImageReader:
    """A CLIP whose embeddings of images and words keep their gradient."""

    model: Any
    tokenizer: Any
    size: int
    mean: torch.Tensor
    std: torch.Tensor

    @classmethod
    def of(cls, spec: str) -> ImageReader:
        """Load ``reference`` or a directory with a CLIP of transformers.

        Raises
        ------
        ModelError
            It is not one.
        """
        from transformers import AutoTokenizer, CLIPImageProcessor, CLIPModel

        place = reference.clip_path() if spec == "reference" else user_path(spec)
        try:
            model = CLIPModel.from_pretrained(place, local_files_only=True).eval().requires_grad_(False)
            processor = CLIPImageProcessor.from_pretrained(place, local_files_only=True)
            tokenizer = AutoTokenizer.from_pretrained(place, local_files_only=True)
        except Exception as error:  # many kinds
            raise ModelError.unsupported(
                f"found {spec!r}, and a LoRA learns from 'reference' or a directory with a CLIP of transformers",
                field="encoder",
            ) from error
        mean, std = (torch.tensor(values)[:, None, None] for values in (processor.image_mean, processor.image_std))
        return cls(model, tokenizer, int(model.config.vision_config.image_size), mean, std)

    def images(self, pictures: torch.Tensor) -> torch.Tensor:
        """Embed pictures in [−1, 1], n × 3 × height × width; unit vectors."""
        resized = torch.nn.functional.interpolate(
            pictures.float(), size=(self.size, self.size), mode="bilinear", antialias=True, align_corners=False
        )
        if not bool(torch.isfinite(resized).all()):
            raise ModelError.not_finite(
                f"a picture holds values that are not finite, so the loss is not a number; {NOT_FINITE}"
            )
        pixels = ((resized.clamp(-1, 1) + 1) / 2 - self.mean.to(resized)) / self.std.to(resized)
        return torch.nn.functional.normalize(_vectors(self.model.get_image_features(pixel_values=pixels)), dim=-1)

    def words(self, words: Sequence[str]) -> torch.Tensor:
        """Embed words; unit vectors."""
        tokens = self.tokenizer(list(words), padding=True, return_tensors="pt")
        with torch.no_grad():
            return torch.nn.functional.normalize(_vectors(self.model.get_text_features(**tokens)), dim=-1)


def _vectors(output: Any) -> torch.Tensor:
    vectors: torch.Tensor = getattr(output, "pooler_output", output)
    return vectors


@dataclass
class Sampler:
    """A pipeline's own way from noise to images, whose steps are kept; without guidance, as a LoRA learns best."""

    pipeline: Any
    steps: int
    rng: torch.Generator
    texts: dict[str, torch.Tensor] = field(default_factory=dict)

    def text(self, prompts: Sequence[str]) -> torch.Tensor:
        """Encode prompts, each once."""
        for prompt in set(prompts) - self.texts.keys():
            with torch.no_grad():
                self.texts[prompt] = self.pipeline.encode_prompt(prompt, self.pipeline.device, 1, False)[0]
        return torch.cat([self.texts[prompt] for prompt in prompts])

    def noise(self, n: int) -> torch.Tensor:
        """Draw first latents."""
        network = self.pipeline.unet
        side = network.config.sample_size
        return torch.randn(n, network.config.in_channels, side, side, generator=self.rng)

    @torch.no_grad()
    def draw(
        self, prompts: Sequence[str], noise: torch.Tensor, seed: int, rows: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, list[tuple[Any, torch.Tensor]]]:
        """Draw latents without a gradient; return them and the inputs of the network: (latents, [(t, its input)]).

        ``rows`` : of the batch, those that are drawn; each from the noise that it has in the whole batch.
        """
        scheduler, inputs = self.pipeline.scheduler, []
        rows = torch.ones(len(prompts), dtype=torch.bool) if rows is None else rows
        text = self.text(prompts)[rows]
        scheduler.set_timesteps(self.steps)
        rngs = [torch.Generator().manual_seed(seed + int(row)) for row in rows.nonzero()]  # a sampler's own noise
        latents = (noise * scheduler.init_noise_sigma)[rows]
        for t in scheduler.timesteps:
            scaled = scheduler.scale_model_input(latents, t)
            inputs.append((t, scaled))
            answer = self.pipeline.unet(scaled, t, encoder_hidden_states=text).sample
            latents = scheduler.step(answer, t, latents, generator=rngs).prev_sample
        return latents, inputs

    def decode(self, latents: torch.Tensor) -> torch.Tensor:
        """Decode latents to pictures in [−1, 1]."""
        pictures: torch.Tensor = self.pipeline.vae.decode(latents / self.pipeline.vae.config.scaling_factor).sample
        return pictures

    def towards(self, t: Any, answer: torch.Tensor) -> torch.Tensor:
        """Return the part of the finished latents that the network's answer at a step gives, up to its size."""
        kind = self.pipeline.scheduler.config.prediction_type
        alpha = self.pipeline.scheduler.alphas_cumprod[int(t)].to(answer)
        parts: dict[str, torch.Tensor] = {
            "epsilon": -answer, "v_prediction": -((1 - alpha) ** 0.5) * answer, "sample": answer
        }  # fmt: skip
        return parts[kind]


def assigned(n: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Assign n images, sorted by leaning to group a, to a or not: which are to be of a, and how sure that is.

    Returns
    -------
    (n,) 1 for a and 0 for b, and (n,) weights: the probability of that group, 0 below `CERTAIN`.

    Examples
    --------
    >>> [array.round(2).tolist() for array in assigned(4, 0.5)]
    [[1.0, 1.0, 0.0, 0.0], [0.94, 0.0, 0.0, 0.94]]
    """
    of_a = scipy.stats.binom.sf(np.arange(n), n, share)  # k > r
    sure = np.maximum(of_a, 1 - of_a)
    return (of_a > 0.5).astype(np.float64), np.where(sure >= CERTAIN, sure, 0.0)


@dataclass
class _Leaning:
    """The leaning of each image by itself, against images and words of two groups."""

    images_a: torch.Tensor
    images_b: torch.Tensor
    texts_a: torch.Tensor
    texts_b: torch.Tensor

    def __post_init__(self) -> None:
        """Measure the groups' own images: the ends of the scale.

        Raises
        ------
        ModelError
            The encoder does not tell them apart.
        """
        self.ends = [round(float(self._scores(images).mean()), 4) for images in (self.images_a, self.images_b)]
        self.apart = torch.nn.functional.normalize((self.images_a.mean(0) - self.images_b.mean(0))[None], dim=-1)
        if not self.ends[0] > self.ends[1]:
            raise ModelError.undefined(
                "the encoder does not tell the groups' own images apart; a LoRA cannot learn from it"
            )

    def _scores(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return II + ITA of each image, (n × d) → (n,)."""
        scores = mcas(
            target_images=embeddings[:, None], target_texts=None, images_a=self.images_a, images_b=self.images_b,
            texts_a=self.texts_a, texts_b=self.texts_b,
        )  # fmt: skip
        leaning: torch.Tensor = scores.ii + scores.ita
        return leaning

    def towards_a(self, embeddings: torch.Tensor) -> torch.Tensor:
        """Return the log odds of group a that each image's leaning implies."""
        a, b = self.ends
        return (self._scores(embeddings) - (a + b) / 2) / ((a - b) / 2) * SHARPNESS

    def alike_otherwise(self, after: torch.Tensor, before: torch.Tensor) -> torch.Tensor:
        """Compare embeddings by their cosine, but for the direction between the groups."""
        left, right = (x - (x @ self.apart.T) @ self.apart for x in (after, before))
        return torch.nn.functional.cosine_similarity(left, right)


def frozen_sampler(pipeline: Any, steps: int, seed: int) -> Sampler:
    """Freeze a pipeline's own weights, and return the sampler that draws with it."""
    for part in (pipeline.vae, pipeline.text_encoder, pipeline.unet):
        part.requires_grad_(False)
    torch.manual_seed(seed)
    return Sampler(pipeline, steps, torch.Generator().manual_seed(seed))


def add_lora(network: Any, rank: int) -> list[torch.nn.Parameter]:
    """Add a LoRA to a network's attention, and return its weights."""
    from peft import LoraConfig

    network.add_adapter(LoraConfig(r=rank, lora_alpha=rank, target_modules=list(TARGETS)))
    return [each for each in network.parameters() if each.requires_grad]


def lora_state(network: Any) -> dict[str, torch.Tensor]:
    """Copy a network's LoRA as a file holds it; the network may be changed afterwards."""
    from peft.utils import get_peft_model_state_dict

    return {f"unet.{name}": value.detach().clone() for name, value in get_peft_model_state_dict(network).items()}


def step_unless_not_finite(
    optimizer: torch.optim.Optimizer, weights: Sequence[torch.Tensor], loss: float, step: str
) -> None:
    """Update the weights by their clipped gradients; refuse a loss that is not finite."""
    if not np.isfinite(loss):
        raise ModelError.not_finite(f"{step}: the loss is {loss}, not a number; {NOT_FINITE}")
    torch.nn.utils.clip_grad_norm_(weights, 1.0)
    optimizer.step()


def train_scores(
    pipeline: Any,
    reader: ImageReader,
    *,
    prompts: Mapping[str, str],
    named: Sequence[str],
    attributes: Mapping[str, Sequence[str]],
    words: Mapping[str, Sequence[str]],
    shares: Mapping[str, Mapping[str, float]],
    sampler_steps: int,
    settings: ScoreSettings,
    say: Callable[[str], None],
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Train a LoRA by how its images score against the groups; the pipeline is changed.

    Parameters
    ----------
    prompts : concept → its neutral prompt.
    named : prompts that name a group, under which the network is to answer as it did.
    attributes, words : of groups a and b: prompts whose images represent them, and words.
    shares : concept → group → what it is to have.
    say : is called with each step's loss.

    Returns
    -------
    The LoRA's weights, and what was measured: the losses.

    Raises
    ------
    ModelError
        A loss is not finite; the pipeline has no UNet.
    """
    (a, b), rng, network = attributes, np.random.default_rng(settings.seed), pipeline.unet
    sampler = frozen_sampler(pipeline, sampler_steps, settings.seed)
    groups, kept = _groups(sampler, reader, attributes, named, rng)
    leaning = _Leaning(groups[a], groups[b], *(reader.words(words[group]) for group in (a, b)))
    weights = add_lora(network, settings.rank)
    optimizer, losses = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0), []
    names, n = list(prompts), settings.batch
    wanted = {name: [torch.tensor(each) for each in assigned(n, shares[name][a])] for name in names}
    for step in range(settings.steps):
        for group in optimizer.param_groups:  # down to a tenth
            group["lr"] = settings.learning_rate * (1 - 0.9 * step / settings.steps)
        chosen = [names[i] for i in rng.choice(len(names), min(settings.concepts, len(names)), replace=False)]
        texts = [prompts[name] for name in chosen for _ in range(n)]
        is_a, sure = (torch.cat([wanted[name][k] for name in chosen]) for k in (0, 1))
        loss, towards, gradient, steps = _loss_of_images(sampler, reader, leaning, texts, is_a, sure, settings, rng)
        optimizer.zero_grad()
        text = sampler.text(texts)
        for at in rng.choice(len(steps), min(settings.through, len(steps)), replace=False):
            t, latents = steps[at]
            answer = network(latents, t, encoder_hidden_states=text).sample
            (gradient * sampler.towards(t, answer)).sum().div(settings.through).backward()  # type: ignore[no-untyped-call]
        drift = settings.keep_named * _answers_differ(sampler, kept, n, rng)
        drift.backward()  # type: ignore[no-untyped-call]
        total = float(loss.detach()) + float(drift.detach())
        at_step = f"step {step + 1} of {settings.steps}"
        step_unless_not_finite(optimizer, weights, total, at_step)
        losses.append(round(total, 4))
        say(f"{at_step}: loss {total:.3f}, {float((towards > 0).float().mean()):.0%} {a}")
    return lora_state(network), {
        "loss": "score",
        "losses": losses,
        "concepts": names,
        "leaning of the groups' images": leaning.ends,
    }


def _loss_of_images(
    sampler: Sampler,
    reader: ImageReader,
    leaning: _Leaning,
    prompts: Sequence[str],
    is_a: torch.Tensor,
    sure: torch.Tensor,
    settings: ScoreSettings,
    rng: np.random.Generator,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, list[tuple[Any, torch.Tensor]]]:
    """Draw images of prompts, and measure how far they are off the groups they are to have, and off those before.

    Parameters
    ----------
    is_a, sure : of a concept's images in the order of their leaning, the most to group a first (:func:`assigned`).

    Returns
    -------
    The loss; each image's log odds of group a; the gradient of the loss by the latents; the network's inputs.
    """
    network, n = sampler.pipeline.unet, settings.batch
    noise, seed = sampler.noise(len(prompts)), int(rng.integers(2**31))
    latents, steps = sampler.draw(prompts, noise, seed)
    network.disable_adapters()
    half = torch.arange(len(prompts)) % 2 == 0  # half of the images suffice to see what changed
    with torch.no_grad():
        before = reader.images(sampler.decode(sampler.draw(prompts, noise, seed, half)[0]))
    network.enable_adapters()
    latents.requires_grad_(True)
    after = reader.images(sampler.decode(latents))
    towards = leaning.towards_a(after)
    ranks = towards.detach().reshape(-1, n).argsort(dim=1, descending=True).argsort(dim=1)
    order = (ranks + n * torch.arange(len(ranks))[:, None]).flatten()  # within each concept
    alike = leaning.alike_otherwise(after[half], before)
    entropy = torch.nn.functional.binary_cross_entropy_with_logits(towards, is_a[order].to(towards), reduction="none")
    loss = (sure[order].to(towards) * entropy).mean() + settings.keep * (1 - alike).mean()
    (gradient,) = torch.autograd.grad(loss, latents)
    return loss, towards, gradient, steps


def _groups(
    sampler: Sampler,
    reader: ImageReader,
    attributes: Mapping[str, Sequence[str]],
    named: Sequence[str],
    rng: np.random.Generator,
) -> tuple[dict[str, torch.Tensor], tuple[list[str], torch.Tensor]]:
    """Draw images of the groups, as embeddings, and latents under prompts that name a group, to be preserved."""
    embeddings, latents = {}, []
    for group, own_prompts in attributes.items():
        prompts = [prompt for prompt in own_prompts for _ in range(4)]
        drawn, _ = sampler.draw(prompts, sampler.noise(len(prompts)), int(rng.integers(2**31)))
        with torch.no_grad():
            embeddings[group] = reader.images(sampler.decode(drawn))
    for start in range(0, len(named), 16):
        part = named[start : start + 16]
        latents.append(sampler.draw(part, sampler.noise(len(part)), int(rng.integers(2**31)))[0])
    return embeddings, (list(named), torch.cat(latents))


def _answers_differ(
    sampler: Sampler, kept: tuple[list[str], torch.Tensor], n: int, rng: np.random.Generator
) -> torch.Tensor:
    """Measure how far the network's answers under prompts that name a group are from what they were: a mean square."""
    network, scheduler = sampler.pipeline.unet, sampler.pipeline.scheduler
    rows = rng.integers(len(kept[0]), size=min(n, len(kept[0])))
    clean, text = kept[1][rows], sampler.text([kept[0][row] for row in rows])
    t = torch.tensor(rng.integers(scheduler.config.num_train_timesteps, size=len(rows)))
    alpha = scheduler.alphas_cumprod[t].to(clean)[:, None, None, None]
    noised = alpha**0.5 * clean + (1 - alpha) ** 0.5 * torch.randn(clean.shape, generator=sampler.rng)
    network.disable_adapters()
    with torch.no_grad():
        before = network(noised, t, encoder_hidden_states=text).sample
    network.enable_adapters()
    differences: torch.Tensor = network(noised, t, encoder_hidden_states=text).sample - before
    return differences.square().mean()


NOISIEST: Final = 0.1
"""How often a time is the last one."""
NOISY: Final = 0.8
"""How often another one is of the noisier half."""
HEAVIEST: Final = 1_000.0
WARM_UP: Final = 20
MEMORY: Final = 0.98
"""Decay of the moving average of weights; the average is the result."""


@dataclass(frozen=True)
class AnswerSettings:
    """Settings of the training by answers: steps of ``concepts`` each, from ``images`` of each concept and group."""

    steps: int = 320
    concepts: int = 10
    images: int = 8
    rank: int = 8
    learning_rate: float = 4e-3
    seed: int = 0


def train_answers(
    pipeline: Any,
    *,
    prompts: Mapping[str, str],
    named: Mapping[str, Mapping[str, str]],
    shares: Mapping[str, Mapping[str, float]],
    sampler_steps: int,
    settings: AnswerSettings,
    say: Callable[[str], None],
) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Train a LoRA by what the network answers where a group is named; the pipeline is changed.

    Parameters
    ----------
    prompts : concept → its neutral prompt.
    named : group → concept → the prompt that names it.
    shares : concept → group → what it is to have.
    say : is called with each step's loss.

    Returns
    -------
    The LoRA's weights, and what was measured: the losses.

    Raises
    ------
    ModelError
        A loss is not finite.
    """
    from diffusers.training_utils import EMAModel

    rng, network, scheduler = np.random.default_rng(settings.seed), pipeline.unet, pipeline.scheduler
    sampler = frozen_sampler(pipeline, sampler_steps, settings.seed)
    groups = [group for group in named if any(of[group] > 0 for of in shares.values())]
    clean: dict[str, dict[str, torch.Tensor]] = {group: {} for group in groups}
    for group in groups:
        for concept, prompt in named[group].items():
            many = [prompt] * settings.images
            clean[group][concept] = sampler.draw(many, sampler.noise(len(many)), int(rng.integers(2**31)))[0]
        say(f"{group}: {settings.images} images under each of {len(prompts)} prompts that name it")
    weights = add_lora(network, settings.rank)
    average = EMAModel(weights, decay=MEMORY)
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.0, betas=(0.9, 0.99))
    losses = []
    for step in range(settings.steps):
        warm = min(1.0, (step + 1) / WARM_UP) * (1 + 0.95 * np.cos(np.pi * step / settings.steps)) / 2
        for parameters in optimizer.param_groups:
            parameters["lr"] = settings.learning_rate * warm
        chosen, noised, t, neutral, naming = _draw_questions(sampler, clean, prompts, named, settings.concepts, rng)
        share = torch.tensor([shares[concept][group] * len(groups) for group in groups for concept in chosen])
        network.disable_adapters()
        with torch.no_grad():
            wanted = network(noised, t, encoder_hidden_states=naming).sample
        network.enable_adapters()
        kept = torch.tensor(rng.permutation(len(t))[: len(t) // 4])
        answers = network(
            torch.cat([noised, noised[kept]]), torch.cat([t, t[kept]]),
            encoder_hidden_states=torch.cat([neutral, naming[kept]]),
        ).sample  # fmt: skip
        weight = _weights(scheduler.config.prediction_type, scheduler.alphas_cumprod[t])
        apart = (answers - torch.cat([wanted, wanted[kept]])).square().mean(dim=(1, 2, 3))
        loss = (share * weight * apart[: len(t)]).mean() + (weight[kept] * apart[len(t) :]).sum() / max(len(kept), 1)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        total = float(loss.detach())
        at_step = f"step {step + 1} of {settings.steps}"
        step_unless_not_finite(optimizer, weights, total, at_step)
        average.step(weights)
        losses.append(round(total, 4))
        say(f"{at_step}: loss {total:.4f}")
    average.copy_to(weights)
    return lora_state(network), {"loss": "answers", "losses": losses, "concepts": list(prompts)}


def _draw_questions(
    sampler: Sampler,
    clean: Mapping[str, Mapping[str, torch.Tensor]],
    prompts: Mapping[str, str],
    named: Mapping[str, Mapping[str, str]],
    n: int,
    rng: np.random.Generator,
) -> tuple[list[str], torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw n concepts, and the network's inputs under each group: noised latents, their times, and both texts."""
    scheduler, concepts = sampler.pipeline.scheduler, list(prompts)
    times = int(scheduler.config.num_train_timesteps)
    chosen = [concepts[i] for i in rng.permutation(np.arange(n) % len(concepts))]
    is_last, is_late = rng.random(n) < NOISIEST, rng.random(n) < NOISY
    late, early = rng.integers(times // 2, times, n), rng.integers(0, times // 2, n)
    t = torch.tensor(np.where(is_last, times - 1, np.where(is_late, late, early))).repeat(len(clean))
    images = torch.stack([of[concept][rng.integers(len(of[concept]))] for of in clean.values() for concept in chosen])
    noise, alpha = sampler.noise(n).repeat(len(clean), 1, 1, 1), scheduler.alphas_cumprod[t][:, None, None, None]
    neutral = sampler.text([prompts[concept] for concept in chosen] * len(clean))
    naming = sampler.text([named[group][concept] for group in clean for concept in chosen])
    return chosen, alpha**0.5 * images + (1 - alpha) ** 0.5 * noise, t, neutral, naming


def _weights(kind: str, alpha: torch.Tensor) -> torch.Tensor:
    """Return the weights from squared differences of answers to those of velocities: Δv = Δε / √ᾱ = −Δx₀ / √(1 − ᾱ)."""
    by_kind = {"epsilon": 1 / alpha, "v_prediction": torch.ones_like(alpha), "sample": 1 / (1 - alpha)}
    return by_kind[kind].clamp(max=HEAVIEST)
