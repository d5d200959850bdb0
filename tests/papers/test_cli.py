"""``clinometer reproduce`` as it is typed."""

from __future__ import annotations

import json

import pytest

from clinometer.errors import Code
from tests.cli.conftest import cli
from tests.papers.toy_papers import SD2, Artist
from tests.toys import Eye

__all__ = ["cli"]


@pytest.fixture
def toys(monkeypatch):
    """Let every model be a painter, and every encoder an eye."""
    monkeypatch.setattr("clinometer.pipeline.recipes.load_generator", lambda spec, **_: Artist(spec))
    monkeypatch.setattr("clinometer.pipeline.recipes.load_encoder", lambda spec, **_: Eye(spec))


def test_a_dry_run_says_what_it_takes_and_writes_nothing(cli, toys, tmp_path):
    status, _ = cli("reproduce", "mcas", "--model", SD2, "--out", "out", "--dry-run")
    assert status == 0
    assert "688 images to draw, 13,760 evaluations of the network" in cli.printed
    assert "not known before one picture is timed" in cli.printed
    assert not (tmp_path / "out").exists()
    status, _ = cli("reproduce", "mcas", "--model", SD2, "--out", "out", "--dry-run", "--json")
    document = json.loads(cli.printed)
    (row,) = document["tables"][0]["rows"]
    assert (document["of"], row["images"], row["missing"], row["seconds"]) == ("reproduce", 688, 688, None)


@pytest.mark.slow
def test_the_command_names_the_page(cli, toys, tmp_path):
    words = ("reproduce", "mcas", "--model", SD2, "--quick", "--out", "out", "--resamples", "99")
    status, said = cli(*words)
    assert status == 0, said
    assert "216 images to draw" in cli.printed
    assert "out/paper.html" in cli.printed
    assert (tmp_path / "out/paper.html").exists()
    status, said = cli(*words, "--seed", "1")
    assert (status, cli.error.code) == (2, Code.MISMATCH)
    assert said.startswith("clinometer: --seed: found 1, ")
    assert len(said.splitlines()) <= 2


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("reproduce", "mcsa", "--out", "out"), Code.UNKNOWN_NAME, "mean mcas"),
        (("reproduce", "mcas", "-m", "a", "-m", "a", "--out", "out"), Code.DUPLICATE, "--model: found a "),
        (("reproduce", "mcas"), Code.MISSING, "--out"),
    ],
)
def test_mistakes_are_told(cli, words, code, said):
    status, told = cli(*words)
    assert (status, cli.error.code) == (2, code)
    assert said in told
    assert "Traceback" not in told
