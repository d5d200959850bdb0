"""Editors that follow an instruction and take no strength: tiny, with random weights, saved, loaded and in a study."""

import diffusers
import numpy as np
import pytest

from clinometer._torch import torch
from clinometer.errors import Code, ModelError
from clinometer.models import GenerationRequest
from clinometer.models.description import capabilities_of
from clinometer.models.diffusers.pipeline import load
from clinometer.models.protocols import EditRequest, NamesStrength, offers
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.models.diffusers.families import _qwen_text, _unet, tiny_qwen_image
from tests.models.diffusers.further_families import tiny_flux2_klein
from tests.models.diffusers.pipelines import tiny_flux
from tests.quick import thorough_but
from tests.raising import raises
from tests.toy_editing import Reader, toy_suite
from tests.toys import paint

SIZE = 64  # the least that FLUX.2 takes
QWEN = "diffusers.pipelines.qwenimage.pipeline_qwenimage_edit.calculate_dimensions"
REQUESTS = [
    EditRequest(str(number), prompt, 100 + number, image=paint("before", number).resize((SIZE, SIZE)), strength=1.0)
    for number, prompt in enumerate(("make them a doctor", "make them old", "make them a cook"))
]


def instruct_pix2pix(folder):
    plain = diffusers.StableDiffusionPipeline.from_pretrained(tiny_stable_diffusion(folder / "plain"))
    parts = {name: plain.components[name] for name in ("vae", "text_encoder", "tokenizer", "scheduler")}
    return diffusers.StableDiffusionInstructPix2PixPipeline(
        **parts, unet=_unet(in_channels=8), safety_checker=None, feature_extractor=None, requires_safety_checker=False
    )


def flux_kontext(folder):
    without = ("image_encoder", "feature_extractor")
    parts = {name: part for name, part in tiny_flux().components.items() if name not in without}
    return diffusers.FluxKontextPipeline(**parts)


def qwen_image_edit(folder):
    """Its processor reads the picture as well: 28 pixels a side at the least, and a token for each patch."""
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor, Qwen2VLVideoProcessor

    parts = tiny_qwen_image().components
    tokenizer, text_encoder = _qwen_text()
    special = ["<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": special})
    text_encoder.resize_token_embeddings(len(tokenizer))
    for name, token in (("image_token_id", special[4]), ("video_token_id", special[5]),
                        ("vision_start_token_id", special[2]), ("vision_end_token_id", special[3])):  # fmt: skip
        setattr(text_encoder.config, name, tokenizer.convert_tokens_to_ids(token))
    pixels = {"min_pixels": 28 * 28, "max_pixels": 56 * 56}
    processor = Qwen2VLProcessor(Qwen2VLImageProcessor(**pixels), tokenizer, Qwen2VLVideoProcessor(**pixels))
    chosen = {name: parts[name] for name in ("vae", "transformer", "scheduler")}
    return diffusers.QwenImageEditPipeline(
        **chosen, text_encoder=text_encoder, tokenizer=tokenizer, processor=processor
    )


EDITORS = {
    "instruct-pix2pix": instruct_pix2pix,
    "flux-kontext": flux_kontext,
    "flux2-klein": lambda folder: tiny_flux2_klein(),
    "qwen-image-edit": qwen_image_edit,
}
DRAWING = ("flux-kontext", "flux2-klein")
SHORT = ("instruct-pix2pix", "flux-kontext")
"""A UNet and a transformer; `make test-all` takes the others."""


@pytest.fixture(
    scope="module",
    params=thorough_but(EDITORS, *SHORT),
)
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        EDITORS[request.param](folder).save_pretrained(folder / request.param)
    return folder / request.param


@pytest.fixture
def editor(saved, monkeypatch):
    monkeypatch.setattr(QWEN, lambda area, ratio: (SIZE, SIZE, None))  # else it edits in 1024 x 1024
    return opened(saved).editor()


def opened(saved):
    size = {} if saved.name == "instruct-pix2pix" else {"height": SIZE, "width": SIZE}
    return load(str(saved), steps=2, device="cpu", **size)


def pixels(results):
    results = list(results)
    assert [each.status for each in results] == ["ok"] * len(results), [each.reason for each in results]
    return [np.asarray(each.image, int) for each in results]


@pytest.mark.thorough
def test_it_edits_the_image_as_its_instruction_says_and_repeats_itself(editor, saved):
    assert offers(editor, NamesStrength)
    assert not editor.names_strength
    edited = pixels(editor.edit(REQUESTS))
    assert edited[0].shape == (SIZE, SIZE, 3)
    assert all(np.array_equal(*pair) for pair in zip(edited, pixels(editor.edit(REQUESTS[::-1]))[::-1], strict=True))
    image, prompt = REQUESTS[0].image, REQUESTS[1].prompt
    other_image = EditRequest("1", REQUESTS[0].prompt, 100, image=REQUESTS[1].image, strength=1.0)
    other_prompt = EditRequest("2", prompt, 100, image=image, strength=1.0)
    other_strength = EditRequest("3", REQUESTS[0].prompt, 100, image=image, strength=0.3)
    by_image, by_prompt, by_strength = pixels(editor.edit([other_image, other_prompt, other_strength]))
    assert not np.array_equal(by_image, edited[0])
    assert not np.array_equal(by_prompt, edited[0])
    assert np.array_equal(by_strength, edited[0])


def test_it_says_what_it_can_do_and_draws_only_where_its_pipeline_does(saved):
    generator = opened(saved)
    able = capabilities_of(generator)
    assert able.edit
    assert able.takes["strength of edits"] == "none: it edits by instruction"
    request = GenerationRequest("1", "a cook", 1)
    if saved.name in DRAWING:
        assert pixels(generator.generate([request]))[0].shape == (SIZE, SIZE, 3)
    else:
        with raises(ModelError, code=Code.UNSUPPORTED, match="with --portraits"):
            list(generator.generate([request]))


@pytest.mark.thorough
def test_several_strengths_are_refused_and_given_portraits_edited(saved, tmp_path, monkeypatch):
    monkeypatch.setattr(QWEN, lambda area, ratio: (SIZE, SIZE, None))
    suite = toy_suite(strengths=[1.0], images={"group": 1})
    rows = [f"{group}-0.png" for group in suite.groups]
    for file in rows:
        paint("before", 1).resize((SIZE, SIZE)).save(tmp_path / file)
    (tmp_path / "manifest.csv").write_text("file,group\n" + "".join(f"{file},{file.split('-')[0]}\n" for file in rows))
    asked = {"portraits": tmp_path, "encoder": Reader(), "model": opened(saved)}
    with raises(ModelError, code=Code.UNSUPPORTED, match="2 strengths"):
        quick.audit(suite=toy_suite(images={"group": 1}), out=tmp_path / "two", **asked)
    run = quick.audit(suite=suite, out=tmp_path / "run", **asked)
    assert set(run.samples.status) <= {"ok", "blank"}
    assert {"portrait", "edit"} == set(run.samples.role)
