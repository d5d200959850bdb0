"""The diffusers adapter over real, tiny Stable Diffusion pipelines."""

import dataclasses
import json
import re
import shutil

import diffusers
import numpy as np
import pytest

from clinometer._torch import torch
from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import GenerationRequest, load_generator
from clinometer.models.diffusers.pipeline import load
from tests.builders import tiny_stable_diffusion
from tests.raising import raises

PROMPTS = ["an image of a firefighter", "a man", "an image of a firefighter", "a woman", "a nurse"]


def requests(prompts=PROMPTS):
    return [GenerationRequest(f"{index}", prompt, 1000 + index) for index, prompt in enumerate(prompts)]


def draw(generator, asked=None):
    """The images by id, as signed integers so that differences can be taken."""
    results = generator.generate(asked or requests())
    return {result.id: np.asarray(result.image, dtype=int) for result in results}


def furthest(first, second):
    assert first.keys() == second.keys()
    return max(np.abs(first[key] - second[key]).max() for key in first)


def test_an_image_is_what_diffusers_itself_draws(stable_diffusion):
    generator = load(str(stable_diffusion), steps=4, guidance_scale=5.0, batch_size=1)
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(stable_diffusion)
    pipeline.set_progress_bar_config(disable=True)
    for request in requests()[:2]:
        noise = torch.Generator("cpu").manual_seed(request.seed)
        plain = pipeline(request.prompt, num_inference_steps=4, guidance_scale=5.0, generator=noise).images[0]
        assert np.array_equal(draw(generator, [request])[request.id], np.asarray(plain))


@pytest.mark.parametrize(
    "scheduler",
    [
        None,
        "EulerAncestralDiscreteScheduler",  # draws noise on the way
        pytest.param("DDPMScheduler", marks=pytest.mark.thorough),
    ],
)
def test_batch_size_changes_an_image_by_one_level_at_most(stable_diffusion, scheduler):
    generator = load(str(stable_diffusion), steps=3, scheduler=scheduler, batch_size=1)
    single = draw(generator)
    for size in (2, 5):
        generator.batch_size = size
        # Sums of float32 run in another order; of 8-bit levels, rounding may then cross one.
        assert furthest(draw(generator), single) <= 1


@pytest.mark.parametrize(
    "scheduler", [pytest.param(None, marks=pytest.mark.thorough), "EulerAncestralDiscreteScheduler"]
)
def test_order_and_company_do_not_matter(stable_diffusion, scheduler):
    generator = load(str(stable_diffusion), steps=4, scheduler=scheduler, batch_size=3)
    whole = draw(generator)
    assert furthest(draw(generator, requests()[::-1]), whole) <= 1
    alone = draw(generator, requests()[3:4])
    assert np.abs(alone["3"] - whole["3"]).max() <= 1


def test_the_same_again_is_the_same_bit_for_bit(stable_diffusion):
    first = draw(load(str(stable_diffusion), steps=3))
    assert furthest(draw(load(str(stable_diffusion), steps=3)), first) == 0


def test_seed_and_prompt_both_matter(stable_diffusion):
    generator = load(str(stable_diffusion), steps=2)
    drawn = draw(
        generator,
        [GenerationRequest("a", "x", 1), GenerationRequest("b", "x", 2), GenerationRequest("c", "y", 1)],
    )
    assert not np.array_equal(drawn["a"], drawn["b"])
    assert not np.array_equal(drawn["a"], drawn["c"])


def test_each_prompt_is_encoded_once(stable_diffusion, monkeypatch):
    generator = load(str(stable_diffusion), steps=1, batch_size=2)
    asked = []
    encode = generator.pipeline.encode_prompt

    def counted(prompt=None, *args, prompt_embeds=None, **kwargs):
        if prompt_embeds is None:
            asked.append(prompt)
        return encode(prompt, *args, prompt_embeds=prompt_embeds, **kwargs)

    monkeypatch.setattr(generator.pipeline, "encode_prompt", counted)
    draw(generator)
    draw(generator)
    assert sorted(asked) == sorted(["", *set(PROMPTS)])


@pytest.mark.parametrize(("guidance", "rows"), [(1.0, 2), (0.0, 2), (1.5, 4)])
def test_guidance_of_one_or_less_skips_the_unconditional_pass(stable_diffusion, guidance, rows):
    generator = load(str(stable_diffusion), steps=1, guidance_scale=guidance, batch_size=2)
    seen = []
    generator.pipeline.unet.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    draw(generator, requests()[:2])
    assert seen == [rows]


def test_a_negative_prompt_is_what_diffusers_takes_it_for(stable_diffusion):
    generator = load(str(stable_diffusion), steps=3, negative_prompt="a man", batch_size=1)
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(stable_diffusion)
    pipeline.set_progress_bar_config(disable=True)
    noise = torch.Generator("cpu").manual_seed(1000)
    plain = pipeline(PROMPTS[0], negative_prompt="a man", num_inference_steps=3, generator=noise).images[0]
    assert np.array_equal(draw(generator, requests()[:1])["0"], np.asarray(plain))


def test_v_prediction(stable_diffusion, tmp_path):
    velocity = tiny_stable_diffusion(tmp_path / "v", prediction_type="v_prediction")
    generator = load(str(velocity), steps=3)
    plain = load(str(stable_diffusion), steps=3)
    assert furthest(draw(generator), draw(plain)) > 1  # the same weights, read differently
    assert generator.card.weights_sha256 == plain.card.weights_sha256
    assert generator.card.fingerprint != plain.card.fingerprint
    generator.batch_size = 1
    single = draw(generator)
    generator.batch_size = 5
    assert furthest(draw(generator), single) <= 1


def test_the_safety_checker_refuses(tmp_path):
    generator = load(str(tiny_stable_diffusion(tmp_path / "safe", safety_checker=True)), steps=1)
    assert generator.card.settings["safety_checker"] is True
    for result in generator.generate(requests()[:3]):
        assert (result.status, result.image) == ("refused", None)
        assert "safety checker" in result.reason


def test_what_the_safety_checker_marks_is_kept(tmp_path):
    """The tiny checker flags everything."""
    path = str(tiny_stable_diffusion(tmp_path / "safe", safety_checker=True))
    marking, without = (load(path, steps=1, safety_checker=how) for how in ("mark", "off"))
    assert marking.card.settings["safety_checker"] == "mark"
    for marked, drawn in zip(marking.generate(requests()[:3]), without.generate(requests()[:3]), strict=True):
        assert (marked.status, marked.flagged, drawn.flagged) == ("ok", True, False)
        assert marked.image.tobytes() == drawn.image.tobytes()


def test_only_a_checker_that_is_there_marks(stable_diffusion):
    with raises(ModelError, code=Code.UNSUPPORTED, field="safety_checker"):
        load(str(stable_diffusion), safety_checker="mark")


def test_an_image_of_one_colour_is_blank_and_kept(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1)
    torch.nn.init.zeros_(generator.pipeline.vae.decoder.conv_out.weight)
    torch.nn.init.zeros_(generator.pipeline.vae.decoder.conv_out.bias)
    result = next(generator.generate(requests()[:1]))
    assert result.status == "blank"
    assert result.image.getpixel((0, 0)) == (128, 128, 128)
    assert "one colour" in result.reason


def test_values_that_are_not_finite_are_a_failure_with_a_way_out(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1)
    torch.nn.init.constant_(generator.pipeline.vae.decoder.conv_out.bias, float("nan"))
    result = next(generator.generate(requests()[:1]))
    assert result.status == "failed"
    assert "float32" in result.reason


def test_one_image_that_fails_does_not_take_its_batch_along(stable_diffusion):
    generator = load(str(stable_diffusion), steps=2, batch_size=5, guidance_scale=1.0)
    whole = draw(generator)
    poison = generator._conditioning(["a woman"], [1003])["latents"]

    def trip(module, inputs):
        if any(torch.equal(row, poison[0]) for row in inputs[0]):
            raise ValueError("a kernel stumbled\nover something")

    generator.pipeline.unet.register_forward_pre_hook(trip)
    results = {result.id: result for result in generator.generate(requests())}
    assert {key: result.status for key, result in results.items()} == {
        "0": "ok", "1": "ok", "2": "ok", "3": "failed", "4": "ok"
    }  # fmt: skip
    assert results["3"].reason == "ValueError: a kernel stumbled"
    for key in "0124":
        assert np.abs(np.asarray(results[key].image, dtype=int) - whole[key]).max() <= 1


@pytest.mark.parametrize(
    "error",
    [torch.OutOfMemoryError("CUDA out of memory."), pytest.param(MemoryError(), marks=pytest.mark.thorough)],
)
def test_out_of_memory_halves_the_batch(stable_diffusion, error):
    generator = load(str(stable_diffusion), steps=2, batch_size=8, guidance_scale=1.0)
    sizes = []

    def trip(module, inputs):
        sizes.append(len(inputs[0]))
        if len(inputs[0]) > 2:
            raise error

    handle = generator.pipeline.unet.register_forward_pre_hook(trip)
    asked = [GenerationRequest(str(number), "a nurse", number) for number in range(12)]
    results = list(generator.generate(asked))
    assert [result.id for result in results] == [request.id for request in asked]
    assert {result.status for result in results} == {"ok"}
    assert generator.batch_size == 2
    assert max(sizes[sizes.index(2) :]) <= 4  # it does not go back to what failed
    handle.remove()
    generator.batch_size = 1
    assert furthest(draw(generator, asked), {r.id: np.asarray(r.image, dtype=int) for r in results}) <= 1


def test_an_image_too_large_for_the_memory_fails_alone(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1, batch_size=2)

    def trip(module, inputs):
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    generator.pipeline.unet.register_forward_pre_hook(trip)
    assert [result.status for result in generator.generate(requests())] == ["failed"] * 5
    assert generator.batch_size == 1


def test_an_interrupt_passes(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1)

    def trip(module, inputs):
        raise KeyboardInterrupt

    generator.pipeline.unet.register_forward_pre_hook(trip)
    with pytest.raises(KeyboardInterrupt):
        list(generator.generate(requests()))


def test_requests_are_read_a_batch_at_a_time(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1, batch_size=2)
    read = []
    results = generator.generate(read.append(request) or request for request in requests())
    next(results)
    assert len(read) == 2
    assert next(results).seconds > 0


@pytest.mark.thorough
def test_the_card_says_what_changes_an_image_and_nothing_of_the_machine(stable_diffusion, tmp_path):
    card = load(str(stable_diffusion)).card
    json.dumps(dataclasses.asdict(card))
    assert card.name == "tiny-sd"
    assert card.family == "diffusers/StableDiffusionPipeline"
    assert str(stable_diffusion.parent) not in repr(card)
    assert {"steps": 50, "guidance_scale": 7.5, "height": 32, "width": 32}.items() <= card.settings.items()
    same = load(str(stable_diffusion), batch_size=3, device="cpu").card
    assert same.fingerprint == card.fingerprint
    copy = shutil.copytree(stable_diffusion, tmp_path / "tiny-sd")
    assert load(str(copy)).card.fingerprint == card.fingerprint
    others = [
        {"steps": 49}, {"guidance_scale": 7.0}, {"height": 40}, {"negative_prompt": "ugly"},
        {"dtype": "bfloat16"}, {"scheduler": "DDPMScheduler"},
    ]  # fmt: skip
    prints = {load(str(stable_diffusion), **other).card.fingerprint for other in others}
    assert len(prints | {card.fingerprint}) == 7
    weights = tiny_stable_diffusion(tmp_path / "other" / "tiny-sd", seed=1)
    assert load(str(weights)).card.fingerprint != card.fingerprint


def test_size_and_half_precision(stable_diffusion):
    generator = load(str(stable_diffusion), steps=1, height=16, width=48, dtype="bfloat16")
    assert draw(generator)["0"].shape == (16, 48, 3)


def test_a_variant_of_the_weights(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "variant", variant="fp16")
    with raises(ModelError, code=Code.NOT_FOUND, match="without a variant"):
        load(str(path))
    assert load(str(path), variant="fp16").card.weights_sha256
    for variant in ("fp", "bf16", ""):
        with raises(ModelError, code=Code.NOT_FOUND, field="variant", match=f"found '{variant}'"):
            load(str(path), variant=variant)


def test_a_setting_that_is_a_list_is_no_component(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "listed")
    index = json.loads((path / "model_index.json").read_text())
    (path / "model_index.json").write_text(json.dumps(index | {"text_encoder_select_layers": [2, 5], "few": [1, 2, 3]}))
    assert load(str(path), steps=1).card.name == "listed"


def test_weights_in_pickles_are_refused(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "pickled", safe_serialization=False)
    with raises(ModelError, code=Code.UNTRUSTED, match=r"pickled/unet: .*pickled weights.*save_pretrained"):
        load(str(path))


def test_a_pickled_safety_checker_is_not_read_where_it_is_off(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "safe", safety_checker=True)
    kept = load(str(path), steps=1, safety_checker="off").card
    weights = path / "safety_checker" / "model.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    with raises(ModelError, code=Code.UNTRUSTED, match=r"safe/safety_checker: .*pickled weights"):
        load(str(path))
    generator = load(str(path), steps=1, safety_checker="off")
    assert {result.status for result in generator.generate(requests()[:2])} == {"ok"}
    assert generator.card.weights_sha256 != kept.weights_sha256  # as before, a checker's safetensors count


def test_a_pickled_safety_checker_that_is_off_bars_no_variant(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "safe", safety_checker=True, variant="fp16")
    weights = path / "safety_checker" / "model.fp16.safetensors"
    weights.rename(weights.with_name("pytorch_model.bin"))
    assert load(str(path), variant="fp16", safety_checker="off").card.settings["safety_checker"] is False


def test_remote_code_is_refused(stable_diffusion, tmp_path):
    path = shutil.copytree(stable_diffusion, tmp_path / "remote")
    index = json.loads((path / "model_index.json").read_text())
    index["_class_name"] = ["pipeline", "Evil"]
    (path / "model_index.json").write_text(json.dumps(index))
    (path / "pipeline.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    with raises(ModelError, code=Code.UNTRUSTED):
        load(str(path))
    assert not (tmp_path / "ran").exists()


def test_what_is_not_a_pipeline(tmp_path, clip, stable_diffusion):
    with raises(ModelError, code=Code.MALFORMED, match=r"tiny-clip/model_index\.json: no such file"):
        load(str(clip))
    path = shutil.copytree(stable_diffusion, tmp_path / "image-to-image")
    index = json.loads((path / "model_index.json").read_text())
    index["_class_name"] = "StableDiffusionImg2ImgPipeline"
    (path / "model_index.json").write_text(json.dumps(index))
    with raises(ModelError, code=Code.UNSUPPORTED, match="Img2Img"):
        load(str(path))
    broken = shutil.copytree(stable_diffusion, tmp_path / "broken")
    (broken / "unet" / "diffusion_pytorch_model.safetensors").write_bytes(b"0123456789")
    with raises(ModelError, code=Code.UNREADABLE, match=r"broken: .*damaged: download it again"):
        load(str(broken))


@pytest.mark.parametrize("content", ["[1]", '{"unet": ["diffusers", "UNet2DConditionModel"]}', '{"_class_name": null}'])
def test_an_index_without_a_class_asks_for_no_trust(tmp_path, content):
    (tmp_path / "model_index.json").write_text(content)
    with raises(ModelError, code=Code.MALFORMED, match=r"/model_index\.json: .*_class_name") as refused:
        load(str(tmp_path))
    assert "trust" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "code", "field", "message"),
    [
        ({"steps": 0}, Code.OUT_OF_RANGE, "steps", "found 0"),
        ({"height": 33}, Code.OUT_OF_RANGE, "height", "found 33"),
        ({"width": -8}, Code.OUT_OF_RANGE, "width", "found -8"),
        ({"batch_size": 0}, Code.OUT_OF_RANGE, "batch_size", "found 0"),
        ({"device": "abacus"}, Code.UNKNOWN_NAME, "device", "found 'abacus'"),
        ({"device": "cuda:99"}, Code.NOT_FOUND, "device", "torch sees none here"),
        ({"dtype": "float8"}, Code.UNKNOWN_NAME, "dtype", "found 'float8'"),
        (
            {"scheduler": "MagicScheduler"},
            Code.UNKNOWN_NAME,
            "scheduler",
            "found 'MagicScheduler'",
        ),
        ({"scheduler": "SchedulerMixin"}, Code.UNKNOWN_NAME, "scheduler", "found 'SchedulerMixin'"),
        (
            {"scheduler": "DDIMShceduler"},
            Code.UNKNOWN_NAME,
            "scheduler",
            "found 'DDIMShceduler', did you mean DDIMScheduler?",
        ),
        ({"lora": "gone.safetensors"}, Code.NOT_FOUND, "lora", r"no file gone\.safetensors"),
        ({"lora": "gone"}, Code.NOT_FOUND, "lora", "no model at 'gone'"),
        ({"variant": "fp16"}, Code.NOT_FOUND, "variant", "found 'fp16'"),
    ],
)
def test_options_that_do_not_fit(stable_diffusion, options, code, field, message):
    with raises(ModelError, code=code, field=field, match=message):
        load(str(stable_diffusion), **options)


@pytest.mark.parametrize("component", ["unet", "scheduler"])
def test_a_component_that_is_missing_is_named(stable_diffusion, tmp_path, component):
    path = shutil.copytree(stable_diffusion, tmp_path / "lacking")
    for file in (path / component).iterdir():
        file.unlink()
    with raises(ModelError, code=Code.UNREADABLE, match=rf"lacking: .*{component}; download it again") as at:
        load(str(path))
    assert not re.search("[A-Z][a-z]+Error", str(at.value))
    (path / component).rmdir()
    message = f"lacking: model_index.json names {component}, and there is no such folder; download it again"
    with raises(ModelError, code=Code.INCOMPLETE, match=message):
        load(str(path))


def test_a_hub_model_that_is_not_cached(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    with raises(ModelError, code=Code.UNREACHABLE, match=r"nobody/nothing@v1: .*give its directory"):
        load("nobody/nothing@v1", offline=True)
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match="no such directory"):
        load("./nothing")


def test_any_other_pipeline_gets_prompts_and_generators(stable_diffusion, monkeypatch):
    monkeypatch.setattr("clinometer.models.diffusers.conditioning.ENCODE_PROMPT_OUTPUTS", {})
    generator = load(str(stable_diffusion), steps=3, batch_size=2)
    monkeypatch.undo()
    assert furthest(draw(generator), draw(load(str(stable_diffusion), steps=3, batch_size=2))) <= 1


def test_it_is_loaded_by_its_directory(stable_diffusion):
    assert load_generator(str(stable_diffusion), steps=1).card.settings["steps"] == 1


def test_the_reference_is_drawn_as_its_card_says(stable_diffusion, monkeypatch):
    from clinometer.models import reference

    monkeypatch.setattr(reference, "pipeline_path", lambda: stable_diffusion)
    monkeypatch.setattr(reference, "card", lambda: {"defaults": {"steps": 7, "guidance": 1.5, "size": 32}})
    card = load_generator("reference").card
    assert (card.name, card.settings["steps"], card.settings["guidance_scale"]) == ("reference", 7, 1.5)
    assert load_generator("reference", steps=2).card.settings["steps"] == 2
    with raises(ModelError, code=Code.UNKNOWN_NAME, match="after its name; found 'x'"):
        load_generator("reference:x")


@pytest.mark.parametrize("is_named", [True, False])
def test_a_safety_checker_that_cannot_see_is_named_with_our_option(tmp_path, is_named):
    """diffusers leaves the name of its own option in a template that it does not fill in."""
    path = tiny_stable_diffusion(tmp_path / "blind", safety_checker=True)
    shutil.rmtree(path / "feature_extractor")
    if not is_named:
        index = json.loads((path / "model_index.json").read_text())
        (path / "model_index.json").write_text(json.dumps(index | {"feature_extractor": [None, None]}))
    with raises(ModelError, code=Code.INCOMPLETE) as caught:
        load(str(path))
    said = str(caught.value)
    assert "feature_extractor" in said
    assert ("download it again" in said) if is_named else ("--safety-checker off" in said)
    assert "{" not in said


def _with_header(header, body=b"", length=None):
    return (len(header) if length is None else length).to_bytes(8, "little") + header + body


HOSTILE_LORAS = {
    "a pickle": b"\x80\x04cbuiltins\neval\n.",
    "an endless header": _with_header(b"{}", length=2**62),
    "a deep header": _with_header(b"[" * 100_000),
    "a huge tensor": _with_header(
        json.dumps({"unet.lora_A.weight": {"dtype": "F32", "shape": [2**40, 4], "data_offsets": [0, 64]}}).encode(),
        bytes(64),
    ),
    "nothing": b"",
}


@pytest.mark.parametrize("content", HOSTILE_LORAS.values(), ids=HOSTILE_LORAS.keys())
def test_a_lora_that_is_none_is_refused_in_a_line(stable_diffusion, tmp_path, content):
    (tmp_path / "lora.safetensors").write_bytes(content)
    with raises(ModelError, code=Code.MISMATCH, field="lora", match="download it again") as caught:
        load(str(stable_diffusion), lora=str(tmp_path / "lora.safetensors"))
    assert "\n" not in str(caught.value)


def test_a_convention_that_no_file_states_is_unknown_in_the_card(stable_diffusion, tmp_path):
    shutil.copytree(stable_diffusion, tmp_path / "sd")
    for file, key in (("scheduler/scheduler_config.json", "prediction_type"), ("vae/config.json", "scaling_factor")):
        place = tmp_path / "sd" / file
        held = json.loads(place.read_text())
        assert held.pop(key)
        place.write_text(json.dumps(held))
    notes = load(str(tmp_path / "sd")).card.notes
    assert notes["prediction type"].startswith("unknown; epsilon is diffusers' default")
    assert notes["scaling factor"].startswith("unknown; 0.18215 is diffusers' default")
    assert not {"prediction type", "scaling factor"} & load(str(stable_diffusion)).card.notes.keys()
