"""Too few to tell: below a smallest number, or where no p can reach the level, there are numbers and no verdict."""

import numpy as np
import pytest

from clinometer.metrics import Score
from clinometer.metrics.differences import judge_differences
from clinometer.metrics.verdict import ReasonCode, judge_family, p_can_tell
from clinometer.stats.permutation import permute_labels


def row_of(p, n_splits, *, exact=True, **fields):
    about = {"metric": "m", "component": "c", "value": 0.4, "low": 0.1, "high": 0.7, "n_target": 6}
    return Score(**about | {"p": p, "q": p, "n_splits": n_splits, "p_exact": exact} | fields)


@pytest.mark.parametrize("judge", [judge_family, judge_differences])
def test_three_against_three_cannot_tell(judge):
    (row,) = judge([row_of(0.1, 20)], a="a", b="b", margin=1.0)
    assert (row.verdict, row.side, row.reason_code) == ("too few images", "", ReasonCode.TOO_FEW_EXCHANGES)
    assert row.value == 0.4  # the numbers stay


def test_where_the_level_can_be_reached_it_is_undecided():
    (row,) = judge_family([row_of(0.1, 70)], a="a", b="b")
    assert row.verdict == "undecided"
    (drawn,) = judge_family([row_of(0.1, 999, exact=False)], a="a", b="b")
    assert drawn.verdict == "undecided"


def test_a_p_that_reached_the_level_can_tell_whatever_the_count():
    """Of sets of unequal size no split mirrors another: 2 + 5 items go down to 1/21."""
    values = np.array([5.0, 4.0, 0, 0.1, 0.2, 0.3, 0.4])
    test = permute_labels(values[None], np.arange(7) < 2)
    row = row_of(float(test.p_value[0]), test.n_splits)
    assert row.p == pytest.approx(1 / 21)
    assert p_can_tell(row)


def test_a_p_of_another_kind_has_no_smallest_value():
    assert p_can_tell(row_of(0.3, 0))


def test_too_few_images_say_how_many_a_verdict_takes():
    few, none = judge_family(
        [row_of(0.2, 0, n_target=4), row_of(0.2, 0, n_target=4, low=np.nan, high=np.nan)], a="a", b="b", fewest=8
    )
    assert few.reason_code == none.reason_code == ReasonCode.TOO_FEW_IMAGES
    assert few.n_decide >= 8
    assert none.n_decide == 8
