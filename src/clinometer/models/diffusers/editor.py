"""Editing with a diffusers pipeline: image to image, as its users do it (SDEdit, Meng et al. 2022)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, cast

from diffusers import AutoPipelineForImage2Image

from clinometer.errors import ModelError
from clinometer.models.diffusers.conditioning import Conditioning
from clinometer.models.diffusers.generator import DiffusersGenerator
from clinometer.models.diffusers.loading import call_parameters
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

    def _output(self, batch: Sequence[GenerationRequest]) -> Any:
        requests = cast("Sequence[EditRequest]", batch)
        arguments = self._conditioning([request.prompt for request in batch], [request.seed for request in batch])
        arguments.pop("latents", None)  # the noise comes on top of the image, from the same generators
        size = (self._call["width"], self._call["height"]) if "width" in self._call else None
        images = [
            request.image if size in (None, request.image.size) else request.image.resize(size) for request in requests
        ]
        parameters = call_parameters(self.pipeline)
        call = {name: value for name, value in self._call.items() if name in parameters}
        return self.pipeline(**call, **arguments, image=images, strength=requests[0].strength, output_type="np")


def editor_of(
    pipeline: Any, card: Card, *, call: dict[str, Any], conditioning: Conditioning, batch_size: int
) -> DiffusersEditor:
    """Make an editor of a text-to-image pipeline's components.

    Raises
    ------
    ModelError
        diffusers has no image-to-image pipeline for it.
    """
    none = ModelError(
        f"{card.name}: a {type(pipeline).__name__} has no image-to-image pipeline in diffusers; "
        "expected one that edits images, for a suite of study editing"
    )
    try:
        editing = AutoPipelineForImage2Image.from_pipe(pipeline)
    except Exception as error:  # ValueError for a family without one, others for a component it lacks
        raise none from error
    if "strength" not in call_parameters(editing):  # it draws anew beside the image (FLUX.2), to no degree
        raise none
    editing.set_progress_bar_config(disable=True)
    return DiffusersEditor(editing, card, call=call, conditioning=conditioning, batch_size=batch_size)
