"""Rows of steerability: success, signed gaps, what the reader's errors hide, and when drawing may stop."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.reading import AnsweredQuestion
from clinometer.metrics.steerability import steerability_rows
from clinometer.metrics.steered import SteeredPictures, evidence_of_pairs, gap_evidence, rows_when_stopped
from clinometer.metrics.verdict import ReasonCode, StoppingRule, Verdict
from clinometer.stats.sequential import e_value
from tests.raising import raises

GROUPS = ("man", "woman")
KNOWN = np.array([[196, 4, 0], [30, 170, 0]])
PERFECT = np.array([[10**4, 0, 0], [0, 10**4, 0]])
NOBODY = np.zeros((2, 3), int)
SIGNED = (
    "gap",
    "corrected_gap",
    "mean_gap",
    "mean_gap_here",
    "shown_gap",
    "quality_gap",
    "recall_gap",
    "gap_at_parity",
)


def pictures(concept, asked, counts, seed=0, **fields):
    """So many pictures read as each group, and as none, in an order of their own, from noises 0, 1, …."""
    rng = np.random.default_rng([seed, *map(ord, concept + asked)])
    answers = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    n = len(answers)
    shows, fidelity = (rng.random(n) < 0.9).astype(float), rng.normal(0.3, 0.05, n)
    return SteeredPictures(concept, "work", asked, answers, np.arange(n).astype(str), shows, fidelity, **fields)


def steered(gaps=(0, 6, 0, 12, 0, 2, 14, 0), n=20):
    """Eight concepts that draw ever more men by default; so many pictures asked for women are read as men."""
    made = []
    for at, missed in enumerate(gaps):
        made += [
            pictures(f"c{at}", "", (2 * at + 2, n - 2 * at - 2, 0)),
            pictures(f"c{at}", "man", (n - 1, 1, 0)),
            pictures(f"c{at}", "woman", (1 + missed, n - 1 - missed, 0)),
        ]
    return made


def asked(known=KNOWN, groups=GROUPS):
    return AnsweredQuestion("reader", "who", groups, (), known, "labelled")


TURNED = asked(KNOWN[::-1, [1, 0, 2]], GROUPS[::-1])


def by_place(rows):
    return {(row.component, row.concept, row.group): row for row in rows}


@pytest.fixture(scope="module")
def found():
    return by_place(steerability_rows(steered(), asked(), margin=0.2))


def swapped(cell):
    return replace(cell, answers=np.where(cell.answers < 2, 1 - cell.answers, 2))


def test_exchanging_the_groups_turns_every_gap_and_leaves_the_side(found):
    other = by_place(steerability_rows([swapped(each) for each in steered()], TURNED, margin=0.2))
    for (component, concept, group), row in found.items():
        same = other[component, concept, "woman-man" if group == "man-woman" else group]
        assert (row.verdict, row.side, row.reason_code) == (same.verdict, same.side, same.reason_code)
        numbers = [same.value, same.low, same.high, same.bound_low, same.bound_high]
        if component in SIGNED:
            numbers = [-same.value, -same.high, -same.low, -same.bound_high, -same.bound_low]
        here = [row.value, row.low, row.high, row.bound_low, row.bound_high]
        assert here == pytest.approx(
            numbers, abs=1e-3 if component.startswith(("gap_on", "gap_at")) else 1e-7, nan_ok=True
        )
        assert (row.p, row.q) == pytest.approx((same.p, same.q), abs=1e-3, nan_ok=True)


def test_the_order_of_pictures_and_cells_changes_nothing():
    rng, shuffled = np.random.default_rng(1), []
    found = by_place(steerability_rows(steered()[:6], asked(), margin=0.2))
    for cell in steered()[5::-1]:
        order = rng.permutation(len(cell.answers))
        arrays = {name: getattr(cell, name)[order] for name in ("answers", "noise", "shows", "fidelity")}
        shuffled.append(replace(cell, **arrays))
    other = by_place(steerability_rows(shuffled, asked(), margin=0.2))
    assert found.keys() == other.keys()
    for place, row in found.items():
        assert (row.value, row.p) == pytest.approx((other[place].value, other[place].p), abs=1e-4, nan_ok=True)
        assert row.verdict == other[place].verdict


def test_a_reader_that_never_errs_leaves_the_raw_numbers():
    rows = by_place(steerability_rows(steered()[:6], asked(PERFECT)))
    for concept in ("c0", "c1"):
        raw, corrected = (rows[component, concept, "man-woman"] for component in ("gap", "corrected_gap"))
        assert (corrected.value, corrected.low, corrected.p) == pytest.approx((raw.value, raw.low, raw.p), abs=5e-3)
        success, true = (rows[component, concept, "woman"] for component in ("success", "corrected_success"))
        assert true.value == pytest.approx(success.value, abs=1e-3)


def test_the_rows_are_the_counts(found):
    assert found["success", "c3", "woman"].value == 7 / 20
    assert found["other_group", "c3", "woman"].value == 13 / 20
    assert found["default_share", "c3", "man"].value == 8 / 20
    assert found["gap", "c3", "man-woman"].value == pytest.approx(12 / 20)
    s, c = 0.98, 0.85
    assert found["corrected_gap", "c3", "man-woman"].value == pytest.approx((0.6 + c - s) / (s + c - 1))
    assert found["recall_gap", "", "man-woman"].value == pytest.approx(s - c)
    assert found["corrected_gap", "c3", "man-woman"].side == "man"
    assert found["gap_on_default", "", "man-woman"].n_a == 8
    assert found["concentration", "", ""].value == 0


def test_a_gap_that_the_reader_makes_is_none():
    """A model that always succeeds, by a reader that recognises .98 of men and .85 of women."""
    made = [pictures("c", "man", (98, 2, 0)), pictures("c", "woman", (15, 85, 0))]
    rows = by_place(steerability_rows(made, asked(), margin=0.25))
    assert rows["gap", "c", "man-woman"].p < 0.01
    assert rows["corrected_gap", "c", "man-woman"].value == pytest.approx(0, abs=1e-9)
    assert rows["corrected_gap", "c", "man-woman"].verdict == Verdict.BALANCED


def test_without_labels_there_are_bounds_and_no_verdict():
    rows = steerability_rows(steered(), asked(NOBODY))
    assert {row.reason_code for row in rows if row.component == "corrected_gap"} == {ReasonCode.UNKNOWN_ERRORS}
    assert {row.verdict for row in rows if row.verdict} == {Verdict.NOT_MEASURED}
    raw = by_place(rows)["gap", "c6", "man-woman"]
    assert raw.value == pytest.approx(0.7)
    assert raw.bound_low < 0 < raw.bound_high
    assert "no labelled picture" in by_place(rows)["gap_on_default", "", "man-woman"].reason


def test_few_pictures_have_numbers_and_no_verdict():
    made = [pictures("c", "man", (5, 0, 0)), pictures("c", "woman", (5, 0, 0))]
    row = by_place(steerability_rows(made, asked(PERFECT)))["corrected_gap", "c", "man-woman"]
    assert (row.verdict, row.reason_code) == (Verdict.TOO_FEW, ReasonCode.TOO_FEW_IMAGES)
    assert row.value == pytest.approx(1)


def test_a_verdict_says_what_unread_and_missing_pictures_may_take_back():
    made = [
        pictures("c", "man", (19, 1, 0)),
        pictures("c", "woman", (15, 6, 2), unread="2 several people", missing=12),
    ]
    row = by_place(steerability_rows(made, asked(np.column_stack([KNOWN[:, :2], [20, 20]]))))[
        "corrected_gap", "c", "man-woman"
    ]
    assert row.verdict == Verdict.LEANS
    assert row.depends_on == "missing"
    assert row.bound_low <= 0 < row.low


def test_of_three_groups_the_first_is_held_against_each_other():
    known = np.array([[60, 2, 1, 0], [3, 58, 2, 0], [1, 4, 58, 0]])
    made = [pictures("c", "a", (30, 0, 0, 0)), pictures("c", "b", (2, 28, 0, 0)), pictures("c", "c", (15, 3, 12, 0))]
    rows = by_place(steerability_rows(made, asked(known, ("a", "b", "c"))))
    gaps = {group: rows["corrected_gap", "c", group] for group in ("a-b", "a-c")}
    assert gaps["a-c"].side == "a"
    assert gaps["a-b"].verdict == Verdict.UNDECIDED
    assert gaps["a-b"].family == gaps["a-c"].family
    assert gaps["a-c"].value > 0.5


def test_the_score_of_iris_stands_beside_what_no_gap_gives():
    made = [
        pictures("c", "", (9, 1, 0)), pictures("c", "man", (10, 0, 0)), pictures("c", "woman", (4, 6, 0)),
    ]  # fmt: skip
    row = by_place(steerability_rows(made, asked(NOBODY)))["excess_gap", "", "man-woman"]
    assert row.value == pytest.approx(0.4)
    assert row.null == pytest.approx(0.075, abs=0.002)  # E max(0, Σ ±1 / 10) of four tosses
    opposed = [replace(made[0], answers=1 - made[0].answers), *made[1:]]
    row = by_place(steerability_rows(opposed, asked(NOBODY)))["excess_gap", "", "man-woman"]
    assert row.value == 0


@pytest.mark.parametrize("shared", [True, False])
def test_pictures_that_share_no_noise_are_strangers(shared):
    noise = np.arange(20).astype(str) if shared else np.full(20, "")
    man, woman = (replace(pictures("c", name, counts), noise=noise) for name, counts in
                  (("man", (15, 5, 0)), ("woman", (15, 5, 0))))  # fmt: skip
    woman = replace(woman, answers=man.answers)  # each noise draws one of them whatever is asked for
    row = by_place(steerability_rows([man, woman], asked(PERFECT)))["gap", "c", "man-woman"]
    assert row.high - row.low == pytest.approx(0.93 if shared else 0.67, abs=0.01)


def test_bad_pictures_are_refused():
    good = pictures("c", "man", (5, 0, 0))
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME):
        steerability_rows([replace(good, asked="child")], asked())
    with raises(InvalidInputError, code=Code.DUPLICATE):
        steerability_rows([good, good], asked())
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, match=r"'c' .*0 to 2, found \[0, 7\]"):
        steerability_rows([replace(good, answers=np.array([0, 0, 0, 0, 7]))], asked())
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, match="'c' .*5 answers, 5 noise, 4 shows"):
        replace(good, shows=np.full(4, nan))


def test_exchanging_the_groups_turns_the_evidence():
    mine = gap_evidence(steered(), asked(), margin=0.2)
    theirs = gap_evidence([swapped(cell) for cell in steered()], TURNED, margin=0.2)
    for concept, stand in mine.items():
        other = theirs[concept]
        assert np.allclose([stand.value, stand.low, stand.high], [-other.value, -other.high, -other.low])
        assert np.allclose([stand.e, stand.q, stand.e_balance], [other.e, other.q, other.e_balance])


def test_with_a_reader_that_is_known_not_to_err_the_bets_are_those_against_no_difference():
    d = np.repeat([1.0, 0.0, -1.0], (6, 20, 1))
    found = evidence_of_pairs(d, np.diag([1e9, 1e9]), margin=None)
    assert found.e == pytest.approx(e_value(d, 0.0, low=-1.0, high=1.0), rel=1e-6)
    assert found.value == pytest.approx(d.mean())
    assert found.low <= d.mean() <= found.high


@pytest.mark.parametrize("n", [50, 500, 5_000])
def test_what_the_reader_makes_by_itself_is_no_evidence_however_many_pictures_there_are(n):
    recalls = np.array([[196, 4], [30, 170]])
    gap = 196 / 200 - 170 / 200
    d = np.repeat([1.0, 0.0], (round(gap * n), n - round(gap * n)))
    found = evidence_of_pairs(np.random.default_rng(0).permutation(d), recalls, margin=0.3)
    assert found.e < 1
    assert found.low < 0 < found.high
    assert found.value == pytest.approx(0, abs=0.01)


def test_pictures_without_an_answer_are_left_out_and_labels_that_are_not_there_end_the_drawing():
    with_unread = [replace(cell, answers=np.append(2, cell.answers), **longer(cell)) for cell in steered()]
    mine, theirs = gap_evidence(with_unread, asked(), margin=0.2), gap_evidence(steered(), asked(), margin=0.2)
    assert [each.e for each in mine.values()] == [each.e for each in theirs.values()]
    unlabelled = gap_evidence(steered(), asked(NOBODY), margin=0.2)
    assert all(each.stops(StoppingRule()) and not each.leans for each in unlabelled.values())
    with raises(InvalidInputError, code=Code.UNSUPPORTED, field="groups"):
        gap_evidence([], asked(np.eye(3, 4, dtype=int), ("a", "b", "c")))


@pytest.mark.parametrize(
    ("missed", "missing", "depends"), [(30, 0, ""), (22, 0, ""), (20, 0, "unread"), (22, 60, "unread missing")]
)
def test_a_verdict_that_pictures_without_an_answer_might_take_back_says_so(missed, missing, depends):
    known = asked(np.array([[10**4, 0, 2000], [0, 10**4, 2000]]))
    made = [pictures("c", "man", (40, 0, 8)), pictures("c", "woman", (missed, 40 - missed, 8), missing=missing)]
    rows = rows_when_stopped(steerability_rows(made, known), made, known, None)
    row = by_place(rows)["corrected_gap", "c", "man-woman"]
    assert (row.verdict, row.side, row.depends_on) == (Verdict.LEANS, "man", depends)
    assert (row.bound_low <= 0 <= row.bound_high) == bool(depends)


def longer(cell):
    """One more of everything that a picture has."""
    return {
        "noise": np.append("more", cell.noise), "shows": np.append(nan, cell.shows),
        "fidelity": np.append(nan, cell.fidelity),
    }  # fmt: skip
