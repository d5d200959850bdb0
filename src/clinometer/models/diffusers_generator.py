"""The generation loop over a diffusers pipeline: batches in, an outcome for every request out.

The pipeline is driven through its public ``__call__``, so that what is audited is what its users run; the
loop around it adds what an audit needs: a seed of its own for each image, prompts encoded once, and a reason
where there is no image.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from clinometer._torch import torch
from clinometer.models.batching import BatchBounds, Batches, largest_batch
from clinometer.models.conditioning import Conditioning
from clinometer.models.diffusers_denoiser import DiffusersDenoiser
from clinometer.models.diffusers_settings import FIXED, trial_call
from clinometer.models.images import blank_reason
from clinometer.models.protocols import Card, GenerationRequest, GenerationResult

if TYPE_CHECKING:
    from clinometer.models.diffusers_editor import DiffusersEditor
    from clinometer.models.diffusers_prior import DiffusersPrior

REFUSED = "the pipeline's safety checker flagged it"
NOT_FINITE = "the model returned values that are not finite; try dtype float32"


class DiffusersGenerator:
    """Draws images with a diffusers text-to-image pipeline.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    card : what it is; its settings already hold everything that changes an output.
    call : further arguments of every pipeline call: steps, guidance, size.
    conditioning : makes the arguments that carry a batch's prompts and noise.
    batch_size : images a call, or the bounds between which `fit_batch_size` looks for it; until then the first of
        them. Halved for good when the device runs out of memory.
    """

    def __init__(
        self,
        pipeline: Any,
        card: Card,
        *,
        call: dict[str, Any],
        conditioning: Conditioning,
        batch_size: int | BatchBounds,
    ) -> None:
        self.pipeline = pipeline
        self.card = card
        self._batches = Batches(batch_size.start if isinstance(batch_size, BatchBounds) else batch_size)
        self._bounds = batch_size if isinstance(batch_size, BatchBounds) else None
        self._is_fitted = False
        self._call = call
        self._conditioning = conditioning

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield one result for each request, in their order.

        An image that cannot be drawn has status "failed" and the reason; one that the safety checker flags is
        "refused"; one of a single colour is "blank" and is kept. The requests are read a batch at a time.
        """
        yield from self._batches.attempt(requests, self._results, _failed)

    @property
    def batch_size(self) -> int:
        """Images a call."""
        return self._batches.size

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._batches.size = size

    def fit_batch_size(self, prompt: str, *, known: int | None = None) -> None:
        """Make ``batch_size`` the largest that memory holds; one that was asked for stays as it is.

        Trial calls draw ``prompt`` in few steps, in batches that double until memory runs out. Nothing is tried twice,
        nor where the bounds leave no choice.

        Parameters
        ----------
        prompt : the longest that will be drawn.
        known : what was found before on the same question: taken without a trial.
        """
        if self._bounds is None:
            return
        if known is not None:
            self.batch_size = known
        elif not self._is_fitted and self._bounds.start < self._bounds.most:
            self.batch_size = largest_batch(partial(self._try, prompt), self._bounds)
        self._is_fitted = True

    def denoiser(self) -> DiffusersDenoiser:
        """Return the same pipeline as a measure of how well it denoises an image: what classifies with it.

        Raises
        ------
        ModelError
            Its scheduler or its network is of a kind that cannot be scored.
        """
        size = self._call.get("height"), self._call.get("width")
        options = {name: value for name, value in self._call.items() if name in FIXED}
        return DiffusersDenoiser(self.pipeline, self.card, size=size, batch_size=self.batch_size, options=options)

    def editor(self) -> DiffusersEditor:
        """Return the same pipeline as an editor of images.

        Raises
        ------
        ModelError
            It has no image-to-image pipeline.
        """
        from clinometer.models.diffusers_editor import editor_of

        return editor_of(
            self.pipeline, self.card, call=self._call, conditioning=self._conditioning, batch_size=self.batch_size
        )

    def prior(self) -> DiffusersPrior:
        """Return the first stage of the same pipeline: what draws the image embeddings that its images are drawn from.

        Raises
        ------
        ModelError
            It has no prior that gives an image embedding.
        """
        from clinometer.models.diffusers_prior import DiffusersPrior

        return DiffusersPrior(
            self.pipeline, self.card, call=self._call, conditioning=self._conditioning, batch_size=self.batch_size
        )

    def _try(self, prompt: str, size: int) -> None:
        """Draw a batch for its need of memory alone."""
        arguments = self._conditioning([prompt] * size, list(range(size)))
        self.pipeline(**trial_call(self._call), **arguments, output_type="np")

    def _results(self, batch: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """Draw a batch in one pipeline call."""
        started = perf_counter()
        arguments = self._conditioning([each.prompt for each in batch], [each.seed for each in batch])
        output = self.pipeline(**self._call, **arguments, output_type="np")
        return self._judged(batch, output, started)

    def _judged(self, batch: Sequence[GenerationRequest], output: Any, started: float) -> list[GenerationResult]:
        """Judge each image of a call's output; ``started`` is when the call began."""
        seconds = (perf_counter() - started) / len(batch)
        flags = getattr(output, "nsfw_content_detected", None) or [False] * len(batch)
        values = torch.from_numpy(np.asarray(output.images))  # torch takes all cores; the device waits for this
        finite = values.isfinite().flatten(1).all(dim=1).tolist()
        pixels = (values * 255).round().to(torch.uint8).numpy()
        drawn = zip(batch, pixels, finite, flags, strict=True)
        return [replace(_outcome(*each), seconds=seconds) for each in drawn]


def _failed(request: GenerationRequest, reason: str, seconds: float) -> GenerationResult:
    return GenerationResult(request.id, "failed", None, reason, seconds)


def _outcome(request: GenerationRequest, pixels: np.ndarray, finite: bool, flagged: bool) -> GenerationResult:
    """Judge one drawn image: pixels (height, width, 3) uint8."""
    if flagged:
        return GenerationResult(request.id, "refused", None, REFUSED)
    if not finite:
        return GenerationResult(request.id, "failed", None, NOT_FINITE)
    image = Image.fromarray(pixels)
    reason = blank_reason(image)
    return GenerationResult(request.id, "blank" if reason else "ok", image, reason)
