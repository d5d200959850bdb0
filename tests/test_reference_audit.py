"""The default audit: is the ruler straight on the model whose leaning was planted?

The model draws in 16 steps where nothing else is said. Here it draws most in two: what was planted shows in as few,
and no bar is lower for it. In 16 steps it draws a few images of two concepts that lean far.
"""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import yaml

from clinometer.models import reference
from clinometer.suites import load_suite
from tests import quick
from tests.pipeline.reference_audits import few_targets

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    return quick.audit(out=tmp_path_factory.mktemp("reference") / "run", steps=2, report=True)


def rows(run, metric, component):
    scores = run.scores
    chosen = scores[(scores.metric == metric) & (scores.component == component) & (scores.encoder == "mean")]
    return chosen.set_index("concept")


def planted(concepts):
    return np.array([reference.planted()[concept]["man"] for concept in concepts])


@pytest.mark.thorough
def test_every_image_was_drawn(audited):
    assert len(audited.samples) == len(audited.plan) == 30 * 20 + 12 * 16
    assert set(audited.samples.status) == {"ok"}


@pytest.mark.thorough
def test_planted_leanings_are_found_with_the_right_sign(audited):
    """Where the share is planted 0.2 or more from half. One picture can tip the sign of a score near 0."""
    pictures = rows(audited, "mcas", "image_part")
    truth = planted(pictures.index) - 0.5
    planted_far = np.abs(truth) > 0.19
    assert planted_far.sum() >= 21
    side, pictures = np.sign(truth[planted_far]), pictures[planted_far]
    assert (np.sign(pictures.value) == side).mean() >= 0.9, pictures.value
    certain = pictures.verdict.isin(["leans", "leans slightly"])
    assert certain.sum() >= 10
    assert (np.sign(pictures.value) == side)[certain].all(), pictures.value


@pytest.mark.thorough
def test_shares_follow_the_planted_probabilities(audited):
    """Twenty images a concept leave a standard deviation of about 0.1 in a share; the planted spread is 0.28.

    So even a perfect model and reader would correlate at about 0.94.
    """
    share = rows(audited, "share", "share")
    truth = planted(share.index)
    assert np.corrcoef(share.value, truth)[0, 1] > 0.88
    covered = (share.low <= truth) & (truth <= share.high)
    assert covered.mean() > 0.8, share[~covered]


@pytest.mark.thorough
def test_the_text_encoder_leans_little(audited):
    """The CLIP was trained on balanced captions: what leans in the images was planted in the denoiser."""
    tt, ii = rows(audited, "mcas", "tt").value, rows(audited, "mcas", "ii").value
    assert tt.abs().mean() < ii.abs().mean() / 10


@pytest.mark.thorough
def test_the_report_sets_measured_beside_planted(audited):
    page = audited.directory.read_bytes("report.html").decode()
    assert "planted" in page.lower()
    assert len(page) < 8_000_000


def test_as_many_steps_as_a_user_gets_draw_what_was_planted(tmp_path):
    """Six images each of concepts that were planted at 0.1 or less, or at 0.9 or more: most show the likelier side."""
    suite = few_targets()
    name, category = next(iter(load_suite("reference").categories.items()))
    leaning = [each for each in category.targets if abs(planted([each.name])[0] - 0.5) >= 0.4]
    both = [next(each for each in leaning if each.stereotype == group) for group in ("man", "woman")]
    update = {"categories": {name: category.model_copy(update={"targets": both})}}
    run = quick.audit(suite=suite.with_options(images=6).model_copy(update=update), out=tmp_path / "run")
    assert run.model_card["settings"]["steps"] == reference.card()["defaults"]["steps"] == 16
    share = rows(run, "share", "share")
    assert (np.sign(share.value - 0.5) == np.sign(planted(share.index) - 0.5)).all(), share.value


@pytest.mark.thorough
def test_a_reference_audit_that_is_killed_ends_the_same(tmp_path):
    suite, out, options = tmp_path / "few.yaml", tmp_path / "killed", {"steps": 2, "batch_size": 8}
    few = few_targets().model_dump(mode="json", exclude_none=True) | {"name": "few"}
    suite.write_text(yaml.safe_dump(few, allow_unicode=True), encoding="utf-8")
    part = "samples/part-00000.parquet"
    imports = "from clinometer.cli import main; from tests.pipeline.reference_audits import die_at"
    code = f"{imports}; die_at({part!r}); main()"
    command = [sys.executable, "-c", code, "audit", "--suite", str(suite), "--out", str(out)]
    command += ["--no-report", "--resamples", str(quick.RESAMPLES)]
    command += [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    killed = subprocess.run(command, stderr=subprocess.DEVNULL, cwd=Path(__file__).parents[1], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (out / part).exists()
    assert not (out / "scores.parquet").exists()
    runs = [quick.audit(suite=suite, out=place, **options) for place in (out, tmp_path / "whole")]
    tables = [run.directory.read_bytes("scores.parquet") for run in runs]
    assert tables[0] == tables[1]
