"""The smallest share over the largest, of shares of the same images."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.proportion import proportion_confint

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.reading import AnsweredQuestion, ConceptAnswers, reading_rows
from clinometer.metrics.records import Score
from clinometer.metrics.standard import SourceShares, selection_ratios, selection_rows
from clinometer.readings.standard import shares_of_readers
from clinometer.stats.proportion import wilson_ends, wilson_interval
from tests.raising import raises

counted = st.lists(st.integers(0, 30), min_size=2, max_size=4).filter(any)


def shares(counts, groups=("a", "b")):
    rows = []
    for concept, own in counts.items():
        for group, count in zip(groups, own, strict=True):
            found = wilson_interval(count, sum(own))
            rows.append(
                Score(metric="share", component="share", concept=concept, group=group, encoder="", n_target=sum(own),
                      value=found.value, low=found.low, high=found.high)
            )  # fmt: skip
    return SourceShares(rows, groups, {(concept, ""): np.array(own) for concept, own in counts.items()})


def ratios(counts):
    n = sum(counts)
    share = np.array(counts) / n
    return selection_ratios(share, *wilson_ends(share, n, 0.95), worth=n)


@settings(max_examples=40)
@given(counted, st.randoms())
def test_ratios_by_definition_whatever_the_order_of_groups(counts, random):
    found, order = ratios(counts), random.sample(range(len(counts)), len(counts))
    assert list(found.value) == pytest.approx([own / max(counts) for own in counts])
    assert found.smallest == pytest.approx(min(counts) / max(counts))
    assert (found.low <= found.value + 1e-12).all()
    assert (found.value <= found.high + 1e-12).all()
    assert found.smallest_low <= found.smallest <= found.smallest_high + 1e-12
    turned = ratios([counts[at] for at in order])
    assert list(turned.high) == pytest.approx(list(found.high[order]))
    assert (turned.smallest_low, turned.smallest_high) == pytest.approx((found.smallest_low, found.smallest_high))


@pytest.mark.parametrize("counts", [(3, 17), (0, 10), (10, 10), (3, 9, 8), (0, 60, 40), (0, 0, 5)])
def test_an_interval_is_wilsons_of_the_share_among_both_groups(counts):
    found, least, most = ratios(counts), min(counts), max(counts)
    pairs = len(counts) * (len(counts) - 1) / 2
    low, _ = proportion_confint(least, least + most, method="wilson")
    _, high = proportion_confint(least, least + most, alpha=0.05 / pairs, method="wilson")
    assert found.smallest_low == pytest.approx(low / (1 - low), abs=1e-12)
    assert found.smallest_high == pytest.approx(min(high / (1 - high), 1) if high < 1 else 1)


def test_shares_that_are_not_known_have_no_ratio_and_bad_ones_are_refused():
    found = selection_ratios([[np.nan] * 3, [0.2, 0.3, 0.5]], [[np.nan] * 3, [0.1] * 3], [[np.nan] * 3, [0.6] * 3])
    assert np.isnan([found.smallest[0], found.smallest_low[0], found.smallest_high[0], found.p[0]]).all()
    assert found.smallest[1] == pytest.approx(0.4)
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, field=("share", "low", "high")):
        selection_ratios([1.0], [0.9], [1.0])


def test_rows_of_counts_are_of_each_concept_and_of_all_pictures_together():
    rows = selection_rows(shares({"doctor": (40, 20, 0), "nurse": (10, 20, 30)}, groups=("a", "b", "c")))
    smallest = {row.concept: row for row in rows if row.component == "smallest"}
    assert (smallest["doctor"].value, smallest["doctor"].group) == (0, "c")
    assert smallest["doctor"].high < 0.8
    assert smallest[""].value == pytest.approx(30 / 50)
    assert smallest[""].n_target == 120
    assert len([row for row in rows if row.component == "to_largest"]) == 9
    held = shares({"doctor": (40, 20)})
    halved = [replace(row, bound_low=0.9 * row.low, bound_high=0.9 * row.high + 0.1) for row in held.rows]
    one = selection_rows(replace(held, rows=halved))[0]
    assert one.bound_low < one.low < one.value < one.high < one.bound_high


def test_ratios_of_a_reader_keep_its_errors_and_none_stands_without_every_concept():
    known = np.array([[60, 3, 1], [12, 50, 2]])
    concepts = (ConceptAnswers("doctor", "", np.array([30, 10, 0])), ConceptAnswers("nurse", "", np.array([8, 31, 1])))
    each = AnsweredQuestion("r", "gender", ("man", "woman"), concepts, known, "labels")
    judged = reading_rows([each])
    (held,) = shares_of_readers([each], judged)
    of = {row.concept: row for row in selection_rows(held)}
    share = {row.concept: row for row in judged if (row.component, row.group) == ("corrected_share", "man")}
    least = share["nurse"].low / (1 - share["nurse"].low)
    assert of["nurse"].low == pytest.approx(least)
    assert of["nurse"].group == "man"
    assert of[""].low < of[""].value < of[""].high
    lacking = [replace(row, value=np.nan) if row.concept == "nurse" else row for row in judged]
    (held,) = shares_of_readers([each], lacking)
    overall = {row.concept: row for row in selection_rows(held)}[""]
    assert np.isnan(overall.value)
    assert overall.reason == "there is no share of nurse, and so none of all concepts"
