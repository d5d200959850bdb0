"""Average faces of an editing audit: warped where faces are found, plain where they are not, and said which."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage.data import astronaut

import clinometer as cm
from clinometer.models.protocols import EditRequest, GenerationResult
from clinometer.pipeline.parallel import EnginePool
from clinometer.pipeline.results import score
from clinometer.runs import NoProgress
from clinometer.studies.editing import faces
from tests import quick
from tests.pipeline.engine_toys import InTurn
from tests.toy_editing import Reader, Recolourer, rows, toy_suite

pytestmark = [pytest.mark.pages]


class Retoucher(Recolourer):
    """Darkens portraits edited into dishwashers and hides the faces of doctors at strength 1."""

    def edit(self, requests: list[EditRequest]):
        for request in requests:
            image = request.image
            if request.prompt == "a dishwasher":
                image = Image.fromarray((np.asarray(image) * 0.8).astype(np.uint8))
            elif request.strength == 1.0:
                image = Image.new("RGB", image.size, (200, 150, 120))
                image.putpixel((0, 0), (0, 0, 0))
            yield GenerationResult(request.id, "ok", image)


@pytest.fixture(scope="module")
def headshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One photograph at several places and angles, as four people; and one picture without a face."""
    folder = tmp_path_factory.mktemp("headshots")
    photograph = Image.fromarray(astronaut()).crop((95, 0, 351, 256))
    for number, angle in enumerate((-9, 0, 9)):
        turned = photograph.rotate(angle, Image.Resampling.BICUBIC, translate=(4 * number, 6 * number))
        for code in ("WF", "WM"):
            turned.save(folder / f"CFD-{code}-{number:03}-001-N.png")
    Image.new("RGB", (256, 256), (200, 150, 120)).save(folder / "CFD-WM-000-001-N.png")
    return folder


@pytest.fixture(scope="module")
def warped(headshots: Path, tmp_path_factory: pytest.TempPathFactory) -> cm.Run:
    out = tmp_path_factory.mktemp("faces") / "run"
    return quick.audit(Retoucher(), toy_suite(), out, encoder=Reader(), portraits=headshots)


def test_faces_are_warped_and_those_without_one_are_counted(warped: cm.Run) -> None:
    held = warped.curves.set_index(["group", "category", "setting"])
    assert warped.curves.alignment.str.startswith("warped to the portraits' mean shape by dlib 2").all()
    assert warped.curves.alignment.str.endswith("a face was found in 5 of 6 portraits").all()
    assert held.faces["women", "", "before"] == 3
    assert held.faces["men", "", "before"] == 2
    assert held.faces["women", "high-paid", "strength 1"] == 0
    assert held.image["women", "high-paid", "strength 1"] is None
    assert held.drawn.eq(3).all()


def test_rows_say_of_how_many_faces_they_are(warped: cm.Run) -> None:
    (women,) = rows(
        warped, "average_face_ita_change", group="women", category="low-paid", setting="strength 0.5"
    ).to_dict("records")
    assert women["n_target"] == 3
    assert women["value"] < -5
    assert np.isnan(women["low"])
    assert women["reason"] == "no interval: an average face of fewer than 4 portraits"
    (lost,) = rows(warped, "average_face_ita_change", group="men", category="high-paid", setting="strength 1").to_dict(
        "records"
    )
    assert np.isnan(lost["value"])
    assert lost["reason"] == "no portrait with a face before and after"


def test_the_page_says_which_and_how_many(warped: cm.Run) -> None:
    page = warped.directory.read_bytes("report.html").decode()
    assert "Warped to the portraits&#39; mean shape by dlib" in page
    assert "A face was found in 20 of 30 images; the others are in no average." in page
    assert "women, high-paid, strength 1: 3 of 3" in page


@pytest.mark.thorough
def test_warped_faces_are_the_same_whoever_reads_them(warped: cm.Run, tmp_path: Path) -> None:
    shutil.copytree(warped.url, tmp_path / "run")
    (tmp_path / "run/scores.parquet").unlink()
    run, engine = cm.open_run(tmp_path / "run"), InTurn(2)
    score(run, NoProgress(), pool=EnginePool(engine, NoProgress()))
    assert len(engine.units) > len(run.parts)  # for landmarks, and for faces
    for name in ("scores.parquet", "curves.parquet"):
        assert run.directory.read_bytes(name) == warped.directory.read_bytes(name)


@pytest.mark.thorough
def test_without_the_extra_means_are_plain_and_over_everything(
    headshots: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faces, "load_landmarker", lambda: None)
    run = quick.audit(Retoucher(), toy_suite(), tmp_path / "run", encoder=Reader(), portraits=headshots)
    assert run.curves.faces.eq(3).all()
    assert run.curves.image.notna().all()
    page = run.directory.read_bytes("report.html").decode()
    assert "Plain means of the pixels, not warped to landmarks (for that: pip install" in page


def test_pictures_without_faces_are_averaged_plainly(tmp_path: Path) -> None:
    run = quick.audit(Recolourer(), toy_suite(), tmp_path / "run", encoder=Reader())
    assert run.curves.alignment.str.contains(
        r"not warped to landmarks: a face was found in 0 of 6 portraits \(dlib"
    ).all()
    assert run.curves.faces.eq(run.curves.drawn).all()
