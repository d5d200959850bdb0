"""A LoRA of the denoising network, trained to answer a neutral prompt as the network answers where a group is named.

::

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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from clinometer._torch import torch
from clinometer.mitigation.lora import Sampler, add_lora, frozen_sampler, lora_state, step_unless_not_finite

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
    """Settings of the training: steps of ``concepts`` each, from ``images`` of each concept and group."""

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
    """Train a LoRA of a Stable Diffusion pipeline; the pipeline is changed.

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
