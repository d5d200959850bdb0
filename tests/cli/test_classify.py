"""`classify` and `models --check-skin`, over a real, tiny pipeline."""

import shutil
from math import nan

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

from clinometer import api
from clinometer.cli.app import app
from clinometer.cli.reading import print_choices
from clinometer.errors import Code, InvalidInputError, ModelError
from clinometer.models.files import image_files
from tests.builders import tiny_stable_diffusion
from tests.raising import raises
from tests.toys import Painter


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    return tiny_stable_diffusion(tmp_path_factory.mktemp("models") / "tiny-sd")


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    (folder / "inner").mkdir()
    for name in ("b.png", "a.jpg", "inner/c.webp"):
        Image.fromarray(rng.integers(0, 256, (40, 40, 3), np.uint8)).save(folder / name)
    (folder / "notes.txt").write_text("no image")
    (folder / "torn.png").write_bytes(b"\x89PNG")
    return folder


def invoke(*arguments, catch_exceptions=True):
    words = [*map(str, arguments)]
    return CliRunner().invoke(app, words, env={"COLUMNS": "160"}, catch_exceptions=catch_exceptions)


def test_images_are_classified_and_written(pipeline, pictures, tmp_path):
    out = tmp_path / "choices.csv"
    shown = invoke("classify", pictures, "--labels", "cook, pilot", "-l", "nurse", "--model", pipeline, "--trials", 12,
                   "--template", "a portrait of a {}", "--out", out)  # fmt: skip
    assert shown.exit_code == 0, shown.output
    table = pd.read_csv(out)
    assert [path.rsplit("/", 1)[-1] for path in table.file] == ["a.jpg", "b.png", "c.webp", "torn.png"]
    read = table[table.file.str.contains("torn") == False]  # noqa: E712
    assert set(read.label) <= {"cook", "pilot", "nurse"}
    assert (read.margin >= 0).all()
    assert (read.evaluations <= 36).all()
    assert "image" in table.reason.iloc[-1]
    for name in ("a.jpg", "torn.png"):
        assert name in shown.output


def test_the_table_has_the_minus_sign_of_every_other_table(capsys):
    choice = {"file": "a.png", "label": "cook", "runner_up": "pilot", "margin": 0.02, "low": -0.01, "high": 0.05,
              "evaluations": 6, "tie": False, "reason": ""}  # fmt: skip
    unread = choice | {"label": "", "runner_up": "", "margin": nan, "low": nan, "high": nan, "reason": "no image"}
    print_choices(pd.DataFrame([choice, unread]))
    shown = " ".join(capsys.readouterr().out.split())
    assert "+2.0" in shown
    assert "[−1.0" in shown
    assert "—" not in shown
    assert "no image" in shown


def test_one_file_and_all_trials(pipeline, pictures):
    table = api.classify_images([pictures / "b.png"], ["cook", "pilot"], model=str(pipeline), trials=3, all_trials=True)
    assert table.evaluations.tolist() == [6]


def test_a_seed_is_a_whole_number_of_python_or_of_numpy(pipeline, pictures):
    def classified(seed):
        return api.classify_images(
            [pictures / "b.png"], ["cook", "pilot"], model=str(pipeline), trials=3, all_trials=True, seed=seed
        )

    pd.testing.assert_frame_equal(classified(np.int64(1)), classified(1))
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="seed", match=r"1\.5"):
        classified(1.5)


def test_what_is_hidden_or_a_folder_is_no_image(pictures, tmp_path):
    shutil.copytree(pictures, tmp_path / "all")
    (tmp_path / "all" / "._b.png").write_bytes(b"\0\5\x16\7")
    (tmp_path / "all" / "folder.png").mkdir()
    (tmp_path / "all" / ".cache").mkdir()
    shutil.copy(pictures / "b.png", tmp_path / "all" / ".cache" / "d.png")
    found = image_files([tmp_path / "all"])
    assert [path.name for path in found] == ["a.jpg", "b.png", "c.webp", "torn.png"]


@pytest.mark.parametrize(
    ("images", "labels", "code", "field", "message"),
    [
        (["nowhere"], ["a", "b"], Code.NOT_FOUND, (), "nowhere"),
        ([], ["a", "b"], Code.MISSING, "images", ""),
        (["PICTURES"], ["a"], Code.TOO_FEW, "labels", "found a"),
    ],
)
def test_what_cannot_be_classified(pipeline, pictures, images, labels, code, field, message):
    places = [pictures if place == "PICTURES" else place for place in images]
    with raises(InvalidInputError, code=code, field=field, match=message):
        api.classify_images(places, labels, model=str(pipeline))


@pytest.mark.parametrize(
    ("out", "code"), [("nowhere/choices.csv", Code.NOT_FOUND), (".", Code.UNSUPPORTED), ("t.txt", Code.UNSUPPORTED)]
)
def test_a_wrong_place_is_refused_before_anything_is_computed(tmp_path, out, code):
    with raises(InvalidInputError, code=code, match="^--out "):
        invoke("classify", "no-such-image", "--labels", "cook, pilot", "--out", tmp_path / out, catch_exceptions=False)


def test_a_folder_without_images(pipeline, tmp_path):
    with raises(InvalidInputError, code=Code.TOO_FEW, match="a_folder_without_images"):
        api.classify_images([tmp_path], ["a", "b"], model=str(pipeline))


def test_a_model_that_only_draws(pictures):
    with raises(ModelError, code=Code.UNSUPPORTED, match="painter: .*denoiser"):
        api.classify_images([pictures], ["a", "b"], model=Painter())


def test_a_models_page_says_what_it_is_and_can_do(pipeline):
    shown = invoke("models", str(pipeline))
    assert shown.exit_code == 0, shown.output
    for expected in ("diffusers/StableDiffusionPipeline", "edits images", "CLIPTextModel", "guidance_scale", "licence"):
        assert expected in shown.output


def test_the_skin_check_shows_ten_tones_and_the_one_that_is_missed():
    shown = invoke("models", "--check-skin")
    assert shown.exit_code == 0, shown.output
    assert shown.output.count("yes") == 9
    assert shown.output.count(" no ") == 1
    assert "#292420" in shown.output
