"""What a model is said to be, of generators and encoders that are loaded."""

import shutil
from types import SimpleNamespace

import huggingface_hub
import pytest
from huggingface_hub import errors

from clinometer.errors import Code, ModelNotFoundError
from clinometer.models.description import capabilities_of, describe_model, kind_of
from clinometer.models.registry import load_generator
from tests.models.diffusers.checkpoints import single_file
from tests.raising import raises


def test_a_generator_is_what_it_can_do(stable_diffusion):
    described = describe_model(str(stable_diffusion))
    generator = load_generator(str(stable_diffusion))
    assert described.card == generator.card
    assert described.capabilities == capabilities_of(generator)
    assert described.capabilities.edit
    assert described.capabilities.text_encoders == ("CLIPTextModel",)
    assert (described.reads_text, described.sees_images, described.dimensions) == (False, False, None)


def test_an_encoder_is_what_it_embeds(clip, tmp_path):
    described = describe_model(str(clip))
    assert described.capabilities is None
    assert (described.reads_text, described.sees_images, described.dimensions) == (True, True, 16)
    (tmp_path / "words.txt").write_text("man 1 0\nwoman 0 1\n")
    vectors = describe_model(str(tmp_path / "words.txt"))
    assert (vectors.reads_text, vectors.sees_images, vectors.dimensions) == (True, False, None)


def test_the_licence_is_that_of_the_model_card(stable_diffusion, tmp_path):
    assert describe_model(str(stable_diffusion)).licence == ""
    path = tmp_path / "with-card"
    shutil.copytree(stable_diffusion, path)
    (path / "README.md").write_text("---\nlicense: openrail++\n---\n# A model\n")
    assert describe_model(str(path)).licence == "openrail++"


def test_a_single_file_with_its_configuration(stable_diffusion, tmp_path):
    import diffusers

    pipeline = diffusers.StableDiffusionPipeline.from_pretrained(stable_diffusion)
    path = single_file(pipeline, tmp_path / "merged.safetensors")
    described = describe_model(str(path), model_config=str(stable_diffusion))
    assert described.card.name == "merged"
    assert described.capabilities.classify


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        ("reference", "generator"),
        ("openai:gpt-image-1", "generator"),
        ("sentence:./x", "encoder"),
        ("RN50/openai", "encoder"),
        ("gone.safetensors", "generator"),
        ("vectors.vec", "encoder"),
        ("monk", "reader"),
        ("clip:RN50/openai", "reader"),
        ("nowhere", "generator"),
        ("~nouser/x", "generator"),
    ],
)
def test_a_name_tells_the_kind(spec, kind):
    assert kind_of(spec) == kind


def test_a_reader_is_described_by_its_card():
    described = describe_model("monk")
    assert (described.card.kind, described.capabilities, described.sees_images) == ("reader", None, False)


def test_a_hub_id_is_a_generator_where_it_has_an_index(monkeypatch, tmp_path):
    def fetch(repository, name, revision):
        assert name == "model_index.json"
        if repository == "a/pipeline":
            return str(tmp_path / "c0ffee" / name)
        response = SimpleNamespace(headers={}, request=None)
        gone = errors.RemoteEntryNotFoundError if repository == "a/clip" else errors.RepositoryNotFoundError
        raise gone("404", response=response)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    assert kind_of("a/pipeline@main") == "generator"
    assert kind_of("a/clip") == "encoder"
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match="a/nothing"):
        kind_of("a/nothing")
