"""From names to models, by entry points alone."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
from typer.testing import CliRunner

from clinometer.cli.app import app
from clinometer.errors import ClinometerError, Code, ModelError, ModelNotFoundError
from clinometer.models import Card, load_encoder, load_generator, registered, registry
from clinometer.models.registry import require_names
from tests.raising import raises


class Called:
    """A model of either kind, that says what it was called with."""

    def __init__(self, *options):
        self.options = options
        self.card = Card(kind="generator", name="called", family="toy")

    def generate(self, requests): ...

    def encode_images(self, images): ...

    def encode_texts(self, texts): ...


def plug_in(source, *, device="cpu", size=3):
    return Called(source, device, size)


@pytest.fixture
def entry_points(monkeypatch):
    """Entry points as an installed package has them, of adapters that say what they were called with."""
    this = f"{__name__}:plug_in"
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    points = [
        EntryPoint(name, this, group)
        for group, names in (
            (registry.GENERATORS, ("diffusers", "reference", "mine")),
            (registry.ENCODERS, ("transformers", "open_clip", "reference", "mine")),
        )
        for name in names
    ]
    points.append(EntryPoint("broken", "no_such_module:load", registry.GENERATORS))

    def found(group, name=None):
        return [point for point in points if point.group == group and name in (None, point.name)]

    called = []
    build = registry._build

    def spy(point, source, options):
        called.append(point.name)
        return build(point, source, options)

    monkeypatch.setattr(registry, "entry_points", found)
    monkeypatch.setattr(registry, "_build", spy)
    return called


@pytest.mark.parametrize(
    ("spec", "name", "source"),
    [
        ("reference", "reference", ""),
        ("mine", "mine", ""),
        ("mine:a:b/c", "mine", "a:b/c"),
        ("diffusers:./somewhere", "diffusers", "./somewhere"),
        (".", "diffusers", "."),
        ("owner/name", "diffusers", "owner/name"),
        ("owner/name@refs/pr/3", "diffusers", "owner/name@refs/pr/3"),
        ("a-1.5/b_2.x", "diffusers", "a-1.5/b_2.x"),
    ],
)
def test_generators(entry_points, spec, name, source):
    assert load_generator(spec).options == (source, "cpu", 3)
    assert entry_points == [name]


@pytest.mark.parametrize(
    ("spec", "name", "source"),
    [
        ("reference", "reference", ""),
        ("mine:x", "mine", "x"),
        (".", "transformers", "."),
        ("RN50/openai", "open_clip", "RN50/openai"),
        ("ViT-B-32/laion2b_s34b_b79k", "open_clip", "ViT-B-32/laion2b_s34b_b79k"),
        ("RN50//tmp/weights.pt", "open_clip", "RN50//tmp/weights.pt"),
        ("openai/clip-vit-large-patch14", "transformers", "openai/clip-vit-large-patch14"),
    ],
)
def test_encoders(entry_points, spec, name, source):
    assert load_encoder(spec).options[0] == source
    assert entry_points == [name]


def test_a_plug_ins_name_goes_before_a_directory_of_that_name(entry_points, tmp_path, monkeypatch):
    (tmp_path / "reference").mkdir()
    monkeypatch.chdir(tmp_path)
    load_generator("reference")
    load_generator("./reference")
    assert entry_points == ["reference", "diffusers"]


def test_options_that_leave_the_choice_are_not_passed(entry_points):
    assert load_generator("mine", device="auto", size=None).options == ("", "cpu", 3)
    assert load_generator("mine", device="cuda", size=4).options == ("", "cuda", 4)


@pytest.mark.parametrize("load", [load_generator, load_encoder])
@pytest.mark.parametrize("spec", ["nothing", "./nothing", "a/b/c", "", "RN50", "~/x/y", "~nouser/x"])
def test_a_name_that_is_nothing(entry_points, load, spec):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match="mine"):
        load(spec)


def test_a_plug_ins_name_that_is_mistyped(entry_points):
    with raises(ModelNotFoundError, code=Code.NOT_FOUND, match=r"mean mine\?"):
        load_generator("mien:x")


def test_an_option_that_is_not_known(entry_points):
    with raises(ModelError, code=Code.UNKNOWN_NAME, field="stepz", match="takes device, size"):
        load_generator("mine", stepz=3)


@pytest.mark.parametrize(("load", "option"), [(load_generator, "price"), (load_encoder, "labels")])
def test_an_option_that_the_reference_does_not_know(load, option):
    with raises(ModelError, code=Code.UNKNOWN_NAME, field=option, match="reference"):
        load("reference", **{option: 1})


def test_a_plug_in_that_does_not_import(entry_points):
    with raises(ModelError, code=Code.FAILED, match="'broken' .*No module"):
        load_generator("broken")


def test_a_plug_in_that_stops_is_named_in_one_line(entry_points, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "plug_in", lambda source: 1 / len(source))
    with raises(
        ModelError, code=Code.FAILED, match=r"^model 'mine' \(.*:plug_in\) .*ZeroDivisionError: division by zero"
    ):
        load_encoder("mine")


def test_a_package_that_is_not_installed(monkeypatch):
    monkeypatch.setattr(registry, "entry_points", lambda group, name=None: [])
    with raises(ModelError, code=Code.NOT_INSTALLED):
        load_generator(".")


def test_the_built_ins_are_entry_points_of_this_package():
    rows = {(kind, name) for kind, name, _ in registered()}
    assert {("generator", "reference"), ("generator", "diffusers")} <= rows
    assert {("encoder", "reference"), ("encoder", "transformers"), ("encoder", "open_clip")} <= rows


def test_names_are_looked_up_without_torch():
    code = (
        "import sys; from clinometer.models import registered; from clinometer.models.registry import "
        "open_clip_architectures as known; registered(); assert 'RN50' in known(); "
        "assert not {'torch', 'diffusers', 'transformers', 'open_clip', 'PIL'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(("spec", "hint"), [("ViT-B32/openai", "ViT-B-32/openai"), ("someone/something", None)])
def test_a_hub_id_that_is_none_may_be_a_misspelt_architecture(spec, hint):
    with raises(ModelError, code=Code.UNREACHABLE) as caught:
        load_encoder(spec, offline=True)
    said = str(caught.value)
    assert said.startswith(f"{spec}: it is not in the local cache")
    assert ("did you mean" in said) == (hint is not None)
    assert hint is None or said.endswith(f"did you mean {hint}?")


def test_a_plug_in_is_stamped_by_its_package_where_its_source_is_none_or_a_path(tmp_path, monkeypatch):
    package, info = tmp_path / "some_maker", tmp_path / "some_maker-1.0.dist-info"
    package.mkdir()
    info.mkdir()
    (package / "__init__.py").write_text("def load(source): ...")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: some-maker\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[clinometer.generators]\nsome-maker = some_maker:load\n")
    monkeypatch.syspath_prepend(tmp_path)
    stamps = registry.stamps_of("some-maker")
    assert stamps
    assert registry.stamps_of("some-maker:a-model-on-a-server") is None
    assert registry.stamps_of(f"some-maker:{info}") not in (None, stamps)
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "x.pyc").write_bytes(b"compiled")
    assert registry.stamps_of("some-maker") == stamps
    (package / "__init__.py").write_text("def load(source): return 1")
    assert registry.stamps_of("some-maker") != stamps


def test_a_lora_is_stamped_by_its_file_and_a_model_in_one_file_is_not(tmp_path):
    file = tmp_path / "lora.safetensors"
    file.write_bytes(b"one")
    assert registry.stamps_of(str(file)) is None
    stamps = registry.stamps_of(str(file), of_lora=True)
    assert stamps
    file.write_bytes(b"another")
    assert registry.stamps_of(str(file), of_lora=True) not in (None, stamps)
    assert registry.stamps_of("RN50/openai") is None
    assert registry.stamps_of(["reference"]) is None


@pytest.mark.parametrize(
    ("option", "name", "code", "field", "words"),
    [
        ("--encoder", "nosuch", Code.NOT_FOUND, (), "encoder 'nosuch'"),
        ("--encoder", "./nosuch", Code.NOT_FOUND, (), r"encoder '\./nosuch'"),
        ("--encoder", "ViT-B-32/openay", Code.NOT_FOUND, (), "'openay' .*ViT-B-32; .*openai"),
        ("--encoder", "ViT-B-33/openai", Code.NOT_FOUND, (), r"ViT-B-33; .*mean ViT-B-32/openai\?"),
        ("--reader", "nosuch", Code.NOT_FOUND, (), "reader 'nosuch'"),
        ("--reader", "clip:RN50/openay", Code.NOT_FOUND, (), "'openay' .*RN50"),
        ("--model", "nosuch", Code.NOT_FOUND, (), "generator 'nosuch'"),
        ("--suite", "nosuch", Code.UNKNOWN_NAME, (), "suite named 'nosuch'"),
        ("--suite", "mcas", Code.UNSUPPORTED, (), "'teenage', 'chief', 'executive' and"),
        ("--engine", "rey", Code.UNKNOWN_NAME, "engine", "local, ray, found 'rey'"),
        ("--verdict-reader", "nosuch", Code.CONFLICT, "verdict_reader", "'nosuch', .*give --reader"),
    ],
)
def test_a_dry_run_finds_wrong_names(option, name, code, field, words, tmp_path, monkeypatch):
    """The second of several models or suites, too."""
    monkeypatch.chdir(tmp_path)
    others = {"--model": ["-m", "reference"], "--suite": ["-s", "reference"] if name == "nosuch" else []}
    with raises(ClinometerError, code=code, field=field, match=words):
        CliRunner().invoke(app, ["audit", *others.get(option, []), option, name, "--dry-run"], catch_exceptions=False)


def test_names_that_may_lead_somewhere_pass_unasked():
    require_names(["reference", "ViT-B-32/openai", "owner/name@main", "RN50/openai", object()])
    require_names([], ["reference", "RN50/openai", "openai:gpt-4o", "owner/name", "monk"])
