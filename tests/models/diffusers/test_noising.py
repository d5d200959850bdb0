"""Noise schedules and targets against their definitions, for each kind of prediction."""

import diffusers
import pytest

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models.diffusers.denoiser import noising_of
from tests.raising import raises

DISCRETE = ("epsilon", "v_prediction", "sample")


def scheduler(prediction):
    if prediction == "flow":
        return diffusers.FlowMatchEulerDiscreteScheduler(shift=3.0)
    return diffusers.DDIMScheduler(
        beta_start=0.00085, beta_end=0.012, beta_schedule="scaled_linear", prediction_type=prediction
    )


def rows(seed=0, n=6):
    generator = torch.Generator().manual_seed(seed)
    clean, noise = (torch.randn(n, 4, 3, 3, generator=generator) for _ in range(2))
    return clean, noise, torch.rand(n, generator=generator)


@pytest.mark.parametrize("prediction", [*DISCRETE, "flow"])
def test_noise_can_be_solved_from_what_is_shown_and_the_target(prediction):
    """ε from (x_t, target), as each kind of model is used to estimate it: it must be the ε that was added."""
    noising = noising_of(scheduler(prediction))
    clean, noise, fractions = rows()
    t = noising.timesteps(fractions)
    shown, target = noising.noised(clean, noise, t), noising.target(clean, noise, t)
    a, b = (each.reshape(-1, 1, 1, 1) for each in noising._coefficients(t, t))
    solved = {
        "epsilon": target,
        "v_prediction": a * target + b * shown,
        "sample": (shown - a * target) / b,
        "flow": shown + a * target,
    }[prediction]
    assert torch.allclose(solved, noise, atol=1e-4)


@pytest.mark.parametrize("prediction", [*DISCRETE, "flow"])
def test_the_weight_turns_an_error_of_the_target_into_one_of_the_noise(prediction):
    noising = noising_of(scheduler(prediction))
    clean, noise, fractions = rows(1)
    t = noising.timesteps(fractions)
    shown, slip = noising.noised(clean, noise, t), torch.full_like(clean, 0.1)
    a, b = (each.reshape(-1, 1, 1, 1) for each in noising._coefficients(t, t))
    estimate = noising.target(clean, noise, t) + slip
    noise_estimate = {
        "epsilon": estimate,
        "v_prediction": a * estimate + b * shown,
        "sample": (shown - a * estimate) / b,
        "flow": shown + a * estimate,
    }[prediction]
    expected = (noise_estimate - noise).square().flatten(1).mean(1)
    assert torch.allclose(noising.weights(t, "epsilon") * 0.01, expected, rtol=1e-3)
    assert torch.equal(noising.weights(t, "target"), torch.ones(6))


@pytest.mark.parametrize("prediction", DISCRETE)
def test_it_noises_and_aims_as_diffusers_does_in_training(prediction):
    peer = scheduler(prediction)
    noising = noising_of(peer)
    clean, noise, fractions = rows(2)
    t = noising.timesteps(fractions)
    assert torch.allclose(noising.noised(clean, noise, t), peer.add_noise(clean, noise, t), atol=1e-6)
    if prediction == "v_prediction":
        assert torch.allclose(noising.target(clean, noise, t), peer.get_velocity(clean, noise, t), atol=1e-6)


def test_flow_matching_is_a_straight_line_from_image_to_noise():
    noising = noising_of(scheduler("flow"))
    clean, noise, _ = rows(3, 3)
    shown = noising.noised(clean, noise, torch.tensor([0.0, 500.0, 1000.0]))
    assert torch.allclose(shown, torch.stack([clean[0], (clean[1] + noise[1]) / 2, noise[2]]))
    assert torch.equal(noising.target(clean, noise, torch.zeros(3)), noise - clean)


def test_noise_levels_are_kept_in_float32():
    """In float16, 1 − ᾱ of the first timestep of Stable Diffusion is 14 % off."""
    peer = scheduler("epsilon")
    noising = noising_of(peer)
    exact = 1 - peer.alphas_cumprod[0].double()
    assert noising.noise.dtype == torch.float32
    assert noising.noise[0].double() ** 2 == pytest.approx(float(exact), rel=1e-4)
    assert abs(float((1 - peer.alphas_cumprod.half())[0]) / float(exact) - 1) > 0.1
    clean, noise, _ = rows(4)
    assert noising.noised(clean, noise, torch.zeros(6, dtype=torch.long)).dtype == torch.float32


def test_timesteps_cover_the_schedule():
    ends = torch.tensor([0.0, 0.5, 1 - 1e-9], dtype=torch.float64)
    assert noising_of(scheduler("epsilon")).timesteps(ends).tolist() == [0, 500, 999]
    assert noising_of(scheduler("flow")).timesteps(ends).tolist() == pytest.approx([0, 500, 1000])


@pytest.mark.parametrize(
    "kind", [diffusers.EulerDiscreteScheduler, diffusers.DPMSolverMultistepScheduler, diffusers.DDPMScheduler,
             diffusers.LCMScheduler, diffusers.UniPCMultistepScheduler]
)  # fmt: skip
def test_the_sampler_does_not_matter(kind):
    base = scheduler("v_prediction")
    noising = noising_of(kind.from_config(base.config))
    assert noising.prediction == "v_prediction"
    assert torch.allclose(noising.signal, noising_of(base).signal)


def test_flow_matching_by_a_general_solver():
    peer = diffusers.DPMSolverMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True)
    assert noising_of(peer).prediction == "flow"


@pytest.mark.parametrize("kind", [diffusers.EDMEulerScheduler, diffusers.CMStochasticIterativeScheduler])
def test_other_schedules_are_refused(kind):
    with raises(ModelError, code=Code.UNSUPPORTED, match="expected epsilon"):
        noising_of(kind())
