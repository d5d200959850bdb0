"""Weights that are loaded draw at any settings as if they had been loaded for them."""

import numpy as np
import pytest

from clinometer.errors import Code, ModelError
from clinometer.models import load_generator
from clinometer.models.protocols import GenerationRequest
from clinometer.pipeline.recipes import Models
from tests.raising import raises

REQUESTS = [GenerationRequest(str(n), prompt, n) for n, prompt in enumerate(("a doctor", "a nurse"))]
SETTINGS = [{"steps": 2, "guidance_scale": 5.0}, {"steps": 3, "guidance_scale": 1.0, "height": 48}, {"steps": 2}]


def drawn(generator):
    return [np.asarray(result.image) for result in generator.generate(REQUESTS)]


@pytest.mark.thorough
def test_settings_anew_are_as_if_loaded_for_them_whatever_was_drawn_before(stable_diffusion):
    held = load_generator(str(stable_diffusion), steps=4, guidance_scale=2.0)
    for settings in (*SETTINGS, *reversed(SETTINGS)):
        alone = load_generator(str(stable_diffusion), **settings)
        again = held.with_settings(**settings)
        assert again.card == alone.card
        assert again.batch_size == alone.batch_size
        for ours, theirs in zip(drawn(again), drawn(alone), strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_the_reference_model_keeps_the_settings_it_was_made_for():
    held = load_generator("reference", steps=4)
    for settings in ({"guidance_scale": 3.0}, {}, {"prefer": {"steps": 7}}):
        assert held.with_settings(**settings).card == load_generator("reference", **settings).card


def test_what_a_pipeline_cannot_be_set_to_is_refused(stable_diffusion):
    held = load_generator(str(stable_diffusion))
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="steps", match="found 0"):
        held.with_settings(steps=0)


def test_of_several_audits_one_loads_the_weights(stable_diffusion):
    models = Models()
    first, recipe = models.generator(str(stable_diffusion), {"steps": 2}, "cpu")
    second, other = models.generator(str(stable_diffusion), {"steps": 3, "guidance_scale": 4.0}, "cpu")
    assert first.pipeline is second.pipeline
    assert recipe.key != other.key
    assert recipe.weights == other.weights
    assert other.build().card == second.card
    third, _ = models.generator(str(stable_diffusion), {"dtype": "float16"}, "cpu")
    assert third.pipeline is not second.pipeline
