"""Planning from a real pilot: what it says is what a larger run does."""

from __future__ import annotations

from math import ceil, inf, isnan

import pytest
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, SuiteError
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.models import load_generator
from clinometer.models.protocols import GenerationResult
from clinometer.studies.planning import plan_in_words
from clinometer.suites import load_suite
from tests import quick
from tests.models.openai.image_server import ImageServer, drawn
from tests.raising import raises
from tests.toys import Eye, Painter, paint, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")


@pytest.fixture(scope="module")
def pilot():
    return quick.finished(Painter(), toy_suite(), encoder=Eye())


def test_a_pilot_gives_every_concept_its_numbers(pilot):
    plan = cm.plan(pilot=pilot.url, effect=1.2, margin=0.5)
    assert list(plan.table.concept) == [target.name for target in pilot.suite.targets]
    assert (plan.table.to_detect >= FEWEST_IMAGES).all()
    assert plan.seconds_per_image >= 0
    assert plan.bytes_per_image > 0
    assert plan.images == len(pilot.plan)


def test_a_smaller_effect_needs_more_images_and_the_groups_own_hide_it_unless_they_grow(pilot):
    needed = [cm.plan(pilot=pilot.url, effect=effect).table for effect in (1.2, 0.9, 0.3)]
    assert (needed[0].to_detect <= needed[1].to_detect).all()
    assert (needed[1].to_detect < needed[2].to_detect).all()
    assert cm.plan(pilot=pilot.url, effect=0.05).table.groups_kept.isna().all()


def test_plan_and_scores_name_the_same_numbers():
    """The pilot's own ``n_decide`` is what the plan says, of whatever is not decided yet."""
    for suite in (toy_suite(), toy_suite(target=14, attribute=8)):
        run = quick.finished(Painter(), suite, encoder=Eye())
        rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "image_part")]
        rows = rows[rows.encoder == "mean"].set_index("concept")
        planned = cm.plan(pilot=run.url).table.set_index("concept").to_decide
        open_rows = rows[rows.verdict.isin(["undecided", "too few images"])]
        assert len(open_rows)
        for concept, row in open_rows.iterrows():
            fewest = FEWEST_IMAGES if row.verdict == "too few images" else row.n_target + 1
            assert row.n_decide == (max(planned[concept], fewest) if planned[concept] > 0 else 0)


def test_where_the_groups_own_images_limit_a_verdict_the_plan_says_so(pilot):
    limited = cm.plan(pilot=pilot.url, effect=0.3).limited
    assert len(limited)
    assert (limited.to_decide < limited.groups_kept.fillna(inf)).all()
    asked = ["plan", "--pilot", pilot.url, "--effect", "0.3"]
    shown = CliRunner().invoke(app, asked, env={"COLUMNS": "300"}).output
    assert f"With --images alone the groups' images stay as many as they are, too few for {len(limited)} con" in shown
    assert len(cm.plan(pilot=pilot.url, effect=1.2).limited) < len(limited)


def test_more_than_ten_thousand_images_are_not_counted(pilot):
    plan = cm.plan(pilot=pilot.url)
    plan.table.loc[0, "to_decide"] = 454_452.0
    (_, _, rows), lines = plan_in_words(plan)
    assert "more than 10,000" in " ".join([*rows[0], *lines])
    assert "454" not in " ".join([*rows[0], *lines])


def test_without_a_pilot_only_shares_are_planned():
    plan = cm.plan("reference")
    assert plan.table.to_detect.is_monotonic_decreasing
    assert isnan(plan.images_needed)
    assert isnan(plan.hours)


def test_the_command_prints_the_table(pilot):
    shown = CliRunner().invoke(app, ["plan", "--pilot", pilot.url, "--margin", "0.4"], env={"COLUMNS": "140"})
    assert shown.exit_code == 0, shown.output
    assert "to show balance within ±0.4" in shown.output
    shown = CliRunner().invoke(app, ["plan"], env={"COLUMNS": "140"})
    assert "clinometer plan --pilot RUN" in shown.output


def test_the_command_says_whose_power_it_is(pilot):
    def shown(*options):
        found = CliRunner().invoke(app, ["plan", *options], env={"COLUMNS": "300"})
        assert found.exit_code == 0, found.output
        return found.output

    assert "power 0.8 of its verdict, q ≤ 0.05 over 4 concepts" in shown("--pilot", pilot.url)
    assert "power 0.9 of its verdict, q ≤ 0.01 over" in shown("--pilot", pilot.url, "--power", "0.9", "--alpha", "0.01")
    assert "level 0.05 for a concept by itself" in shown("--suite", "reference")


def test_the_neediest_concept_is_named_beside_what_most_need(pilot):
    plan = cm.plan(pilot=pilot.url)
    each = plan.images_each
    assert each.iloc[-1] == plan.table.to_decide.max()
    grown = int(each.iloc[-1]), int(plan.attribute_images)
    assert grown[1] == ceil(5 * grown[0] / 6)  # the toy suite has 6 images a concept and 5 an attribute prompt
    assert plan.images_needed == toy_suite(target=grown[0], attribute=grown[1]).image_count
    assert (each <= plan.images_for(0.5)).mean() >= 0.5
    assert plan.images_for(0.5) in set(each)
    shown = CliRunner().invoke(app, ["plan", "--pilot", pilot.url], env={"COLUMNS": "300"})
    assert f"{each.index[-1]} needs {each.iloc[-1]:,.0f}." in shown.output
    assert f"asks for images: {{target: {grown[0]}, attribute: {grown[1]}}}." in shown.output


def test_images_of_a_server_are_not_timed_as_if_it_drew_one_after_another(tmp_path):
    with ImageServer(lambda number, asked: drawn(asked | {"seed": number})) as server:
        model = load_generator("openai:gpt-image-1", price=0.0, base_url=server.url)
        pilot = quick.audit(model, toy_suite(), tmp_path / "run", encoder=Eye())
    assert cm.plan(pilot=pilot.url).by_server
    shown = CliRunner().invoke(app, ["plan", "--pilot", pilot.url], env={"COLUMNS": "300"})
    assert "s an image one after another" in shown.output


def test_a_pilot_that_measured_nothing_gives_its_reason_and_no_nan(tmp_path):
    nobody = quick.audit(Painter(refuse=" men"), toy_suite(), tmp_path / "run", encoder=Eye())
    assert set(cm.plan(pilot=nobody.url).table.reason) == {"no image of group 'man'; draw or import some"}
    shown = CliRunner().invoke(app, ["plan", "--pilot", nobody.url], env={"COLUMNS": "300"}).output
    assert "does not tell the spread: no image of group 'man'; draw or import some (4 concepts)." in shown
    assert "nan" not in shown
    assert "--alpha" not in shown  # of verdicts that there are not
    single = quick.audit(Painter(), toy_suite(target=1), tmp_path / "single", encoder=Eye())
    shown = CliRunner().invoke(app, ["plan", "--pilot", single.url], env={"COLUMNS": "300"}).output
    assert "no interval from one image of the target (4 concepts)" in shown
    assert "nan" not in shown


@pytest.mark.thorough
def test_a_pilot_of_identical_pictures_says_so(tmp_path):
    class Stuck(Painter):
        def generate(self, requests):
            for request in requests:
                yield GenerationResult(request.id, "ok", paint(request.prompt, 0))

    stuck = cm.audit(Stuck(), toy_suite(target=6), tmp_path / "run", encoder=Eye())
    shown = CliRunner().invoke(app, ["plan", "--pilot", stuck.url], env={"COLUMNS": "300"}).output
    assert "no number" in shown
    assert "does not tell the spread: its 6 pictures are one and the same (4 concepts)." in shown


def test_images_a_target_are_counted_and_priced(pilot):
    assert cm.plan(pilot=pilot.url, images=60).images == toy_suite(target=60).image_count
    asked = ["plan", "--suite", "reference", "--images", "3", "--price", "0.5"]
    shown = CliRunner().invoke(app, asked, env={"COLUMNS": "300"}).output
    images = load_suite("reference").with_options(images=3).image_count
    assert f"With --images 3 the suite draws {images:,} images. At 0.5 each they cost {images / 2:,.2f}." in shown


def test_a_price_makes_a_cost_and_the_budget_that_is_needed(pilot):
    plan = cm.plan(pilot=pilot.url, effect=1.2, price=0.04)
    assert plan.cost == pytest.approx(0.04 * len(pilot.plan))
    assert plan.cost_needed == pytest.approx(0.04 * plan.images_needed)
    assert cm.plan(pilot=pilot.url, effect=1.2).cost_needed == 0
    assert cm.plan("reference", price=1e-9).cost == 0.01  # what the budget is compared with
    shown = CliRunner().invoke(app, ["plan", "--pilot", pilot.url, "--price", "0.04"], env={"COLUMNS": "140"})
    assert f"At 0.04 each they cost {plan.cost:,.2f}." in shown.output
    assert "--budget" in shown.output


@pytest.mark.thorough
def test_readings_are_counted_and_priced(pilot):
    plan = cm.plan(pilot=pilot.url, effect=1.2, price=0.04, answer_price=0.001)
    assert plan.answers == len(pilot.plan)
    assert plan.answers_cost == pytest.approx(0.001 * plan.answers, abs=0.01)
    assert plan.cost_needed == pytest.approx(0.041 * plan.images_needed, abs=0.01)
    twice = toy_suite(readings=["gender", "age"])
    assert cm.plan(twice, answer_price=1).answers_cost == 2 * twice.image_count
    asked = ["plan", "--suite", "reference", "--answer-price", "0.5"]
    shown = CliRunner().invoke(app, asked, env={"COLUMNS": "300"}).output
    images = load_suite("reference").image_count
    assert f"A reader of them gives {images:,} answers. At 0.5 each they cost {images / 2:,.2f}." in shown


def test_bad_input_is_named(pilot):
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="answer_price", match="-1"):
        cm.plan(pilot=pilot.url, answer_price=-1)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="price", match="-1"):
        cm.plan("reference", price=-1)
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="effect", match="-1"):
        cm.plan("reference", effect=-1)
    with raises(SuiteError, code=Code.UNSUPPORTED, match="found t2iat"):
        cm.plan("t2iat/reference")
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="effect", match="steerability"):
        cm.plan("steerability/reference", effect=0.1)
    with raises(SuiteError, code=Code.MISMATCH):
        cm.plan("reference", pilot=pilot.url)
    with raises(SuiteError, code=Code.MISMATCH):
        cm.plan(toy_suite(concepts=2), pilot=pilot.url)
    assert cm.plan(toy_suite(target=60), pilot=pilot.url).table.equals(cm.plan(pilot=pilot.url).table)


def test_fewer_concepts_need_fewer_images():
    whole, some = cm.plan("mcas"), cm.plan("mcas", concepts="nurse, CEO")
    asked = load_suite("mcas").images
    assert whole.images - some.images == 26 * asked.target
    with raises(SuiteError, code=Code.UNKNOWN_NAME, field="concepts"):
        cm.plan("mcas", concepts=["nobody"])


def test_steerability_is_planned_by_the_gap_and_the_reader():
    few, many = (cm.plan("steerability/occupations", concepts=n).table for n in (4, 32))
    by_reader = many.pivot(index="effect", columns="reader", values="to_detect")
    assert by_reader.index.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert by_reader.loc[0.2, "without errors"] == by_reader.loc[0.2].min()
    assert (few.to_detect.dropna() <= many.to_detect[few.to_detect.notna()].fillna(10_001)).all()  # fewer are tested
    assert f"<td>{by_reader.loc[0.2].min():,.0f}</td>" in cm.plan("steerability/occupations")._repr_html_()
