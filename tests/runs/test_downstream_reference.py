"""Both downstream audits on the reference model: killed in the middle, they end as they would have."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import clinometer as cm
from clinometer.pipeline.reporting import write_report
from tests.runs.downstream_audits import SETTINGS, classification, editing

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("few_resamples")]


SCRIPT = """
import sys
import clinometer as cm
from tests.runs import downstream_audits as here
cm.audit("reference", getattr(here, sys.argv[1])(), sys.argv[2], **here.SETTINGS[sys.argv[1]])
"""


@pytest.fixture(scope="module")
def classified(tmp_path_factory: pytest.TempPathFactory) -> cm.Run:
    out = tmp_path_factory.mktemp("classified") / "run"
    return cm.audit("reference", classification(), out, **SETTINGS["classification"])


def killed(study: str, out: Path, enough: Callable[[], bool]) -> None:
    """Start an audit in a process of its own and kill it once enough of it is on disk."""
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, study, str(out)], cwd=Path(__file__).parents[2])
    while not enough():
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "scores.parquet").exists()


def tables(run: cm.Run, *folders: str) -> dict[str, bytes]:
    names = [name for folder in folders for name in run.directory.names(folder, ".parquet")]
    return {name: run.directory.read_bytes(name) for name in ["scores.parquet", "curves.parquet", *names]}


def test_editing_that_is_killed_ends_the_same(tmp_path: Path) -> None:
    out = tmp_path / "killed"
    killed("editing", out, (out / "samples/part-00003.parquet").exists)
    assert len(list((out / "samples").glob("part-*.parquet"))) < 7
    resumed = cm.audit("reference", editing(), out, **SETTINGS["editing"])
    whole = cm.audit("reference", editing(), tmp_path / "whole", **SETTINGS["editing"])
    assert tables(resumed) == tables(whole)
    assert len(whole.samples) == 8 * (1 + 6)
    assert whole.samples.status.eq("ok").all()
    assert set(whole.scores.component) >= {"flip_rate", "flip_asymmetry", "ita_change", "planted_order"}


def test_classification_that_is_killed_in_the_timestep_loop_ends_the_same(classified: cm.Run, tmp_path: Path) -> None:
    out = tmp_path / "killed"
    killed("classification", out, (out / "classifications/part-00000.parquet").exists)
    assert len(list((out / "classifications").glob("part-*.parquet"))) < 2
    resumed = cm.audit("reference", classification(), out, **SETTINGS["classification"])
    assert tables(resumed, "classifications") == tables(classified, "classifications")


@pytest.mark.pages
def test_a_whole_classification_audit_of_the_shipped_portraits(classified: cm.Run) -> None:
    assert classified.model_card["settings"]["portraits"]["name"] == "reference portraits"
    scores = classified.scores[classified.scores.setting == "6 noise samples"]
    association = scores[scores.component == "association"].set_index("group")
    assert set(association.index) == set(classified.suite.groups)
    assert association.n_target.eq(4).all()
    assert (association.low >= 0).all()
    assert association.low.le(association.value).all()
    assert association.value.le(association.high).all()
    gender = scores[(scores.component == "differential") & (scores.group == "gender")].iloc[0]
    value = association.value
    expected = (value["light man"] + value["dark man"] - value["light woman"] - value["dark woman"]) / 2
    assert gender.value == pytest.approx(expected)
    assert gender.verdict
    spent = classified.scores[classified.scores.component == "evaluations"]
    assert spent.value.eq(8 * 6).all()
    write_report(classified)
    page = classified.directory.read_bytes("report.html").decode()
    assert "given portraits, <bdi>reference portraits</bdi>" in page
