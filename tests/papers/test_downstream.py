"""The downstream paper whole, by a painter that edits and classifies: drawn portraits, and given ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from clinometer.api import plan_reproduction
from clinometer.published import published
from tests import toy_denoisers
from tests.papers.toy_papers import reproduced
from tests.toy_denoisers import ClassifyingPainter
from tests.toy_editing import Recolourer
from tests.toys import Eye

SD21 = "stabilityai/stable-diffusion-2-1"
CLASSES = ("carpenter", "plumber", "truck driver", "mechanic", "construction worker",
           "babysitter", "secretary", "housekeeper", "nurse", "receptionist")  # fmt: skip
pytestmark = pytest.mark.slow


class Artist(ClassifyingPainter, Recolourer):
    """Draws, edits and classifies."""

    def __init__(self):
        super().__init__(name=SD21)
        self.stop_after, self.fail, self.edited = 10**9, "", 0


@pytest.fixture(scope="module")
def known_classes():
    """The redness of an image that each of the paper's classes fits best."""
    with pytest.MonkeyPatch.context() as patch:
        fits = np.linspace(0.9, 0.1, len(CLASSES))
        known = {f"A portrait of a {name}.": fit for name, fit in zip(CLASSES, fits, strict=True)}
        patch.setattr(toy_denoisers, "REDNESS", known)
        yield


@pytest.fixture(scope="module")
def drawn(tmp_path_factory, known_classes):
    out = tmp_path_factory.mktemp("downstream") / "out"
    return reproduced("downstream", out, models=(SD21,), objects={SD21: Artist()})


def cells_of(done):
    return pd.read_csv(Path(done.url) / "tables/table-1.csv", keep_default_na=False)


@pytest.mark.thorough
def test_the_paper_without_faces_says_what_is_left_out(drawn):
    assert not drawn.failed
    assert len(drawn.runs) == 2
    page = (Path(drawn.url) / "paper.html").read_text()
    assert "Chicago Face Database" in page
    assert "editing-faces" in page
    for row in published("downstream").rows("editing"):
        assert f'"printed">{row["gender_flip_rate"]}<' in page
    assert page.count('class="faces"') == 1
    figures = {path.name for path in (Path(drawn.url) / "figures").iterdir()}
    for start in ("figure-3-left-share-of-edits-that-read", "figure-3-middle-skin-tone", "differences-s-"):
        assert any(name.startswith(start) and name.endswith(".svg") for name in figures)
    cells = cells_of(drawn)
    assert set(cells.model) == {"CFD", "SD v2.1"}
    assert cells[cells.model == "CFD"].note.str.contains("the run's portraits are drawn").all()


@pytest.mark.thorough
def test_given_faces_are_held_against_those_of_the_paper(drawn, tmp_path):
    faces = tmp_path / "faces"
    faces.mkdir()
    for code in ("WF", "WM", "BF", "BM"):
        pixels = np.random.default_rng([*code.encode()]).integers(60, 220, (16, 16, 3), np.uint8)
        Image.fromarray(pixels).save(faces / f"CFD-{code}-001-001-N.png")
    asked = {"models": SD21, "quick": True, "objects": {SD21: Artist()}, "encoder": Eye(), "portraits": faces}
    needs = plan_reproduction("downstream", drawn.url, **asked)
    of_faces = {run.run.name: (run.missing, run.there) for run in needs.runs if run.run.spec.needs}
    assert of_faces == {"editing-faces": (4 * 12, 4), "classification-faces": (0, 4)}
    assert not needs.brought
    nowhere = plan_reproduction("downstream", drawn.url, **asked | {"portraits": tmp_path / "nowhere"})
    assert all("nowhere" in run.reason for run in nowhere.runs if run.run.spec.needs)
    done = reproduced("downstream", drawn.url, models=(SD21,), objects={SD21: Artist()}, portraits=faces)
    assert not done.failed
    assert len(done.runs) == 4
    page = (Path(done.url) / "paper.html").read_text()
    assert "Left out" not in page
    cells = cells_of(done)
    assert not cells.note.str.contains("portraits are").any()
    assert len(cells) == 2 * 48
