"""Mitigations within a real, tiny pipeline: what they change, what they leave bit for bit, and what they refuse."""

import json
from types import SimpleNamespace

import numpy as np
import pytest
from safetensors.torch import load_file

from clinometer._torch import torch
from clinometer.errors import Code, InvalidInputError, ModelError
from clinometer.mitigation import Made, builtin, mitigate
from clinometer.mitigation.lora import _weights, assigned
from clinometer.models import load_generator
from clinometer.models.diffusers.mitigated import steer
from clinometer.models.mitigation import FILE
from clinometer.models.protocols import GenerationRequest
from tests.builders import tiny_stable_diffusion
from tests.raising import raises

NEUTRAL, NAMED = "an image of a firefighter", "an image of an old woman"
REQUESTS = [GenerationRequest(f"{n}", prompt, n) for n in range(3) for prompt in (NEUTRAL, NAMED)]
CALL = {"steps": 2, "guidance_scale": 3.0}
WISHES = {"projection": {}, "steering": {"images": 1}, "unconditional": {"images": 2}, "balanced": {}}


def drawn(generator, requests=REQUESTS, batch=6):
    generator.batch_size = batch
    return [np.asarray(result.image).astype(int) for result in generator.generate(requests)]


@pytest.fixture(scope="module")
def before(stable_diffusion):
    return drawn(load_generator(str(stable_diffusion), **CALL))


@pytest.fixture(scope="module")
def made(stable_diffusion, clip, tmp_path_factory):
    """The tiny pipeline mitigated by each method that draws nothing but a few images."""
    folder = tmp_path_factory.mktemp("mitigated")
    return {
        method: mitigate(
            str(stable_diffusion), method, folder / method, concepts=1, options=CALL, encoder=str(clip), **wishes
        )
        for method, wishes in WISHES.items()
    }


@pytest.mark.thorough
@pytest.mark.parametrize("method", WISHES)
def test_what_names_a_group_stays_bit_for_bit_and_what_is_neutral_changes(method, made, before):
    generator = load_generator(str(made[method].directory))
    after = drawn(generator)
    for request, ours, theirs in zip(REQUESTS, after, before, strict=True):
        if request.prompt == NAMED:
            np.testing.assert_array_equal(ours, theirs)
        elif method != "unconditional":  # the offset that is chosen may be none
            assert (ours != theirs).any()
    for one, together in zip(drawn(generator, batch=1), after, strict=True):
        assert np.abs(one - together).max() <= 1  # neither the batch nor a place in it matters
    assert generator.card.settings["mitigation"]["method"] == method
    assert {name: generator.card.settings[name] for name in CALL} == CALL  # as it was made


@pytest.mark.thorough
def test_a_pipeline_is_what_it_was_without_its_file(made, before, stable_diffusion):
    import diffusers

    left_out = load_generator(str(made["steering"].directory), mitigation="none", **CALL)
    assert "mitigation" not in left_out.card.settings
    assert all((a == b).all() for a, b in zip(drawn(left_out), before, strict=True))
    plain = diffusers.DiffusionPipeline.from_pretrained(made["steering"].directory, safety_checker=None)
    own = diffusers.DiffusionPipeline.from_pretrained(stable_diffusion, safety_checker=None)
    for name, value in own.unet.state_dict().items():
        torch.testing.assert_close(plain.unet.state_dict()[name], value, rtol=0, atol=0)
    assert "loads this directory as **the model before" in (made["steering"].directory / "README.md").read_text()


def test_a_drawn_group_is_the_prompt_that_names_it(made, stable_diffusion):
    mitigation = made["balanced"].mitigation
    worded = [GenerationRequest(each.id, mitigation.worded(each.prompt, each.seed), each.seed) for each in REQUESTS]
    assert {request.prompt for request in worded} > {NAMED}
    ours = drawn(load_generator(str(stable_diffusion), mitigation=str(made["balanced"].directory), **CALL))
    theirs = drawn(load_generator(str(stable_diffusion), **CALL), worded)
    assert all((a == b).all() for a, b in zip(ours, theirs, strict=True))


def test_the_projection_takes_the_direction_between_the_groups_out(made, stable_diffusion):
    from safetensors.torch import load_file

    projection = load_file(made["projection"].directory / "mitigation.safetensors")["projection"].double()
    values = torch.linalg.svdvals(projection)
    assert values[-1] < 1e-5 < 0.5 < values[0] <= 1 + 1e-6  # one direction less, and nothing grows
    pipeline = load_generator(str(stable_diffusion)).pipeline
    man, woman = (
        pipeline.encode_prompt(f"an image of a {w} firefighter", "cpu", 1, False)[0] for w in ("man", "woman")
    )
    apart = (man - woman)[0].double()
    apart = apart[apart.abs().amax(dim=1) > 1e-6].mean(dim=0)
    assert (projection @ apart).norm() < 0.5 * apart.norm()


def test_steering_moves_each_pixel_to_its_place_and_keeps_its_length():
    rng = torch.Generator().manual_seed(0)
    output = torch.randn(4, 9, 16, generator=rng, dtype=torch.float64)
    means = torch.randn(3, 16, generator=rng, dtype=torch.float64)
    apart = means - means.mean(dim=0)  # three groups, two dimensions between them
    groups = torch.tensor([0, 1, 2, 1])
    steered = steer(output, apart, means[groups])
    torch.testing.assert_close(steered.norm(dim=-1), output.norm(dim=-1))
    # directions between two groups are the same at all pixels, up to the length that is kept
    before = output - output @ torch.linalg.pinv(apart) @ apart
    moved = before + (means[groups] @ torch.linalg.pinv(apart) @ apart)[:, None]
    expected = torch.nn.functional.normalize(moved, dim=-1) * output.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(steered, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        steer(output, apart * 0.1, means[groups]), steered, rtol=1e-4, atol=1e-5
    )  # the space alone counts


def test_an_offset_needs_guidance_and_is_of_its_prompts(made, stable_diffusion, tmp_path):
    place = made["unconditional"].directory
    assert set(made["unconditional"].mitigation.offsets) == {NEUTRAL, "an image of a person golfing"}
    with raises(ModelError, code=Code.CONFLICT, field="mitigation"):
        load_generator(str(place), guidance_scale=1.0)
    with raises(ModelError, code=Code.CONFLICT, field="method"):
        mitigate(str(stable_diffusion), "unconditional", tmp_path / "it", options=CALL | {"guidance_scale": 1.0})
    file = json.loads((place / FILE).read_text())
    changed = file | {"offsets": {NEUTRAL: 5.0}}
    (place / FILE).write_text(json.dumps(changed))
    requests = [GenerationRequest("1", NEUTRAL, 1), GenerationRequest("2", "an image of a cook", 1)]
    ours = drawn(load_generator(str(place)), requests)
    theirs = drawn(load_generator(str(stable_diffusion), **CALL), requests)
    (place / FILE).write_text(json.dumps(file))
    assert (ours[0] != theirs[0]).any()
    assert (ours[1] == theirs[1]).all()


def test_a_mitigation_of_another_model_is_refused(made, families, tmp_path):
    other = tiny_stable_diffusion(tmp_path / "other", seed=1)
    for method in ("steering", "projection"):
        with raises(ModelError, code=Code.MISMATCH, field="mitigation", match="tiny-sd, and other"):
            load_generator(str(other), mitigation=str(made[method].directory))
    with raises(ModelError, code=Code.CONFLICT, match=str(made["balanced"].directory)):
        mitigate(str(made["balanced"].directory), "prompt", tmp_path / "it")
    with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match="projection .*StableDiffusionXLPipeline"):
        mitigate(str(families("sdxl")), "projection", tmp_path / "it")
    with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match="steering .*FluxPipeline"):
        mitigate(str(families("flux")), "steering", tmp_path / "it")
    assert not (tmp_path / "it").exists()


def test_files_beside_it_must_be_those_it_was_written_with(made, tmp_path):
    from shutil import copytree

    place = copytree(made["projection"].directory, tmp_path / "damaged")
    with (place / "mitigation.safetensors").open("ab") as file:
        file.write(b"\0")
    with raises(ModelError, code=Code.CORRUPT, field="mitigation", match=r"mitigation\.safetensors"):
        load_generator(str(place))


# --- the LoRA ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def lora(stable_diffusion, clip, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builtin, "SAMPLED", 2)  # steps to each of 200 images that stand for the groups
        return mitigate(
            str(stable_diffusion), "lora", tmp_path_factory.mktemp("lora") / "lora", concepts=1, encoder=str(clip),
            loss="score", training_steps=1, options=CALL, learning_rate=0.01,
        )  # fmt: skip


@pytest.mark.thorough
def test_a_lora_learns_the_answers_under_prompts_that_name_a_group(stable_diffusion, clip, tmp_path, monkeypatch):
    """To a target of one group alone the best answer is that under the prompt that names it: the loss can reach 0.

    What is kept is what was trained, at the scale that was chosen, whatever scales were tried in between.
    """
    said, trained, choose = [], {}, builtin._scale

    def choose_scale(job, network):
        named = {name: value for name, value in network.named_parameters() if "lora_B" in name}
        trained.update({name.replace(".default", ""): value.detach().clone() for name, value in named.items()})
        return choose(job, network)

    monkeypatch.setattr(builtin, "_scale", choose_scale)
    made = mitigate(
        str(stable_diffusion), "lora", tmp_path / "lora", concepts=1, target={"man": 0.0, "woman": 1.0},
        training_steps=16, learning_rate=0.03, options=CALL, say=said.append, encoder=str(clip), images=2,
    )  # fmt: skip
    losses = made.mitigation.made_of["losses"]
    assert len(losses) == 16
    assert np.mean(losses[-5:]) < 0.7 * np.mean(losses[:5])
    assert said[0] == "woman: 8 images under each of 2 prompts that name it"
    assert 0 <= (scale := made.mitigation.made_of["scale"]) <= 3
    kept = load_file(tmp_path / "lora/pytorch_lora_weights.safetensors")
    assert trained
    assert all(torch.equal(kept[f"unet.{name}"], value * scale) for name, value in trained.items())


@pytest.mark.parametrize(("parity_at", "expected"), [(0.5, 0.5), (1.5, 1.5), (2.4, 2.4), (2.05, 2.05), (9.0, 3.0)])
def test_a_lora_acts_so_strongly_that_shares_meet_the_target(parity_at, expected, monkeypatch):
    """Shares that move in a line meet the target where the line does; nothing is tried beyond what is enough."""
    network = torch.nn.ParameterDict({"lora_B": torch.nn.Parameter(torch.ones(1))})
    off = {"a": np.array([0.4, -0.4]), "b": np.array([-0.2, 0.2])}

    def shares(generator, prompt, n):
        return 0.5 + off[prompt] * (1 - network["lora_B"].item() / parity_at)

    monkeypatch.setattr(builtin, "_Reader", lambda job: SimpleNamespace(shares=shares))
    job = SimpleNamespace(
        prompts={"one": "a", "two": "b"}, target={"man": 0.5, "woman": 0.5},
        target_of=lambda concept: {"man": 0.5, "woman": 0.5}, setting=lambda name, default: default,
        generator=SimpleNamespace(), say=lambda line: None,
    )  # fmt: skip
    scale, left = builtin._scale(job, network)
    assert scale == pytest.approx(expected, abs=0.01)
    assert left["1"] == pytest.approx(1 - 1 / parity_at, abs=1e-3)
    off.update({name: np.zeros(2) for name in off})
    assert builtin._scale(job, network) == (1.0, {})


@pytest.mark.parametrize("kind", ["epsilon", "v_prediction", "sample"])
def test_answers_of_any_kind_weigh_as_velocities(kind):
    rng = torch.Generator().manual_seed(0)
    alpha, x_t = torch.rand(5, generator=rng, dtype=torch.float64), torch.randn(5, generator=rng, dtype=torch.float64)
    clean = torch.randn(2, 5, generator=rng, dtype=torch.float64)
    noise = (x_t - alpha**0.5 * clean) / (1 - alpha) ** 0.5
    velocity = alpha**0.5 * noise - (1 - alpha) ** 0.5 * clean
    answers = {"epsilon": noise, "v_prediction": velocity, "sample": clean}[kind]
    torch.testing.assert_close(
        _weights(kind, alpha) * (answers[1] - answers[0]).square(), (velocity[1] - velocity[0]).square()
    )


def test_a_lora_is_trained_measured_by_name_and_refused_by_another_architecture(
    lora, stable_diffusion, families, capfd
):
    assert lora.options == ("--model", str(stable_diffusion), "--lora", str(lora.directory))
    assert len(lora.mitigation.made_of["losses"]) == 1
    with raises(ModelError, code=Code.MISMATCH, field="lora", match=r"lora: .* does not fit this model"):
        load_generator(str(families("sdxl")), lora=str(lora.directory))
    with raises(ModelError, code=Code.MISMATCH, field="lora", match="size mismatch for .*lora_A"):
        load_generator("reference", lora=str(lora.directory))
    assert "unsuccessful" not in capfd.readouterr().err


@pytest.mark.thorough
@pytest.mark.parametrize("guidance", [1.0, 3.0])
def test_a_gate_leaves_a_lora_out_of_prompts_that_name_a_group(guidance, lora, stable_diffusion, before):
    call = CALL | {"guidance_scale": guidance}
    plain = before if call == CALL else drawn(load_generator(str(stable_diffusion), **call))
    worn = load_generator(str(stable_diffusion), lora=str(lora.directory), **call)
    bare = load_generator(str(stable_diffusion), lora=str(lora.directory), mitigation="none", **call)
    assert worn.card.settings["lora"]["mitigation"] == lora.mitigation.settings
    assert bare.card.settings["lora"]["mitigation"] == lora.mitigation.settings | {"gate": "none"}
    assert worn.card.fingerprint != bare.card.fingerprint
    for request, ours, merged, theirs in zip(REQUESTS, drawn(worn), drawn(bare), plain, strict=True):
        assert (merged != theirs).any()
        if request.prompt == NAMED:
            np.testing.assert_array_equal(ours, theirs)
        else:
            assert np.abs(ours - merged).max() <= 1  # the same sum in another order
    halved = load_generator(str(stable_diffusion), lora=str(lora.directory), lora_scale=0.0, **call)
    assert all((a == b).all() for a, b in zip(drawn(halved), plain, strict=True))


def test_a_model_wears_one_mitigation_and_a_lora_is_given_as_one(lora, made, stable_diffusion):
    with raises(ModelError, code=Code.CONFLICT, field="mitigation", match=r"lora is .*mitigation\.json"):
        load_generator(str(made["balanced"].directory), lora=str(lora.directory))
    with raises(ModelError, code=Code.CONFLICT, field="mitigation", match=f"--lora {lora.directory}"):
        load_generator(str(stable_diffusion), mitigation=str(lora.directory))
    with raises(ModelError, code=Code.CONFLICT, field="mitigation"):
        load_generator(str(stable_diffusion), lora=str(lora.directory), mitigation=str(lora.directory))


def test_what_is_mitigated_draws_and_neither_edits_nor_classifies(lora, made, stable_diffusion):
    options = {"lora": str(lora.directory), **CALL}
    steered = load_generator(str(made["steering"].directory))
    for generator in (steered, load_generator(str(stable_diffusion), **options)):
        with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match="edits"):
            generator.editor()
        with raises(ModelError, code=Code.UNSUPPORTED, field="mitigation", match="classifies"):
            generator.denoiser()
    bare = load_generator(str(stable_diffusion), mitigation="none", **options)
    assert bare.editor()
    assert bare.denoiser()


@pytest.mark.thorough
def test_a_loss_that_is_not_a_number_ends_the_training_and_writes_nothing(
    stable_diffusion, clip, tmp_path, monkeypatch
):
    from shutil import copytree

    from safetensors.torch import load_file, save_file

    monkeypatch.setattr(builtin, "SAMPLED", 2)
    broken = copytree(stable_diffusion, tmp_path / "broken")
    weights = next((broken / "vae").glob("*.safetensors"))
    state = {name: value * 1e30 for name, value in load_file(weights).items()}
    save_file(state, weights, metadata={"format": "pt"})
    wishes = {"concepts": 1, "encoder": str(clip), "training_steps": 1, "options": CALL}
    with raises(ModelError, code=Code.NOT_FINITE, match="a picture"):
        mitigate(str(broken), "lora", tmp_path / "it", loss="score", **wishes)
    with raises(ModelError, code=Code.NOT_FINITE, match="step 2 of 3: .*nan"):
        mitigate(
            str(stable_diffusion), "lora", tmp_path / "it", **wishes | {"learning_rate": 1e38, "training_steps": 3}
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["broken"]


@pytest.mark.thorough
def test_the_score_tells_two_groups_apart_and_answers_any_number(stable_diffusion, clip, tmp_path, monkeypatch):
    monkeypatch.setattr(builtin, "SAMPLED", 2)
    thirds = {"man": 1 / 3, "woman": 1 / 3, "nonbinary": 1 / 3}
    wishes = {"target": thirds, "concepts": 1, "options": CALL, "encoder": str(clip), "images": 1}
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="target", match="man, woman, nonbinary"):
        mitigate(str(stable_diffusion), "lora", tmp_path / "it", loss="score", **wishes)
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME, field="loss", match="'mcas'"):
        mitigate(str(stable_diffusion), "lora", tmp_path / "it", loss="mcas", **wishes)
    assert (
        len(mitigate(str(stable_diffusion), "lora", tmp_path / "it", training_steps=1, **wishes).mitigation.target) == 3
    )


def test_the_fewest_images_are_to_change():
    is_a, sure = assigned(12, 0.5)
    assert is_a.tolist() == [1] * 6 + [0] * 6
    np.testing.assert_allclose(sure, sure[::-1])  # symmetric at one half
    assert (sure[:4] > 0.8).all()
    is_a, sure = assigned(10, 1.0)
    assert (is_a == 1).all()
    assert (sure == 1).all()


def test_what_a_plug_in_makes_of_weights_is_a_lora():
    assert Made("weights", lora={}).lora == {}
