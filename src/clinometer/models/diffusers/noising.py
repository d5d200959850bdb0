"""How a model was taught to denoise: what it is shown at a timestep, and what it is asked to predict.

With x the clean latents, ε standard normal noise and t a timestep, a variance-preserving model is shown
``x_t = √ᾱ_t x + √(1 − ᾱ_t) ε``; a flow-matching model is shown ``x_t = (1 − σ_t) x + σ_t ε`` with ``σ_t = t / T``.

===============  ======================  =========================================
prediction       target                  squared error of ε in terms of its own
===============  ======================  =========================================
epsilon          ε                       1
v_prediction     √ᾱ_t ε − √(1 − ᾱ_t) x   ᾱ_t
sample           x                       ᾱ_t / (1 − ᾱ_t)
flow             ε − x                   (1 − σ_t)²
===============  ======================  =========================================

The last column follows from solving x_t for ε: a v-model's estimate is ``ε̂ = √ᾱ v̂ + √(1 − ᾱ) x_t``, so that
``ε̂ − ε = √ᾱ (v̂ − v)``; likewise for the others.

Everything here is float32, whatever the model computes in: in float16, 1 − ᾱ at the first timesteps is off by 14 %.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from clinometer._torch import torch
from clinometer.errors import ModelError

Prediction = Literal["epsilon", "v_prediction", "sample", "flow"]
Weighting = Literal["target", "epsilon"]


@dataclass(frozen=True)
class Noising:
    """The noise schedule and the target of one model.

    Attributes
    ----------
    prediction : what the model predicts.
    num_timesteps : T; timesteps are 0 … T − 1, and any number in [0, T) for flow matching.
    signal : (T,) float32 √ᾱ_t; empty for flow matching.
    noise : (T,) float32 √(1 − ᾱ_t); empty for flow matching.
    """

    prediction: Prediction
    num_timesteps: int
    signal: torch.Tensor
    noise: torch.Tensor

    def timesteps(self, fractions: torch.Tensor) -> torch.Tensor:
        """Map fractions in [0, 1) of the schedule to timesteps: whole numbers, or float32 for flow matching."""
        scaled = fractions.double() * self.num_timesteps
        if self.prediction == "flow":
            return scaled.float()
        return scaled.long().clamp(max=self.num_timesteps - 1)

    def noised(self, clean: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        """Return x_t for each row; (n, …) float32."""
        a, b = self._coefficients(clean, timesteps)
        return a * clean + b * noise

    def target(self, clean: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        """Return what the model should predict for each row; (n, …) float32."""
        if self.prediction == "epsilon":
            return noise
        if self.prediction == "sample":
            return clean
        if self.prediction == "flow":
            return noise - clean
        a, b = self._coefficients(clean, timesteps)
        return a * noise - b * clean

    def weights(self, timesteps: torch.Tensor, weighting: Weighting) -> torch.Tensor:
        """Return the factor of each row's squared error: 1, or what makes it an error of ε; (n,) float32."""
        a, b = self._coefficients(timesteps, timesteps)
        one = torch.ones_like(a)
        if weighting == "target" or self.prediction == "epsilon":
            return one
        if self.prediction == "sample":
            return (a / b) ** 2
        return a**2

    def _coefficients(self, like: torch.Tensor, timesteps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The factors of x and of ε in x_t, shaped to broadcast over rows of ``like``."""
        if self.prediction == "flow":
            sigma = timesteps.float() / self.num_timesteps
            a, b = 1 - sigma, sigma
        else:
            a, b = (table.to(timesteps.device)[timesteps] for table in (self.signal, self.noise))
        shape = (-1, *[1] * (like.ndim - 1))
        return a.reshape(shape).to(like.device), b.reshape(shape).to(like.device)


def noising_of(scheduler: Any) -> Noising:
    """Read a diffusers scheduler: by what it holds, not by its class.

    One with ``alphas_cumprod`` is variance-preserving, and its ``prediction_type`` says what the model predicts. One
    without, whose ``sigmas`` run from 0 to 1 in proportion to its timesteps, is a flow-matching scheduler.

    Raises
    ------
    ModelError
        It is neither: a Karras-style or a discrete one.
    """
    config = scheduler.config
    num_timesteps = int(config.get("num_train_timesteps", 0))
    alphas = getattr(scheduler, "alphas_cumprod", None)
    prediction = config.get("prediction_type", "epsilon")
    flow = prediction in ("flow_prediction", "flow") or config.get("use_flow_sigmas", False)
    if isinstance(alphas, torch.Tensor) and not flow and prediction in ("epsilon", "v_prediction", "sample"):
        alphas = alphas.float().cpu()
        return Noising(prediction, len(alphas), alphas.sqrt(), (1 - alphas).sqrt())
    if num_timesteps > 0 and (flow or _is_flow_matching(scheduler)):
        return Noising("flow", num_timesteps, torch.empty(0), torch.empty(0))
    raise ModelError(
        f"scheduler {type(scheduler).__name__}: prediction type {prediction!r} cannot be scored; expected epsilon, "
        "v_prediction, sample or flow matching"
    )


def _is_flow_matching(scheduler: Any) -> bool:
    """Whether the noise levels are between 0 and 1 and the timesteps are T times them."""
    sigmas, timesteps = getattr(scheduler, "sigmas", None), getattr(scheduler, "timesteps", None)
    if not isinstance(sigmas, torch.Tensor) or not isinstance(timesteps, torch.Tensor) or not len(timesteps):
        return False
    levels = sigmas[: len(timesteps)].float()
    scaled = timesteps.float().to(levels.device) / scheduler.config.num_train_timesteps
    return bool(levels.max() <= 1 + 1e-6 and torch.allclose(levels, scaled, atol=1e-4))
