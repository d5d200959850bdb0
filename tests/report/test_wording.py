from math import inf, nan

import pytest

from clinometer.report import wording
from clinometer.report.view import Row


@pytest.mark.parametrize(
    ("value", "written"),
    [(0.214, "+0.21"), (-0.214, "−0.21"), (0.001, "0.00"), (-0.001, "0.00"), (nan, "—"), (inf, "—")],
)
def test_signed(value, written):
    assert wording.signed(value) == written


def test_interval():
    assert wording.interval(-0.151, 0.27) == "[−0.15, 0.27]"
    assert wording.interval(nan, 0.27) == ""


@pytest.mark.parametrize(("value", "written"), [(-0.0512, "−5.1\u202f%"), (0.2, "+20.0\u202f%"), (nan, "—")])
def test_signed_percent(value, written):
    assert wording.signed_percent(value) == written


def test_the_commonest_reasons_are_counted():
    assert wording.commonest("baabcdb", "test") == "b (3 tests), a (2 tests), c (1 test) and 1 more"


@pytest.mark.parametrize(("p", "written"), [(0.0004, "q < 0.001"), (0.0341, "q = 0.034"), (nan, "")])
def test_probability(p, written):
    assert wording.probability(p, "q") == written


@pytest.mark.parametrize(
    ("items", "written"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_listed(items, written):
    assert wording.listed(items) == written


@pytest.mark.parametrize(
    ("value", "n", "said"),
    [
        (0.95, 20, "19 of 20 images read as men"),
        (0.05, 20, "19 of 20 images read as women"),
        (0.5, 20, "10 of 20 images read as men"),
        (1.0, 1, "1 of 1 image reads as men"),
        (0.925, 20, "92\N{NARROW NO-BREAK SPACE}% of 20 images read as men"),
        (nan, 20, ""),
        (0.5, 0, ""),
    ],
)
def test_shares(value, n, said):
    assert wording.share_words(Row(value=value, n_target=n), "men", "women") == said


def test_why_cells_are_empty_is_said_once_for_each_reason():
    few, many = [("a of x", "lost"), ("b of x", "lost")], [(str(n), "blank") for n in range(4)]
    assert wording.reasons([*few, *many]) == ["a of x and b of x: lost", "4 cells: blank"]
    assert wording.reasons([]) == []


def test_digits_keep_two_figures():
    assert [wording.digits_for([v]) for v in (0.8, 0.08, 0.008)] == [2, 3, 4]
    assert wording.digits_for([]) == 2
    assert wording.digits_for([0.0, 0.0]) == 2
    assert wording.digits_for([0.0, -0.03]) == 3
