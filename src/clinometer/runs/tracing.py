"""Tracing: what a run's images were taken for on the way, drawn with them or again, embedded and kept part by part.

How it is stored, :mod:`clinometer.runs.traces` says. It follows from the images' own noise, so a part that is traced
again is the same. See decision 59.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from PIL import Image

from clinometer.errors import ModelError
from clinometer.models.images import encode_png, sha256
from clinometer.models.protocols import (
    Encoder,
    Estimate,
    GenerationRequest,
    GenerationResult,
    Generator,
    Traces,
    offers,
)
from clinometer.runs.embeddings import LEAVES_OUT, NO_VECTORS, require_vectors
from clinometer.runs.plan import Sample
from clinometer.runs.progress import Progress, naming_errors

if TYPE_CHECKING:
    from clinometer.runs.run import Run

STRIP_SIDE: Final = 192
"""Pixels of their longer side, at most."""


class WatchedGenerator:
    """A generator whose intermediate images are kept, and the encoders that embed them.

    Parameters
    ----------
    generator : draws, and can be watched.
    encoders : who embeds what is seen.
    steps, decoder, latents : which steps to trace, how, and whether to keep the latents; see
        :meth:`clinometer.models.protocols.Traces.traced`.

    Raises
    ------
    ModelError
        The generator cannot be watched, or draws in no such step.
    """

    def __init__(
        self,
        generator: Generator,
        encoders: Sequence[Encoder],
        *,
        steps: Any = None,
        decoder: str | None = None,
        latents: bool = False,
    ) -> None:
        if not offers(generator, Traces):
            raise ModelError.unsupported(
                f"{generator.card.name}: a {generator.card.family} shows its finished images alone, and no steps of "
                "drawing them; give a diffusers model, or leave the trace out",
                field="trace",
            )
        self._watched = generator.traced(steps, decoder=decoder, keep_latents=latents)
        self.watchers = tuple(each for each in encoders if not each.card.settings.get(LEAVES_OUT))
        if encoders and not self.watchers:
            name = encoders[0].card.name
            raise ModelError.unsupported(
                f"{name}: it does not embed every image, and none of the first steps; add another encoder"
            )
        self.watches = {
            "steps": list(self._watched.traced_steps),
            "total": self._watched.traced_total,
            "decoder": decoder,
            "latents": latents,
        }

    @property
    def batch_size(self) -> int:
        """Images a call."""
        return int(self._watched.batch_size)

    @batch_size.setter
    def batch_size(self, size: int) -> None:
        self._watched.batch_size = size

    def __getattr__(self, name: str) -> Any:
        if name == "_watched":
            raise AttributeError(name)
        return getattr(self._watched, name)


class PartTracer:
    """Holds what is seen of the part in hand on the way to its images, until it is embedded and written."""

    def __init__(self, run: Run, watchers: Sequence[Encoder]) -> None:
        self._run, self.watchers = run, watchers
        self._seen: dict[str, Sequence[Estimate]] = {}

    def take(self, result: GenerationResult) -> GenerationResult:
        """Store what was seen on the way to an image, and return the rest."""
        if result.status == "ok":
            self._seen[result.id] = result.trace
        return replace(result, trace=())

    def taken(self, part: int, samples: Sequence[Sample]) -> dict[str, Sequence[Estimate]]:
        """Return what was seen of a part; nothing for one that held some images before, which is traced again."""
        seen, self._seen = self._seen, {}
        return seen if len(samples) == len(self._run.parts[part]) else {}

    def write(self, part: int, seen: Mapping[str, Sequence[Estimate]]) -> None:
        """Embed and write it; an image of which a step is missing, or not finite, is left out."""
        traces, steps = self._run.traces, self._run.traces.record["steps"]
        estimates: list[tuple[str, int, Any, np.ndarray | None]] = []
        for key, trace in seen.items():
            if [estimate.step for estimate in trace] == steps and all(estimate.image for estimate in trace):
                estimates += [(key, estimate.step, estimate.image, estimate.latents) for estimate in trace]
        images, vectors = [image for _, _, image, _ in estimates], dict[str, np.ndarray]()
        for encoder in self.watchers:
            name, names = encoder.card.name, [f"{key}, step {step}" for key, step, *_ in estimates]
            with naming_errors("encoder", name):
                vectors[name] = require_vectors(encoder.encode_images(images), name, names) if images else NO_VECTORS
        shown = traces.shown(part)
        latents = [values for *_, values in estimates if values is not None] if traces.record.get("latents") else None
        pictures: list[bytes | None] = []
        for key, _, image, _ in estimates:
            small = image.copy() if key in shown else None
            if small is not None:
                small.thumbnail((STRIP_SIDE, STRIP_SIDE), Image.Resampling.LANCZOS)
            pictures.append(None if small is None else encode_png(small))
        traces.write(part, [(key, step) for key, step, *_ in estimates], vectors, pictures, latents)


def tracer_of(run: Run, generator: object) -> PartTracer | None:
    """Return the tracer of a generator that is watched; None for any other, and for a run that records no steps."""
    watchers = getattr(generator, "watchers", None)
    return None if watchers is None or not run.traces.record else PartTracer(run, watchers)


def parts_without_trace(run: Run, generator: Generator) -> list[int] | None:
    """List the parts that lack their trace; None for a generator that is not watched."""
    watchers = getattr(generator, "watchers", None)
    return None if watchers is None else run.traces.missing([encoder.card.name for encoder in watchers])


def trace_parts(run: Run, generator: Generator, progress: Progress) -> None:
    """Draw again the images of the parts that lack their trace, and keep what is seen on the way.

    They are drawn in the batches of their part, and the same as those that are there, on the machine that drew them: of
    others a note says how many.
    """
    missing, tracer = parts_without_trace(run, generator), tracer_of(run, generator)
    if not missing or tracer is None:
        return
    parts, others, again = run.parts, 0, 0
    progress.start("tracing", len(run.plan), len(run.plan) - sum(len(parts[part]) for part in missing))
    for part in missing:
        hashes, samples = run.answers.hashes(part), list(parts[part])
        requests = [GenerationRequest(id=s.id, prompt=s.prompt, seed=s.seed) for s in samples]
        with naming_errors("generator", run.model_card["name"]):
            for result in generator.generate(requests):
                if result.image is not None and result.id in hashes:
                    again += 1
                    others += sha256(encode_png(result.image)) != hashes[result.id]
                    tracer.take(result)
        tracer.write(part, tracer.taken(part, samples))
        progress.advance(len(samples))
    progress.finish()
    if others:
        progress.note(
            f"{others} of {again} images that were drawn again differ from those of the run: another machine, device "
            "or version drew them; the trace is that of the new ones"
        )
