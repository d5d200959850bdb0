"""The autoencoder: 64×64 RGB to 16×16×4 latents and back."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from diffusers import AutoencoderKL

from reference import art
from reference.paths import CACHE
from reference.training import Loss, Run, Schedule

# A weak pull: the affine folded in at the end centres and scales the latents, so the KL term only has to keep
# them smooth.
KL_WEIGHT = 5e-4
BATCH = 12
SCHEDULE = Schedule(steps=4_500, learning_rate=1.5e-3, warmup=100, decay=0.4, ema=0.998, seed=1)

# Luma and chroma of BT.601. Colour carries meaning here (skin, uniforms), yet covers few pixels and costs
# little in plain RGB error, which is why an autoencoder trained on that alone mutes it; chroma errors are
# therefore counted again.
_YCC = torch.tensor([[0.299, 0.587, 0.114], [-0.169, -0.331, 0.5], [0.5, -0.419, -0.081]])
_YCC_WEIGHT = torch.tensor([1.0, 2.0, 2.0]).view(1, 3, 1, 1)


def build() -> AutoencoderKL:
    return AutoencoderKL(
        in_channels=3,
        out_channels=3,
        down_block_types=("DownEncoderBlock2D",) * 3,
        up_block_types=("UpDecoderBlock2D",) * 3,
        block_out_channels=(16, 32, 96),
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=8,
        sample_size=art.SIZE,
        scaling_factor=1.0,
        mid_block_add_attention=False,
    )


def to_tensor(images: np.ndarray) -> torch.Tensor:
    """uint8 (n, h, w, 3) to float (n, 3, h, w) in [−1, 1]."""
    return torch.from_numpy(images).permute(0, 3, 1, 2).float().div_(127.5).sub_(1)


def to_images(tensor: torch.Tensor) -> np.ndarray:
    """The inverse of to_tensor, rounding and clipping as diffusers' image processor does."""
    scaled = (tensor.float() / 2 + 0.5).clamp(0, 1).permute(0, 2, 3, 1).cpu().numpy()
    return (scaled * 255).round().astype(np.uint8)


def reconstruction_loss(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """MSE + 0.1·L1 in RGB, plus chroma-weighted MSE and an edge term."""
    error = output.float() - target
    colour = torch.einsum("ij,bjhw->bihw", _YCC.to(error), error)
    edges = (error[..., 1:, :] - error[..., :-1, :]).abs().mean() + (error[..., 1:] - error[..., :-1]).abs().mean()
    return (
        error.square().mean()
        + 0.1 * error.abs().mean()
        + (colour.square() * _YCC_WEIGHT.to(error)).mean()
        + 0.05 * edges
    )


def train(pictures: art.Pictures, device: torch.device) -> Run:
    """Trains on every picture: what is held out for CLIP is a matter of labels, and the VAE sees none."""
    torch.manual_seed(SCHEDULE.seed)
    model = build().to(memory_format=torch.channels_last)
    run = Run("vae", model, SCHEDULE, device)
    data = pictures.images

    def losses_of(generator: torch.Generator) -> list[Loss]:
        index = torch.randint(len(data), (BATCH,), generator=generator).numpy()
        batch = to_tensor(data[index]).to(device).contiguous(memory_format=torch.channels_last)
        return [partial(loss_of, batch)]

    def loss_of(batch: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            posterior = model.encode(batch).latent_dist
            output = model.decode(posterior.sample()).sample
        mean, logvar = posterior.mean.float(), posterior.logvar.float()
        kl = 0.5 * (mean.square() + logvar.exp() - 1 - logvar).mean()
        return reconstruction_loss(output, batch) + KL_WEIGHT * kl

    def report(run: Run) -> None:
        index = np.arange(0, len(data), 29)
        output = reconstruct(run.average, data[index], device)
        print(f"vae PSNR {psnr(output, data[index]):.2f} dB on {len(index)} pictures", flush=True)
        np.savez(CACHE / "vae-preview.npz", output=output, target=data[index])

    run.fit(losses_of, every=500, monitor=report)
    return run


@torch.no_grad()
def encode(model: AutoencoderKL, images: np.ndarray, device: torch.device, batch: int = 64) -> tuple[torch.Tensor, ...]:
    """(mean, log-variance) of the latents of each picture."""
    means, logvars = [], []
    for start in range(0, len(images), batch):
        posterior = model.encode(to_tensor(images[start : start + batch]).to(device)).latent_dist
        means.append(posterior.mean.cpu())
        logvars.append(posterior.logvar.cpu())
    return torch.cat(means), torch.cat(logvars)


@torch.no_grad()
def decode(model: AutoencoderKL, latents: torch.Tensor, device: torch.device, batch: int = 64) -> np.ndarray:
    return np.concatenate([to_images(model.decode(part.to(device)).sample) for part in latents.split(batch)])


def reconstruct(model: AutoencoderKL, images: np.ndarray, device: torch.device) -> np.ndarray:
    return decode(model, encode(model, images, device)[0], device)


def psnr(output: np.ndarray, target: np.ndarray) -> float:
    """Peak signal-to-noise ratio in dB, of the mean squared error over all pictures."""
    error = np.mean((output.astype(np.float64) - target.astype(np.float64)) ** 2)
    return float(10 * np.log10(255**2 / error))


@torch.no_grad()
def fold_normalisation(model: AutoencoderKL, mean: torch.Tensor, logvar: torch.Tensor) -> None:
    """Rescales the latents to zero mean and unit variance a channel, inside the network's own 1×1
    convolutions.

    z' = (z − m) / s is folded into quant_conv (mean rows; the log-variance rows lose 2 ln s), z = s·z' + m
    into post_quant_conv. Afterwards scaling_factor = 1 is right and any diffusers code that knows nothing of
    this works.
    """
    centre = mean.mean((0, 2, 3))
    scale = (mean.var((0, 2, 3)) + logvar.exp().mean((0, 2, 3))).sqrt()
    channels = len(centre)
    quant, post = model.quant_conv, model.post_quant_conv
    centre, scale = centre.to(quant.bias), scale.to(quant.bias)
    quant.weight[:channels] /= scale.view(-1, 1, 1, 1)
    quant.bias[:channels] = (quant.bias[:channels] - centre) / scale
    quant.bias[channels:] -= 2 * scale.log()
    post.bias += torch.einsum("oixy,i->o", post.weight, centre)
    post.weight *= scale.view(1, -1, 1, 1)
