"""Verdicts on a mitigation: what they say of changes that are known, and of none."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import scipy

import clinometer as cm
from benchmarks.mitigation_simulations import study
from clinometer.metrics.mcas import xmcas
from clinometer.models.mitigation import GroupWords, Mitigation, Reworded
from clinometer.pipeline.comparison_page import comparison_html, comparison_tables
from clinometer.stats.association import unit_vectors
from clinometer.studies.leaning.scores import mitigated
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.mitigated import _p_of_distance, _p_of_swaps, mitigation_rows
from tests.toys import Eye, Painter, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

RNG = np.random.default_rng(0)
GROUPS = {"a": (np.array([[1.0, 1, 0]]),), "b": (np.array([[-1.0, 1, 0]]),)}
DESIGN = Design(
    targets=tuple(TargetDesign(name, "all") for name in "stuv"), groups=("a", "b"), a="a", b="b", margin=0.2
)


def seen(*leans, n=20, noise=0.05, rng=RNG):
    images = [np.column_stack([x + noise * rng.normal(size=n), np.ones(n), 0.1 * rng.normal(size=n)]) for x in leans]
    return [EncoderEmbeddings("toy", tuple(images), None, GROUPS)]


def verdicts(before, after, **options):
    rows = mitigation_rows(before, after, DESIGN, **{"named_changed": (0, 0)} | options)
    return {row.concept or row.component: row.verdict for row in rows if row.component not in ("before", "after")}


def test_each_change_has_its_name():
    before, after = seen(0.5, 0.5, 0.0, 0.3), seen(0.0, -0.5, 0.4, 0.3)
    found = verdicts(before, after)
    assert [found[name] for name in "stuv"] == ["better", "overshot", "harmed", "no change"]


def test_of_a_concept_whose_target_is_not_parity_nothing_is_praised_or_blamed():
    before, after = seen(0.5, 0.5, 0.0, 0.3), seen(0.0, -0.5, 0.4, 0.3)
    found = verdicts(before, after, elsewhere="stuv")
    assert [found[name] for name in "stuv"] == ["leans less", "leans to the other side", "leans further", "no change"]
    some = verdicts(before, after, elsewhere=["t"])
    assert [some[name] for name in "stuv"] == ["better", "leans to the other side", "harmed", "no change"]


def test_swapping_the_groups_changes_no_verdict():
    before, after = seen(0.5, 0.5, 0.0, 0.3), seen(0.0, -0.5, 0.4, 0.3)
    mirrored = [[replace(run[0], group_images={"a": GROUPS["b"], "b": GROUPS["a"]})] for run in (before, after)]
    assert verdicts(before, after) == verdicts(*mirrored)


def test_nothing_changed_is_no_change_and_disturbs_nothing():
    run = seen(0.5, 0.1, 0.0, -0.3)
    found = verdicts(run, run, named_changed=(0, 64))
    assert {found[name] for name in "stuv"} == {"no change"}
    assert (found["named_changed"], found["diversity"]) == ("kept", "kept")


def test_what_changes_under_prompts_that_name_a_group_is_told():
    run = seen(0.5, 0.1, 0.0, -0.3)
    rows = {count: mitigation_rows(run, run, DESIGN, named_changed=(count, 64)) for count in (0, 1, 64)}
    named = {count: next(row for row in of if row.component == "named_changed") for count, of in rows.items()}
    assert [named[count].verdict for count in (0, 1, 64)] == ["kept", "no change shown", "disturbed"]
    assert named[0].low == 0
    assert 0 < named[0].high < 0.06


def test_images_that_all_become_one_are_less_diverse():
    before = seen(0.5, 0.1, 0.0, -0.3, noise=0.5)
    after = [replace(before[0], target_images=tuple(np.repeat(x[:1], len(x), axis=0) for x in before[0].target_images))]
    assert verdicts(before, after)["diversity"] == "disturbed"


def test_few_pairs_have_numbers_and_no_verdict():
    rows = mitigation_rows(seen(0.5, 0, 0, 0, n=9), seen(0.0, 0, 0, 0, n=9), DESIGN, named_changed=(0, 0))
    first = next(row for row in rows if row.component == "change")
    assert np.isfinite(first.value)
    assert (first.verdict, first.reason) == ("", "fewer than 10 pairs of images")


@pytest.mark.thorough
def test_where_nothing_changed_few_studies_say_that_it_did():
    """At most 5 % of studies by design; 30 studies err more than 4 times with a chance of 2 %."""
    rng = np.random.default_rng(1)
    for share in (0.5, 0.9):
        found = [study(share, share, 0.5, rng, concepts=10) for _ in range(30)]
        assert sum(any(each[name] for name in ("better", "overshot", "harmed")) for each in found) <= 4
    assert sum(study(0.9, 0.5, 0.5, rng, concepts=10)["better"] for _ in range(10)) > 50


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """A painter, and the same with every prompt but those of groups worded towards parity."""
    folder, suite = tmp_path_factory.mktemp("runs"), toy_suite(target=12, attribute=6, margin=0.5)
    groups = {
        "men": GroupWords(word="men", names=("men",)),
        "women": GroupWords(word="women", names=("women", "others")),
    }
    mitigation = Mitigation(
        method="prompt", acts_on="prompt", made_for={"name": "painter"}, groups=groups,
        target={"men": 0.5, "women": 0.5}, template="{prompt} lean 0.5",
    )  # fmt: skip
    options = {"encoder": Eye(), "report": False, "resamples": 99}
    before = cm.audit(Painter(), suite, folder / "before", **options)
    after = cm.audit(Reworded(Painter(), mitigation), suite, folder / "after", **options)
    return before, after


@pytest.mark.thorough
def test_a_run_whose_card_says_so_is_judged_as_a_mitigation(compared):
    before, after = compared
    (comparison,) = cm.compare(before, after)
    rows = comparison.scores[comparison.scores.metric == "mitigation"].set_index(["component", "concept"])
    change = rows.loc["change"]
    assert set(change.verdict) <= {"better", "no change", "no change shown"}
    assert "better" in set(change.verdict)
    assert (change.value * rows.loc["before"].value).max() <= 1e-3  # all towards parity
    assert rows.loc["named_changed"].value.item() == 0
    assert rows.loc["named_changed"].verdict.item() == "kept"
    tables = comparison_tables(comparison)
    assert "as a mitigation of" in tables[0].title
    assert tables[1].title == "What else it disturbed"
    told = {row[0] for row in tables[1].rows}
    assert {"similarity to the third group (xMCAS)", "distance from the unbiased point of xMCAS"} <= told
    assert tables[2].title.startswith("xMCAS: ")
    assert len(tables[2].rows) == len(before.suite.targets)
    assert "as a mitigation of" in comparison_html([comparison])


def test_a_declared_target_that_is_not_parity_is_not_judged_by_it(compared, tmp_path):
    before, after = compared
    declared = Mitigation.model_validate(
        {key: value for key, value in after.model_card["settings"]["mitigation"].items() if key != "learned"}
        | {"target": {"men": 0.3, "women": 0.7}}
    )
    options = {"encoder": Eye(), "report": False, "resamples": 99}
    otherwise = cm.audit(Reworded(Painter(), declared), before.suite, tmp_path / "otherwise", **options)
    (comparison,) = cm.compare(before, otherwise)
    found = set(comparison.scores.verdict[comparison.scores.metric == "mitigation"])
    assert "leans less" in found
    assert not {"better", "overshot", "harmed"} & found
    page = comparison_html([comparison])
    assert "for concepts whose declared target is not parity" in page
    assert "Harmed" not in page


def test_the_other_way_round_it_is_an_ordinary_comparison(compared):
    before, after = compared
    (comparison,) = cm.compare(after, before)
    assert not (comparison.scores.metric == "mitigation").any()
    assert "as a mitigation of" not in comparison_html([comparison])


# --- what else it may move -----------------------------------------------------------------------------------------

THREE = replace(DESIGN, groups=("a", "b", "c"), third="c")
WORDS = {name: images[0] for name, images in (GROUPS | {"c": (np.array([[0.0, 1, 1]]),)}).items()}


def placed(*leans, third=0.0, n=20, rng=RNG):
    """Images that lie between a and b as told, and towards the third group by ``third``."""
    images = [
        np.column_stack([x + 0.05 * rng.normal(size=n), np.ones(n), third + 0.05 * rng.normal(size=n)]) for x in leans
    ]
    groups = {name: (words,) for name, words in WORDS.items()}
    return [EncoderEmbeddings("toy", tuple(images), np.tile([[0.0, 1, 0]], (len(leans), 1)), groups, WORDS)]


def rows_of(before, after, component, *, design=THREE, **options):
    rows = mitigation_rows(before, after, design, named_changed=(0, 0), **options)
    return {(row.concept, row.setting): row for row in rows if row.component == component}


def test_places_on_the_plane_are_those_of_xmcas():
    before, after = placed(0.5, 0.1, 0.0, -0.3), placed(0.0, 0.1, 0.0, -0.3, third=0.5)
    near, far = (rows_of(before, after, f"xmcas_{name}") for name in ("similarity", "distance"))
    for setting, run in (("before", before), ("after", after)):
        for t, name in enumerate("stuv"):
            images, texts = unit_vectors(run[0].target_images[t]), unit_vectors(before[0].target_texts[t : t + 1])
            means = {
                group: sum((x @ unit_vectors(WORDS[group]).T).mean() for x in (images, texts) for _ in range(2))
                for group in WORDS  # images and words of a group are the same here
            }
            expected = xmcas(mcas=means["a"] - means["b"], similarity=means["c"] / 4)
            assert near[name, setting].value == pytest.approx(expected.similarity)
            assert far[name, setting].value == pytest.approx(expected.distance)
    for rows in (near, far):
        for name in "stuv":
            change = rows[name, "change"]
            assert change.value == pytest.approx(rows[name, "after"].value - rows[name, "before"].value)
            assert change.low < change.value < change.high


def test_the_interval_of_what_is_linear_is_students():
    before, after = placed(0.5, 0.1, 0.0, -0.3), placed(0.2, 0.1, 0.1, -0.3, third=0.1)
    third = 2 * unit_vectors(WORDS["c"])[0]
    for t, name in enumerate("stuv"):
        change = rows_of(before, after, "xmcas_similarity")[name, "change"]
        x = [unit_vectors(run[0].target_images[t]) @ third / 4 for run in (before, after)]
        assert (change.low, change.high) == pytest.approx(scipy.stats.ttest_rel(x[1], x[0]).confidence_interval())


def test_a_change_is_tested_by_swapping_within_pairs(monkeypatch):
    """A mean by all swaps; a distance, which is no mean, by swaps drawn at random."""
    pairs = np.random.default_rng(5).normal(size=(2, 10, 3))
    pairs[1] += 0.4
    swaps = [np.where(np.array(which)[:, None], pairs[::-1], pairs) for which in product((False, True), repeat=10)]

    def by_hand(place):
        changes = np.array([abs(np.ptp(place(swapped.mean(axis=1)))) for swapped in swaps])
        return np.mean(changes >= changes[0] - 1e-12)

    assert _p_of_swaps(pairs[1, :, 2] - pairs[0, :, 2])["p"] == pytest.approx(by_hand(lambda means: means[:, 2]))
    monkeypatch.setattr(mitigated, "AT_ONCE", 4)  # in blocks of pairs as well
    found, exact = _p_of_distance(pairs, 500), by_hand(mitigated._distance)
    assert found["p"] == pytest.approx(exact, abs=5 * found["p_error"])
    assert found["p_error"] == pytest.approx((exact * (1 - exact) / 100_000) ** 0.5, rel=0.1)
    assert found["n_splits"] == 100_000
    assert _p_of_distance(np.stack([pairs[0]] * 2), 1)["p"] == 1


def test_a_third_group_that_is_lost_and_a_place_further_from_parity_show():
    run = placed(0.5, 0.1, 0.0, -0.3)
    same = rows_of(run, run, "xmcas_distance")
    assert {same[name, "change"].verdict for name in "stuv"} == {"no change"}
    assert same["", ""].verdict == "kept"
    further = rows_of(run, placed(0.5, 0.1, 0.9, -0.3), "xmcas_distance")
    assert [further[name, "change"].verdict for name in "stuv"] == ["no change", "no change", "harmed", "no change"]
    nearer = rows_of(further_run := placed(0.5, 0.1, 0.9, -0.3), run, "xmcas_distance")
    assert nearer["u", "change"].verdict == "better"
    lost = rows_of(placed(0, 0, 0, 0, third=0.8), placed(0, 0, 0, 0, third=-0.8), "xmcas_similarity")
    assert lost["", ""].verdict == "disturbed"
    assert not rows_of(further_run, run, "xmcas_distance", design=DESIGN)


def test_skin_that_becomes_darker_disturbs_and_a_little_is_kept():
    run, rng = seen(0.5, 0.1, 0.0, -0.3), np.random.default_rng(3)
    found = {}
    for shift in (0.0, -20.0):
        skin = [shift * (name in "st") + 4 * rng.normal(size=20) for name in "stuv"]
        skin[2][:3] = np.nan
        rows = rows_of(run, run, "skin", design=DESIGN, skin=skin)
        found[shift] = rows["", ""].verdict
        changed = [name for name in "stuv" if rows[name, ""].verdict == "changed"]
        assert changed == (["s", "t"] if shift else [])
        assert rows["u", ""].n_target == 17
    assert found == {0.0: "kept", -20.0: "disturbed"}
    assert not rows_of(run, run, "skin", design=DESIGN, skin=[np.full(20, np.nan)] * 4)
