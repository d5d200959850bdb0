"""The built-in methods: two of words, two of embeddings, one of cross-attention, and the LoRA."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from clinometer._cores import one_thread
from clinometer.errors import InvalidInputError, ModelError
from clinometer.mitigation.making import Job, Made
from clinometer.models import load_encoder
from clinometer.models.protocols import GenerationRequest
from clinometer.stats.association import unit_vectors

INTERVENTION: Final = "{prompt} if all individuals can be {subject} irrespective of their %s"
"""The text of ENTIGEN (Bansal et al. 2022, *How well can text-to-image generative models understand ethical natural
language interventions?*)."""
CHUANG: Final = 1000.0
"""λ of the calibrated projection, as its authors set it for images."""
LOSSES: Final = ("answers", "score")
SCALES: Final = (0.0, 1.0, 2.0, 3.0)
"""How strongly a LoRA of answers is tried; what is left of a leaning adds up over a sampler's steps."""
ENOUGH: Final = 0.1
"""What share of the distance from the target may be left for no further scale to be tried."""
CALIBRATED: Final = 12
"""Concepts that its scale is chosen by."""
SAMPLED: Final = 8
"""Steps of the sampler while a LoRA is trained."""
OFFSETS: Final = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""Offsets that are tried for each prompt, in mean lengths of a token's embedding times the strength."""


def prompt(job: Job) -> Made:
    """Append an ethical intervention to every prompt: "… irrespective of their gender" (ENTIGEN)."""
    job.require_one_target("prompt")
    axes = list(job.suite.axes or {})
    attribute = " and ".join(axes) if axes else "gender" if {"man", "woman"} & set(job.target) else "group"
    template = job.setting("intervention", INTERVENTION % attribute)
    if "{prompt}" not in template and "{subject}" not in template:
        raise InvalidInputError.malformed(
            f"found {template!r}, expected a text with {{prompt}} or {{subject}} in it", field="intervention"
        )
    return Made("prompt", template=template)


def balanced(job: Job) -> Made:
    """Draw a group at random for each image, by its seed, and name it in the prompt (as Fair Diffusion does)."""
    return Made("group in the prompt")


def projection(job: Job) -> Made:
    """Project the direction between the groups out of the text embeddings, calibrated (Chuang et al. 2023)."""
    import torch

    job.require_one_target("projection")
    pipeline = _encoding(job, "projection")
    named = job.named()
    differences = []
    for concept in job.prompts:
        embeddings = torch.stack([_embedding(pipeline, named[group][concept]) for group in job.target])
        apart = embeddings - embeddings.mean(dim=0)  # groups × tokens × d
        differences.append(apart[:, apart.abs().amax(dim=(0, 2)) > 1e-6].mean(dim=1))
    pairs = torch.cat(differences).double()
    pairs = pairs / pairs.norm(dim=1, keepdim=True).clamp(min=1e-12)
    basis = torch.linalg.svd(pairs, full_matrices=False).Vh[: len(job.target) - 1]
    identity = torch.eye(pairs.shape[1], dtype=pairs.dtype)
    calibration = torch.linalg.inv(identity + job.setting("strength", CHUANG) / len(pairs) * pairs.T @ pairs)
    matrix = (identity - basis.T @ basis) @ calibration
    return Made(
        "text embedding",
        strength=job.setting("strength", CHUANG),
        tensors={"projection": matrix.float()},
        told={"pairs": len(pairs)},
    )


def unconditional(job: Job) -> Made:
    """Move the unconditional embedding along the groups' direction, by an amount for each prompt (Stay Fair)."""
    from clinometer.models.diffusers.mitigated import Mitigator

    pipeline, generator = _encoding(job, "unconditional"), job.generator
    if not generator.card.settings.get("guidance_scale", 0) > 1:
        raise ModelError.conflict(
            "method unconditional acts through guidance, and guidance is off; give --guidance above 1, as the model is "
            "used with",
            field="method",
        )
    first, *others = (_embedding(pipeline, job.groups[group].word) for group in job.target)
    apart = first - sum(others) / len(others)
    direction = apart / apart.norm(dim=-1, keepdim=True).clamp(min=1e-6)  # token by token
    length = float(_embedding(pipeline, "").norm(dim=-1).mean()) * job.setting("strength", 1.0)
    reader, n_images = _Reader(job), job.setting("images", 8)
    distances: dict[str, dict[float, float]] = {}
    for concept, text in job.prompts.items():
        distances[concept] = {}
        for offset in OFFSETS:
            trial = job.tried("unconditional embedding", offsets={text: offset * length})
            moved = generator.mitigated(Mitigator(pipeline, trial, {"direction": direction}))
            off = reader.shares(moved, text, n_images) - _wanted(job, concept)
            distances[concept][offset] = float(np.abs(off).mean())
        job.say(f"{concept}: " + ", ".join(f"{x:+g} is {d:.2f} off" for x, d in distances[concept].items()))
    chosen = {concept: min(tried, key=lambda x: (tried[x], abs(x))) for concept, tried in distances.items()}
    return Made(
        "unconditional embedding",
        strength=job.setting("strength", 1.0),
        offsets={job.prompts[concept]: offset * length for concept, offset in chosen.items()},
        tensors={"direction": direction},
        told={
            "distances": {name: {f"{x:+g}": round(d, 3) for x, d in of.items()} for name, of in distances.items()},
            "images": n_images,
        },
    )


def steering(job: Job) -> Made:
    """Steer cross-attention to a group that the image's seed draws, behind a gate (EquiSteer)."""
    import torch

    from clinometer.models.diffusers.mitigated import cross_attentions, network_with_attention

    network = network_with_attention(job.pipeline("steering"), "steering")
    layers, step = cross_attentions(network), [-1]
    sums: dict[tuple[str, int], torch.Tensor] = {}  # layer, step → mean over pixels and images
    times: list[float] = []

    def begin(_: Any, arguments: tuple[Any, ...], named: dict[str, Any]) -> None:
        step[0] += 1
        times.append(float(torch.as_tensor(named["timestep"] if "timestep" in named else arguments[1]).flatten()[0]))

    def note(layer: str, output: torch.Tensor, n: int) -> None:
        conditional = output[len(output) - n :].float()  # of a guided call the second half
        sums[layer, step[0]] = sums.get((layer, step[0]), 0) + conditional.mean(dim=1).sum(dim=0).cpu()

    named, n_images = job.named(), job.setting("images", 2)
    means: dict[str, dict[tuple[str, int], torch.Tensor]] = {}
    for group, prompts in named.items():
        means[group], drawn = {}, 0
        for number, text in enumerate(prompts.values()):
            requests = [GenerationRequest(f"{number}/{i}", text, job.seed + i) for i in range(n_images)]
            job.generator.batch_size = n_images
            hooks = [network.register_forward_pre_hook(begin, with_kwargs=True)]
            hooks += [
                layer.register_forward_hook(lambda *call, name=name: note(name, call[-1], n_images))
                for name, layer in layers.items()
            ]
            step[0], drawn = -1, drawn + n_images
            times.clear()
            list(job.generator.generate(requests))
            for hook in hooks:
                hook.remove()
        means[group] = {key: total / drawn for key, total in sums.items()}
        sums.clear()
        job.say(f"{group}: {drawn} images under {len(prompts)} prompts that name it")
    tensors = {"timesteps": torch.tensor(times)}
    for name in layers:
        steps = torch.stack(
            [torch.stack([means[group][name, at] for group in job.target]) for at in range(len(times))]
        )  # steps × groups × channels
        tensors[f"middles/{name}"] = steps.mean(dim=1)
        tensors[f"apart/{name}"] = steps - steps.mean(dim=1, keepdim=True)
    return Made("cross-attention", strength=job.setting("strength", 1.0), tensors=tensors, told={"images": n_images})


def lora(job: Job) -> Made:
    """Train a LoRA whose images follow the target: by the network's own answers, or by their leaning."""
    import importlib.util

    loss = job.setting("loss", LOSSES[0])
    if loss not in LOSSES:
        raise InvalidInputError.expected_one_of(LOSSES, loss, field="loss")
    if importlib.util.find_spec("peft") is None:
        raise ModelError.lacks_package("peft", "peft", field="method")
    if loss == "score" and len(job.target) != 2:
        raise InvalidInputError.out_of_range(
            f"found {', '.join(job.target)}; the score tells two groups apart, so name two", field="target"
        )
    from clinometer.mitigation.lora import AnswerSettings, ImageReader, ScoreSettings, train_answers, train_scores

    pipeline = _encoding(job, "lora")
    names = {"steps": "training_steps", "learning_rate": "learning_rate"}
    chosen = {name: job.settings[option] for name, option in names.items() if job.settings.get(option) is not None}
    shares = {concept: job.target_of(concept) for concept in job.prompts}
    if loss == "answers":
        state, measured = train_answers(
            pipeline, prompts=job.prompts, named=job.named(), shares=shares, sampler_steps=SAMPLED,
            settings=AnswerSettings(seed=job.seed, **chosen), say=job.say,
        )  # fmt: skip
        scale, slopes = _scale(job, pipeline.unet)
        state = {name: value * scale if "lora_B" in name else value for name, value in state.items()}
        return Made("weights", lora=state, told=measured | {"scale": scale, "off the target, of before": slopes})
    named = [text for prompts in job.named().values() for text in prompts.values()]
    attributes = {group: [each.prompt for each in job.suite.groups[group].prompts] for group in job.suite.groups}
    state, measured = train_scores(
        pipeline,
        ImageReader.of(job.setting("encoder", "reference")),
        prompts=job.prompts,
        named=[*named, *(text for prompts in attributes.values() for text in prompts)],
        attributes={group: attributes[group] for group in job.target},
        words={group: job.suite.groups[group].words for group in job.target},
        shares=shares,
        sampler_steps=SAMPLED,
        settings=ScoreSettings(seed=job.seed, **chosen),
        say=job.say,
    )
    return Made("weights", lora=state, told=measured)


def _scale(job: Job, network: Any) -> tuple[float, dict[str, float]]:
    """Find how strongly a LoRA is to act: where its images, as an encoder reads them, are no longer off the target.

    At scale s, b(s) = Σ off(s) off(0) / Σ off(0)² over concepts and groups, from the same noise, is what is left of
    how far shares were off before, 1 at s = 0. b is taken to be a line through the last two scales, and s is where it
    meets 0.
    """
    weights = {name: value for name, value in network.named_parameters() if "lora_B" in name}
    trained = {name: value.detach().clone() for name, value in weights.items()}
    some = list(job.prompts)[:: max(1, len(job.prompts) // CALIBRATED)][:CALIBRATED]
    reader, n_images, target = _Reader(job), job.setting("images", 8), np.stack([_wanted(job, each) for each in some])
    job.generator.batch_size = n_images
    left: dict[float, float] = {}
    before = np.zeros(0)
    for scale in SCALES:
        for name, value in weights.items():
            value.data.copy_(trained[name] * scale)
        off = np.stack([reader.shares(job.generator, job.prompts[each], n_images) for each in some]) - target
        before = off if not before.size else before
        if not before.any():
            return 1.0, {}
        left[scale] = float((off * before).sum() / max((before**2).sum(), 1e-12))
        job.say(f"scale {scale:g}: {left[scale]:.0%} of how far shares were off the target")
        if left[scale] <= ENOUGH:
            break
    *_, last = left
    low = last - 1.0
    chosen = last if left[last] > ENOUGH else low + left[low] / (left[low] - left[last])
    return round(min(chosen, SCALES[-1]), 2), {f"{scale:g}": round(value, 3) for scale, value in left.items()}


def _wanted(job: Job, concept: str) -> np.ndarray:
    """Return the shares that a concept's images are to have, in the order of the job's target."""
    return np.array([job.target_of(concept)[group] for group in job.target])


def _encoding(job: Job, method: str) -> Any:
    """Return the pipeline of a model that is guided by one text encoder."""
    from clinometer.models.diffusers.mitigated import require_embeddings

    pipeline = job.pipeline(method)
    require_embeddings(pipeline, method)
    return pipeline


def _embedding(pipeline: Any, text: str) -> Any:
    """Encode a text as the network reads it, (tokens × d)."""
    import torch

    with torch.no_grad(), one_thread():
        return pipeline.encode_prompt(text, pipeline._execution_device, 1, False)[0][0].float().cpu()


class _Reader:
    """Draws few images of prompts, and reads each as the group whose words it is nearest to."""

    def __init__(self, job: Job) -> None:
        self._seed = job.seed
        self._encoder: Any = load_encoder(job.setting("encoder", "reference"))
        words = [self._encoder.encode_texts(list(job.suite.groups[group].words)) for group in job.target]
        self._words = np.stack([unit_vectors(np.asarray(each)).mean(axis=0) for each in words])

    def shares(self, generator: Any, text: str, n: int) -> np.ndarray:
        """Return the share of each group of the target in ``n`` images of a prompt."""
        requests = [GenerationRequest(str(i), text, self._seed + i) for i in range(n)]
        images = [result.image for result in generator.generate(requests) if result.image is not None]
        if not images:
            raise ModelError.undefined(f"no image of {text!r} could be drawn, so nothing can be chosen by images")
        nearest = (unit_vectors(np.asarray(self._encoder.encode_images(images))) @ self._words.T).argmax(axis=1)
        return np.bincount(nearest, minlength=len(self._words)) / len(nearest)
