"""A text has one vector: alone or in company, whatever the batch size and however many threads torch has."""

import numpy as np
import pytest

from clinometer._torch import torch
from clinometer.models import load_encoder
from clinometer.models.diffusers.conditioning import PromptEmbeddings
from clinometer.models.diffusers.pipeline import load as load_generator
from clinometer.models.encoders.own_text import own_text_encoders
from tests.builders import tiny_clip
from tests.models.encoders.tiny_encoders import DUAL, tiny_bert

TEXTS = ["a nurse", "she", "a nurse is here and there", "he", "an image of a very old firefighter"]
THREADS = 3


@pytest.fixture(autouse=True)
def threads():
    """More threads than one, as a process without workers has."""
    before = torch.get_num_threads()
    torch.set_num_threads(THREADS)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def seen():
    """How many threads there were whenever a module computed."""
    found = []
    watch = torch.nn.modules.module.register_module_forward_pre_hook
    handle = watch(lambda *_: found.append(torch.get_num_threads()))
    yield found
    handle.remove()


KINDS = {**DUAL, "clip": tiny_clip, "sentence": lambda path: tiny_bert(path, {"pooling_mode": "mean"})}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:only the first")
def test_it_does_not_depend_on_threads_company_or_batch_size(tmp_path, kind, seen):
    KINDS[kind](tmp_path / kind)
    source = f"sentence:{tmp_path / kind}" if kind == "sentence" else str(tmp_path / kind)
    encoder, one = (load_encoder(source, batch_size=n) for n in (32, 1))
    seen.clear()
    together = encoder.encode_texts(TEXTS)
    assert set(seen) == {1}
    assert torch.get_num_threads() == THREADS
    assert np.array_equal(together, np.concatenate([encoder.encode_texts([text]) for text in TEXTS]))
    assert np.array_equal(together[::-1], one.encode_texts(TEXTS[::-1]))


def test_nor_do_those_of_a_model_that_draws(stable_diffusion, seen):
    generator = load_generator(str(stable_diffusion), steps=1)
    (encoder,) = own_text_encoders(generator)
    seen.clear()
    encoder.encode_texts(TEXTS)
    PromptEmbeddings(generator.pipeline, guided=True, negative_prompt=None)(TEXTS)
    assert set(seen) == {1}
    assert torch.get_num_threads() == THREADS
