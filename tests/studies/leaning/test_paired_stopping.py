"""Differences told by pairs, at any number of them: the same means as everywhere, and no claim that needs another."""

from dataclasses import replace

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import ATTRIBUTE_LEVEL, Verdict
from clinometer.stats.multiplicity import e_benjamini_hochberg
from clinometer.stats.sequential import e_value
from clinometer.studies.leaning import evidence_of, paired_evidence
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.stopping import image_leanings
from tests.raising import raises
from tests.studies.leaning.studies import design, embeddings

FIRST = (0.0, -0.6, 0.0, 0.3, -0.3, 0.0)
SECOND = (1.5, -0.6, 0.0, 0.3, -0.3, -1.5)


def pair(**options):
    """Two runs of the same noise, of which two targets lean otherwise."""
    return [embeddings(leanings=leanings, **{"images": 40, "noise": 0.2} | options) for leanings in (FIRST, SECOND)]


@pytest.mark.parametrize("component", ["image_part", "mcas"])
def test_a_stand_is_that_of_the_differences_of_the_pairs(component):
    first, second = pair()
    both = [image_leanings([run], design(), component) for run in (first, second)]
    low, high = both[1].span[0] - both[0].span[1], both[1].span[1] - both[0].span[0]
    for t, stand in enumerate(paired_evidence([first], [second], design(), component=component)):
        d = both[1].targets[t] - both[0].targets[t]
        constant = both[1].constants[t] - both[0].constants[t]
        assert stand.value == pytest.approx(d.mean() + constant)
        assert stand.n == 40
        sides = [
            e_value(np.clip(d, low, high), sign * stand.reach - constant, low=low, high=high, alternative=side)
            for sign, side in ((1, "greater"), (-1, "less"))
        ]
        assert stand.e == pytest.approx(np.mean(sides))


def test_the_difference_is_that_of_the_two_scores():
    first, second = pair()
    one, other = (evidence_of([run], design()) for run in (first, second))
    for stand, before, after in zip(paired_evidence([first], [second], design()), one, other, strict=True):
        assert stand.value == pytest.approx(after.value - before.value)


def test_equal_runs_differ_in_nothing_and_the_other_way_round_is_the_other_sign():
    first, second = pair()
    for stand in paired_evidence([first], [first], design()):
        assert (stand.value, stand.reach, stand.leans) == (0.0, 0.0, False)
        assert stand.e <= 1
    for there, back in zip(
        paired_evidence([first], [second], design()),
        paired_evidence([second], [first], design()),
        strict=True,
    ):
        assert there.e == pytest.approx(back.e)
        assert (there.low, there.high) == pytest.approx((-back.high, -back.low))


def test_what_has_moved_is_found_and_what_has_not_is_not():
    stands = paired_evidence(*([run] for run in pair(images=80)), design())
    assert [stand.leans for stand in stands] == [True, False, False, False, False, True]
    assert [np.sign(stands[t].value) for t in (0, 5)] == [1, -1]


def test_the_order_of_the_pairs_changes_nothing():
    first, second = pair()
    turned = [replace(run, target_images=tuple(x[::-1] for x in run.target_images)) for run in (first, second)]
    for one, other in zip(
        paired_evidence([first], [second], design()),
        paired_evidence(*([run] for run in turned), design()),
        strict=True,
    ):
        assert one.e == pytest.approx(other.e)


def test_runs_of_other_numbers_are_no_pairs():
    first, second = pair()
    with raises(InvalidInputError, code=Code.MISMATCH, match="numbers of images"):
        paired_evidence([first], [embeddings(images=39)], design())
    with raises(InvalidInputError, code=Code.MISMATCH, match="numbers of attribute images"):
        paired_evidence([first], [embeddings(images=40, attribute_images=6)], design())
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="until_decided"):
        compare_leanings([first], [second], design(), paired=False, until_decided=True)


def compared(first, second, **changes) -> list[Score]:
    return compare_leanings([first], [second], design(**changes), paired=True, until_decided=True, n_resamples=99)


@pytest.mark.parametrize("component", ["image_part", "mcas"])
def test_rows_claim_nothing_that_needs_a_fixed_number(component):
    first, second = pair(images=80)
    rows = compared(first, second)
    stands = paired_evidence([first], [second], design(), component=component)
    judged = [row for row in rows if (row.component, row.encoder) == (component, "mean")]
    assert [row.verdict == Verdict.MORE for row in judged] == [stand.leans for stand in stands]
    assert [row.side for row in judged if row.side] == ["man", "woman"]
    for row, stand in zip(judged, stands, strict=True):
        assert (row.low, row.high, row.p, row.n_target) == (stand.low, stand.high, stand.p, stand.n)
        assert row.q == pytest.approx(stand.q)
    for row in rows:
        if row.component != "itp" and (row.encoder != "mean" or row.component not in ("image_part", "mcas")):
            assert np.isnan([row.low, row.high, row.p, row.q]).all()
            assert row.verdict == ""
            assert "fixed beforehand" in row.reason


def test_alike_is_shown_within_a_wide_margin():
    first, second = pair(images=400, attribute_images=60)
    rows = compared(first, second, margin=0.4)
    judged = [row for row in rows if (row.component, row.encoder) == ("image_part", "mean")]
    assert [row.verdict for row in judged[1:5]] == [Verdict.ALIKE] * 4


def test_q_of_p_is_that_of_the_e_values():
    evidence = np.array([5000.0, 80.0, 3.0, 1.5, 900.0, 60.0])
    stands = paired_evidence(*([run] for run in pair()), design())
    of_p = np.array([replace(stand, e=e).p for stand, e in zip(stands, evidence, strict=True)])
    back = 1 / (of_p - ATTRIBUTE_LEVEL)
    np.testing.assert_allclose(e_benjamini_hochberg(back), e_benjamini_hochberg(evidence))
