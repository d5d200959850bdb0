"""``clinometer ratings`` as a user types it: a task over two runs is made, rated, collected and written out."""

import re

import pandas as pd
import pytest
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.runs.ratings import ratings_of
from clinometer.web.database import open_database, reading
from clinometer.web.ratings.tables import Item
from clinometer.web.ratings.tasks import answers_for
from tests.toys import Eye, Painter, toy_association_suite, toy_suite
from tests.web.rating import Rater, token_in
from tests.web.serving import client, ids

pytestmark = pytest.mark.usefixtures("few_resamples")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two runs of one suite."""
    place = tmp_path_factory.mktemp("runs")
    for name in ("first", "second"):
        cm.audit(Painter(name=name), toy_suite(target=4, concepts=2), place / name, encoder=Eye())
    return place


def typed(*words, succeeds=True):
    result = CliRunner().invoke(app, ["ratings", *map(str, words)])
    assert (result.exit_code == 0) == succeeds, result.output + str(result.exception)
    return result.output if succeeds else str(result.exception)


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
    assert "there is no task" in typed("collect", "0" * 16, "--database", url, succeeds=False)
    fresh = cm.audit(Painter(), toy_suite(target=2, concepts=2), tmp_path / "fresh", encoder=Eye())
    assert "ratings import" in typed("export", fresh.url, "--out", tmp_path / "x.csv", succeeds=False)
    asked = ("new", runs / "first", "--concept", "concept 9", "--database", url)
    assert "no images of 'concept 9'" in typed(*asked, succeeds=False)


def test_a_concept_of_several_stimuli_is_one_item(tmp_path):
    """However a task is made: its study says what the images that are shown at once have in common."""
    cm.audit(Painter(), toy_association_suite(neutral=2, attribute=2, stimuli=2), tmp_path / "run", encoder=Eye())
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
    run = cm.audit(Painter(), toy_suite(target=2, concepts=2, axis=axis), tmp_path / "run", encoder=Eye())
    offered = [name for name, _ in answers_for([run])]
    assert ("neither" in offered) == (not third)
    assert offered[-1] == "cannot tell"
    assert [name for name, _ in answers_for([run], ["neither"])][-1] == "neither"  # asked for by name
