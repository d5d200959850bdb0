"""Runs held to policies: which numbers are judged, by which interval, and what follows."""

import shutil

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from scipy import stats

import clinometer as cm
from clinometer.errors import Code, GateError, RunNotFoundError
from clinometer.gates import gate as hold
from clinometer.gates import policy_from_mapping
from clinometer.gates.numbers import GateReason, Withheld
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.models.protocols import GenerationResult
from clinometer.runs import Run
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, crossed_suite, toy_suite, toy_t2iat_suite


@pytest.fixture(scope="module")
def runs():
    """One model twice, with other seeds; concepts of 20 to 80 % red."""
    return [quick.finished(Painter(), toy_suite(target=12, attribute=6), encoder=Eye(), seed=seed) for seed in (0, 1)]


@pytest.fixture(scope="module")
def run(runs):
    return runs[0]


def mcas(run):
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.component == "mcas")]
    return rows[rows.encoder == "mean"].set_index("concept")


def gate(run, *rules, **options):
    return cm.gate(run, {"rules": list(rules)}, **options)


def test_a_rule_on_mcas_says_which_part_carries_its_outcome(run):
    rows = run.scores[(run.scores.metric == "mcas") & (run.scores.encoder == "mean")]
    pictures = rows[rows.component == "image_part"].set_index("concept").value
    limit = mcas(run).value["concept 0.40"]
    judged = gate(run, {"metric": "mcas", "at_most": limit}).table.set_index("concept")
    broken = judged[judged.outcome == "broken"]
    assert len(broken)
    for concept, row in broken.iterrows():
        error, parts = row.value - row.low, np.array([pictures[concept], row.value - pictures[concept]])
        alone = tuple((parts - error > limit).tolist())
        assert row.carried_by == {(True, False): "by its pictures", (False, True): "by its text"}.get(alone, "by both")
    of_pictures = gate(run, {"metric": "mcas", "component": "image_part", "at_most": limit}).table
    assert (of_pictures.carried_by == "").all()
    np.testing.assert_array_equal(of_pictures.value, pictures)


def test_a_number_is_held_as_its_interval_says(run):
    rows = mcas(run)
    limit = rows.value["concept 0.40"]
    judged = gate(run, {"metric": "mcas", "at_most": limit}).table.set_index("concept")
    assert list(judged.index) == list(rows.index)
    for column in ("value", "low", "high", "n_target"):
        assert (judged[column] == rows[column]).all()
    assert (judged.outcome == "holds").equals(rows.high <= limit)
    assert (rows.low > limit)[judged.outcome == "broken"].all()
    assert judged.outcome["concept 0.80"] == "broken"
    assert (judged.outcome["concept 0.40"], judged.reason["concept 0.40"]) == (
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
    assert open_rows.n_decide[~counted].isna().all()
    assert (judged.table.n_decide[judged.table.outcome != "undecided"] == 0).all()
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


def test_only_intervals_of_t_tests_are_corrected_as_those_are(run):
    """The correction of a bootstrapped interval takes one degree of freedom; alone, either is judged by its ends."""
    limit = float(mcas(run).value.min()) - 0.2
    rules = [
        {"metric": "mcas", "at_most": limit},
        {"metric": "internal_bias", "component": "diffusion_bias", "at_most": 0},
    ]
    students, bootstrapped = (judged.rows for judged in gate(run, *rules).rules)
    for rows, freedom in ((students, students.n_target - 1), (bootstrapped, 1)):
        reach, half = stats.t.ppf(0.975, freedom), rows.value - rows.low
        expected = 2 * stats.t.sf(reach * (rows.value - rows.at_most) / half, freedom)
        judged = rows.p.notna().to_numpy()
        np.testing.assert_allclose(rows.p[judged], expected[judged])
        assert judged.any()


def test_patterns_choose_rows(run):
    judged = gate(run, {"metric": "mcas", "concept": ["*0.2?", "concept 0.80"], "within": 1})
    assert list(judged.table.concept) == ["concept 0.20", "concept 0.80"]
    assert set(gate(run, {"metric": "mcas", "category": "low", "within": 1}).table.category) == {"low"}


def test_none_chooses_what_has_no_name(run):
    rule = {"metric": "category", "component": "mean", "category": "high", "within": 9}
    groups = gate(run, rule).table.group
    assert "" in set(groups)
    assert len(set(groups)) > 1
    assert set(gate(run, rule | {"group": "none"}).table.group) == {""}
    assert set(gate(run, rule | {"group": ["none", "m?n"]}).table.group) == set(groups) - {"woman"}
    with raises(GateError, code=Code.UNKNOWN_NAME, match=r"group: found 'men'; did you mean man"):
        gate(run, rule | {"group": "men"})
    with raises(GateError, code=Code.UNKNOWN_NAME, match="setting: found 'x'"):
        gate(run, rule | {"setting": "x"})


def test_every_encoder_is_held_where_it_is_named(tmp_path):
    run = quick.audit(Painter(), toy_suite(target=10), tmp_path / "run", encoder=[Eye(), Eye(name="other")])
    rule = {"metric": "mcas", "concept": "concept 0.80", "within": 9}
    assert set(gate(run, rule).table.encoder) == {"mean"}
    assert set(gate(run, rule | {"encoder": "*"}).table.encoder) == {"mean", "eye", "other"}


def test_too_few_images_decide_nothing(tmp_path):
    suite = toy_suite(target=FEWEST_IMAGES - 1, attribute=5)
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=Eye())
    summary = {"metric": "internal_bias_summary", "component": "diffusion_bias_mean"}
    judged = gate(run, {"metric": "mcas", "within": 9}, summary | {"at_most": 9})
    assert set(judged.table.outcome) == {"undecided"}
    assert set(judged.table.reason) == {"too few images"}
    assert judged.outcome == "undecided"


def test_an_encoder_that_cannot_read_decides_nothing(run):
    scores = run.scores
    scores.loc[scores.metric == "mcas", "reason_code"] = "the encoder does not read its own attribute images"

    judged = hold(
        with_scores(run, scores),
        policy_from_mapping({"rules": [{"metric": "category", "component": "mean", "within": 9}]}),
    )
    assert judged.outcome == "undecided"
    assert judged.table.reason.str.contains("cannot read its own attribute images").all()


def with_scores(run, scores, encoder_cards=None):
    """A run that says other things of itself."""
    cards = run.encoder_cards if encoder_cards is None else encoder_cards
    return type("Told", (Run,), {"scores": scores, "encoder_cards": cards})(run.url)


def held_with(run, scores, *rules, **changes):
    return hold(with_scores(run, scores, **changes), policy_from_mapping({"rules": list(rules)}))


EVERYTHING = [
    {"metric": "mcas", "component": "ii", "within": 99},
    {"metric": "share", "component": "parity_gap", "within": 99},
    {"metric": "category", "component": "mean", "within": 99},
    {"metric": "internal_bias_summary", "component": "diffusion_bias_mean", "within": 99},
    {"metric": "mcas", "component": "itp", "within": 99},
]


class Deaf(Eye):
    """It sees colours, and words mean the same to it."""

    def _text(self, text):
        return super()._text("they")


@pytest.mark.thorough
def test_an_encoder_that_cannot_read_decides_nothing_where_the_average_can(tmp_path):
    suite, encoders = toy_suite(target=12, attribute=6), [Eye(), Eye(name="other"), Deaf(name="deaf")]
    run, last = (quick.audit(Painter(), suite, tmp_path / str(s), encoder=encoders, seed=s) for s in (0, 1))
    for rule in ({"metric": "mcas"}, {"metric": "share", "component": "share"}, {"difference": "mcas"}):
        table = gate(run, rule | {"within": 9, "encoder": "*"}, baseline=last if "difference" in rule else None).table
        deaf = table.encoder == "deaf"
        assert table.reason[deaf].str.contains("cannot read its own attribute images").all()
        assert set(table.outcome[~deaf]) == {"holds"}
        assert deaf.any()


@pytest.fixture(scope="module")
def crossed():
    """Two runs of a suite with two axes: one is painted and read, the other is neither."""
    encoders = [Eye(), Eye(name="other")]
    return [quick.finished(Painter(), crossed_suite(12), encoder=encoders, seed=s) for s in (0, 1)]


@pytest.mark.thorough
@pytest.mark.parametrize("encoder", ["mean", "eye"])
def test_an_axis_that_is_read_is_judged_beside_one_that_is_not(crossed, encoder):
    run, _ = crossed
    for component, reads in [("axis:gender", True), ("axis:tone", False), ("cells", False), ("cell:dark man", False)]:
        rule = {"metric": "intersections", "component": component, "setting": "none", "encoder": encoder}
        table = gate(run, rule | {"within": 99}).table
        assert (table.outcome == ("holds" if reads else "undecided")).all()
        assert table.reason.str.contains("cannot read").all() != reads


def test_so_are_differences_along_it(crossed):
    run, last = crossed
    for component, reads in [("axis:gender", True), ("axis:tone", False)]:
        for encoder in ("mean", "eye"):
            table = gate(run, {"difference": component, "encoder": encoder, "within": 99}, baseline=last).table
            assert (table.outcome == ("holds" if reads else "undecided")).all()
            assert len(table)


def test_what_has_no_verdict_decides_nothing_where_the_encoder_could_not_be_checked(run):
    scores = run.scores
    judged = scores.verdict != ""
    scores.loc[judged, ["verdict", "reason_code"]] = ["not measured", "too few attribute images"]
    table = held_with(run, scores, *EVERYTHING).table
    assert set(table.outcome) == {"undecided"}
    assert set(table.reason) == {"too few attribute images to tell whether the encoder reads them"}


def test_an_encoder_that_does_not_fit_decides_nothing_even_where_no_verdict_says_so(run):
    ((name, card),) = run.encoder_cards.items()
    stranger = {name: card | {"notes": {"domain": {"about": "emoji", "models": ["another"]}}}}
    table = held_with(run, run.scores, *EVERYTHING, encoder_cards=stranger).table
    assert set(table.outcome) == {"undecided"}
    assert table.reason.str.startswith("the encoder does not fit").all()


def test_a_text_that_the_encoder_has_not_learned_is_of_one_concept(run):
    scores = run.scores
    unlearned = (scores.verdict != "") & (scores.concept == "concept 0.80")
    scores.loc[unlearned, ["verdict", "reason_code"]] = ["not measured", "the encoder does not fit the suite"]
    table = held_with(run, scores, *EVERYTHING).table
    unfit = table.reason.str.startswith("the encoder does not fit")
    assert (unfit == table.concept.isin(["concept 0.80", ""])).all()


def test_one_encoder_that_cannot_read_does_not_hide_that_images_are_too_few(tmp_path):
    suite = toy_suite(target=FEWEST_IMAGES - 1, attribute=5)
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=[Eye(), Eye(name="other")])
    scores = run.scores
    of_other = (scores.encoder == "other") & (scores.verdict != "")
    scores.loc[of_other, ["verdict", "reason_code"]] = [
        "not measured", "the encoder does not read its own attribute images",
    ]  # fmt: skip
    assert set(held_with(run, scores, *EVERYTHING).table.reason) == {"too few images"}


def test_a_category_whose_concepts_all_have_too_few_images_decides_nothing(run):
    scores = run.scores
    low = (scores.verdict != "") & (scores.category == "low")
    scores.loc[low, ["verdict", "reason_code"]] = "too few images"
    table = held_with(run, scores, {"metric": "category", "component": "mean", "within": 99}).table
    assert set(table.category[table.reason == "too few images"]) == {"low"}


def test_images_are_not_too_few_where_a_text_is_counted(run):
    rows = run.scores[(run.scores.component == "itp") & (run.scores.encoder == "mean")]
    assert (rows.n_target == 1).all()
    assert gate(run, {"metric": "mcas", "component": "itp", "within": 99}).holds


def test_an_interval_without_width_decides_nothing(run):
    """Twenty images that all agree do not show that the next one would."""
    scores = run.scores
    rows = (scores.metric == "mcas") & (scores.component == "mcas")
    for end in ("low", "high"):
        scores.loc[rows, end] = scores.value[rows]
    for limit in (0.0, 9.0):
        table = held_with(run, scores, {"metric": "mcas", "at_most": limit}).table
        assert set(table.outcome) == {"undecided"}
        assert table.reason.str.contains("no width").all()


def test_a_run_that_draws_what_its_baseline_drew_does_not_differ(run, tmp_path):
    shutil.copytree(run.directory.place, tmp_path / "same")
    assert gate(run, {"difference": "magnitude", "at_most": 0.01}, baseline=tmp_path / "same").holds


class Moody(Painter):
    """It fails every third image while it is busy, and is stopped after some."""

    busy, left = True, 10_000

    def generate(self, requests):
        for request in requests:
            if not self.left:
                raise KeyboardInterrupt
            self.left -= 1
            if self.busy and request.seed % 3 == 0:
                yield GenerationResult(request.id, "failed", None, "busy")
            else:
                yield from super().generate([request])


@pytest.mark.thorough
def test_a_run_that_has_changed_since_it_was_scored_is_not_judged(tmp_path):
    """Stopped while it draws failed images again, a run has pictures that its numbers know nothing of."""
    suite, out, painter = toy_suite(target=10, concepts=2), tmp_path / "run", Moody()
    run = quick.audit(painter, suite, out, encoder=Eye())
    rule = {"metric": "mcas", "within": 9}
    before, failed = gate(run, rule).table.n_target.sum(), int((run.samples.status == "failed").sum())
    painter.busy, painter.left = False, failed // 2
    with pytest.raises(KeyboardInterrupt):
        quick.audit(painter, suite, out, encoder=Eye(), retry_failed=True)
    changed = "images, vectors or settings have changed since the scores were made; give: clinometer score RUN"
    with raises(RunNotFoundError, code=Code.NOT_FOUND, match="clinometer score RUN"):
        gate(cm.open_run(out), rule)
    assert changed in cm.model_card(out)
    painter.left = 10_000
    run = quick.audit(painter, suite, out, encoder=Eye(), retry_failed=True)
    assert changed not in cm.model_card(out)
    assert gate(run, rule).table.n_target.sum() > before


def test_a_name_with_brackets_is_itself(run):
    scores = run.scores
    scores.concept = scores.concept.replace({"concept 0.80": "judge [f]"})
    table = held_with(run, scores, {"metric": "mcas", "concept": "judge [f]", "within": 9}).table
    assert list(table.concept) == ["judge [f]"]


def test_a_difference_is_this_run_less_the_baseline(runs):
    first, second = runs
    (compared,) = cm.compare(first, second)
    rows = compared.scores[(compared.scores.component == "mcas") & (compared.scores.encoder == "mean")]
    judged = gate(second, {"difference": "mcas", "within": 1}, baseline=first)
    assert judged.table.value.tolist() == rows.value.tolist()
    assert judged.holds
    assert gate(second, {"difference": "magnitude", "at_most": 1}, baseline=first.url).holds


def test_t2iat_tests_are_held_by_the_interval_over_prompts(tmp_path):
    suite = toy_t2iat_suite(neutral=10, attribute=10)
    run = quick.audit(Painter(), suite, tmp_path / "run", encoder=Eye())
    rows = run.scores[(run.scores.component == "effect_size") & (run.scores.encoder == "mean")]
    rule = {"metric": "t2iat", "component": "effect_size", "at_least": 0}
    assert gate(run, rule).table.low.tolist() == rows.stimulus_low.tolist()
    assert gate(run, rule | {"interval": "images"}).table.low.tolist() == rows.low.tolist()


def test_a_model_that_refuses_nothing_keeps_a_limit_on_refusals(run):
    assert "refusal" not in set(run.scores.metric)
    judged = gate(run, {"metric": "refusal", "component": "rate", "concept": "concept*", "at_most": 0.5})
    assert judged.holds
    assert (judged.table.value == 0).all()
    assert len(judged.table) == 4


def test_refusals_of_imported_images_are_not_known_even_where_one_is_blank(tmp_path):
    rng = np.random.default_rng(0)
    for n in range(3):
        pixels = rng.integers(0, 255, (8, 8, 3), np.uint8) if n else np.zeros((8, 8, 3), np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{n}.png")
    rows = [f"{n}.png,concept 0.20,," for n in range(2)] + ["2.png,,man,young men"]
    (tmp_path / "manifest.csv").write_text("\n".join(["file,concept,group,prompt", *rows]))
    run = quick.import_images(tmp_path, tmp_path / "run", suite=toy_suite(), encoder=Eye())
    assert "refusal" in set(run.scores.metric)
    with raises(GateError, code=Code.UNSUPPORTED, match=r"rules\.0\.metric: found 'refusal'"):
        gate(run, {"metric": "refusal", "component": "rate", "at_most": 1})


def test_an_axis_is_held_and_not_its_parts_as_well(run):
    """TT has no interval over images: a rule that took it for a number of its own could never hold."""
    scores = run.scores
    four = scores.component.isin(("mcas", "ii", "itp", "ita", "tt")) & (scores.metric == "mcas")
    scores.loc[four, "setting"] = scores.component[four].where(scores.component[four] != "mcas", "")
    scores.loc[four, ["metric", "component"]] = ["intersections", "axis:gender"]
    rule = {"metric": "intersections", "within": 9}
    judged = held_with(run, scores, rule)
    assert judged.holds
    assert len(judged.table) == 4
    assert set(held_with(run, scores, rule | {"setting": "i*"}).table.setting) == {"ii", "itp", "ita"}


def test_a_summary_does_not_pass_without_the_concept_that_was_refused(run, tmp_path):
    suite = toy_suite(target=12, attribute=6)
    refusing = quick.audit(Painter(refuse="lean 0.80"), suite, tmp_path / "refusing", encoder=Eye(), seed=5)
    table = gate(refusing, {"metric": "category", "component": "mean", "within": 99}).table
    left_out = table.reason == "it leaves out a concept that was not measured"
    assert set(table.category[left_out]) == {"high", "all"}
    assert set(table.outcome[~left_out]) == {"holds"}
    judged = gate(refusing, {"difference": "magnitude", "at_most": 99}, baseline=run)
    assert judged.outcome == "undecided"


def test_refusals_are_held_over_prompts(run, tmp_path):
    suite = toy_suite(target=12, attribute=6)
    refusing = quick.audit(Painter(refuse="old"), suite, tmp_path / "refusing", encoder=Eye())
    of_groups = {"metric": "refusal", "component": "rate", "group": "*man", "at_most": 0.1}
    alone = gate(refusing, of_groups | {"group": "woman"}).table
    crowded = gate(refusing, of_groups, {"metric": "mcas", "within": 9}).table
    assert alone.n_target.tolist() == [12]
    p_beyond = 2 * stats.t.sf(stats.t.isf(0.025, 1) * (alone.value - 0.1) / (alone.value - alone.low), 1)
    assert crowded.p[crowded.group == "woman"].tolist() == pytest.approx(p_beyond.tolist())
    (compared,) = cm.compare(run, refusing)
    rows = compared.scores[(compared.scores.component == "refusal_rate") & (compared.scores.category == "all")]
    judged = gate(refusing, {"difference": "refusal_rate", "category": "all", "at_most": 1}, baseline=run).table
    assert judged.high.tolist() == rows.stimulus_high.tolist()


@pytest.mark.parametrize(
    ("rule", "code", "words"),
    [
        ({"metric": "mcsa", "within": 1}, Code.UNKNOWN_NAME, r"rules\.0\.metric: .*'mcsa'.*mean mcas"),
        (
            {"metric": "mcas", "component": "iit", "within": 1},
            Code.UNKNOWN_NAME,
            r"rules\.0\.component: .*'iit'.*mean ii",
        ),
        ({"metric": "internal_bias", "within": 1}, Code.MISSING, r"rules\.0: .*'internal_bias'.*component"),
        (
            {"metric": "mcas", "concept": ["concept 0.20", "concept 0.80"], "category": "low", "within": 1},
            Code.UNDEFINED,
            r"rules\.0\.concept: .*'concept 0\.80'",
        ),
        (
            {"metric": "mcas", "concept": "nurse", "within": 1},
            Code.UNKNOWN_NAME,
            r"rules\.0\.concept: .*'nurse'.*concept 0\.20",
        ),
        ({"difference": "mcas", "within": 1}, Code.MISSING, "baseline"),
    ],
)
def test_a_rule_about_nothing_is_refused(run, rule, code, words):
    with raises(GateError, code=code, match=f"^gate: .*{words}") as raised:
        gate(run, rule)
    assert "\n" not in str(raised.value)


def test_a_baseline_that_nothing_is_held_against_is_refused(runs):
    with raises(GateError, code=Code.CONFLICT, match="gate: there is a baseline"):
        gate(runs[0], {"metric": "mcas", "within": 1}, baseline=runs[1])


def test_a_difference_of_what_is_not_compared_is_refused(runs):
    with raises(GateError, code=Code.UNKNOWN_NAME, match=r"rules\.0\.difference: found 'share'"):
        gate(runs[0], {"difference": "share", "within": 1}, baseline=runs[1])


@pytest.mark.parametrize(
    ("component", "group", "said"),
    [
        ("axis:tone", "dark", True),
        ("axis:tone", "", True),  # all levels at once
        ("axis:tone", "light", False),
        ("axis:gender", "man", False),
        ("cell:light man", "light man", True),
    ],
)
def test_of_three_levels_one_that_is_not_read_withholds_what_needs_it(crossed, component, group, said):
    run, _ = crossed
    like = run.scores[(run.scores.component == "axis:gender") & (run.scores.encoder == "eye")].iloc[0]
    row = like.to_dict() | {"component": component, "group": group}
    check = pd.DataFrame([{"encoder": "eye", "setting": "axis:tone dark", "group": "dark"}])
    withheld = Withheld(run.scores.iloc[:0], (), check)
    assert (withheld.reason(row) == GateReason.UNFIT) == said
    assert withheld.reason(row | {"encoder": "other"}) == GateReason.NONE


@pytest.mark.parametrize(("reach", "outcome"), [(0.05, "holds"), (1.0, "undecided")])
def test_a_limit_that_missing_pictures_might_break_is_not_kept(run, reach, outcome):
    scores = run.scores.copy()
    parts = (scores.metric == "mcas") & (scores.component == "image_part") & (scores.encoder == "mean")
    scores.loc[parts, "n_missing"], scores.loc[parts, "depends_on"] = 3, "missing"
    scores.loc[parts, "bound_low"] = scores.low[parts] - reach
    scores.loc[parts, "bound_high"] = scores.high[parts] + reach
    rule = {"metric": "mcas", "component": "image_part", "at_most": float(scores.high[parts].max()) + 0.1}
    plain, held = held_with(run, run.scores, rule), held_with(run, scores, rule)
    assert plain.outcome == "holds"
    assert held.outcome == outcome
    if outcome == "undecided":
        assert not held.holds
        assert GateReason.PICTURES in set(held.table.reason)


@pytest.mark.thorough
def test_a_difference_that_missing_pictures_might_make_decides_nothing(tmp_path):
    class Shy(Painter):
        def generate(self, requests):
            for order, request in enumerate(requests):
                (result,) = super().generate([request])
                hidden = "lean" in request.prompt and order % 3 == 0
                yield GenerationResult(request.id, "refused", None, "no") if hidden else result

    suite, folders = toy_suite(target=24, attribute=6), iter("abc")
    plain, other, shy = (
        quick.audit(model, suite, tmp_path / next(folders), encoder=Eye(), seed=seed)
        for seed, model in ((0, Painter()), (1, Painter()), (1, Shy()))
    )
    rule = {"difference": "image_part", "within": 0.9}
    assert gate(other, rule, baseline=plain).holds
    judged = gate(shy, rule, baseline=plain)
    assert judged.outcome == "undecided"
    assert GateReason.PICTURES in set(judged.table.reason)


def test_a_limit_is_kept_or_broken_from_0_and_from_the_middle_alike(run):
    rows = run.scores[
        (run.scores.metric == "mcas") & (run.scores.component == "image_part") & (run.scores.encoder == "mean")
    ]
    row = rows.iloc[rows.middle.abs().argmax()]
    assert row.high != row.from_middle_high
    rule = {"metric": "mcas", "component": "image_part", "concept": row.concept}
    between = gate(run, rule | {"at_most": (row.high + row.from_middle_high) / 2}).table.iloc[0]
    assert (between.outcome, between.reason) == ("undecided", GateReason.ZEROS)
    assert gate(run, rule | {"at_most": max(row.high, row.from_middle_high) + 0.01}).holds
