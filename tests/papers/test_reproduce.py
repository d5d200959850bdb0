"""A paper reproduced: its runs, the pictures they share, kills, what cannot be had, and its page."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import clinometer as cm
from clinometer.api import plan_reproduction
from clinometer.errors import Code, InvalidInputError, ModelError, RunError, RunMismatchError, SuiteError
from clinometer.papers.reproduction import require_finished
from clinometer.pipeline.audits import Workers, audit
from clinometer.pipeline.recipes import Models
from clinometer.pipeline.request import ask
from clinometer.runs import NoProgress
from clinometer.runs.encoding import MEASURED
from tests.papers.killed import FEW
from tests.papers.toy_papers import SD2, Artist, reproduced
from tests.quick import options
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

ROOT = Path(__file__).parents[2]
RUN = "stabilityai-stable-diffusion-2-mcas"


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Every concept: tables of the paper are compared with no less."""
    return reproduced("mcas", tmp_path_factory.mktemp("full") / "out")


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return reproduced("mcas", tmp_path_factory.mktemp("whole") / "out", **FEW)


def contents(folder):
    """Everything that says what was found, by name."""
    names = ("paper.html", "*.csv", "*.tex", "*.svg", "plan.parquet")
    return {
        str(path.relative_to(folder)): path.read_bytes() for name in names for path in sorted(Path(folder).rglob(name))
    }


def test_a_paper_becomes_ordinary_runs_and_a_page(full):
    folder = Path(full.url)
    assert not full.failed
    ((key, run),) = full.runs.items()
    assert key.startswith(RUN)
    assert run.suite.images.model_dump() == {"target": 6, "attribute": 6}
    opened = cm.open_run(folder / "runs" / key)
    cells = cm.paper_table(opened, "mcas")
    written = pd.read_csv(folder / "tables/table-5.csv", keep_default_na=False, dtype=str)
    assert sorted(written.printed) == sorted(cells.printed)
    page = (folder / "paper.html").read_text()
    for value in set(cells.printed):
        assert f'<span class="printed">{value.replace("-", chr(0x2212))}</span>' in page
    assert "--quick" in page
    assert "images (target)" in page  # a departure
    assert "a slip of the paper" in page
    assert {path.name for path in (folder / "figures").iterdir()} >= {"figure-3-mcas-objects.svg"}


def test_the_page_says_how_many_printed_numbers_lie_inside(full):
    (run,) = full.runs.values()
    cells = cm.paper_table(run, "mcas")
    held = cells[cells.paper_inside.notna()]
    page = (Path(full.url) / "paper.html").read_text()
    assert f"{int(held.paper_inside.astype(bool).sum())} of {len(held)} printed numbers lie in the 95" in page
    assert page.count('class="inside"') == int(held.paper_inside.astype(bool).sum())
    assert page.count('class="outside"') == int((~held.paper_inside.astype(bool)).sum())


def test_the_page_asks_the_network_for_nothing_and_its_ids_are_its_own(whole):
    page = (Path(whole.url) / "paper.html").read_text()
    identifiers = re.findall(r'\bid="([^"]+)"', page)
    assert len(identifiers) == len(set(identifiers))
    for name in re.findall(r'(?:href|aria-labelledby)="#?([^"]+)"', page):
        for target in name.split():
            if not target.startswith(("data:", "tables/", "runs/", "http://www.w3.org")):
                assert target in identifiers
    assert not re.findall(r'(?:src|href)="https?://', page)


def test_what_is_finished_is_not_done_again(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole.url, out)
    before, artist = contents(out), Artist()
    again = reproduced("mcas", out, artist, **FEW)
    assert artist.drawn == 0
    assert not again.failed
    assert contents(out) == before


def test_one_that_is_stopped_goes_on_as_if_it_had_not_been(whole, tmp_path):
    artist = Artist(stop_after=40)
    with pytest.raises(KeyboardInterrupt):
        reproduced("mcas", tmp_path / "out", artist, **FEW)
    drawn, artist.stop_after = artist.drawn, None
    reproduced("mcas", tmp_path / "out", artist, **FEW)
    assert drawn < artist.drawn < drawn + 72
    assert contents(tmp_path / "out") == contents(whole.url)


@pytest.mark.thorough
def test_one_that_is_killed_in_the_middle_of_drawing_and_of_scoring_has_the_same_tables(whole, tmp_path):
    out = tmp_path / "out"
    for when in ("drawing", "scoring"):
        process = subprocess.run([sys.executable, "-m", "tests.papers.killed", when, out], cwd=ROOT, check=False)
        assert process.returncode == -signal.SIGKILL
        (run,) = (out / "runs").iterdir()
        assert list((run / "samples").glob("part-*.parquet"))
        assert (run / "embeddings").exists() == (when == "scoring")
        assert not (run / "scores.parquet").exists()
    artist = Artist()
    done = reproduced("mcas", out, artist, **FEW)
    assert (artist.drawn, done.failed) == (0, {})
    assert contents(out) == contents(whole.url)


class Broken(Artist):
    """It cannot draw."""

    def generate(self, requests):
        raise ModelError("no such kernel")
        yield


@pytest.mark.thorough
def test_a_run_that_fails_is_left_out_with_its_reason_and_done_later(tmp_path):
    other = "owner/broken"
    objects = {SD2: Artist(), other: Broken(other)}
    done = reproduced("mcas", tmp_path / "out", models=(SD2, other), objects=objects, **FEW)
    (reason,) = done.failed.values()
    assert "no such kernel" in reason
    page = (tmp_path / "out/paper.html").read_text()
    assert "Left out of this page" in page
    assert "no such kernel" in page
    assert "above 0" in page  # the rest stays
    with raises(RunError, code=Code.FAILED, match="1 of 2"):
        require_finished(done)
    objects[other] = Artist(other)
    again = reproduced("mcas", tmp_path / "out", models=(SD2, other), objects=objects, **FEW)
    assert not again.failed
    assert f"{other}" in (tmp_path / "out/paper.html").read_text()


def test_an_encoder_that_cannot_be_had_fails_before_anything_is_drawn(tmp_path):
    artist = Artist()
    done = reproduced("mcas", tmp_path / "out", artist, encoder=str(tmp_path / "nowhere"), **FEW)
    (reason,) = done.failed.values()
    assert "nowhere" in reason
    assert artist.drawn == 2  # timed, and thrown away
    page = (tmp_path / "out/paper.html").read_text()
    assert "Left out of this page" in page
    assert "No run of this paper is finished" in page


@pytest.mark.slow
def test_workers_change_no_number(whole, tmp_path):
    reproduced("mcas", tmp_path / "shared", **FEW, workers=2)
    assert contents(tmp_path / "shared") == contents(whole.url)


def test_a_damaged_run_costs_its_own_part_alone(whole, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(whole.url, out)
    (run,) = (out / "runs").iterdir()
    (run / "scores.parquet").write_bytes(b"nothing")
    from clinometer.papers.page import PaperPage, paper_html
    from clinometer.papers.planning import Reproduction

    opened = Reproduction(out)
    page = paper_html(PaperPage(opened, opened.papers[0]))
    assert "Left out of this page" in page
    assert "scores.parquet" in page


@pytest.mark.parametrize(
    ("asked", "said"),
    [({"seed": 1}, "found 1, and .* with none")],
)
def test_a_directory_that_was_asked_something_else_is_refused(whole, tmp_path, asked, said):
    shutil.copytree(whole.url, tmp_path / "out")
    with raises(RunMismatchError, code=Code.MISMATCH, field="seed", match=said):
        reproduced("mcas", tmp_path / "out", **asked)


def test_a_directory_of_other_things_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"reproduction\.json"):
        reproduced("mcas", tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if not path.name.startswith(".")) == ["notes.txt"]


@pytest.mark.parametrize(
    ("papers", "code", "said"),
    [("mcsa", Code.UNKNOWN_NAME, "found 'mcsa'; did you mean mcas"), ([], Code.MISSING, "found none")],
)
def test_no_such_paper(tmp_path, papers, code, said):
    with raises(InvalidInputError, code=code, field="paper", match=said):
        cm.reproduce(papers, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_damaged_record_is_named(whole, tmp_path):
    shutil.copytree(whole.url, tmp_path / "out")
    place = tmp_path / "out/reproduction.json"
    record = json.loads(place.read_text()) | {"papers": 3}
    place.write_text(json.dumps(record))
    with raises(RunMismatchError, code=Code.MISMATCH, match=r"reproduction\.json: papers: "):
        reproduced("mcas", tmp_path / "out")


# --- what it takes


def test_what_it_takes_is_said_before_anything_is_drawn(tmp_path):
    artist, shown = Artist(), []
    asked = {"models": SD2, "quick": True, "objects": {SD2: artist}, "encoder": Eye(), **FEW}
    needs = plan_reproduction("mcas", tmp_path / "out", **asked)
    (run,) = needs.runs
    assert (run.images, run.missing, run.evaluations) == (72, 72, 72 * 10 * 2)
    assert not (tmp_path / "out").exists()
    assert artist.drawn == 0
    reproduced("mcas", tmp_path / "out", artist, show=lambda needs: shown.append((needs, artist.drawn)), **FEW)
    ((told, drawn),) = shown
    assert drawn == 2  # timed, and thrown away
    assert told.total("seconds") > 0
    assert told.total("bytes") > 0
    needs = plan_reproduction("mcas", tmp_path / "out", **asked)
    assert (needs.total("missing"), needs.total("seconds"), needs.runs[0].there) == (0, 0, 72)


def test_a_model_that_names_no_steps_has_no_number_of_evaluations(tmp_path):
    needs = plan_reproduction(
        "mcas", tmp_path / "out", models=SD2, quick=True, objects={SD2: Painter(name=SD2)}, encoder=Eye()
    )
    assert needs.total("missing") == 216
    assert needs.total("evaluations") != needs.total("evaluations")  # NaN


def test_a_model_that_cannot_be_had_leaves_the_others(tmp_path):
    needs = plan_reproduction(
        "mcas", tmp_path / "out", models=[SD2, str(tmp_path / "nowhere")], quick=True, objects={SD2: Artist()},
        encoder=Eye(),
    )  # fmt: skip
    found, lost = needs.runs
    assert found.missing == 216
    assert "nowhere" in lost.reason
    assert needs.total("missing") == 216


# --- shared pictures


def by_hand(suite, out, artist, pictures=(), eye=None):
    request = ask(model=artist, suite=suite, out=out, **options(encoder=eye or Eye()))
    audit(request, Models(), Workers(), NoProgress(), pictures=pictures)
    return cm.open_run(out)


def test_pictures_of_another_run_are_those_that_would_be_drawn(tmp_path):
    """What is shared changes no number: the run is the one that would have drawn them itself."""
    first, second = toy_suite(target=4, concepts=4), toy_suite(target=6, concepts=4, name="other")
    earlier = by_hand(first, tmp_path / "first", Artist())
    alone, artist = by_hand(second, tmp_path / "alone", Artist()), Artist()
    shared = by_hand(second, tmp_path / "shared", artist, [earlier.url])
    assert shared.record["pictures_of"] == {"first": len(earlier.samples)}
    assert artist.drawn == len(alone.samples) - len(earlier.samples)
    own = [run.samples.drop(columns="seconds") for run in (alone, shared)]
    pd.testing.assert_frame_equal(*own)
    pd.testing.assert_frame_equal(alone.scores, shared.scores)


def test_pictures_that_another_run_has_embedded_are_not_embedded_again(tmp_path):
    suite, artist, eye = toy_suite(target=4, concepts=2), Artist(), Eye()
    earlier = by_hand(suite, tmp_path / "first", artist, eye=eye)
    before = eye.seen
    same = by_hand(suite, tmp_path / "same", artist, [earlier.url], eye)
    assert eye.seen - before == MEASURED * 4  # those that are saved again in three ways, each beside itself
    pd.testing.assert_frame_equal(same.scores, earlier.scores)
    other = Eye()
    other.card.settings["offset"] = 1
    by_hand(suite, tmp_path / "other", artist, [earlier.url], other)
    assert other.seen > len(earlier.samples)


def test_pictures_of_another_model_or_seed_are_not_taken(tmp_path):
    suite = toy_suite(target=4, concepts=2)
    earlier = by_hand(suite, tmp_path / "first", Artist("another"))
    artist = Artist()
    run = by_hand(suite, tmp_path / "run", artist, [earlier.url])
    assert artist.drawn == len(run.samples)


@pytest.mark.thorough
@pytest.mark.slow
def test_papers_share_their_pictures_and_each_has_a_folder(full, tmp_path):
    """The three papers of one design ask a painter for what MCAS asked, for one other prompt, and a third group."""
    artist, asked = Artist(), {"models": SD2, "quick": True, "encoder": Eye()}
    shutil.copytree(full.url, tmp_path / "out")
    names = ["mcas", "internal-bias", "xmcas"]
    needs = plan_reproduction(names, tmp_path / "out", objects={SD2: artist}, **asked)
    assert [(run.missing, run.shared, run.there) for run in needs.runs] == [(0, 0, 216), (6, 210, 0), (24, 216, 0)]
    done = reproduced(names, tmp_path / "out", artist)
    assert artist.drawn == 30
    done = reproduced(names, tmp_path / "out", artist)
    assert done.pages == {name: str(tmp_path / "out" / name / "paper.html") for name in names}
    there = {path.name for path in (tmp_path / "out").iterdir() if path.name[0] != "."}
    assert there == {*names, "reproduction.json", "runs"}
    for name, run in zip(names, done.runs.values(), strict=True):
        printed = set(cm.paper_table(run, name).printed)
        page = (tmp_path / "out" / name / "paper.html").read_text()
        assert all(f'"printed">{value.replace("-", chr(0x2212))}</span>' in page for value in printed)
        assert ("Drawn by another run" in page) == (name != "mcas")
        assert 'href="../runs/' not in page  # these toys have no pages of their own
    assert "fits a centroid with its axes swapped" in page


class Forgetful(Artist):
    """It fails at every third image."""

    def generate(self, requests):
        for order, result in enumerate(super().generate(requests)):
            lost = order % 3 == 2
            yield type(result)(result.id, "failed", None, "lost") if lost else result


def test_pictures_that_failed_are_drawn(tmp_path):
    suite = toy_suite(target=6, concepts=2)
    earlier = by_hand(suite, tmp_path / "first", Forgetful())
    lost = int((earlier.samples.status == "failed").sum())
    assert lost
    artist = Artist()
    run = by_hand(suite, tmp_path / "run", artist, [earlier.url])
    assert artist.drawn == lost
    assert (run.samples.status == "ok").all()


def test_numbers_of_images_go_by_the_suites_own_names(tmp_path):
    run = cm.audit(
        Artist(), toy_suite(target=6, attribute=5, concepts=2), tmp_path / "run", image_counts={"target": 3},
        **options(encoder=Eye()),
    )  # fmt: skip
    assert run.suite.images.model_dump() == {"target": 3, "attribute": 5}
    with raises(SuiteError, code=Code.UNKNOWN_NAME, field="image_counts", match="'targets'; did you mean"):
        toy_suite().with_options(image_counts={"targets": 3})
