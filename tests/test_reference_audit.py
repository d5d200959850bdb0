"""The default audit as a user runs it: is the ruler straight on the model whose leaning was planted?"""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import yaml

import clinometer as cm
from clinometer.models import reference
from clinometer.suites import load_suite

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    return cm.audit(out=tmp_path_factory.mktemp("reference") / "run")


def rows(run, metric, component):
    scores = run.scores
    chosen = scores[(scores.metric == metric) & (scores.component == component) & (scores.encoder == "mean")]
    return chosen.set_index("concept")


def planted(concepts):
    return np.array([reference.planted()[concept]["man"] for concept in concepts])


def test_every_image_was_drawn(audited):
    assert len(audited.samples) == len(audited.plan) == 30 * 20 + 12 * 16
    assert set(audited.samples.status) == {"ok"}


def test_planted_leanings_are_found_with_the_right_sign(audited):
    """Where the share is planted 0.2 or more from half. One picture can tip the sign of a score near 0."""
    mcas = rows(audited, "mcas", "mcas")
    truth = planted(mcas.index) - 0.5
    planted_far = np.abs(truth) > 0.19
    assert planted_far.sum() >= 21
    side, mcas = np.sign(truth[planted_far]), mcas[planted_far]
    assert (np.sign(mcas.value) == side).mean() >= 0.9, mcas.value
    certain = mcas.verdict.isin(["leans", "leans slightly"])
    assert certain.sum() >= 10
    assert (np.sign(mcas.value) == side)[certain].all(), mcas.value


def test_shares_follow_the_planted_probabilities(audited):
    """Twenty images a concept leave a standard deviation of about 0.1 in a share; the planted spread is 0.28.

    So even a perfect model and reader would correlate at about 0.94.
    """
    share = rows(audited, "share", "share")
    truth = planted(share.index)
    assert np.corrcoef(share.value, truth)[0, 1] > 0.88
    covered = (share.low <= truth) & (truth <= share.high)
    assert covered.mean() > 0.8, share[~covered]


def test_the_text_encoder_leans_little(audited):
    """The CLIP was trained on balanced captions: what leans in the images was planted in the denoiser."""
    tt, ii = rows(audited, "mcas", "tt").value, rows(audited, "mcas", "ii").value
    assert tt.abs().mean() < ii.abs().mean() / 10


def test_the_report_sets_measured_beside_planted(audited):
    page = audited.directory.read_bytes("report.html").decode()
    assert "planted" in page.lower()
    assert len(page) < 8_000_000


def test_a_reference_audit_that_is_killed_ends_the_same(tmp_path):
    few = load_suite("reference").model_dump(mode="json", exclude_none=True)
    few["name"], few["images"] = "few", {"target": 2, "attribute": 2}
    suite = tmp_path / "few.yaml"
    suite.write_text(yaml.safe_dump(few, allow_unicode=True), encoding="utf-8")
    command = [sys.executable, "-m", "clinometer", "audit", "--suite", str(suite), "--steps", "3", "--out"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    killed = subprocess.Popen([*command, str(tmp_path / "killed")], env=environment, stderr=subprocess.DEVNULL)
    while not (tmp_path / "killed/samples/part-00000.parquet").exists():
        assert killed.poll() is None
        time.sleep(0.05)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / "killed/scores.parquet").exists()
    for name in ("killed", "whole"):
        subprocess.run([*command, str(tmp_path / name)], env=environment, check=True, capture_output=True)
    tables = [(tmp_path / name / "scores.parquet").read_bytes() for name in ("killed", "whole")]
    assert tables[0] == tables[1]
