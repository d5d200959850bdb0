"""Runs held to policies: which numbers are judged, by which interval, and what follows."""

import pandas as pd
import pytest

import clinometer as cm
from clinometer.errors import GateError
from clinometer.gates import policy_from_mapping
from clinometer.metrics.verdict import FEWEST_IMAGES
from tests.toys import Eye, Painter, toy_association_suite, toy_suite

pytestmark = pytest.mark.usefixtures("few_resamples", "blank_pages")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """One model twice, with other seeds; concepts of 20 to 80 % red."""
    folder = tmp_path_factory.mktemp("runs")
    suite = toy_suite(target=12, attribute=6)
    return [cm.audit(Painter(), suite, folder / str(seed), encoder=Eye(), seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def run(runs):
    return runs[0]


def mcas(run):
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "mcas")]
    return rows[rows.encoder == "mean"].set_index("concept")


def gate(run, *rules, **options):
    return cm.gate(run, {"rules": list(rules)}, **options)


def test_a_number_is_held_as_its_interval_says(run):
    rows = mcas(run)
    limit = rows.value["concept 0.60"]
    judged = gate(run, {"metric": "mcas", "at_most": limit}).table.set_index("concept")
    assert list(judged.index) == list(rows.index)
    for column in ("value", "low", "high", "n_target"):
        assert (judged[column] == rows[column]).all()
    assert (judged.outcome == "holds").equals(rows.high <= limit)
    assert (rows.low > limit)[judged.outcome == "broken"].all()
    assert judged.outcome["concept 0.80"] == "broken"
    assert (judged.outcome["concept 0.60"], judged.reason["concept 0.60"]) == (
        "undecided", "interval reaches over the limit",
    )  # fmt: skip


def test_more_images_are_named_where_these_are_counted(run):
    rows = mcas(run)
    judged = gate(
        run,
        {"metric": "mcas", "at_most": float(rows.value.max()) + 1e-3},
        {"metric": "internal_bias_summary", "component": "diffusion_bias_mean", "at_most": 1e-3},
    )
    open_rows = judged.table[judged.table.outcome == "undecided"]
    counted = open_rows.concept != ""
    assert (open_rows.n_decide[counted] > open_rows.n_target[counted]).all()
    assert (open_rows.n_decide[~counted] == 0).all()
    assert counted.any()


@pytest.mark.parametrize(("limit", "outcome"), [(9.0, "holds"), (0.0, "broken")])
def test_a_gate_holds_where_all_do_and_is_broken_where_one_is(run, limit, outcome):
    judged = gate(run, {"metric": "mcas", "at_most": limit}, {"metric": "mcas", "within": 9})
    assert judged.outcome == outcome
    assert judged.holds == (outcome == "holds")
    assert [rule.outcome for rule in judged.rules] == [outcome, "holds"]
    assert pd.concat([rule.rows for rule in judged.rules], ignore_index=True).equals(judged.table)


def test_all_numbers_of_a_policy_are_one_family(run):
    alone = gate(run, {"metric": "mcas", "at_most": 0.0}).table
    more = gate(run, {"metric": "mcas", "at_most": 0.0}, *[{"metric": "mcas", "within": 9}] * 10).table
    assert (more.p[: len(alone)] == alone.p).all()
    assert (more.p_holm[: len(alone)] >= alone.p_holm).all()
    assert more.p_holm.min() > alone.p_holm.min()


def test_patterns_choose_rows(run):
    judged = gate(run, {"metric": "mcas", "concept": ["*0.2?", "concept 0.80"], "within": 1})
    assert list(judged.table.concept) == ["concept 0.20", "concept 0.80"]
    assert set(gate(run, {"metric": "mcas", "category": "low", "within": 1}).table.category) == {"low"}


def test_every_encoder_is_held_where_it_is_named(tmp_path):
    run = cm.audit(Painter(), toy_suite(target=10), tmp_path / "run", encoder=[Eye(), Eye(name="other")])
    rule = {"metric": "mcas", "concept": "concept 0.80", "within": 9}
    assert set(gate(run, rule).table.encoder) == {"mean"}
    assert set(gate(run, rule | {"encoder": "*"}).table.encoder) == {"mean", "eye", "other"}


def test_too_few_images_decide_nothing(tmp_path):
    suite = toy_suite(target=FEWEST_IMAGES - 1, attribute=5)
    run = cm.audit(Painter(), suite, tmp_path / "run", encoder=Eye())
    summary = {"metric": "internal_bias_summary", "component": "diffusion_bias_mean"}
    judged = gate(run, {"metric": "mcas", "within": 9}, summary | {"at_most": 9})
    assert set(judged.table.outcome) == {"undecided"}
    assert set(judged.table.reason) == {"too few images"}
    assert judged.outcome == "undecided"


def test_an_encoder_that_cannot_read_decides_nothing(run):
    scores = run.scores
    scores.loc[scores.metric == "mcas", "reason_code"] = "the encoder does not read its own attribute images"

    class Unread:
        suite = run.suite

    Unread.scores = scores
    from clinometer.gates import gate as hold

    judged = hold(Unread, policy_from_mapping({"rules": [{"metric": "category", "component": "mean", "within": 9}]}))
    assert judged.outcome == "undecided"
    assert judged.table.reason.str.contains("cannot read its own attribute images").all()


def test_a_difference_is_this_run_less_the_baseline(runs):
    first, second = runs
    (compared,) = cm.compare(first, second)
    rows = compared.scores[(compared.scores.component == "mcas") & (compared.scores.encoder == "mean")]
    judged = gate(second, {"difference": "mcas", "within": 1}, baseline=first)
    assert judged.table.value.tolist() == rows.value.tolist()
    assert judged.holds
    assert gate(second, {"difference": "magnitude", "at_most": 1}, baseline=first.url).holds


def test_tests_of_associations_are_held_by_the_interval_over_prompts(tmp_path):
    suite = toy_association_suite(neutral=10, attribute=10)
    run = cm.audit(Painter(), suite, tmp_path / "run", encoder=Eye())
    rows = run.scores[(run.scores.component == "effect_size") & (run.scores.encoder == "mean")]
    rule = {"metric": "t2iat", "component": "effect_size", "at_least": 0}
    assert gate(run, rule).table.low.tolist() == rows.stimulus_low.tolist()
    assert gate(run, rule | {"interval": "images"}).table.low.tolist() == rows.low.tolist()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"metric": "mcsa", "within": 1}, "gate: rules.0.metric: found 'mcsa'; did you mean mcas"),
        ({"metric": "mcas", "component": "iit", "within": 1}, "rules.0.component: found 'iit'; did you mean ii"),
        ({"metric": "internal_bias", "within": 1}, "metric 'internal_bias' has several components; give component"),
        ({"metric": "mcas", "concept": "nurse", "within": 1}, "concept: found 'nurse'; the run has concept 0.20"),
        ({"difference": "mcas", "within": 1}, "gate: a rule is about a difference, and there is no baseline"),
    ],
)
def test_a_rule_about_nothing_is_refused(run, rule, message):
    with pytest.raises(GateError) as raised:
        gate(run, rule)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_baseline_that_nothing_is_held_against_is_refused(runs):
    with pytest.raises(GateError, match="gate: there is a baseline, and no rule is about a difference"):
        gate(runs[0], {"metric": "mcas", "within": 1}, baseline=runs[1])


def test_a_difference_of_what_is_not_compared_is_refused(runs):
    with pytest.raises(GateError, match=r"rules\.0\.difference: found 'share'; the run has"):
        gate(runs[0], {"difference": "share", "within": 1}, baseline=runs[1])
