"""How well a diffusers pipeline denoises an image under a prompt: the measure of the diffusion classifier."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from PIL import Image, ImageOps

from clinometer._torch import torch
from clinometer.errors import ModelError
from clinometer.models.batching import Batches
from clinometer.models.diffusers.backbone import ConditionedNetwork, network_of, record_call
from clinometer.models.diffusers.noising import Noising, Weighting, noising_of
from clinometer.models.protocols import Card
from clinometer.models.weights import describe

TOLERANCES = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 1e-2}
"""By precision, the relative difference of two mean errors that other batches may make or unmake."""


class DiffusersDenoiser:
    """The denoising error of a diffusers text-to-image pipeline, UNet or transformer.

    Parameters
    ----------
    pipeline : a loaded pipeline, on its device.
    card : what it is; the card of the generator over the same pipeline.
    size : height and width that images are brought to.
    batch_size : rows (an image at a timestep under a prompt) a call of the network. Halved for good when the device
        runs out of memory.
    weighting : ``"target"`` scores what the model was trained to predict; ``"epsilon"`` turns every error into one of
        the noise, as the paper writes it. For an ε-model they are the same.
    options : further arguments that start the pipeline on a prompt.
    """

    def __init__(
        self,
        pipeline: Any,
        card: Card,
        *,
        size: tuple[int | None, int | None],
        batch_size: int,
        weighting: Weighting = "target",
        options: Mapping[str, Any] | None = None,
    ) -> None:
        _require_scorable(pipeline)
        self.card = card
        self._batches = Batches(batch_size)
        self.pipeline = pipeline
        self.noising: Noising = noising_of(pipeline.scheduler)
        self.tolerance = TOLERANCES.get(pipeline.dtype, TOLERANCES[torch.bfloat16])
        self._weighting: Weighting = weighting
        height, width = size
        if height is None or width is None:
            raise ModelError(
                f"a {type(pipeline).__name__} does not say what size its images have; it cannot classify any"
            )
        self._size = height, width
        started = {**(options or {}), "height": height, "width": width}
        latents = record_call(pipeline, "a person", started).latents
        self.noising = noising_of(pipeline.scheduler)  # once more: a pipeline may give it timesteps of its own
        if getattr(pipeline, "vae", None) is None and tuple(latents.shape[1:]) != (3, height, width):
            raise ModelError(
                f"a {type(pipeline).__name__} has no vae, and denoises {tuple(latents.shape[1:])}, no pixels; it "
                "cannot be used as a classifier"
            )
        self._network = ConditionedNetwork(pipeline, started)

    @property
    def batch_size(self) -> int:
        """Rows a call of the network."""
        return self._batches.size

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        """Map fractions in [0, 1) of the noise schedule to the model's timesteps."""
        return self.noising.timesteps(fractions)

    def encode_images(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Encode images: (n, …) float32 latents on the CPU, the most probable ones, no draw.

        An image of another size is cut to the model's proportions about its centre and resized (bicubic).
        """
        height, width = self._size
        fitted = [ImageOps.fit(image.convert("RGB"), (width, height), Image.Resampling.BICUBIC) for image in images]
        pixels = torch.from_numpy(np.stack([np.asarray(image, np.float32) for image in fitted]) / 127.5 - 1)
        vae = getattr(self.pipeline, "vae", None)
        pixels = pixels.permute(0, 3, 1, 2)
        if vae is None:
            return pixels.contiguous()  # it denoises pixels
        with torch.inference_mode(), _precise(vae):
            # one at a time: a convolution's rounding may depend on the size of its batch
            return torch.cat([_encode(vae, image[None]) for image in pixels])

    def errors(
        self, latents: torch.Tensor, timesteps: torch.Tensor, noise: torch.Tensor, prompts: Sequence[str]
    ) -> np.ndarray:
        """Mean squared denoising error of each row: (n,) float32.

        ::

            e = w_t · mean (target(x, ε, t) − f(x_t, t, c))²        mean over the elements of the latents

        Each row is computed from its own arguments; which rows share a batch changes it by rounding alone.

        Parameters
        ----------
        latents : (n, …) clean latents x, as of `encode_images`.
        timesteps : (n,) as of `timesteps`.
        noise : (n, …) float32 standard normal ε.
        prompts : (n,) the text c of each row.

        Raises
        ------
        ModelError
            The pipeline cannot be started on a prompt, or shows its network something that is not known here.
        """
        rows = self._network.rows(prompts)

        def part(numbers: list[int]) -> np.ndarray:
            chunk = slice(numbers[0], numbers[-1] + 1)
            with torch.inference_mode():
                return self._errors(latents[chunk], timesteps[chunk], noise[chunk], rows[chunk])

        errors = list(self._batches.results(range(len(rows)), part))
        return np.concatenate(errors) if errors else np.empty(0, np.float32)

    def _errors(
        self, latents: torch.Tensor, timesteps: torch.Tensor, noise: torch.Tensor, rows: torch.Tensor
    ) -> np.ndarray:
        noised = self._packed(self.noising.noised(latents, noise, timesteps))
        target = self._packed(self.noising.target(latents, noise, timesteps))
        predicted = self._network(noised, timesteps, rows)
        squares = (predicted - target.to(predicted.device)).square().flatten(1).mean(dim=1).cpu()
        return np.asarray((self.noising.weights(timesteps, self._weighting) * squares).numpy(), np.float32)

    def _packed(self, latents: torch.Tensor) -> torch.Tensor:
        """Lay latents out as the network takes them: as they are, or as rows of patches (FLUX)."""
        expected = self._network.latent_shape
        if tuple(latents.shape[1:]) == expected:
            return latents
        pack = getattr(self.pipeline, "_pack_latents", None)
        packed = pack(latents, *latents.shape) if pack is not None and latents.ndim == 4 else latents
        if tuple(packed.shape[1:]) != expected:
            raise ModelError(
                f"a {type(self.pipeline).__name__} denoises latents of shape {expected}, and its VAE makes "
                f"{tuple(latents.shape[1:])}; how one becomes the other is not known here"
            )
        return torch.as_tensor(packed)


def _require_scorable(pipeline: Any) -> None:
    """Refuse, before anything is drawn, what would fail at the first image."""
    network_of(pipeline)
    if pipeline.components.get("guider") is not None:
        raise ModelError(
            f"a {type(pipeline).__name__} guides by a {type(pipeline.guider).__name__}, which a call cannot turn off; "
            "it cannot be used as a classifier"
        )
    if getattr(pipeline, "vae", None) is None and "movq" in pipeline.components:
        raise ModelError(
            f"a {type(pipeline).__name__} denoises under an image embedding that its prior draws, not under a text; it "
            "cannot be used as a classifier"
        )
    if getattr(pipeline, "vae", None) is not None:
        _require_one_scale(pipeline.vae)


def _require_one_scale(vae: Any) -> None:
    if vae.config.get("latents_mean") is not None or hasattr(vae, "bn"):
        raise ModelError(f"a {type(vae).__name__} scales each channel of its latents apart; it is not supported")


@contextmanager
def _precise(vae: Any) -> Iterator[None]:
    """Let a VAE that overflows in float16 compute in float32, as its pipeline does."""
    upcast = bool(vae.config.get("force_upcast")) and vae.dtype == torch.float16
    if upcast:
        vae.to(torch.float32)
    try:
        yield
    finally:
        if upcast:
            vae.to(torch.float16)


def _encode(vae: Any, pixels: torch.Tensor) -> torch.Tensor:
    """Encode one image as the networks of its pipeline expect it."""
    config = vae.config
    _require_one_scale(vae)
    try:
        encoded = vae.encode(pixels.to(vae.device, vae.dtype))
    except (RuntimeError, ValueError) as error:
        raise ModelError(f"a {type(vae).__name__} cannot encode an image: {describe(error)}") from error
    latents = encoded.latent_dist.mode() if hasattr(encoded, "latent_dist") else encoded.latent
    shifted = latents.float() - (config.get("shift_factor") or 0.0)
    return torch.as_tensor(shifted * float(config.get("scaling_factor") or 1.0)).cpu()
