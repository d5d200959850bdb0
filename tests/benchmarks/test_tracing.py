"""A tilted text encoder and a planted network are told apart by where the trace first shows the leaning."""

import numpy as np
import pytest

import clinometer as cm
from benchmarks.tracing import suite, tilt
from clinometer.models import load_generator
from clinometer.models.protocols import GenerationRequest
from clinometer.pipeline.results import write_report

pytestmark = [pytest.mark.thorough, pytest.mark.slow]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The reference model, its text encoder tilted in "guard", which it draws half and half, and not in "singer"."""
    return tilt(tmp_path_factory.mktemp("tilted"), ("guard",))


@pytest.fixture(scope="module")
def run(model, tmp_path_factory):
    return cm.audit(
        model, suite(("guard", "singer")), tmp_path_factory.mktemp("audited") / "run", encoder="reference", steps=16,
        guidance_scale=1.0, trace=True, trace_steps="1,4,8,16", resamples=99, report=False, batch_size=8,
    )  # fmt: skip


def test_the_text_shows_it_first_where_the_text_was_tilted_and_the_steps_where_the_network_was_planted(run):
    scores = run.scores[run.scores.encoder.isin(["mean", "own:text_encoder"])]
    text = scores[scores.metric == "own_text"].set_index("concept")
    assert text.stimulus_low["guard"] > 0  # towards men, before a step is taken
    assert text.stimulus_high["singer"] > -0.05
    onset = scores[(scores.metric == "trace") & (scores.component == "onset")].set_index("concept")
    assert onset.flag[["guard", "singer"]].tolist() == ["text", "steps"]
    assert onset.group[["guard", "singer"]].tolist() == ["man", "woman"]


def test_the_report_says_so_in_words(run):
    write_report(run)
    page = run.directory.read_bytes("report.html").decode()
    assert "Guard: the text that conditions the model already leans to that side, before the first step." in page
    assert "Singer: the text is not shown to lean to that side; it shows first in the estimates" in page


def test_prompts_of_the_groups_draw_the_images_that_they_drew(model):
    requests = [GenerationRequest(str(seed), "an image of a woman with curly hair", seed) for seed in range(2)]
    drawn = [
        [np.asarray(result.image) for result in load_generator(each, steps=4, guidance_scale=1.0).generate(requests)]
        for each in ("reference", model)
    ]
    np.testing.assert_array_equal(*drawn)
