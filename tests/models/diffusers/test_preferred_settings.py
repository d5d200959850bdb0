"""Settings that are wished for: taken where a model has them, left out where it has not, beaten by what is asked."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import load_encoder, load_generator, registered
from clinometer.models.protocols import EditRequest
from clinometer.models.registry import ENCODER_PRESETS, open_clip_architectures, with_presets
from tests.raising import raises

WISHES = {"steps": 3, "guidance_scale": 4.5, "height": 48, "width": 40}


def settings(source, **options):
    return load_generator(str(source), **options).card.settings


def test_a_wish_is_the_same_as_asking(stable_diffusion):
    wished, asked = (load_generator(str(stable_diffusion), **each) for each in ({"prefer": WISHES}, WISHES))
    assert wished.card == asked.card
    assert {key: wished.card.settings[key] for key in WISHES} == WISHES


def test_what_is_asked_beats_what_is_wished(stable_diffusion):
    found = settings(stable_diffusion, prefer=WISHES, steps=2, width=32)
    assert (found["steps"], found["width"], found["height"], found["guidance_scale"]) == (2, 32, 48, 4.5)


def test_a_wish_beats_the_reference_models_defaults():
    assert settings("reference", prefer={"steps": 3})["steps"] == 3
    assert settings("reference", prefer={"steps": 3}, steps=4)["steps"] == 4


def test_without_wishes_the_card_is_as_it_was(stable_diffusion):
    plain = settings(stable_diffusion)
    assert plain == settings(stable_diffusion, prefer={}) == settings(stable_diffusion, prefer=None)
    assert not {"edit_steps", "edit_guidance_scale"} & set(plain)


def test_a_pipeline_without_a_setting_leaves_the_wish_out(families):
    """A distilled Sana has no prior to set; what is asked outright is refused, what is wished for is not."""
    with raises(ModelError, code=Code.UNSUPPORTED, field="prior_steps"):
        load_generator(str(families("sana")), prior_steps=2)
    assert "prior_steps" not in settings(families("sana"), prefer={"prior_steps": 2, "steps": 2})


def portraits():
    noise = np.random.default_rng(0)
    return [
        EditRequest(str(n), "a doctor", n, Image.fromarray(noise.integers(0, 255, (32, 32, 3), np.uint8)), strength)
        for n, strength in enumerate((0.6, 1.0))
    ]


def edited(generator):
    return [np.asarray(result.image) for result in generator.editor().edit(portraits())]


@pytest.mark.parametrize("guidance", [1.0, 7.5])
def test_edits_have_settings_of_their_own(stable_diffusion, guidance):
    """Portraits at 6 steps and guidance 8.5, edits at others: the edits are those of a model that always has them."""
    apart = load_generator(
        str(stable_diffusion), steps=6, guidance_scale=8.5, edit_steps=4, edit_guidance_scale=guidance
    )
    together = load_generator(str(stable_diffusion), steps=4, guidance_scale=guidance)
    for ours, theirs in zip(edited(apart), edited(together), strict=True):
        assert np.array_equal(ours, theirs)
    assert apart.card.settings["edit_steps"] == 4
    assert apart.card.settings["edit_guidance_scale"] == guidance
    assert apart.card.settings["steps"] == 6


def test_settings_of_edits_do_not_touch_what_is_drawn(stable_diffusion):
    both = [load_generator(str(stable_diffusion), steps=3, **more) for more in ({}, {"edit_steps": 2})]
    first, second = ([np.asarray(r.image) for r in each.generate(portraits())] for each in both)
    assert all(map(np.array_equal, first, second))


def test_settings_of_edits_that_do_not_fit_are_named(stable_diffusion):
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="edit_steps", match="found 0"):
        load_generator(str(stable_diffusion), edit_steps=0)
    with raises(ModelError, code=Code.OUT_OF_RANGE, field="edit_guidance_scale", match="found -1"):
        load_generator(str(stable_diffusion), edit_guidance_scale=-1.0)


@pytest.mark.parametrize(
    ("model", "size"), [("dall-e-2", "512x512"), ("dall-e-3", None), ("gpt-image-1", None), ("some-model", None)]
)
def test_a_server_is_asked_for_a_size_that_it_has(monkeypatch, model, size):
    pytest.importorskip("openai")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
    wishes = {"steps": 50, "guidance_scale": 7.5, "height": 512, "width": 512}
    found = settings(f"openai:{model}", price=0.02, prefer=wishes)
    assert found.get("size") == size
    assert "steps" not in found
    asked = settings(f"openai:{model}", price=0.02, prefer=wishes, height=256, width=256)
    assert asked["size"] == "256x256"


def test_the_six_encoders_of_the_internal_bias_paper():
    six = ENCODER_PRESETS["openai-clip-six"]
    assert [name.partition("/")[0] for name in six] == ["RN50", "RN101", "RN50x4", "RN50x16", "ViT-B-32", "ViT-B-16"]
    assert all(name.endswith("/openai") for name in six)
    assert {name.partition("/")[0] for name in six} <= open_clip_architectures()
    assert with_presets(["openai-clip-six"]) == list(six)
    assert with_presets(["reference", "openai-clip-six", "other"]) == ["reference", *six, "other"]
    assert with_presets(["RN50x4/openai", "openai-clip-six"]) == ["RN50x4/openai", *(n for n in six if "x4" not in n)]
    assert ("encoders", "openai-clip-six", ", ".join(six)) in registered()


def test_a_preset_is_no_single_encoder():
    with raises(ModelError, code=Code.UNSUPPORTED, match="RN50/openai"):
        load_encoder("openai-clip-six")
    with raises(ModelNotFoundError, code=Code.NOT_FOUND):
        load_encoder("openai-clip-seven")


def test_weights_of_the_six_come_as_safetensors():
    """So no pickle is read: open_clip knows a repository for each."""
    from clinometer.models.encoders.open_clip import open_clip

    for name in ENCODER_PRESETS["openai-clip-six"]:
        architecture, _, tag = name.partition("/")
        assert open_clip.get_pretrained_cfg(architecture, tag)["hf_hub"]
