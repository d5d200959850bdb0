"""What CLIP trains on besides the artwork: pictures as a generator might draw them."""

from __future__ import annotations

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch.nn import functional

from reference import vae

# Standard deviations of the noise put on the (unit-variance) latents: 0 is the plain reconstruction.
LATENT_NOISE = (0.0, 0.15, 0.3)


def picture_bank(model: AutoencoderKL, images: np.ndarray, mean: torch.Tensor, device: torch.device) -> np.ndarray:
    """(1 + len(LATENT_NOISE), n, h, w, 3): the artwork, then its decodings from ever noisier latents."""
    generator = torch.Generator().manual_seed(11)
    bank = [images]
    for amount in LATENT_NOISE:
        noise = torch.randn(mean.shape, generator=generator)
        bank.append(vae.decode(model, mean + amount * noise, device))
    return np.stack(bank)


def _uniform(n: int, low: float, high: float, generator: torch.Generator) -> torch.Tensor:
    return (torch.rand(n, generator=generator) * (high - low) + low).view(-1, 1, 1, 1)


def _shift(images: torch.Tensor, generator: torch.Generator, most: int = 4) -> torch.Tensor:
    """Each picture moved by up to `most` pixels and scaled by up to 8 %, on white."""
    n = len(images)
    theta = torch.zeros(n, 2, 3)
    scale = _uniform(n, 0.94, 1.08, generator).view(n)
    theta[:, 0, 0] = theta[:, 1, 1] = scale
    theta[:, :, 2] = (torch.rand(n, 2, generator=generator) * 2 - 1) * (2 * most / images.shape[-1])
    grid = functional.affine_grid(theta, list(images.shape), align_corners=False)
    # grid_sample pads with zeros; white is +1, so the pictures are moved with white as the origin.
    return functional.grid_sample(images - 1, grid, align_corners=False) + 1


def _blur(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A 3×3 binomial blur mixed in by a random amount, in half of the pictures."""
    kernel = torch.tensor([1.0, 2.0, 1.0])
    kernel = (kernel[:, None] * kernel / 16).expand(3, 1, 3, 3)
    soft = functional.conv2d(functional.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=3)
    amount = _uniform(len(images), -1, 1, generator).clamp(min=0)
    return torch.lerp(images, soft, amount)


def augment(images: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Shift, blur, colour and noise on a float batch in [−1, 1]. Colour stays within what keeps skin tones
    apart.
    """
    n = len(images)
    images = _blur(_shift(images, generator), generator)
    gain = 1 + 0.06 * torch.randn(n, 3, 1, 1, generator=generator)
    offset = 0.04 * torch.randn(n, 3, 1, 1, generator=generator)
    noise = _uniform(n, -0.08, 0.08, generator).clamp(min=0)
    images = images * gain + offset + noise * torch.randn(images.shape, generator=generator)
    return images.clamp(-1, 1)
