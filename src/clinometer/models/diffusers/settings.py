"""The settings of a diffusers call: ours by name, what the pipeline calls them, and its own defaults made explicit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import Parameter
from math import inf
from typing import Any

import diffusers

from clinometer._messages import nearest
from clinometer.errors import ModelError
from clinometer.models.diffusers.loading import IMAGE_GUIDANCE, call_parameters

CALL_NAMES = {
    "steps": ("num_inference_steps", "decoder_num_inference_steps"),
    "guidance_scale": ("guidance_scale", "true_cfg_scale", "decoder_guidance_scale"),
    "height": ("height",),
    "width": ("width",),
    "prior_steps": ("prior_num_inference_steps",),
    "prior_guidance_scale": ("prior_guidance_scale",),
}
"""Our settings, by the names that pipelines may take them by. Of several, the first that is on by default."""

TRUE_GUIDANCE = "true_cfg_scale"
"""Guidance that some pipelines (Qwen-Image) leave out where no negative prompt is given, whatever its scale."""

EMPTY_NEGATIVE = " "
"""The empty negative prompt of these models, as their authors write it."""

BETWEEN, BETWEEN_STEPS = "intermediate_timesteps", 2
"""An argument that some pipelines (Sana Sprint) set by default, and the only number of steps at which they take it."""

STEP_NAMES = tuple(name for key in ("steps", "prior_steps") for name in CALL_NAMES[key])
TRIAL_STEPS = 2
"""Steps of a trial call: memory does not grow with the steps, and some samplers need two."""

FIXED = {"use_resolution_binning": False, "clean_caption": False}
"""Arguments that are set so that the size is the one requested, and no result depends on optional packages."""

OWN_SIZE = {"max_area", "_auto_resize"}
"""By what some pipelines (FLUX Kontext) change the size that they were asked for."""


@dataclass(frozen=True)
class CallSettings:
    """The settings of every call.

    Attributes
    ----------
    recorded : by our names, as a card holds them.
    call : by the pipeline's names, as its call takes them.
    """

    recorded: dict[str, Any]
    call: dict[str, Any]

    @property
    def size(self) -> tuple[int, int] | None:
        """Height and width, where the pipeline takes them."""
        return (self.recorded["height"], self.recorded["width"]) if "height" in self.recorded else None

    @property
    def guided(self) -> bool:
        """True if the sampler weighs the prompt against the unconditional prediction."""
        return is_guided(self.call)


def is_guided(call: Mapping[str, Any]) -> bool:
    """Return whether a call of a pipeline, by its own names, weighs the prompt against the unconditional prediction."""
    return any(call.get(name, 0) > 1 for name in CALL_NAMES["guidance_scale"])


def call_settings(pipeline: Any, *, prefer: Mapping[str, float] | None = None, **options: float | None) -> CallSettings:
    """Fix steps, guidance and size: what was asked, else what is preferred, else the pipeline's default.

    Only what it takes: what is asked and not taken is refused, what is preferred and not taken is left out.

    Raises
    ------
    ModelError
        The pipeline has no such setting, or cannot take the value.
    """
    sides = default_sides(pipeline)
    parameters = call_parameters(pipeline)
    network = getattr(getattr(pipeline, "transformer", None), "config", None)
    recorded: dict[str, Any] = {}
    call: dict[str, Any] = {}
    for key, value in options.items():
        name = _name_of(key, parameters)
        if name is None:
            if value is not None:
                raise _no_such_setting(pipeline, key)
            continue
        # guidance may be an input of the network (FLUX), and this network (schnell) may have no such input
        is_embedded = key == "guidance_scale" and name != TRUE_GUIDANCE and TRUE_GUIDANCE in parameters
        if is_embedded and getattr(network, "guidance_embeds", None) is False:
            if value:
                raise ModelError.unsupported(
                    "this model was distilled without guidance and ignores it; leave it out", field=key
                )
            continue
        default = parameters[name].default
        is_open = default is None or "use_resolution_binning" in parameters  # which makes a size a place in a list
        default = sides.get(name, default) if is_open else default
        wished = value if value is not None else (prefer or {}).get(key)
        chosen = wished if wished is not None else default
        if chosen is not None:
            recorded[key] = call[name] = chosen
    _check(pipeline, recorded)
    fixed: dict[str, Any] = {name: value for name, value in FIXED.items() if name in parameters}
    if IMAGE_GUIDANCE in parameters:
        fixed[IMAGE_GUIDANCE] = parameters[IMAGE_GUIDANCE].default
    if set(parameters) >= OWN_SIZE and {"height", "width"} <= set(recorded):  # else it edits at a size of its own list
        fixed |= {"max_area": recorded["height"] * recorded["width"], "_auto_resize": False}
    if BETWEEN in parameters and recorded.get("steps") != BETWEEN_STEPS:
        fixed[BETWEEN] = None
    return CallSettings(recorded | fixed, call | fixed)


def edit_settings(
    pipeline: Any, drawn: CallSettings, *, prefer: Mapping[str, float], **options: float | None
) -> CallSettings:
    """Fix steps and guidance of edits: what was asked or is preferred for them, else as images are drawn.

    Parameters
    ----------
    drawn : the settings of drawing.
    prefer, options : ``edit_steps`` and ``edit_guidance_scale``.

    Raises
    ------
    ModelError
        The pipeline has no such setting, or cannot take the value.
    """
    recorded, call = {}, dict(drawn.call)
    parameters = call_parameters(pipeline)
    for key, value in options.items():
        setting = key.removeprefix("edit_")
        name = _name_of(setting, parameters)
        if name is None or setting not in drawn.recorded:
            if value is not None:
                raise _no_such_setting(pipeline, key)
            continue
        chosen = value if value is not None else prefer.get(key)
        if chosen is not None:
            recorded[key] = call[name] = chosen
    _check(pipeline, {key.removeprefix("edit_"): value for key, value in recorded.items()}, "edit_")
    return CallSettings(recorded, call)


def negative_prompt_of(pipeline: Any, settings: CallSettings, negative_prompt: str | None) -> str | None:
    """Return the negative prompt: what was asked, or where guidance would else be left out, an empty one.

    Raises
    ------
    ModelError
        The pipeline takes none, or takes one and leaves it out.
    """
    parameters = call_parameters(pipeline)
    if negative_prompt is not None and "negative_prompt" not in parameters:
        raise _no_such_setting(pipeline, "negative_prompt")
    if negative_prompt is not None and TRUE_GUIDANCE in parameters:
        scale = settings.call.get(TRUE_GUIDANCE, parameters[TRUE_GUIDANCE].default)
        if scale <= 1:
            raise ModelError.conflict(
                f"a {type(pipeline).__name__} ignores it where its {TRUE_GUIDANCE} is {scale:g}; leave it out",
                field="negative_prompt",
            )
    return EMPTY_NEGATIVE if negative_prompt is None and settings.call.get(TRUE_GUIDANCE, 0) > 1 else negative_prompt


def _no_such_setting(pipeline: Any, key: str) -> ModelError:
    return ModelError.unsupported(f"a {type(pipeline).__name__} has no such setting; leave it out", field=key)


def _name_of(key: str, parameters: dict[str, Parameter]) -> str | None:
    names = [name for name in CALL_NAMES[key] if name in parameters]
    return next((name for name in names if parameters[name].default is not None), names[0] if names else None)


def _check(pipeline: Any, settings: dict[str, Any], prefix: str = "") -> None:
    for key in ("steps", "prior_steps"):
        if settings.get(key, 1) < 1:
            raise ModelError.out_of_range(f"found {settings[key]}, expected 1 or more", field=f"{prefix}{key}")
    for key in ("guidance_scale", "prior_guidance_scale"):
        if not 0 <= settings.get(key, 0) < inf:
            raise ModelError.out_of_range(
                f"found {settings[key]:g}, expected a number from 0 up", field=f"{prefix}{key}"
            )
    scale = getattr(pipeline, "vae_scale_factor", 8)
    multiple = max(8, scale if isinstance(scale, int) else 8)
    for key in {"height", "width"} & set(settings):
        if settings[key] < 1 or settings[key] % multiple:
            raise ModelError.out_of_range(
                f"found {settings[key]}, expected a positive multiple of {multiple}", field=key
            )


def default_sides(pipeline: Any) -> dict[str, int]:
    """Read the size a pipeline was trained for: its latents' size times its VAE's scale.

    The size of its latents is its backbone's, or what the pipeline itself names (``default_sample_size``: FLUX,
    Qwen-Image).
    """
    backbone = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
    latent = getattr(getattr(backbone, "config", None), "sample_size", None)
    if latent is None:
        latent = getattr(pipeline, "default_sample_size", None)
    scale = getattr(pipeline, "vae_scale_factor", None)
    if latent is None or not isinstance(scale, int):
        return {}
    height, width = (latent, latent) if isinstance(latent, int) else latent
    return {"height": height * scale, "width": width * scale}


def replaced_scheduler(name: str, pipeline: Any) -> Any:
    """Make the scheduler class ``name`` of diffusers, with the configuration of the pipeline's own."""
    kind: Any = getattr(diffusers, name, None)
    if not (isinstance(kind, type) and issubclass(kind, diffusers.SchedulerMixin) and hasattr(kind, "from_config")):
        names = sorted(scheduler.__name__ for scheduler in pipeline.scheduler.compatibles)
        near = nearest(name, names, cutoff=0.85)  # all of them end alike
        way_out = f"did you mean {near[0]}?" if near else f"expected a class of diffusers: {', '.join(names)}"
        raise ModelError.unknown_name(f"found {name!r}, {way_out}", field="scheduler")
    replaced: Any = kind
    return replaced.from_config(pipeline.scheduler.config)


def scheduler_cards(pipeline: Any) -> dict[str, dict[str, str]]:
    """Return each scheduler of a pipeline by its component's name: its class, and a hash of its configuration."""
    cards = {}
    for name, component in sorted(pipeline.components.items()):
        if isinstance(component, diffusers.SchedulerMixin):
            settings = pipeline.components[name].config.items()
            config = {key: value for key, value in settings if not key.startswith("_")}
            digest = hashlib.sha256(json.dumps(config, sort_keys=True, default=str).encode()).hexdigest()
            cards[name] = {"class": type(component).__name__, "config_sha256": digest}
    return cards
