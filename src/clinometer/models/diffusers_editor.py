"""Editing with a diffusers pipeline: image to image, as its users do it (SDEdit, Meng et al. 2022)."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any, cast

from diffusers import AutoPipelineForImage2Image

from clinometer.errors import ModelError
from clinometer.models.conditioning import Conditioning
from clinometer.models.diffusers_generator import DiffusersGenerator
from clinometer.models.protocols import Card, EditRequest, GenerationRequest, GenerationResult


class DiffusersEditor(DiffusersGenerator):
    """Changes images towards a prompt, by noising them in part and denoising them under the prompt.

    All components are those of the generator's pipeline; nothing is loaded again. Every image has its own CPU
    generator, so that neither batch nor place in it changes the result.
    """

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[GenerationResult]:
        """Yield one result for each request, in their order; outcomes as `DiffusersGenerator.generate`."""
        for _, same in groupby(requests, key=lambda request: request.strength):
            yield from self.generate(same)  # a call of the pipeline has one strength

    def _results(self, batch: Sequence[GenerationRequest]) -> list[GenerationResult]:
        requests = cast("Sequence[EditRequest]", batch)
        started = perf_counter()
        arguments = self._conditioning([each.prompt for each in batch], [each.seed for each in batch])
        arguments.pop("latents", None)  # the noise comes on top of the image, from the same generators
        size = (self._call["width"], self._call["height"]) if "width" in self._call else None
        images = [each.image if size in (None, each.image.size) else each.image.resize(size) for each in requests]
        taken = inspect.signature(self.pipeline.__call__).parameters
        call = {name: value for name, value in self._call.items() if name in taken}
        output = self.pipeline(**call, **arguments, image=images, strength=requests[0].strength, output_type="np")
        return self._judged(batch, output, started)


def editor_of(
    pipeline: Any, card: Card, *, call: dict[str, Any], conditioning: Conditioning, batch_size: int
) -> DiffusersEditor:
    """Make an editor of a text-to-image pipeline's components.

    Raises
    ------
    ModelError
        diffusers has no image-to-image pipeline for it.
    """
    try:
        editing = AutoPipelineForImage2Image.from_pipe(pipeline)
    except Exception as error:  # ValueError for a family without one, others for a component it lacks
        raise ModelError(
            f"{card.name}: a {type(pipeline).__name__} has no image-to-image pipeline in diffusers; "
            "expected one that edits images, for a suite of study editing"
        ) from error
    editing.set_progress_bar_config(disable=True)
    return DiffusersEditor(editing, card, call=call, conditioning=conditioning, batch_size=batch_size)
