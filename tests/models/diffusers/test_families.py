"""Every family of text-to-image models behind one adapter: tiny, with random weights, saved, loaded, drawn, resumed."""

import json
import logging
import shutil

import diffusers
import numpy as np
import pytest
from PIL import Image

import clinometer as cm
from clinometer._torch import torch
from clinometer.errors import Code, ModelError, ModelNotFoundError
from clinometer.models import GenerationRequest
from clinometer.models.description import capabilities_of
from clinometer.models.diffusers.classifier import DiffusionClassifier
from clinometer.models.diffusers.conditioning import prior_of
from clinometer.models.diffusers.mitigated import apply_lora
from clinometer.models.diffusers.pipeline import load
from clinometer.models.encoders.own_text import own_text_encoders
from clinometer.models.protocols import EditRequest
from tests import quick
from tests.builders import tiny_stable_diffusion
from tests.docs.pages import page, table_rows
from tests.models.diffusers.drawing import PROMPTS, REQUESTS, draw, furthest, opened
from tests.models.diffusers.families import ALL, EACH, tiny_kandinsky_decoder, tiny_kandinsky_prior
from tests.raising import raises
from tests.toys import Eye, toy_suite


@pytest.mark.parametrize("name", EACH)
def test_the_same_seed_is_the_same_image_whatever_the_batch(families, shared, name):
    together = draw(shared(name))
    assert together[0].shape == (32, 32, 3)
    generator = opened(families, name)
    assert furthest(draw(generator), together) == 0  # loaded again: bit for bit
    generator.batch_size = 1
    assert furthest(draw(generator), together) <= 1  # rounding of one level of 255
    other = [GenerationRequest("x", PROMPTS[0], 7), GenerationRequest("y", PROMPTS[2], 100)]
    by_seed, by_prompt = draw(generator, other)
    assert not np.array_equal(by_seed, together[0])
    assert not np.array_equal(by_prompt, together[0])


@pytest.mark.parametrize("name", EACH)
def test_an_image_is_what_the_pipeline_itself_draws(shared, name):
    """What the adapter adds (embeddings and noise made in advance) changes nothing that its user would see."""
    generator = shared(name)
    pipeline = generator.pipeline
    negative = generator.card.settings["negative_prompt"]
    call = generator._call | ({} if negative is None else {"negative_prompt": negative})
    plain = pipeline(
        prompt=PROMPTS[1], generator=torch.Generator("cpu").manual_seed(101), output_type="np", **call
    ).images[0]
    assert furthest(draw(generator, REQUESTS[1:2]), [(plain * 255).round().astype(int)]) <= 1


class Stopping(Eye):
    """Ends an audit once its images are drawn: what follows is none of the family's."""

    def encode_texts(self, texts):
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    "name", ["sdxl", *(pytest.param(name, marks=pytest.mark.thorough) for name in ALL if name != "sdxl")]
)
def test_a_stopped_audit_goes_on_and_ends_the_same(families, shared, name, tmp_path, monkeypatch):
    suite = toy_suite(target=1, attribute=1, concepts=2)
    stopped = shared(name)
    with pytest.raises(KeyboardInterrupt):
        quick.audit(stopped, suite, tmp_path / "whole", encoder=Stopping())
    whole = cm.open_run(tmp_path / "whole")
    generate, drawn = stopped.generate, []

    def stop(requests):
        for result in generate(requests):
            drawn.append(result.id)
            if len(drawn) > 4:
                raise KeyboardInterrupt
            yield result

    monkeypatch.setattr(stopped, "generate", stop)
    with pytest.raises(KeyboardInterrupt):
        quick.audit(stopped, suite, tmp_path / "run", encoder=Eye())
    with pytest.raises(KeyboardInterrupt):
        quick.audit(opened(families, name), suite, tmp_path / "run", encoder=Stopping())
    again = cm.open_run(tmp_path / "run")
    assert list(again.samples.sha256) == list(whole.samples.sha256)
    assert set(again.samples.status) == {"ok"}


@pytest.mark.parametrize("name", EACH)
def test_what_a_family_can_do_it_does(shared, name):
    generator = shared(name)
    able = capabilities_of(generator)
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8))
    if able.edit and generator.editor().names_strength:  # the others are in test_instruction_editors
        requests = [EditRequest(str(seed), "a pilot", seed, image, 0.6) for seed in (1, 2)]
        editor = generator.editor()
        edited = list(editor.edit(requests))
        assert [each.status for each in edited] == ["ok", "ok"]
        editor.batch_size = 1
        alone = [np.asarray(each.image, int) for each in editor.edit(requests)]
        assert furthest(alone, [np.asarray(each.image, int) for each in edited]) <= 1
    if able.classify:
        classifier = DiffusionClassifier(generator.denoiser(), ["cook", "pilot"], trials=2)
        assert np.isfinite(classifier.errors([image]).errors).any()


@pytest.mark.thorough
def test_the_table_of_families_is_what_they_can_do(families):
    told = {row[0].strip("`"): row[1:] for row in table_rows(page("docs/models.md"), "family")}
    assert list(told) == list(ALL)
    for name, row in told.items():
        generator = load(str(families(name)))
        able = capabilities_of(generator)
        encoders, own_text = (", ".join(f"`{each}`" for each in named) for named in (able.text_encoders, able.own_text))
        yes_or_no = ["yes" if each else "no" for each in (able.edit, able.classify, able.prior)]
        kind = f"`{type(generator.pipeline).__name__}`"
        assert row == [kind, *yes_or_no[:2], encoders, own_text, yes_or_no[2]], name
        assert [each.card.name for each in own_text_encoders(generator)] == list(able.own_text), name
        assert (prior_of(generator) is not None) == able.prior, name


def test_the_same_noise_for_every_precision(families):
    """Noise is drawn in float32 and rounded, so a bfloat16 image stays near the float32 one of its seed."""
    near = draw(opened(families, "sdxl", dtype="bfloat16"))
    images = draw(opened(families, "sdxl"))
    other = draw(opened(families, "sdxl"), [GenerationRequest("o", PROMPTS[0], 999)])
    assert np.abs(near[0] - images[0]).mean() < np.abs(other[0] - images[0]).mean() / 2


def test_nothing_is_heard_of_what_diffusers_does_by_itself(families):
    """SDXL's VAE is cast at every batch, and diffusers warned of it at every module."""
    heard = []
    listener = logging.Handler()
    listener.emit = heard.append
    logger = logging.getLogger("diffusers")
    logger.addHandler(listener)
    try:
        draw(opened(families, "sdxl", dtype="float16", device="cpu"))
        assert [record.getMessage() for record in heard] == []
    finally:
        logger.removeHandler(listener)


def test_guidance_that_needs_a_negative_prompt_gets_an_empty_one(families):
    assert opened(families, "qwen-image").card.settings["negative_prompt"] == " "
    assert opened(families, "qwen-image", guidance_scale=1.0).card.settings["negative_prompt"] is None
    assert opened(families, "qwen-image", negative_prompt="ugly").card.settings["negative_prompt"] == "ugly"


def test_a_decoder_finds_its_prior_through_its_readme(families, tmp_path):
    prior, decoder = tmp_path / "prior", tmp_path / "decoder"
    torch.manual_seed(0)
    tiny_kandinsky_prior().save_pretrained(prior)
    tiny_kandinsky_decoder().save_pretrained(decoder)
    (decoder / "README.md").write_text(f"---\nprior:\n- {prior}\n---\n")
    options = {"steps": 2, "prior_steps": 2, "height": 32, "width": 32}
    generator = load(str(decoder), **options)
    assert generator.card.family == "diffusers/KandinskyV22CombinedPipeline"
    assert draw(generator)[0].shape == (32, 32, 3)
    assert str(tmp_path) not in repr(generator.card)
    torch.manual_seed(1)
    tiny_kandinsky_prior().save_pretrained(prior)
    assert load(str(decoder), **options).card.weights_sha256 != generator.card.weights_sha256


def test_a_decoder_without_its_prior_is_refused(tmp_path):
    tiny_kandinsky_decoder().save_pretrained(tmp_path / "decoder")
    with raises(ModelError, code=Code.UNSUPPORTED, match="KandinskyV22Pipeline needs more"):
        load(str(tmp_path / "decoder"))


@pytest.mark.parametrize(
    ("name", "option", "code", "field", "message"),
    [
        ("unclip", {"height": 64}, Code.UNSUPPORTED, "height", "a UnCLIPPipeline"),
        ("unclip", {"negative_prompt": "x"}, Code.UNSUPPORTED, "negative_prompt", "a UnCLIPPipeline"),
        ("unclip", {"prior_steps": 0}, Code.OUT_OF_RANGE, "prior_steps", "found 0"),
        ("sd-1", {"prior_steps": 3}, Code.UNSUPPORTED, "prior_steps", "a StableDiffusionPipeline"),
        ("sd-1", {"safety_checker": "maybe"}, Code.UNKNOWN_NAME, "safety_checker", "found 'maybe'"),
        ("sd-1", {"offload": "model", "device": "cpu"}, Code.UNSUPPORTED, "offload", "on the CPU"),
        ("sd-1", {"offload": "all"}, Code.UNKNOWN_NAME, "offload", "found 'all'"),
        ("unclip", {"vae_tiling": True}, Code.UNSUPPORTED, "vae_tiling", "NoneType of a UnCLIPPipeline"),
        ("sd-1", {"trust_remote_code": "other"}, Code.UNTRUSTED, "trust_remote_code", "found 'other'"),
        ("unclip", {"lora": "./x"}, Code.UNSUPPORTED, "lora", "this model takes none"),
        ("sd-1", {"lora_scale": 0.5}, Code.UNSUPPORTED, "lora_scale", r"found 0\.5"),
    ],
)
def test_options_that_do_not_fit(families, name, option, code, field, message):
    with raises(ModelError, code=code, field=field, match=message):
        load(str(families(name)), **option)


def test_a_pipeline_that_diffusers_does_not_know(families, tmp_path):
    path = shutil.copytree(families("sd-1"), tmp_path / "future")
    index = json.loads((path / "model_index.json").read_text())
    (path / "model_index.json").write_text(json.dumps(index | {"_class_name": "Dream9Pipeline"}))
    with raises(ModelError, code=Code.UNSUPPORTED, match=r"future: .*no Dream9Pipeline; upgrade"):
        load(str(path))


REMOTE = """
import diffusers

class Own(diffusers.StableDiffusionPipeline):
    pass
"""


def test_remote_code_runs_when_asked_for_by_name(families, tmp_path):
    path = shutil.copytree(families("sd-1"), tmp_path / "remote")
    index = json.loads((path / "model_index.json").read_text())
    (path / "model_index.json").write_text(json.dumps(index | {"_class_name": ["pipeline", "Own"]}))
    (path / "pipeline.py").write_text(REMOTE)
    with raises(ModelError, code=Code.UNTRUSTED, match="give --trust-remote-code remote"):
        load(str(path))
    generator = load(str(path), steps=1, trust_remote_code="remote")
    assert generator.card.family == "diffusers/Own"
    assert draw(generator, REQUESTS[:1])[0].shape == (32, 32, 3)


def test_a_safety_checker_can_be_put_off(tmp_path):
    path = tiny_stable_diffusion(tmp_path / "safe", safety_checker=True)
    kept, off = load(str(path), steps=1), load(str(path), steps=1, safety_checker="off")
    assert [each.status for each in kept.generate(REQUESTS)] == ["refused"] * 3
    assert [each.status for each in off.generate(REQUESTS)] == ["ok"] * 3
    assert kept.card.fingerprint != off.card.fingerprint


@pytest.mark.thorough
def test_tiles_and_compilation_are_on_the_card(families):
    card = opened(families, "sd-1", vae_tiling=True).card
    assert card.settings["vae_tiling"] is True
    assert card.fingerprint != opened(families, "sd-1").card.fingerprint
    assert opened(families, "sd-1", compile=True).card.settings["compiled"] is True  # compiles at the first batch


# --- low-rank adaptation -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lora(families, tmp_path_factory):
    """A LoRA of the UNet's attention, with random weights, as its trainer saves it."""
    peft = pytest.importorskip("peft")
    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(families("sd-1"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        pipeline.unet.add_adapter(
            peft.LoraConfig(r=2, target_modules=["to_k", "to_q", "to_v"], init_lora_weights="gaussian")
        )
        for key, value in pipeline.unet.named_parameters():
            if "lora_B" in key:
                torch.nn.init.normal_(value)
    path = tmp_path_factory.mktemp("lora")
    layers = peft.get_peft_model_state_dict(pipeline.unet)
    pipeline.save_lora_weights(path, unet_lora_layers=layers)
    return path


def test_a_lora_is_merged_and_recorded(families, lora):
    plain = opened(families, "sd-1")
    with_lora = opened(families, "sd-1", lora=str(lora))
    assert furthest(draw(plain), draw(with_lora)) > 1
    assert furthest(draw(plain), draw(opened(families, "sd-1", lora=str(lora), lora_scale=0.0))) <= 1
    recorded = with_lora.card.settings["lora"]
    assert (recorded["name"], recorded["scale"]) == (lora.name, 1.0)
    assert with_lora.card.fingerprint != plain.card.fingerprint


def test_what_is_told_here_diffusers_does_not_tell_as_well(families, lora, tmp_path, caplog, monkeypatch):
    """That a LoRA is of the UNet alone, and that a checker took an image, which counts as refused."""
    monkeypatch.setattr(logging.getLogger("diffusers"), "propagate", True)
    opened(families, "sd-1", lora=str(lora))
    checked = load(str(tiny_stable_diffusion(tmp_path / "safe", safety_checker=True)), steps=1)
    assert {each.status for each in checked.generate(REQUESTS)} == {"refused"}
    assert not caplog.messages


def test_a_lora_equals_the_weights_it_stands_for(families, lora):
    """W + 0.5 · B A, merged by hand."""
    from safetensors.torch import load_file

    merged = opened(families, "sd-1")
    layers = load_file(next(lora.glob("*.safetensors")))
    for key in [key for key in layers if key.endswith("lora_A.weight")]:
        module = merged.pipeline.unet.get_submodule(key.removeprefix("unet.").removesuffix(".lora_A.weight"))
        module.weight.data += 0.5 * layers[key.replace("lora_A", "lora_B")] @ layers[key] * (8 / 2) / 4
    assert furthest(draw(merged), draw(opened(families, "sd-1", lora=str(lora), lora_scale=0.5))) <= 1


def changed_lora(lora, path, change):
    """The LoRA with other names or numbers: ``change`` maps the place of a layer, its name and numbers."""
    from safetensors.torch import load_file, save_file

    weights = load_file(next(lora.glob("*.safetensors")))
    layers = list(dict.fromkeys(key.partition(".lora_")[0] for key in weights))
    found = [change(layers.index(key.partition(".lora_")[0]), key, value) for key, value in weights.items()]
    save_file(dict(found), path)
    return path, len(layers)


def test_the_weights_of_a_lora_that_find_a_place_are_counted(families, lora, tmp_path):
    whole = opened(families, "sd-1", lora=str(lora)).card
    n = int(whole.notes["lora"].split()[0])
    assert whole.notes["lora"] == f"{n} of {n} weights found a place in the model"
    assert "placed" not in whole.settings["lora"]
    few, layers = changed_lora(
        lora,
        tmp_path / "few.safetensors",
        lambda at, key, value: (key if at == 0 else key.replace("unet.", "text_encoder_2."), value),
    )
    assert n == 2 * layers
    with raises(ModelError, code=Code.MISMATCH, field="lora", match=rf"2 of the {n} weights .* give --lora-partly"):
        opened(families, "sd-1", lora=str(few))
    card = opened(families, "sd-1", lora=str(few), lora_partly=True).card
    assert card.settings["lora"]["placed"] == f"2 of {n} weights"
    assert card.notes["lora"] == f"2 of {n} weights found a place in the model"


def test_a_lora_with_numbers_that_are_none_is_refused(families, lora, tmp_path):
    path, _ = changed_lora(lora, tmp_path / "nan.safetensors", lambda at, key, value: (key, value / (at > 0)))
    with raises(ModelError, code=Code.NOT_FINITE, field="lora", match=r"nan\.safetensors holds numbers"):
        opened(families, "sd-1", lora=str(path))


def with_settings(lora, path, settings=None, change=lambda weights: weights):
    """The LoRA with settings of its own in its file, as diffusers writes them."""
    from safetensors.torch import load_file, save_file

    weights = change(load_file(next(lora.glob("*.safetensors"))))
    said = {f"unet.{key}": value for key, value in (settings or {}).items()}
    save_file(weights, path, {"lora_adapter_metadata": json.dumps(said)} if said else None)
    return str(path)


ENDLESS = r"((\w|\.)+)+!"  # as a regular expression: forever, at any name of a layer
OWN = {"r": 2, "lora_alpha": 2, "target_modules": ["to_q", "to_k", "to_v"]}
HARMFUL = {
    "r": 2**30, "lora_alpha": float("nan"), "target_modules": ENDLESS, "rank_pattern": {ENDLESS: 2},
    "alpha_pattern": {"to_q": float("inf")}, "layers_pattern": ENDLESS, "init_lora_weights": "pissa",
    "megatron_config": {"a": 1}, "modules_to_save": ["conv_in"], "layer_replication": [[0, 1], [0, 1]],
}  # fmt: skip


def test_settings_in_a_lora_s_file_that_do_more_than_it_needs_are_refused(families, lora, tmp_path):
    plain = opened(families, "sd-1").pipeline
    for name, value in HARMFUL.items():
        path = with_settings(lora, tmp_path / "x.safetensors", OWN | {name: value})
        with raises(ModelError, code=Code.UNTRUSTED, field="lora", match=rf"x\.safetensors: .*'unet\.{name}'"):
            apply_lora(plain, path, 1.0)
    hidden = with_settings(
        lora, tmp_path / "x.safetensors", change=lambda weights: weights | {f"unet.{ENDLESS}": torch.ones(2)}
    )
    with raises(ModelError, code=Code.MALFORMED, field="lora"):
        apply_lora(plain, hidden, 1.0)
    every = pytest.importorskip("peft").LoraConfig(**OWN, init_lora_weights="gaussian").to_dict()
    told = {key: sorted(value) if isinstance(value, set) else value for key, value in every.items()}
    path = with_settings(lora, tmp_path / "x.safetensors", {k: v for k, v in told.items() if k != "runtime_config"})
    assert furthest(draw(opened(families, "sd-1", lora=path)), draw(opened(families, "sd-1", lora=str(lora)))) <= 1


def test_every_layer_of_a_lora_has_the_strength_that_its_alpha_says(families, lora, tmp_path):
    from safetensors.torch import load_file

    own = load_file(next(lora.glob("*.safetensors")))
    layers = sorted({key.removeprefix("unet.").partition(".lora_")[0] for key in own})
    alphas = {layer: 1.0 if "to_k" in layer else 4.0 for layer in layers}

    def named_as_kohya(alphas):
        ends, named = {"A.weight": "lora_down.weight", "B.weight": "lora_up.weight"}, {}
        for key, value in own.items():
            layer, _, end = key.removeprefix("unet.").partition(".lora_")
            named[f"lora_unet_{layer.replace('.', '_')}.{ends[end]}"] = value
        strengths = {f"lora_unet_{layer.replace('.', '_')}.alpha": torch.tensor(a) for layer, a in alphas.items()}
        return with_settings(lora, tmp_path / "x.safetensors", change=lambda weights: named | strengths)

    plain = opened(families, "sd-1").pipeline.unet
    pipeline = opened(families, "sd-1", lora=named_as_kohya(alphas)).pipeline
    for layer, alpha in alphas.items():
        added = alpha / 2 * own[f"unet.{layer}.lora_B.weight"] @ own[f"unet.{layer}.lora_A.weight"]
        found = pipeline.unet.get_submodule(layer).weight - plain.get_submodule(layer).weight
        assert torch.allclose(found, added, atol=1e-5)
    with raises(ModelError, code=Code.NOT_FINITE, field="lora", match="holds numbers"):
        apply_lora(opened(families, "sd-1").pipeline, named_as_kohya(alphas | {layers[0]: float("nan")}), 1.0)
    with raises(ModelError, code=Code.NOT_FINITE, field="lora", match="merged"):
        apply_lora(opened(families, "sd-1").pipeline, named_as_kohya(alphas), 1e38)


def test_a_lora_that_peft_saved_is_as_strong_as_its_configuration_says(families, lora, tmp_path):
    path = with_settings(
        lora, tmp_path / "adapter_model.safetensors",
        change=lambda weights: {key.replace("unet.", "base_model.model."): value for key, value in weights.items()},
    )  # fmt: skip
    with raises(ModelError, code=Code.UNREADABLE, field="lora"):
        opened(families, "sd-1", lora=path)
    (tmp_path / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 1}))
    saved = draw(opened(families, "sd-1", lora=str(tmp_path)))
    assert furthest(saved, draw(opened(families, "sd-1", lora=str(lora), lora_scale=0.5))) <= 1


def test_a_lora_that_does_not_fit(families, lora, tmp_path):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, field="lora", match=str(tmp_path)):
        load(str(families("sd-1")), lora=str(tmp_path))
    for name in ("a", "b"):
        (tmp_path / f"{name}.safetensors").touch()
    with raises(ModelNotFoundError, code=Code.TOO_MANY, field="lora", match=r"a\.safetensors, b\.safetensors"):
        load(str(families("sd-1")), lora=str(tmp_path))
    (tmp_path / "broken.safetensors").write_bytes(b"0123456789")
    with raises(ModelError, code=Code.MISMATCH, field="lora", match=r"broken\.safetensors .*download it again"):
        load(str(families("sd-1")), lora=str(tmp_path / "broken.safetensors"))
    with raises(
        ModelError, code=Code.MISMATCH, field="lora", match=r"lora: .* does not fit this model|belong to this model"
    ):
        load(str(families("flux")), lora=str(lora))
