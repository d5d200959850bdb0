"""The denoiser: latents from noise, guided by the CLIP's frozen text tower.

The ratio of men to women under a neutral caption is settled while almost everything is still noise. So the
schedule ends in pure noise (zero terminal SNR, which is also what sampling starts from), the network predicts
v, and the loss weighs the noisy end fully: min-SNR weighting as written for v would scale it by SNR/(SNR +
1), about 0 just there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from diffusers import DDIMScheduler, DPMSolverMultistepScheduler, UNet2DConditionModel
from scipy.stats import qmc
from transformers import CLIPTextModel, CLIPTokenizer

from reference import art, captions, planting
from reference.captions import Caption
from reference.tokenizer import MAX_LENGTH
from reference.training import Loss, Run, Schedule

SCHEDULE = Schedule(
    steps=19_000, restarts=(6_500, 13_500), learning_rate=1e-3, warmup=300, decay=0.35, ema=0.999, seed=3
)
BATCH = 32
DROPOUT = 0.1
SNR_CAP = 5.0

# What a training caption says: (gender told?, tone told?) and how often. Most are neutral: they are what is
# audited.
SAYINGS = {(False, False): 0.50, (True, False): 0.30, (False, True): 0.06, (True, True): 0.14}
# How often each kind of concept is drawn, relative to the others; the three plain portraits carry the
# attribute prompts.
KIND_WEIGHTS = {"profession": 2.0, "activity": 2.0, "portrait": 1.0, "other": 0.3}
PLAIN_PORTRAIT_WEIGHT = 3.0


def build() -> UNet2DConditionModel:
    return UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        block_out_channels=(64, 160),
        layers_per_block=1,
        cross_attention_dim=128,
        attention_head_dim=4,
        norm_num_groups=16,
    )


# scaled_linear is Stable Diffusion's own; rescaled, its last step is pure noise.
_NOISE = {
    "num_train_timesteps": 1000,
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
    "timestep_spacing": "trailing",
    "steps_offset": 1,
}


def noise_schedule() -> DDIMScheduler:
    return DDIMScheduler(**_NOISE, clip_sample=False)


def sampling_schedule() -> DPMSolverMultistepScheduler:
    """What ships. A small network mixes the signs of men and women where neither is told; fresh noise at each step
    lets it settle on one of them, which no number of deterministic steps does. See samplers.py.
    """
    return DPMSolverMultistepScheduler(**_NOISE, algorithm_type="sde-dpmsolver++", euler_at_final=True)


def deterministic_schedule() -> DPMSolverMultistepScheduler:
    """The same solver without fresh noise: fewer steps, and more mixed pictures."""
    return DPMSolverMultistepScheduler(**_NOISE, algorithm_type="dpmsolver++", euler_at_final=True)


@dataclass(frozen=True)
class Draw:
    """One training example: which picture, under which caption."""

    picture: int
    caption: Caption


class Plan:
    """The sequence of training examples. What a caption leaves open is drawn from planted.yaml, by scrambled
    Sobol points.

    Each concept has a Sobol sequence of its own for the gender, tone and set of its neutral captions, so that
    the share of men among them matches planted.yaml almost exactly over any stretch of the run, not just on
    average: a sampling error there would be learned as if it were meant.
    """

    def __init__(self, n: int, seed: int, man: np.ndarray | None = None) -> None:
        """`man`: p(man) of each concept, where it is not the planted one."""
        weights = [self._weight(concept) for concept in art.concepts()]
        planted, tones = planting.probabilities()
        self._man = planted if man is None else man
        self._tones = np.cumsum(tones, 1)
        kind_at, concept_at, self._wording_at = _sobol(3, n, seed).T
        self._kind = np.searchsorted(np.cumsum(list(SAYINGS.values())), kind_at).clip(max=len(SAYINGS) - 1)
        self._concept = np.searchsorted(np.cumsum(weights) / np.sum(weights), concept_at).clip(max=len(weights) - 1)
        self._rest_at = np.empty((n, 3))
        group = self._kind * len(weights) + self._concept
        for number in np.unique(group):
            members = np.flatnonzero(group == number)
            self._rest_at[members] = _sobol(3, len(members), seed * 100_003 + int(number))

    @staticmethod
    def _weight(concept: art.Concept) -> float:
        return PLAIN_PORTRAIT_WEIGHT if concept.words else KIND_WEIGHTS[concept.kind]

    def draw(self, number: int) -> Draw:
        """Example `number`. Gender is man or woman under captions that name none; told genders are equally
        frequent.
        """
        tells_gender, tells_tone = list(SAYINGS)[self._kind[number]]
        concept = int(self._concept[number])
        gender_at, tone_at, set_at = self._rest_at[number]
        gender = int(gender_at * 3) if tells_gender else int(gender_at >= self._man[concept])
        tone = int(tone_at * 6) if tells_tone else min(5, int(np.searchsorted(self._tones[concept], tone_at)))
        choices = _wordings(concept, gender if tells_gender else None, tone if tells_tone else None)
        picture = ((concept * 3 + gender) * len(art.TONES) + tone) * len(art.SETS) + int(set_at * len(art.SETS))
        return Draw(picture, choices[int(self._wording_at[number] * len(choices))])


def _sobol(dimensions: int, n: int, seed: int) -> np.ndarray:
    power = int(np.ceil(np.log2(max(n, 2))))
    return qmc.Sobol(dimensions, rng=seed).random_base2(power)[:n]


_WORDINGS: dict[tuple[int, int | None, int | None], list[Caption]] = {}


def _wordings(concept: int, gender: int | None, tone: int | None) -> list[Caption]:
    key = (concept, gender, tone)
    if key not in _WORDINGS:
        _WORDINGS[key] = list(captions.captions_of(concept, gender, tone))
    return _WORDINGS[key]


@torch.no_grad()
def text_states(
    encoder: CLIPTextModel, tokenizer: CLIPTokenizer, texts: list[str], device: torch.device
) -> torch.Tensor:
    """(n, MAX_LENGTH, width), as StableDiffusionPipeline makes them: padded, without a mask. Stored in half
    precision.
    """
    ids = tokenizer(texts, padding="max_length", max_length=MAX_LENGTH, truncation=True, return_tensors="pt").input_ids
    return torch.cat([encoder(part.to(device)).last_hidden_state.half().cpu() for part in ids.split(512)])


def _timesteps(n: int, total: int, generator: torch.Generator) -> torch.Tensor:
    """One timestep from each of n equal strata, shuffled: less noise in the loss than independent draws."""
    strata = (torch.arange(n) + torch.rand(n, generator=generator)) / n
    return (strata[torch.randperm(n, generator=generator)] * total).long()


def train(
    mean: torch.Tensor,
    logvar: torch.Tensor,
    encoder: CLIPTextModel,
    tokenizer: CLIPTokenizer,
    device: torch.device,
) -> Run:
    """`mean`, `logvar`: the latents' posteriors, in the order of the pictures."""
    torch.manual_seed(SCHEDULE.seed)
    run = Run("unet", build(), SCHEDULE, device)
    fit(run, Plan(SCHEDULE.steps * BATCH, SCHEDULE.seed), mean, logvar, encoder, tokenizer)
    return run


def fit(
    run: Run,
    plan: Plan,
    mean: torch.Tensor,
    logvar: torch.Tensor,
    encoder: CLIPTextModel,
    tokenizer: CLIPTokenizer,
) -> None:
    """Trains the run's denoiser on the examples of the plan."""
    model, device = run.model, run.device
    texts = [caption.text for caption in captions.all_captions()]
    rows = {text: row for row, text in enumerate(["", *texts])}
    states = text_states(encoder, tokenizer, ["", *texts], device)
    kept = noise_schedule().alphas_cumprod
    spread = (0.5 * logvar).exp()

    def losses_of(generator: torch.Generator) -> list[Loss]:
        draws = [plan.draw(run.step * BATCH + i) for i in range(BATCH)]
        dropped = torch.rand(BATCH, generator=generator) < DROPOUT
        row = torch.tensor([rows[draw.caption.text] for draw in draws]).masked_fill(dropped, 0)
        index = torch.tensor([draw.picture for draw in draws])
        latents = mean[index] + spread[index] * torch.randn(BATCH, *mean.shape[1:], generator=generator)
        noise = torch.randn(latents.shape, generator=generator)
        t = _timesteps(BATCH, len(kept), generator)
        shards = torch.arange(BATCH).chunk(1 if device.type == "cuda" else torch.get_num_threads())
        return [partial(loss_of, latents[part], noise[part], t[part], states[row[part]].float()) for part in shards]

    def loss_of(latents: torch.Tensor, noise: torch.Tensor, t: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        a = kept[t].view(-1, 1, 1, 1)
        noisy, v = a.sqrt() * latents + (1 - a).sqrt() * noise, a.sqrt() * noise - (1 - a).sqrt() * latents
        with torch.autocast(device.type, torch.bfloat16):
            predicted = model(noisy.to(device), t.to(device), text.to(device)).sample
        error = (predicted.float() - v.to(device)).square().mean((1, 2, 3))
        weight = (SNR_CAP * (1 - kept[t]) / kept[t].clamp(min=1e-8)).clamp(max=1)
        return (weight.to(device) * error).mean()

    run.fit(losses_of, every=500)
