"""The page about models: its plug-in works once installed, its manifest is read, its tables are complete."""

import inspect
import re
import tomllib

from PIL import Image

import clinometer as cm
from clinometer.errors import Code, ModelError
from clinometer.models.files import COLUMNS, NAMES, read_manifest
from clinometer.models.registry import load_generator, registered
from tests.docs.pages import blocks, page, table_rows
from tests.example import PLUGIN, PROJECT, register_example
from tests.raising import raises

PAGE = page("docs/models.md")


def test_the_plug_in_is_that_of_the_example(tmp_path, monkeypatch):
    register_example(monkeypatch, tmp_path)
    (toml,) = blocks(PAGE, "toml")
    code = next(block for block in blocks(PAGE, "python") if "class Stripes" in block)
    assert code == (PLUGIN / "clinometer_example/generator.py").read_text("utf-8")
    for group, points in tomllib.loads(toml)["project"]["entry-points"].items():
        assert points.items() <= PROJECT["entry-points"][group].items()
    (command,) = (line for block in blocks(PAGE, "sh") for line in block.splitlines() if "stripes" in line)
    spec = re.search(r"--model (\S+)", command).group(1)
    assert load_generator(spec).card.settings == {"width": 4}
    # an option without effect would go unnoticed
    with raises(ModelError, code=Code.UNKNOWN_NAME, field="steps", match="takes none"):
        load_generator(spec, steps=3)
    assert load_generator(spec, steps=None, device="auto").card.settings == {"width": 4}


def test_the_manifest_is_read(tmp_path):
    text, _ = blocks(PAGE, "csv")  # the other is of counts
    (tmp_path / "manifest.csv").write_text(text)
    for line in text.splitlines()[1:]:
        Image.new("RGB", (8, 8), "red").save(tmp_path / line.split(",")[0])
    rows = read_manifest(tmp_path)
    assert [row.concept or row.group for row in rows] == ["CEO", "nurse", "man", "woman"]


def test_every_column_and_file_name_of_a_manifest_is_named():
    assert {row[0].strip("`") for row in table_rows(PAGE, "manifest column")} == set(COLUMNS)
    assert all(f"`{name}`" in PAGE for name in NAMES)


def test_the_options_are_those_of_audit():
    options = {row[1].strip("`") for row in table_rows(PAGE, "option")}
    assert options <= set(inspect.signature(cm.audit).parameters)


def test_the_options_of_a_generator_are_those_of_its_adapter():
    from clinometer.models.diffusers.pipeline import load

    sentence = PAGE.split("Python takes three more, through")[1].split("The generator it returns")[0]
    named = set(re.findall(r"`(\w+)`", sentence))
    own = {name for row in table_rows(PAGE, "diffusers option") for name in re.findall(r"`(\w+)`", row[1])}
    of_the_run = {"images", "concepts", "seed", "retry_failed"}
    known = set(inspect.signature(load).parameters) - {"source"}
    assert named | own | {row[1].strip("`") for row in table_rows(PAGE, "option")} - of_the_run == known


def test_the_options_of_a_server_are_those_of_its_adapter():
    from clinometer.models.openai import chat, images

    sentence = PAGE.split("Python takes `style`")[1].split("as well")[0]
    named = {"style", *re.findall(r"`(\w+)`", sentence)}
    named |= {name for row in table_rows(PAGE, "server option") for name in re.findall(r"`(\w+)`", row[1])}
    named -= {"budget", "audit"}
    own = set(inspect.signature(images.load).parameters) - {"source", "device"}
    assert named == own | {"system_prompt"}
    for load in (chat.load, chat.load_gemini):
        further = set(inspect.signature(load).parameters) - {"source", "device"} - named
        assert further <= {"steps", "guidance_scale", "further"}


def test_every_adapter_is_named():
    for _, name, _ in registered():
        assert f"`{name}`" in PAGE
