"""The prior of a model of two stages: from a text to the image embedding that its decoder draws the image from.

See decision 18.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import diffusers
import numpy as np

from clinometer._torch import dtype_name, torch
from clinometer.errors import ModelError
from clinometer.models.abilities import DrawsInTwoStages, offers
from clinometer.models.batching import Batches
from clinometer.models.diffusers.conditioning import Conditioning
from clinometer.models.protocols import Card, GenerationRequest

PRIOR: Final = "own:prior"
"""What its embeddings go by, in a run and in the scores."""

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
        yield from self._batches.attempt(requests, self._outcomes, _failed)

    def _outcomes(self, batch: Sequence[GenerationRequest]) -> list[PriorEmbedding]:
        arguments = self._conditioning([request.prompt for request in batch], [request.seed for request in batch])
        embeddings = self._draw(self._pipeline, self._call | arguments)
        self._pipeline.maybe_free_model_hooks()  # what was offloaded waits for its turn again
        return list(map(_outcome, batch, embeddings.float().cpu().numpy()))


def _failed(request: GenerationRequest, reason: str, seconds: float) -> PriorEmbedding:
    return PriorEmbedding(request.id, None, reason)


def _outcome(request: GenerationRequest, vector: np.ndarray) -> PriorEmbedding:
    if not np.isfinite(vector).all():
        return PriorEmbedding(request.id, None, NOT_FINITE)
    return PriorEmbedding(request.id, vector)


def _prior_of(pipeline: Any) -> tuple[Any, PriorCall]:
    """The prior's network and how its embeddings are had: from a pipeline of its own, or on their way to the decoder.

    `diffusers.PriorTransformer` (DALL-E 2, UnCLIP, Kandinsky 2) predicts one vector of CLIP's image space. Other priors
    (Stable Cascade) give a grid, which no cosine compares.
    """
    for network in pipeline.components.values():
        if isinstance(network, diffusers.PriorTransformer):
            if hasattr(pipeline, "prior_pipe"):
                return network, _by_its_pipeline
            if hasattr(pipeline, "text_proj"):
                return network, _before_the_decoder
    raise ModelError(f"a {type(pipeline).__name__} has no prior that gives an image embedding")


def _by_its_pipeline(pipeline: Any, arguments: dict[str, Any]) -> torch.Tensor:
    """Kandinsky: the prior is a pipeline inside the pipeline."""
    own = {name.removeprefix("prior_"): value for name, value in arguments.items() if name.startswith("prior_")}
    carried = {name: arguments[name] for name in ("prompt", "negative_prompt", "generator") if name in arguments}
    embeddings: torch.Tensor = pipeline.prior_pipe(**own, **carried, output_type="pt").image_embeds
    return embeddings


class _Reached(Exception):  # noqa: N818 - no error: the prior is done
    """The decoder's first module was given the embeddings."""


def _before_the_decoder(pipeline: Any, arguments: dict[str, Any]) -> torch.Tensor:
    """UnCLIP: one call does both, so it is ended where the embeddings reach the decoder's projection."""
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
    """The prior of a loaded generator; None where it has none, or shows no pipeline."""
    try:
        prior: DiffusersPrior | None = generator.prior() if offers(generator, DrawsInTwoStages) else None
    except ModelError:
        return None
    return prior
