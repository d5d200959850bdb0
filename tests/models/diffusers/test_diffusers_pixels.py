"""Images that become bytes on the device are those that the pipeline's arrays round to."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
from diffusers.image_processor import VaeImageProcessor

from clinometer._torch import torch
from clinometer.models import GenerationRequest
from clinometer.models.diffusers.generator import Finiteness, in_bytes
from tests.models.diffusers.families import EACH

MAKE_ARRAYS_THEMSELVES = ("kandinsky-2.2", "unclip", "deepfloyd-if")


@pytest.fixture
def away(monkeypatch):
    """Takes images of the CPU for those of a device."""
    monkeypatch.setattr("clinometer.models.diffusers.generator._is_away", lambda values: True)


def pipeline():
    return SimpleNamespace(image_processor=VaeImageProcessor())


@pytest.mark.parametrize("name", EACH)
def test_every_family_draws_the_bytes_that_its_arrays_round_to(shared, name, away, monkeypatch):
    generator = shared(name)
    requests = [GenerationRequest(str(seed), "a cook", seed) for seed in (1, 2)]
    kinds = []
    asked = Finiteness.is_finite
    monkeypatch.setattr(Finiteness, "is_finite", lambda self, images: kinds.append(images.dtype) or asked(self, images))
    results = list(generator.generate(requests))
    assert [each.status for each in results] == ["ok", "ok"]
    drawn = [np.asarray(each.image) for each in results]
    monkeypatch.setattr("clinometer.models.diffusers.generator.in_bytes", lambda pipeline: nullcontext(Finiteness()))
    assert np.array_equal(drawn, [np.asarray(each.image) for each in generator.generate(requests)])
    first, *_, last = kinds
    assert first == (np.float32 if name in MAKE_ARRAYS_THEMSELVES else np.uint8)
    assert last == np.float32


@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.bfloat16])
def test_bytes_are_those_of_numpy(kind, away):
    values = (torch.rand(3, 3, 16, 8, generator=torch.Generator().manual_seed(0)) * 2.2 - 1.1).to(kind)
    values[0, :, 0, 0] = torch.tensor([-1.0, 0.0, 1.0])
    held = pipeline()
    plain = held.image_processor.postprocess(values, output_type="np")
    with in_bytes(held) as shown:
        found = held.image_processor.postprocess(values, output_type="np")
    assert found.dtype == np.uint8
    assert np.array_equal(found, (plain * 255).round().astype(np.uint8))
    assert shown.is_finite(found) == [True] * 3


def test_what_was_not_finite_is_known_of_its_bytes(away):
    values = torch.zeros(3, 3, 8, 8)
    values[1, 2, 3, 4] = torch.nan
    held = pipeline()
    with in_bytes(held) as shown:
        found = held.image_processor.postprocess(values, output_type="np")
    assert shown.is_finite(found) == [True, False, True]
    assert shown.is_finite(np.array([[[[0.5]]], [[[np.nan]]]])) == [True, False]  # of an array from elsewhere


def test_images_that_are_shown_one_by_one_and_copied_are_known_too(away):
    values = torch.zeros(3, 3, 8, 8)
    values[2, 0, 0, 0] = torch.nan
    held = pipeline()
    with in_bytes(held) as shown:
        found = [held.image_processor.postprocess(each[None], output_type="np") for each in values]
    assert shown.is_finite(np.concatenate(found)) == [True, True, False]


def test_a_safety_checker_is_shown_pictures_and_nothing_stays_behind(away):
    held, values = pipeline(), torch.zeros(1, 3, 8, 8)
    with in_bytes(held):
        (picture,) = held.image_processor.postprocess(values, output_type="pil")
        assert picture.size == (8, 8)
    assert held.image_processor.postprocess(values, output_type="np").dtype == np.float32


@pytest.mark.parametrize("shape", [(2, 1, 8, 8), (2, 4, 8, 8)])
def test_what_is_no_picture_of_three_channels_is_left_as_it_is(shape, away):
    held = pipeline()
    with in_bytes(held) as shown:
        found = held.image_processor.postprocess(torch.zeros(shape), output_type="np")
    assert found.dtype == np.float32
    assert shown.finite == []


def test_images_of_the_host_stay_as_they_are():
    held = pipeline()
    with in_bytes(held) as shown:
        assert held.image_processor.postprocess(torch.zeros(1, 3, 8, 8), output_type="np").dtype == np.float32
    assert shown.finite == []


def test_a_pipeline_without_an_image_processor_is_left_alone():
    with in_bytes(SimpleNamespace()) as shown:
        assert shown.finite == []
