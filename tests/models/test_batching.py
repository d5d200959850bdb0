"""The largest batch that memory holds, and batches that shrink when it holds no more."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models.batching import MOST_IMAGES, MOST_PIXELS, BatchBounds, Batches, batch_bounds, largest_batch
from clinometer.models.diffusers.generator import DiffusersGenerator
from clinometer.models.diffusers.pipeline import load
from clinometer.models.encoders.transformers_clip import load as load_clip
from tests.memory import limited
from tests.raising import raises

SIZES = st.integers(1, 64)


class Memory:
    """Holds so many items; remembers what it was asked for."""

    def __init__(self, limit, error=torch.OutOfMemoryError):
        self.limit, self.error, self.asked = limit, error, []

    def __call__(self, size):
        self.asked.append(size)
        if size > self.limit:
            raise self.error("no more")


@given(start=SIZES, most=st.integers(1, 1024), limit=st.integers(1, 2048))
def test_it_is_the_largest_of_its_kind_that_fits(start, most, limit):
    memory = Memory(limit)
    found = largest_batch(memory, BatchBounds(start, most))
    assert 1 <= found <= limit
    assert found <= max(start, most)
    if found >= start:  # it grew, so twice as many are refused or not asked for
        assert found / start in {2.0**power for power in range(12)}
        assert 2 * found > min(limit, most)
    else:
        assert limit < start
        assert 2 * found + 1 > limit
    assert len(set(memory.asked)) == len(memory.asked)


def test_no_memory_for_one_is_left_to_the_run():
    assert largest_batch(Memory(0), BatchBounds(8, 64)) == 1


@pytest.mark.parametrize(("limit", "found", "asked"), [(3, 4, [4]), (10, 8, [4, 8, 16])])
def test_another_error_ends_the_search_where_it_is(limit, found, asked):
    memory = Memory(limit, ValueError)
    assert largest_batch(memory, BatchBounds(4, 64)) == found
    assert memory.asked == asked


def test_an_interrupt_passes():
    with pytest.raises(KeyboardInterrupt):
        largest_batch(Memory(8, KeyboardInterrupt), BatchBounds(4, 64))


@given(side=st.integers(1, 256).map(lambda eighth: 8 * eighth), device=st.sampled_from(["cpu", "cuda", "mps"]))
def test_bounds_fit_the_pixels(side, device):
    bounds = batch_bounds(device, (side, side))
    assert 1 <= bounds.start <= bounds.most <= MOST_IMAGES
    assert bounds.most == 1 or bounds.most * side * side <= MOST_PIXELS
    if device != "cuda":
        assert bounds.start == bounds.most  # nothing to look for
    assert batch_bounds(device, (side, side), compiled=True).most == bounds.start


def test_bounds_of_common_sizes():
    assert batch_bounds("cpu", (64, 64)) == BatchBounds(32, 32)
    assert batch_bounds("cpu", (512, 512)) == BatchBounds(1, 1)
    assert batch_bounds("cuda", (512, 512)) == BatchBounds(8, 64)
    assert batch_bounds("cuda", None) == BatchBounds(2, 16)


@given(items=st.lists(st.integers(), max_size=40), size=SIZES, limit=SIZES)
def test_batches_shrink_and_lose_nothing(items, size, limit):
    batches, memory, seen = Batches(size), Memory(limit), []

    def call(batch):
        memory(len(batch))
        seen.extend(batch)
        return len(batch)

    assert sum(batches.results(items, call)) == len(items)
    assert seen == items
    refused = [asked for asked in memory.asked if asked > limit]
    assert refused == sorted(set(refused), reverse=True)  # what was refused is not asked for again
    assert batches.size <= size


def test_one_that_does_not_fit_alone_raises():
    with pytest.raises(torch.OutOfMemoryError):
        list(Batches(4).results("abc", lambda batch: Memory(0)(len(batch))))


def fitting(source, bounds, limit):
    """A generator whose denoiser holds ``limit`` images; what it was asked for."""
    loaded = load(str(source), steps=7, guidance_scale=1.0)
    asked = limited(loaded.pipeline.unet, limit)
    generator = DiffusersGenerator(
        loaded.pipeline, loaded.card, call=loaded._call, conditioning=loaded._conditioning, batch_size=bounds
    )
    return generator, asked


@pytest.mark.parametrize(("limit", "found"), [(1, 1), (5, 4), (12, 8), (100, 32)])
def test_a_pipeline_finds_its_batch_in_a_few_steps(stable_diffusion, limit, found):
    generator, asked = fitting(stable_diffusion, BatchBounds(4, 32), limit)
    assert generator.batch_size == 4
    generator.fit_batch_size("a nurse")
    assert generator.batch_size == found
    assert max(asked.count(size) for size in asked) == 2  # two steps of seven, once a size
    asked.clear()
    generator.fit_batch_size("a nurse")
    assert asked == []


def test_what_was_found_before_is_taken_without_a_trial(stable_diffusion):
    generator, asked = fitting(stable_diffusion, BatchBounds(4, 32), 100)
    generator.fit_batch_size("a nurse", known=16)
    assert (generator.batch_size, asked) == (16, [])


def test_what_was_asked_for_stays(stable_diffusion):
    generator, asked = fitting(stable_diffusion, 3, 100)
    generator.fit_batch_size("a nurse", known=16)
    assert (generator.batch_size, asked) == (3, [])


def pictures(count):
    rng = np.random.default_rng(0)
    return [Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)) for _ in range(count)]


def test_an_encoder_halves_its_batch_and_loses_nothing(clip):
    encoder, images = load_clip(str(clip), batch_size=8), pictures(11)
    whole = encoder.encode_images(images)
    asked = limited(encoder.model.vision_model.encoder.layers[0], 3)
    assert np.allclose(encoder.encode_images(images), whole, atol=1e-6)
    assert asked == [8, 4, 2, 2, 2, 2, 2, 1]
    asked.clear()
    encoder.encode_images(images[:5])
    assert asked == [2, 2, 1]


def test_an_encoder_without_memory_for_one_image_says_so(clip):
    encoder = load_clip(str(clip), batch_size=8)
    limited(encoder.model.vision_model.encoder.layers[0], 0)
    with raises(ModelError, code=Code.FAILED, match="the encoder"):
        encoder.encode_images(pictures(2))


def test_images_prepared_elsewhere_are_embedded_alike(clip):
    encoder, images = load_clip(str(clip), batch_size=4), pictures(6)
    prepared = [encoder.prepare_images([image])[0] for image in images]
    assert np.array_equal(encoder.encode_prepared(prepared), encoder.encode_images(images))
    assert np.array_equal(encoder.begin_prepared(prepared)(), encoder.encode_images(images))
    assert encoder.begin_prepared([])().shape == encoder.encode_images([]).shape
