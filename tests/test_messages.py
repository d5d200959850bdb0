"""Phrases that messages share."""

import pytest

from clinometer._messages import did_you_mean, first_and_more, nearest


@pytest.mark.parametrize(("n", "shown", "said"), [(1, 1, "0"), (2, 1, "0 and 1 more"), (3, 3, "0, 1, 2")])
def test_all_names_are_shown_or_counted(n, shown, said):
    assert first_and_more([str(i) for i in range(n)], shown) == said


def test_a_mistyped_name_finds_the_one_that_was_meant_whatever_its_case():
    assert did_you_mean("ceo", ["CEO", "nurse"]) == "did you mean CEO?"
    assert did_you_mean("nobody", ["CEO", "nurse"]) == ""
    assert nearest("mcsa", ["xmcas", "reference", "mcas"], most=3) == ["mcas", "xmcas"]
