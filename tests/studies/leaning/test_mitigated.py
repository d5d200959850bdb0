"""Verdicts on a mitigation: what they say of changes that are known, and of none."""

from dataclasses import replace

import numpy as np
import pytest

import clinometer as cm
from benchmarks.mitigation_simulations import study
from clinometer.models.mitigation import GroupWords, Mitigation, Reworded
from clinometer.pipeline.comparison_page import comparison_html, comparison_tables
from clinometer.studies.leaning.scores.design import Design, EncoderEmbeddings, TargetDesign
from clinometer.studies.leaning.scores.mitigated import mitigation_rows
from tests.toys import Eye, Painter, toy_suite

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


def test_where_nothing_changed_few_studies_say_that_it_did():
    """At most 5 % of studies by design; 60 studies err more than 6 times with a chance of 3 %."""
    rng = np.random.default_rng(1)
    for share in (0.5, 0.9):
        found = [study(share, share, 0.5, rng, concepts=10) for _ in range(60)]
        assert sum(any(each[name] for name in ("better", "overshot", "harmed")) for each in found) <= 6
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
    assert "as a mitigation of" in comparison_html([comparison])


def test_the_other_way_round_it_is_an_ordinary_comparison(compared):
    before, after = compared
    (comparison,) = cm.compare(after, before)
    assert not (comparison.scores.metric == "mitigation").any()
    assert "as a mitigation of" not in comparison_html([comparison])
