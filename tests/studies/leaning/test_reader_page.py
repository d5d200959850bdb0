"""The section about the reader: of a run that can be read, of noise, and of the reference encoder and its judge."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import numpy as np
import pandas as pd
import pytest

from clinometer.models import reference
from clinometer.pipeline.results import render_html
from clinometer.report import wording
from clinometer.report.view import Row
from clinometer.studies.leaning.sections import APART
from tests import quick
from tests.report.page import Page, with_only
from tests.report.synthetic import small_input
from tests.toys import Eye, Painter, toy_suite


class Noise(Eye):
    """Gives every image and text a vector that has nothing to do with it."""

    def __init__(self) -> None:
        super().__init__("noise")

    def encode_images(self, images):
        return np.stack([_noise(np.asarray(image).tobytes()) for image in images])

    def encode_texts(self, texts):
        return np.stack([_noise(text.encode()) for text in texts])


def _noise(content: bytes) -> np.ndarray:
    """The same of the same content: an encoder that answers differently the second time is refused."""
    return np.random.default_rng(list(sha256(content).digest())).normal(size=16).astype(np.float32)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    runs = {
        e.card.name: quick.audit(Painter(), toy_suite(), folder / e.card.name, encoder=e, report=True)
        for e in (Eye(), Noise())
    }
    return {name: (run, Page(run.directory.read_bytes("report.html").decode())) for name, run in runs.items()}


@pytest.mark.thorough
def test_both_shares_and_the_rates_stand_on_the_page(pages):
    run, page = pages["eye"]
    said = page.by_id("reader").text
    assert "eye1.00 [0.72, 1.00] 10 images1.00 [0.72, 1.00] 10 images1.00 [0.61, 1.00]yes" in said
    assert "read as other" in said
    clear = run.scores[run.scores.flag != "not shown"]  # the toy's texts say little of its pictures
    for concept in run.suite.targets:
        rows = clear[(clear.concept == concept.name) & (clear.encoder == "mean")].set_index("component")
        for component in {"share", "corrected_share"} & set(rows.index):
            row = rows.loc[component]
            assert f"{wording.number(row.value)} {wording.interval(row.low, row.high)}" in said


def test_noise_is_told_to_be_no_reader(pages):
    run, page = pages["noise"]
    assert "no: encoder noise cannot read its own attribute images" in page.by_id("reader").text
    assert "leans" not in " ".join(e.text for e in page.find("p", class_="said"))
    unshown = run.scores[(run.scores.metric == "fidelity") & (run.scores.flag == "not shown")]
    assert len(unshown)
    assert "unreadable" in page.by_id("reader").text


def test_a_share_of_what_is_not_shown_is_not_worded():
    shown = wording.share_words(Row(value=1.0, n_target=2, flag="not shown"), "young people", "old people")
    assert "2 of 2" not in shown
    assert shown.startswith("its images are not shown to be what was asked")


def test_without_such_rows_there_is_no_section():
    page = Page(render_html(small_input()))
    assert not [e for e in page.elements if e.attributes.get("id") == "reader"]
    assert not [e for e in page.find("h3") if e.text.startswith("Is it the model")]


def test_concepts_that_the_judge_reads_otherwise_are_named():
    whole = small_input()
    names = list(whole.suite.targets)
    apart, alike = names[0].name, names[1].name
    held = {
        apart: {"n": 50, "encoder": 10, "judge": 20, "differ": 12, "low": 0.25, "high": 0.57},
        alike: {"n": 50, "encoder": 20, "judge": 20, "differ": 0, "low": 0.25, "high": 0.57},
        "elsewhere": {"n": 50, "encoder": 0, "judge": 50, "differ": 50, "low": 0.9, "high": 1.0},
    }
    said = with_only(replace(whole, readings=held), "planted").by_id("planted").text
    told = said.split("Is it the model or the reader?")[1].split("Planted and measured")[0]
    assert f"{apart}0.200.4012 of 50" in told
    assert "for 1 of 2 concepts" in " ".join(told.split())
    assert alike not in told
    assert "elsewhere" not in told
    agreed = with_only(replace(whole, readings={alike: held[alike]}), "planted").by_id("planted").text
    assert "differ by less than 3 %" in agreed


def test_the_readings_that_ship_are_of_the_reference_suites_concepts():
    readings = pd.DataFrame({name: dict(row) for name, row in reference.readings().items()}).T
    assert {"guard", "shrugging", "walking"} <= set(readings.index)
    assert set(readings.index) <= set(reference.planted())
    assert ((readings.encoder - readings.judge).abs() <= readings.differ).all()
    named = set(readings[(readings.encoder - readings.judge).abs() >= APART * readings.n].index)
    assert {"guard", "walking", "meditating", "shrugging"} <= named
