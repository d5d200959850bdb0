"""A finished run traced: its images drawn again, and what the model took them for on the way kept beside them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from clinometer.errors import ModelError, RunMismatchError, RunNotFoundError
from clinometer.models.protocols import Encoder, Generator
from clinometer.pipeline.audits import require_traced
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.results import refresh_report, score
from clinometer.runs import Progress
from clinometer.runs.encoding import require_drawn
from clinometer.runs.record import card_record, difference_between
from clinometer.runs.store import Run
from clinometer.runs.tracing import WatchedGenerator, trace_parts

FROM_CARD: Final = (
    "steps", "guidance_scale", "prior_steps", "prior_guidance_scale", "height", "width", "negative_prompt", "dtype",
)  # fmt: skip
"""Settings of a card that a model is loaded with to draw the same images again."""


def trace_run(
    run: Run,
    progress: Progress,
    *,
    model: str | Generator | None = None,
    encoder: str | Encoder | Sequence[str | Encoder] = (),
    model_options: Mapping[str, Any] | None = None,
    steps: str | int | Sequence[int] | None = None,
    decoder: str | None = None,
    latents: bool = False,
    device: str = "auto",
) -> None:
    """Draw a run's images again, keep what is seen on the way, score the run anew and report it.

    Raises
    ------
    RunError, ModelError, SuiteError
        The run is not drawn to the end, holds no images that a model here can draw, or was drawn by another model;
        its study follows no way; the model cannot be watched; an encoder is another one of that name.
    """
    run.require_images("a trace")
    require_drawn(run)
    if run.record["origin"] != "generated":
        raise RunNotFoundError(f"{run.url}: its images were imported, and nothing is known of how they were drawn")
    require_traced(run.suite)
    if run.record.get("until") is not None:
        raise RunMismatchError(
            f"{run.url}: it was drawn until decided, and what is traced has no intervals that hold then; trace a run "
            "of a fixed number of images"
        )
    models = Models()
    encoders, _ = models.encoders(encoder or tuple(run.encoder_cards), device)
    for each in encoders:
        if each.card.name not in run.encoder_cards:
            raise RunNotFoundError(
                f"{run.url}: encoder {each.card.name} has not finished; give: clinometer score {run.url} --encoder "
                f"{each.card.name}",
                field="encoder",
            )
        run.encoders.require(each.card)
    generator = _same_model(run, model, model_options or {}, models, device)
    watched = WatchedGenerator(generator, encoders, steps=steps, decoder=decoder, latents=latents)
    with run.directory.locked():
        run.traces.begin(watched.watches)
        trace_parts(run, watched, progress)
        run.end_stage()
        score(run, progress)
        refresh_report(run)


def _same_model(
    run: Run, model: str | Generator | None, options: Mapping[str, Any], models: Models, device: str
) -> Generator:
    """Load the model that drew a run, at the settings of its card, and refuse another."""
    card = run.model_card
    own: dict[str, Any] = {}
    if model is None or isinstance(model, str | os.PathLike):
        own = {name: card["settings"][name] for name in FROM_CARD if card["settings"].get(name) is not None}
    try:
        generator, _ = models.generator(model or card["name"], own | dict(options), device)
    except ModelError as error:
        raise ModelError(f"{error}; or give --model and the options that the run was begun with") from error
    if generator.card.fingerprint != card["fingerprint"]:
        raise RunMismatchError(
            f"{run.url}: drawn by another model than {generator.card.name} "
            f"({difference_between(card, card_record(generator.card))}); give --model and the options that the run was "
            "begun with"
        )
    size = run.record.get("batch_size")
    if size:
        generator.batch_size = size  # a part's batches, as they were
    return generator
