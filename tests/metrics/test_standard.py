"""Shares compared with a declared standard."""

from dataclasses import replace
from math import inf

import numpy as np
import pytest
import scipy
from statsmodels.stats.proportion import confint_proportions_2indep

from clinometer.metrics import Score
from clinometer.metrics.standard import ReferenceShare, SourceShares, differences_from_standard, standard_rows
from clinometer.metrics.verdict import Verdict
from clinometer.stats.proportion import wilson_interval


def shares(counts, n=60, groups=("a", "b"), **fields):
    rows = []
    for concept, own in counts.items():
        for group, count in zip(groups, own, strict=True):
            found = wilson_interval(count, n)
            rows.append(
                Score(metric="share", component="share", concept=concept, group=group, encoder="", n_target=n,
                      value=found.value, low=found.low, high=found.high, **fields)
            )  # fmt: skip
    return SourceShares(rows, groups, {(concept, ""): np.array(own) for concept, own in counts.items()})


def compared(k, n, share, people):
    found = wilson_interval(k, n)
    return differences_from_standard([found.value], [found.low], [found.high], [share], [people])


@pytest.mark.parametrize(("k", "n", "share"), [(14, 20, 0.5), (20, 20, 0.6), (0, 20, 0.2), (31, 60, 0.4)])
def test_of_a_count_and_an_exact_standard_it_is_the_score_test(k, n, share):
    found = compared(k, n, share, inf)
    z = (k / n - share) / np.sqrt(share * (1 - share) / n)
    assert found.p[0] == pytest.approx(2 * scipy.stats.norm.sf(abs(z)), rel=1e-6)


@pytest.mark.parametrize(("k", "n", "j", "m"), [(14, 20, 20, 50), (3, 60, 90, 500), (59, 60, 400, 500)])
def test_of_two_counts_the_interval_is_newcombes(k, n, j, m):
    found = compared(k, n, j / m, m)
    expected = confint_proportions_2indep(k, n, j, m, method="newcomb", compare="diff")
    assert (found.low[0], found.high[0]) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("people", [30, 500, inf])
@pytest.mark.parametrize("k", range(0, 41, 4))
def test_p_is_at_most_the_level_where_the_interval_leaves_out_0(k, people):
    found = compared(k, 40, 0.37, people)
    assert (found.p[0] <= 0.05) == (found.low[0] > 0 or found.high[0] < 0)


def test_the_other_group_says_the_opposite():
    one, other = compared(14, 20, 0.4, 80), compared(6, 20, 0.6, 80)
    assert other.value == pytest.approx(-one.value)
    assert [*other.low, *other.high] == pytest.approx([*-one.high, *-one.low])
    assert other.p == pytest.approx(one.p)


def test_more_people_bring_it_to_the_exact_standard():
    assert compared(14, 20, 0.4, 1e12).p == pytest.approx(compared(14, 20, 0.4, inf).p, rel=1e-4)


def test_two_verdicts_stand_apart():
    held = shares({"c": (54, 6), "d": (54, 6)})
    standard = {("c", "a"): ReferenceShare(0.9, 5000), ("d", "a"): ReferenceShare(0.5, 5000)}
    rows = {(row.component, row.concept): row for row in standard_rows(held, standard, margin=0.2)}
    assert rows["difference", "c"].verdict == Verdict.BALANCED
    assert (rows["difference", "d"].verdict, rows["difference", "d"].side) == (Verdict.LEANS, "a")
    assert rows["further", "c"].value == pytest.approx(0, abs=1e-12)
    assert rows["further", "d"].value == pytest.approx(0.4)
    assert rows["reference", "c"].value == 0.9
    assert rows["reference", "c"].n_target == 5000


def test_of_two_groups_the_standard_may_give_either():
    held = shares({"c": (40, 20)})
    one = standard_rows(held, {("c", "a"): ReferenceShare(0.3, 50)})
    other = standard_rows(held, {("c", "b"): ReferenceShare(0.7, 50)})
    for mine, its in zip(one, other, strict=True):
        assert its.value == pytest.approx(mine.value, nan_ok=True)
        assert its.verdict == mine.verdict


def test_further_is_to_either_side_of_parity():
    held = shares({"c": (6, 54)})
    row = next(r for r in standard_rows(held, {("c", "a"): ReferenceShare(0.7)}) if r.component == "further")
    assert row.value == pytest.approx(0.2)
    assert row.low <= row.value <= row.high


def test_a_concept_without_a_match_says_so_and_is_no_test():
    held = shares({"c": (40, 20), "d": (40, 20)})
    rows = standard_rows(held, {("c", "a"): ReferenceShare(0.3)})
    unmatched, tested = (
        [row for row in rows if row.component == component] for component in ("unmatched", "difference")
    )
    assert [row.concept for row in unmatched] == ["d"]
    assert "no match" in unmatched[0].reason
    assert [row.concept for row in tested] == ["c"]
    assert tested[0].q == tested[0].p
    assert standard_rows(held, {}) == []


def test_what_missing_pictures_may_change_is_said():
    held = shares({"c": (42, 18)}, n_missing=30, bound_low=0.4, bound_high=0.9)
    row = next(r for r in standard_rows(held, {("c", "a"): ReferenceShare(0.5)}) if r.component == "difference")
    assert row.verdict == Verdict.LEANS
    assert row.depends_on == "missing"
    assert row.bound_low < 0 < row.bound_high
    held = SourceShares([replace(r, n_missing=0) for r in held.rows], held.groups, held.counts)
    row = next(r for r in standard_rows(held, {("c", "a"): ReferenceShare(0.5)}) if r.component == "difference")
    assert row.depends_on == "unread"


def test_each_of_three_groups_is_judged_against_its_own_share():
    groups = ("a", "b", "c")
    held = shares({"x": (10, 20, 30), "y": (40, 10, 10)}, groups=groups)
    standard = {(concept, group): ReferenceShare(1 / 3) for concept in "xy" for group in groups}
    rows = standard_rows(held, standard)
    differences = [row for row in rows if row.component == "difference"]
    assert len(differences) == 6
    assert sum(row.value for row in differences) == pytest.approx(0, abs=1e-12)
    assert {(row.concept, row.side) for row in differences if row.verdict == Verdict.LEANS} >= {("y", "a")}
    assert {row.group for row in rows if row.component == "slope"} == set(groups)


def test_a_line_stands_below_the_concepts():
    rho = np.linspace(0.1, 0.9, 10)
    pi = scipy.special.expit(2 * scipy.special.logit(rho))
    counts = {f"c{i}": (round(400 * p), 400 - round(400 * p)) for i, p in enumerate(pi)}
    rows = standard_rows(shares(counts, n=400), {(f"c{i}", "a"): ReferenceShare(float(r)) for i, r in enumerate(rho)})
    slope = next(row for row in rows if row.component == "slope")
    assert slope.value == pytest.approx(2, abs=0.1)
    assert slope.low > 1
    assert slope.null == 1
    assert slope.p < 0.05
    without = SourceShares(shares(counts, n=400).rows, ("a", "b"))  # from the widths of the intervals alone
    again = standard_rows(without, {(f"c{i}", "a"): ReferenceShare(float(r)) for i, r in enumerate(rho)})
    assert next(row for row in again if row.component == "slope").value == pytest.approx(slope.value, abs=0.02)
