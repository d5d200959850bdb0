"""What a diffusers pipeline is given for a batch: prompts encoded once, and for each image its own noise.

Pipelines differ in what they take. Those whose prompt encoder is known here get text embeddings and, where their
latents are a grid, first latents made in advance; any other is given the prompts and a random generator for each image,
and does the same work itself.

A model of two stages has a prior, from a text to the image embedding that its decoder draws the image from. See
decision 18.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import diffusers
import numpy as np

from clinometer._cores import one_thread
from clinometer._torch import dtype_name, torch
from clinometer.errors import ModelError
from clinometer.models.batching import Batches
from clinometer.models.diffusers.denoiser import network_of
from clinometer.models.diffusers.mitigated import Mitigator
from clinometer.models.mitigation import Mitigation
from clinometer.models.protocols import Card, DrawsInTwoStages, GenerationRequest, offers

_POOLED = ("prompt_embeds", "negative_prompt_embeds", "pooled_prompt_embeds", "negative_pooled_prompt_embeds")
ENCODE_PROMPT_OUTPUTS: dict[str, tuple[str | None, ...]] = {
    "StableDiffusionPipeline": ("prompt_embeds", "negative_prompt_embeds"),
    "StableDiffusionXLPipeline": _POOLED,
    "StableDiffusion3Pipeline": _POOLED,
    "LatentConsistencyModelPipeline": ("prompt_embeds", None),
    "FluxPipeline": ("prompt_embeds", "pooled_prompt_embeds", None),
    "CogView4Pipeline": ("prompt_embeds", "negative_prompt_embeds"),
}
"""The outputs of ``encode_prompt`` by their names as arguments of ``__call__``; None for what that does not take."""

OWN_NOISE = ("FluxPipeline", "CogView4Pipeline")
"""Pipelines that draw their own noise: their latents are rows of patches and not a grid, or float32 at any precision.
"""

MAX_CACHED_PROMPTS = 1024


class PromptEmbeddings:
    """The text embeddings of a pipeline's prompts, each distinct prompt encoded once and alone.

    Encoding one at a time, in one thread, keeps an embedding from depending on which prompts it shares a batch with
    and on how many cores there are.

    Parameters
    ----------
    pipeline : a pipeline whose class is in `ENCODE_PROMPT_OUTPUTS`.
    guided : whether classifier-free guidance needs the unconditional embedding too.
    negative_prompt : what the unconditional embedding encodes; None leaves it to the pipeline (most take
        ``""``).
    """

    def __init__(self, pipeline: Any, *, guided: bool, negative_prompt: str | None) -> None:
        self._pipeline = pipeline
        self._names = ENCODE_PROMPT_OUTPUTS[type(pipeline).__name__]
        self._guided = guided
        self._negative_prompt = negative_prompt
        self._encode = lru_cache(maxsize=MAX_CACHED_PROMPTS)(self._encode_uncached)

    def __call__(self, prompts: Sequence[str]) -> dict[str, torch.Tensor]:
        """Stack the embeddings of ``prompts``: by name, (len(prompts), …).

        Those that differ in length cannot be stacked, and torch says so: such a batch fails, and its images are drawn
        alone. CogView4 would pad them to the longest, and let its network read the padding.
        """
        encoded = [self._encode(prompt, False) for prompt in prompts]
        stacked = {name: torch.cat([embeddings[name] for embeddings in encoded]) for name in encoded[0]}
        if self._guided:
            unconditional = self._encode("", True)
            for name, value in unconditional.items():
                if name.startswith("negative_"):
                    stacked[name] = value.expand(len(prompts), *value.shape[1:])
        return stacked

    def _encode_uncached(self, prompt: str, unconditional: bool) -> dict[str, torch.Tensor]:
        with torch.inference_mode(False), torch.no_grad(), one_thread():
            arguments = {
                "prompt": prompt,
                "device": self._pipeline._execution_device,
                "num_images_per_prompt": 1,
                "do_classifier_free_guidance": unconditional,
                "negative_prompt": self._negative_prompt if unconditional else None,
            }
            parameters = inspect.signature(type(self._pipeline).encode_prompt).parameters
            # Not all take None for every prompt of theirs, but all who ask for a second fall back to the first.
            arguments |= {name: None for name in ("prompt_2", "prompt_3") if name in parameters}
            outputs = self._pipeline.encode_prompt(
                **{name: value for name, value in arguments.items() if name in parameters}
            )
        named = zip(self._names, outputs, strict=True)
        return {name: value for name, value in named if name is not None and value is not None}


class Conditioning:
    """Turns a batch of prompts and seeds into the arguments of one pipeline call.

    Every image has a random generator of its own on the CPU, seeded by its request alone. Its first latents
    are drawn from it in float32 and then moved and rounded, so neither the device, nor the batch, nor its
    place in the batch can change them; a stochastic scheduler goes on drawing from the same generator.

    torch's CPU generator uses the low 32 bits of a seed. A ``mitigator`` rewords prompts and changes embeddings, and
    is informed which images the call is about to draw.
    """

    def __init__(
        self,
        pipeline: Any,
        *,
        size: tuple[int, int] | None,
        guided: bool,
        negative_prompt: str | None,
        mitigator: Mitigator | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._options: dict[str, Any] = {
            "size": size, "guided": guided, "negative_prompt": negative_prompt, "mitigator": mitigator
        }  # fmt: skip
        self._negative_prompt = negative_prompt
        self._mitigator = mitigator
        self._embeddings: PromptEmbeddings | None = None
        self._latent_shape: tuple[int, ...] | None = None
        outputs = ENCODE_PROMPT_OUTPUTS.get(type(pipeline).__name__, ())
        by_negative = "negative_prompt_embeds" in outputs
        # a pipeline without a negative embedding encodes its negative prompt itself
        if size is not None and outputs and (by_negative or negative_prompt is None):
            self._embeddings = PromptEmbeddings(
                pipeline, guided=guided and by_negative, negative_prompt=negative_prompt
            )  # fmt: skip
            if type(pipeline).__name__ not in OWN_NOISE:
                height, width = (side // pipeline.vae_scale_factor for side in size)
                network: Any = network_of(pipeline)
                self._latent_shape = (1, int(network.config.in_channels), height, width)

    @property
    def mitigation(self) -> Mitigation | None:
        """The mitigation of each batch; None without one."""
        return None if self._mitigator is None else self._mitigator.mitigation

    def changed(self, **options: Any) -> Conditioning:
        """Return the same with another option: ``guided``, where it is not so already, or the ``mitigator``."""
        options = self._options | options
        return self if options == self._options else Conditioning(self._pipeline, **options)

    def __call__(self, prompts: Sequence[str], seeds: Sequence[int]) -> dict[str, Any]:
        """Make the keyword arguments that carry the prompts and the noise of a batch."""
        generators = [torch.Generator("cpu").manual_seed(seed) for seed in seeds]
        # Some take one generator and no list of them; a batch then fails as a whole, and its images are drawn alone.
        arguments: dict[str, Any] = {"generator": generators if len(generators) > 1 else generators[0]}
        original_prompts, mitigator = prompts, self._mitigator
        if mitigator is not None:
            prompts = [mitigator.mitigation.worded(*each) for each in zip(original_prompts, seeds, strict=True)]
        if self._embeddings is None:
            arguments["prompt"] = list(prompts)
            if self._negative_prompt is not None:
                arguments["negative_prompt"] = [self._negative_prompt] * len(prompts)
        else:
            arguments |= self._embeddings(prompts)
        if mitigator is not None:
            mitigator.intervene(original_prompts, seeds, arguments)
        if self._latent_shape is None:
            return arguments
        noise = [torch.randn(self._latent_shape, generator=generator, dtype=torch.float32) for generator in generators]
        arguments["latents"] = torch.cat(noise).to(arguments["prompt_embeds"])
        return arguments


PRIOR: Final = "own:prior"
"""The name of its embeddings in a run and in the scores."""

NOT_FINITE = "the prior returned values that are not finite; try dtype float32"

PriorCall = Callable[[Any, dict[str, Any]], torch.Tensor]
"""From a pipeline and the arguments of its call to the image embeddings (n, d) that its decoder is given."""


@dataclass(frozen=True)
class PriorEmbedding:
    """One image embedding (d,) float32, not normalised, or the reason why there is none."""

    id: str
    vector: np.ndarray | None
    reason: str | None = None


class DiffusersPrior:
    """Draws image embeddings from prompts: text → **image embedding** → image.

    The pipeline's own code draws them, with the prior's own steps and guidance. The prior is the first to take noise
    from a request's generator, so the embedding of a request is the one that its image is drawn from
    (`DiffusersGenerator.generate`), and depends on the batch no more than the image does.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    model : its card.
    call : the further arguments of every pipeline call.
    conditioning : makes the arguments that carry a batch's prompts and noise.
    batch_size : embeddings a call. Halved for good when the device runs out of memory.

    Raises
    ------
    ModelError
        The pipeline has no prior whose result is one vector for each image.
    """

    def __init__(
        self, pipeline: Any, model: Card, *, call: dict[str, Any], conditioning: Conditioning, batch_size: int
    ) -> None:
        prior, self._draw = _prior_of(pipeline)
        self._pipeline = pipeline
        self._call = call
        self._conditioning = conditioning
        self._batches = Batches(batch_size)
        self.card = Card(
            kind="encoder",
            name=PRIOR,
            family=f"diffusers/{type(prior).__name__}",
            revision=model.revision,
            weights_sha256=model.weights_sha256,
            settings={"model": model.name, "vector": "image embedding drawn by the prior"}
            | {name: value for name, value in model.settings.items() if name.startswith("prior_")}
            | {"dtype": dtype_name(prior.dtype)},
        )

    def embed(self, requests: Iterable[GenerationRequest]) -> Iterator[PriorEmbedding]:
        """Yield one result for each request, in their order."""

        def outcomes(batch: Sequence[GenerationRequest]) -> list[PriorEmbedding]:
            arguments = self._conditioning([request.prompt for request in batch], [request.seed for request in batch])
            with one_thread():
                vectors = self._draw(self._pipeline, self._call | arguments).float().cpu().numpy()
            self._pipeline.maybe_free_model_hooks()  # what was offloaded waits for its turn again
            finite = [bool(np.isfinite(vector).all()) for vector in vectors]
            return [
                PriorEmbedding(request.id, vector) if is_finite else PriorEmbedding(request.id, None, NOT_FINITE)
                for request, vector, is_finite in zip(batch, vectors, finite, strict=True)
            ]

        def failed(request: GenerationRequest, reason: str, seconds: float) -> PriorEmbedding:
            return PriorEmbedding(request.id, None, reason)

        yield from self._batches.attempt(requests, outcomes, failed)


def _prior_of(pipeline: Any) -> tuple[Any, PriorCall]:
    """Find the prior's network and where its embeddings appear: in its own pipeline, or before the decoder.

    `diffusers.PriorTransformer` (DALL-E 2, UnCLIP, Kandinsky 2) predicts one vector of CLIP's image space. Other priors
    (Stable Cascade) give a grid, which no cosine compares.
    """
    for network in pipeline.components.values():
        if isinstance(network, diffusers.PriorTransformer):
            if hasattr(pipeline, "prior_pipe"):  # Kandinsky's prior is a pipeline inside the pipeline
                return network, _by_its_pipeline
            if hasattr(pipeline, "text_proj"):
                return network, _before_the_decoder
    raise ModelError.unsupported(f"a {type(pipeline).__name__} has no prior that gives an image embedding")


def _by_its_pipeline(pipeline: Any, arguments: dict[str, Any]) -> torch.Tensor:
    """Return the embeddings of Kandinsky, whose prior is a pipeline inside the pipeline."""
    of_prior = {name.removeprefix("prior_"): value for name, value in arguments.items() if name.startswith("prior_")}
    carried = {name: arguments[name] for name in ("prompt", "negative_prompt", "generator") if name in arguments}
    embeddings: torch.Tensor = pipeline.prior_pipe(**of_prior, **carried, output_type="pt").image_embeds
    return embeddings


class _Reached(Exception):  # noqa: N818 - no error: the prior is done
    """The decoder's first module was given the embeddings."""


def _before_the_decoder(pipeline: Any, arguments: dict[str, Any]) -> torch.Tensor:
    """Return UnCLIP's embeddings by ending its one call where they reach the decoder's projection."""
    embeddings: list[torch.Tensor] = []

    def end(module: Any, positional: tuple[Any, ...], named: dict[str, Any]) -> None:
        embeddings.append(named["image_embeddings"])
        raise _Reached

    handle = pipeline.text_proj.register_forward_pre_hook(end, with_kwargs=True)
    try:
        with suppress(_Reached):
            pipeline(**arguments, output_type="np")
    finally:
        handle.remove()
    return embeddings[0]


def prior_of(generator: Any) -> DiffusersPrior | None:
    """Return the prior of a loaded generator; None where it has none, or shows no pipeline."""
    try:
        prior: DiffusersPrior | None = generator.prior() if offers(generator, DrawsInTwoStages) else None
    except ModelError:
        return None
    return prior
