"""``clinometer ratings`` as a user types it: a task over two runs is made, rated, collected and written out."""

import re
import shutil

import pandas as pd
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

import clinometer as cm
from clinometer.api import verify_run
from clinometer.cli.app import app
from clinometer.errors import Code, RatingsError, RatingsPlaceWarning
from clinometer.ratings import ratings_of
from clinometer.web.app import create_app
from clinometer.web.database import Base, Item, open_database, reading
from clinometer.web.ratings.tasks import answers_for
from clinometer.web.security import ServerSettings, kept_key
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite
from tests.web.rating import Rater, token_in
from tests.web.serving import client, ids


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one suite."""
    place = tmp_path_factory.mktemp("runs")
    for name in ("first", "second"):
        quick.audit(Painter(name=name), toy_suite(target=4, concepts=2), place / name, encoder=Eye())
    return place


def typed(*words, said=None):
    result = CliRunner().invoke(app, ["ratings", *map(str, words)], input=said, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.thorough
def test_a_task_over_two_runs_is_made_rated_and_collected(runs, tmp_path):
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    given = ("--images", 2, "--strata", "reading", "--attention", 2, "--repeats", 0.5, "--answer", "neither")
    said = typed("new", runs / "first", runs / "second", *given, "--url", "http://rate.example/", "--database", url)
    task = re.search(r"Task (\w+)", said)[1]
    link = re.search(r"http://rate\.example/join/(\S+)", said)[1]
    with reading(open_database(url)) as session:
        items = session.query(Item).all()
        assert {item.run.rsplit("/", 1)[-1] for item in items} == {"first", "second"}
        assert all(item.stratum_size > 0 for item in items if not item.attention)
        rated = len(items)
    rater = Rater(client(runs, cache=tmp_path, database=url).app, link)
    assert "cannot tell" not in rater.page()
    answered = rater.answer_all(lambda place: "man" if place % 2 else "neither")
    assert answered > rated  # some are asked twice
    assert f"{task}  open  1 raters, {answered} answers" in typed("list", "--database", url)
    assert typed("collect", task, "--database", url).count("scores and report made with them") == 2
    for name in ("first", "second"):
        held = ratings_of(cm.open_run(runs / name))
        assert set(held.answer) <= {"man", "neither"}
        assert (cm.open_run(runs / name).scores.metric == "human").any()
        typed("export", runs / name, "--out", tmp_path / f"{name}.csv")
        assert len(pd.read_csv(tmp_path / f"{name}.csv")) == len(held)


@pytest.mark.thorough
def test_pairs_are_shown_side_by_side_and_kept_with_their_order(runs, tmp_path):
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    given = ("--pairs", 12, "--repeats", 0, "--question", "Which looks more like a man?", "--seed", 1)
    said = typed("new", runs / "first", *given, "--url", "http://rate.example/", "--database", url)
    rater = Rater(client(runs, cache=tmp_path, database=url).app, re.search(r"rate\.example/join/(\S+)", said)[1])
    page = rater.page()
    assert "The left picture" in page
    assert page.index('value="left"') < page.index('value="right"') < page.index('value="tie"')
    assert rater.answer_all(lambda place: ("left", "right", "tie")[place % 3]) == 12
    typed("collect", re.search(r"Task (\w+)", said)[1], "--database", url)
    run = cm.open_run(runs / "first")
    held = ratings_of(run)
    held = held[held.answer.isin(["left", "right", "tie"])]
    assert held["item"].str.fullmatch(r"pair:\w+ \w+").all()
    samples = run.samples.set_index("id")
    of = [[samples.concept[each] for each in item.removeprefix("pair:").split(" ")] for item in held["item"]]
    assert all(left != right for left, right in of)
    assert {left for left, _ in of} == {right for _, right in of}
    assert (run.scores.setting == "Which looks more like a man?").any()
    with raises(RatingsError, code=Code.UNSUPPORTED, match="--answer"):
        typed("new", runs / "first", "--pairs", 2, "--answer", "x", "--database", url)


def test_ratings_made_elsewhere_are_taken_in(runs, tmp_path):
    run = cm.open_run(runs / "first")
    shown = run.samples[run.samples.role == "target"].id
    table = pd.DataFrame({"picture": shown, "who": "rater 1", "said": "woman"})
    table.to_csv(tmp_path / "answers.csv", index=False)
    columns = ("--item-column", "picture", "--rater-column", "who", "--answer-column", "said")
    assert str(len(shown)) in typed("import", runs / "first", tmp_path / "answers.csv", *columns)
    assert (ratings_of(cm.open_run(runs / "first")).answer == "woman").sum() >= len(shown)


def test_mistakes_are_told_with_a_way_out(runs, tmp_path):
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    for command in (("list",), ("collect", "0" * 16), ("remove", "0" * 16)):
        with raises(RatingsError, code=Code.NOT_FOUND, match="ratings.sqlite"):
            typed(*command, "--database", url)
    assert not (tmp_path / "ratings.sqlite").exists()  # asking makes none
    with raises(RatingsError, code=Code.NOT_FOUND, match="ratings.sqlite"):
        typed("repair", "--database", url)
    open_database(url)
    for command in (("collect", "0" * 16), ("remove", "0" * 16)):
        with raises(RatingsError, code=Code.NOT_FOUND, match="0" * 16):
            typed(*command, "--database", url)
    fresh = quick.audit(Painter(), toy_suite(target=2, concepts=2), tmp_path / "fresh", encoder=Eye())
    with raises(RatingsError, code=Code.NOT_FOUND, match="ratings import"):
        typed("export", fresh.url, "--out", tmp_path / "x.csv")
    asked = ("new", runs / "first", "--concept", "concept 9", "--database", url)
    with raises(RatingsError, code=Code.UNKNOWN_NAME, field="concept", match="'concept 9'"):
        typed(*asked)


def test_a_concept_of_several_stimuli_is_one_item(tmp_path):
    """However a task is made: its study says what the images that are shown at once have in common."""
    quick.audit(Painter(), toy_t2iat_suite(neutral=2, attribute=2, stimuli=2), tmp_path / "run", encoder=Eye())
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    typed("new", tmp_path / "run", "--images", 0, "--attention", 0, "--database", url)
    browser = client(tmp_path / "run", cache=tmp_path, database=url)
    form = {
        "csrf_token": token_in(browser.get("/ratings/new").text),
        "title": "T",
        "question": "Who?",
        "consent": "Yes",
    }
    browser.post("/ratings/new", data=form | {"run": ids(browser)["run"], "images": 0, "attention": 0})
    with reading(open_database(url)) as session:
        assert [item.name for item in session.query(Item)] == ["concept:red", "concept:green"] * 2


@pytest.mark.parametrize("third", [False, True])
def test_neither_is_offered_between_two_groups_alone(third, tmp_path):
    axis = {"a": "man", "b": "woman"} | ({"third": "other"} if third else {})
    run = quick.audit(Painter(), toy_suite(target=2, concepts=2, axis=axis), tmp_path / "run", encoder=Eye())
    offered = [name for name, _ in answers_for([run])]
    assert ("neither" in offered) == (not third)
    assert offered[-1] == "cannot tell"
    assert [name for name, _ in answers_for([run], ["neither"])][-1] == "neither"  # asked for by name


@pytest.mark.thorough
def test_a_rater_and_a_task_are_removed_for_good(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=4, concepts=2), tmp_path / "run", encoder=Eye())
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    said = typed("new", run.url, "--images", 2, "--url", "http://rate.example", "--database", url)
    task, link = re.search(r"Task (\w+)", said)[1], said.strip().rpartition("/")[2]
    browser = client(run.url, cache=tmp_path, database=url)
    for answer in ("man", "woman"):
        Rater(browser.app, link).answer_all(lambda _, answer=answer: answer)
    typed("collect", task, "--database", url)
    names = ratings_of(cm.open_run(run.url)).groupby("answer").rater.first()
    of_task = ("remove", task, "--database", url)
    with raises(RatingsError, code=Code.NOT_FOUND, match=f"'nobody'; .*{names.man}"):
        typed(*of_task, "--rater", "nobody")
    with raises(RatingsError, code=Code.REFUSED):
        typed(*of_task, "--rater", names.man, said="n\n")
    assert "1 raters" in typed(*of_task, "--rater", names.man, said="y\n")
    left = cm.open_run(run.url)
    assert set(ratings_of(left).rater) == {names.woman}
    assert left.scores.query("metric == 'human' and component == 'fraction' and group == 'man'").value.eq(0).all()
    assert "1 raters" in typed("list", "--database", url)
    typed(*of_task, "--yes")
    left = cm.open_run(run.url)
    assert ratings_of(left).empty
    assert not (left.scores.metric == "human").any()
    assert verify_run(run.url) > 0
    assert not typed("list", "--database", url)
    with reading(open_database(url)) as session:
        for table in Base.metadata.sorted_tables:
            assert table.name == "seals" or not session.execute(table.select()).all()


def test_a_task_whose_run_is_gone_can_be_removed(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=2, concepts=2), tmp_path / "run", encoder=Eye())
    url = f"sqlite:///{tmp_path / 'ratings.sqlite'}"
    task = re.search(r"Task (\w+)", typed("new", run.url, "--database", url))[1]
    shutil.rmtree(run.url)
    assert "not there, so nothing was removed" in typed("remove", task, "--yes", "--database", url)


def test_serve_and_ratings_find_the_same_database(tmp_path, monkeypatch):
    """In the folder of data, whatever the cache; one that lies in the cache is moved there."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    run = quick.audit(Painter(), toy_suite(target=2, concepts=2), tmp_path / "run", encoder=Eye())
    old = tmp_path / "cache/clinometer/ratings.sqlite"
    task = re.search(r"Task (\w+)", typed("new", run.url, "--database", f"sqlite:///{old}"))[1]
    with pytest.warns(RatingsPlaceWarning, match="was moved from"):
        assert task in typed("list")
    place = tmp_path / "share/clinometer/ratings.sqlite"
    assert place.exists()
    assert not old.exists()
    settings = ServerSettings(runs=(run.url,), cache=tmp_path / "elsewhere", hosts=("testserver",))
    served = TestClient(create_app(settings))
    assert f'href="/ratings/{task}"' in served.get("/ratings").text
    place.unlink()
    with raises(RatingsError, code=Code.NOT_FOUND, match="ratings.sqlite"):
        typed("list")
    assert "is missing" in TestClient(create_app(settings)).get("/ratings").text


def test_a_key_is_kept_for_its_owner_alone(tmp_path):
    first = kept_key(tmp_path / "data")
    file = tmp_path / "data/session.key"
    assert kept_key(tmp_path / "data") == first
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    second = kept_key(tmp_path / "data")
    assert second != first
    file.write_text("short")
    assert len(kept_key(tmp_path / "data")) >= 32
    (tmp_path / "a file").touch()
    assert kept_key(tmp_path / "a file/data") != kept_key(tmp_path / "a file/data")  # it cannot be kept
