"""A study that another package brings, in one folder and by one registration, is a study like any other."""

import os

import pytest
from clinometer_example.brightness.study import part_name

import clinometer as cm
from clinometer.models.protocols import Card
from clinometer.studies import study_names
from clinometer.studies.reporting import report_input
from clinometer.suites import load_suite
from tests import quick
from tests.example import register_example
from tests.toys import Painter

pytestmark = pytest.mark.pages

SUITE = """
name: brightness
title: Brightness
description: Whether pictures are bright.
study: brightness
prompts: {light: a wall lean 0.9, dark: a cave lean 0.1}
images: 12
"""


@pytest.fixture
def suite(tmp_path, monkeypatch):
    """The suite's file, with the study of examples/plugin installed."""
    register_example(monkeypatch, tmp_path)
    path = tmp_path / "brightness.yaml"
    path.write_text(SUITE)
    return path


class Lamp(Painter):
    """Paints green wholly bright, so that everything is brighter."""

    def __init__(self):
        super().__init__(name="lamp")
        self.card = Card(kind="generator", name="lamp", family="toy/lamp")

    def generate(self, requests):
        for result in super().generate(requests):
            result.image.paste((255, 255, 255), (0, 0, 8, 4))
            yield result


def test_it_is_planned_drawn_scored_compared_and_reported(suite, tmp_path):
    assert "brightness" in study_names()
    assert load_suite(suite).image_count == 24
    runs = [quick.audit(model, suite, tmp_path / model.card.name) for model in (Painter(), Lamp())]
    rows = runs[0].scores.set_index("concept")
    assert rows.loc["light", "n_target"] == 12
    assert report_input(runs[0]).suite.study == "brightness"
    assert "<strong><bdi>light</bdi></strong>" in (tmp_path / "painter/report.html").read_text()
    assert "brightness" in runs[0]._repr_html_()
    assert "| light | " in cm.model_card(runs[0])
    (comparison,) = cm.compare(*runs, out=tmp_path / "compared")
    table = comparison.scores
    differences = table[table.component == "brightness"]
    assert (differences.value > 0).all()
    assert (differences.side == "bright").all()
    page = (tmp_path / "compared/comparison.html").read_text()
    assert "brightness of lamp minus brightness of painter" in page.lower()
    assert "Side by side" in page


@pytest.mark.thorough
@pytest.mark.usefixtures("kept_workers")
def test_workers_share_its_stage(suite, tmp_path):
    here, shared = (quick.audit(Painter(), suite, tmp_path / str(n), workers=n) for n in (None, 2))
    assert shared.scores.equals(here.scores)
    processes = {
        process
        for part in shared.parts
        for process in shared.directory.read_table(part_name(part)).column("process").to_pylist()
    }
    assert os.getpid() not in processes
