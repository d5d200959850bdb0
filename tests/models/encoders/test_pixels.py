"""Bytes until the model: the same numbers as the preprocessor's own, or no bytes."""

import numpy as np
import pytest
import torchvision.transforms as tv
import transformers
from hypothesis import given, settings
from hypothesis import strategies as st
from open_clip.transform import PreprocessCfg, image_transform_v2
from PIL import Image

from clinometer._torch import torch
from clinometer.models.encoders._encoding import Normalisation, _every_byte, size_left_alone
from clinometer.models.encoders.open_clip import _halves
from clinometer.models.encoders.transformers_clip import ImageInputs

BYTEWISE = ["CLIP", "Siglip", "Bit", "ViT", "ConvNext", "Blip"]
ELSE = ["Siglip2", "EfficientNet"]  # patches with masks; a range of its own


class Model:
    """What inputs are put on."""

    device, dtype = torch.device("cpu"), torch.float32


def pictures(count=3):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (70 + 9 * k, 90, 3), np.uint8)) for k in range(count)]


def processor(name, **options):
    return getattr(transformers, f"{name}ImageProcessorPil")(**options)


@pytest.mark.parametrize("name", BYTEWISE + ELSE)
def test_a_batch_is_what_the_processor_makes_of_it(name):
    process = processor(name)
    inputs, images = ImageInputs(process), pictures()
    prepared = inputs.prepare(images)
    assert (prepared[0]["pixel_values"].dtype == torch.uint8) == (name in BYTEWISE)
    expected = process(images, return_tensors="pt")
    found = inputs.batch(prepared, Model)
    assert set(found) == set(expected)
    assert all(torch.equal(found[key], torch.as_tensor(np.asarray(expected[key]))) for key in found)


@pytest.mark.parametrize(
    "options",
    [{"do_normalize": False}, {"do_rescale": False, "do_normalize": False}, {"rescale_factor": 1 / 127.5}],
    ids=str,
)
def test_a_processor_with_other_steps_is_followed(options):
    process, images = processor("CLIP", **options), pictures()
    inputs = ImageInputs(process)
    expected = torch.as_tensor(process(images, return_tensors="pt")["pixel_values"])
    assert torch.equal(inputs.batch(inputs.prepare(images), Model)["pixel_values"], expected)


@pytest.mark.parametrize("name", BYTEWISE)
def test_images_of_the_size_that_comes_out_are_what_the_processor_makes_of_them(name):
    process = processor(name)
    height, width = process(pictures(1), return_tensors="pt")["pixel_values"].shape[-2:]
    images = [each.resize((width, height)) for each in pictures()]
    inputs = ImageInputs(process)
    expected = torch.as_tensor(process(images, return_tensors="pt")["pixel_values"])
    found = inputs.batch(inputs.prepare(images), Model)["pixel_values"]
    assert torch.equal(found, expected)
    assert found.stride() == expected.stride()
    mixed = [*pictures(), *images]
    expected = torch.as_tensor(process(mixed, return_tensors="pt")["pixel_values"])
    assert torch.equal(inputs.batch(inputs.prepare(mixed), Model)["pixel_values"], expected)


def test_only_a_size_that_is_neither_resized_nor_cropped_is_left_alone():
    raw = lambda image: torch.from_numpy(np.array(image).transpose(2, 0, 1))  # noqa: E731
    assert size_left_alone(lambda image: raw(image.resize((40, 30)))) == (40, 30)
    assert size_left_alone(lambda image: raw(image.resize((48, 36)).crop((4, 3, 44, 33)))) is None
    assert size_left_alone(lambda image: raw(image.resize((40, 30)).transpose(Image.Transpose.ROTATE_180))) is None


@pytest.mark.parametrize("mode", ["shortest", "longest", "squash"])
def test_open_clips_transform_in_two_halves_is_the_whole(mode):
    transform = image_transform_v2(PreprocessCfg(size=32, resize_mode=mode), is_train=False)
    prepare, normalise = _halves(transform)
    for image in pictures():
        assert prepare(image).dtype == torch.uint8
        assert torch.equal(normalise(prepare(image)[None])[0], transform(image))


def test_a_transform_that_ends_otherwise_is_left_whole():
    own = tv.Compose([tv.Resize((8, 8)), tv.ToTensor()])
    prepare, normalise = _halves(own)
    image = pictures(1)[0]
    assert torch.equal(normalise(prepare(image)), own(image))
    assert prepare(image).dtype == torch.float32


def test_a_transform_that_only_looks_alike_is_found_out():
    normalise = Normalisation(255.0, (0.5,) * 3, (0.5,) * 3)
    raw = lambda image: torch.from_numpy(np.array(image).transpose(2, 0, 1))  # noqa: E731
    assert normalise.explains(lambda image: normalise(raw(image)), raw)
    assert not normalise.explains(lambda image: normalise(raw(image)) ** 2, raw)
    assert not normalise.explains(lambda image: torch.nextafter(normalise(raw(image)), torch.tensor(9.0)), raw)
    assert not normalise.explains(lambda image: normalise(raw(image))[:2], raw)
    assert not normalise.explains(lambda image: normalise(raw(image)), lambda image: raw(image).float())


@pytest.mark.parametrize(("height", "width"), [(16, 16), (32, 32), (224, 224), (30, 40)])
def test_the_probe_holds_every_byte_in_every_channel(height, width):
    image = np.asarray(_every_byte(height=height, width=width))
    assert image.shape == (height, width, 3)
    assert [len(np.unique(image[..., c])) for c in range(3)] == [256] * 3


@settings(max_examples=30)
@given(st.integers(0, 255), st.floats(1, 300), st.floats(-1, 1), st.floats(0.01, 2))
def test_each_byte_is_mapped_by_itself(byte, divisor, mean, std):
    pixels = torch.full((2, 3, 1, 1), byte, dtype=torch.uint8)
    pixels[1] = 0
    found = Normalisation(divisor, (0.0, mean, mean), (1.0, 1.0, std))(pixels)[0, :, 0, 0]
    expected = [byte / divisor, byte / divisor - mean, (byte / divisor - mean) / std]
    assert found.tolist() == pytest.approx(expected, rel=1e-5, abs=1e-4)
