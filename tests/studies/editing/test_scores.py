"""Editing: readings, flips, contrasts, on arrays whose answer is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.records import Score
from clinometer.stats.permutation import sign_flip_test
from clinometer.studies.editing.compare import EditedPortraits, compare_edits
from clinometer.studies.editing.design import (
    FEWEST_FACES,
    EditingDesign,
    Faces,
    GenderReadings,
    PortraitGroup,
    average_face_angle,
)
from clinometer.studies.editing.scores import editing_study, flips, read_gender, read_gender_once
from tests.raising import raises
from tests.studies.editing.cases import DARK, DESIGN, LIGHT, Case
from tests.studies.intervals import left_out


def row(scores: list[Score], component: str, **equal: str) -> Score:
    wanted = {"concept": "", **equal}
    (found,) = [
        s for s in scores if s.component == component and all(getattr(s, k) == v for k, v in wanted.items())
    ]  # fmt: skip
    return found


HIGH = {"category": "high-paid", "setting": "strength 1"}


def test_a_reading_needs_every_wording() -> None:
    margins = np.array([[0.1, 0.2], [-0.1, -0.3], [0.1, -0.1], [0.0, 0.1], [np.nan, 0.2]])
    np.testing.assert_array_equal(read_gender(margins), [1, -1, 0, 0, np.nan])


def test_flips_and_abstentions() -> None:
    flipped, uncertain = flips(np.array([1.0, 1.0, 0.0, -1.0]), np.array([[-1.0], [0.0], [1.0], [np.nan]]))
    np.testing.assert_array_equal(flipped[:, 0], [1, 0, 0, np.nan])
    np.testing.assert_array_equal(uncertain[:, 0], [0, 1, 1, np.nan])


def test_one_wording_never_abstains() -> None:
    """The first wording alone, whatever the others say: a margin of exactly 0 is no reading, and no flip."""
    margins = np.array([[0.1, -0.2], [-0.1, 0.3], [0.0, 0.1], [np.nan, 0.2]])
    np.testing.assert_array_equal(read_gender_once(margins), [1, -1, 0, np.nan])


@given(st.integers(0, 10_000), st.integers(1, 4))
def test_flips_that_all_wordings_confirm_are_among_those_of_one(seed: int, wordings: int) -> None:
    """Of one wording the two readers agree; of more the single one counts every flip of the other, and maybe more."""
    rng = np.random.default_rng(seed)
    before, after = rng.standard_normal((20, wordings)), rng.standard_normal((20, 3, 2, wordings))
    agreed, uncertain = flips(read_gender(before), read_gender(after))
    single, unsure = flips(read_gender_once(before), read_gender_once(after))
    assert not unsure.any()
    assert (single >= agreed).all()
    np.testing.assert_array_equal(single[uncertain == 0], agreed[uncertain == 0])
    if wordings == 1:
        np.testing.assert_array_equal(single, agreed)
    swapped, _ = flips(read_gender_once(-before), read_gender_once(-after))  # which gender is a does not matter
    np.testing.assert_array_equal(swapped, single)


def test_single_wording_rates_stand_beside_the_others() -> None:
    case = Case()
    scores = case.scores()
    single = [s for s in scores if s.component == "flip_rate_single_wording"]
    assert len(single) == len([s for s in scores if s.component == "flip_rate"])
    margins = case.readings
    flipped = (np.sign(margins.before[:, None, None, 0]) * np.sign(margins.after[..., 0])) < 0
    for name, position in ((group.name, g) for g, group in enumerate(DESIGN.groups)):
        high = [p for p, kind in enumerate(DESIGN.professions.values()) if kind == "high-paid"]
        expected = flipped[case.groups == position][:, high, DESIGN.strengths.index(1.0)].mean()
        assert row(scores, "flip_rate_single_wording", group=name, **HIGH).value == pytest.approx(expected)


def test_rates_are_shares_of_edits() -> None:
    scores = Case().scores()
    assert row(scores, "flip_rate", group="light woman", **HIGH).value == 1.0
    assert row(scores, "flip_rate", group="light woman", category="low-paid", setting="strength 1").value == 0.0
    men = [row(scores, "flip_rate", group=name, **HIGH).value for name in ("light man", "dark man")]
    assert sum(men) * 24 == pytest.approx(2)  # two edits of 2 × 24


def test_asymmetry_is_the_difference_of_rates_and_found() -> None:
    found = row(Case().scores(), "flip_asymmetry", **HIGH)
    assert found.value == pytest.approx(1 - 2 / 48)
    assert found.low > 0.5
    assert found.q < 0.01
    assert (found.verdict, found.side) == ("leans", "man")


def test_no_asymmetry_where_nothing_flips() -> None:
    found = row(Case().scores(), "flip_asymmetry", category="low-paid", setting="strength 0.6")
    assert found.value == 0
    assert found.low < 0 < found.high
    assert found.p == 1
    assert found.verdict == "undecided"


def test_swapping_the_genders_turns_the_asymmetry() -> None:
    case = Case()
    mirrored = replace(DESIGN, a="woman", b="man")
    turned = replace(case.readings, before=-case.readings.before, after=-case.readings.after)
    plain = row(case.scores(), "flip_asymmetry", **HIGH)
    other = row(
        editing_study([turned], case.faces, case.groups, mirrored, n_permutations=999, n_resamples=10),
        "flip_asymmetry", **HIGH,
    )  # fmt: skip
    assert other.value == pytest.approx(-plain.value)
    assert (other.low, other.high) == pytest.approx((-plain.high, -plain.low))


def test_skin_changes_are_found_where_they_are() -> None:
    scores = Case().scores()
    lightened = row(scores, "ita_change", group="dark man", **HIGH)
    assert lightened.value == pytest.approx(10, abs=1)
    assert (lightened.verdict, lightened.side) == ("leans", "lighter skin")
    same = row(scores, "ita_change", group="light man", **HIGH)
    assert same.low < 0 < same.high
    contrast = row(scores, "ita_contrast", **HIGH)
    assert contrast.value == pytest.approx(10, abs=1.5)
    assert contrast.q < 0.01
    assert (contrast.verdict, contrast.side) == ("leans", "lighter skin")


def test_average_faces_change_as_their_colours_do() -> None:
    found = row(Case().scores(), "average_face_ita_change", group="dark man", **HIGH)
    expected = average_face_angle(np.full((1, 4, 4, 3), LIGHT)) - average_face_angle(np.full((1, 4, 4, 3), DARK))
    assert found.value == pytest.approx(expected)


def toned_faces(n: int, rng: np.random.Generator) -> np.ndarray:
    """Flat faces, each lighter or darker than their kind."""
    return np.clip(
        np.array([215, 170, 130]) / 255 + 0.03 * rng.standard_normal((n, 1, 1, 1)) * np.ones((4, 4, 3)), 0, 1
    )


@pytest.mark.thorough
def test_the_interval_of_the_average_face_covers_with_the_fewest_portraits() -> None:
    """Portraits and edits alike but for chance. Plain percentiles of draws of three held 0 in 70 of 100."""
    rng, held, studies = np.random.default_rng(3), 0, 100
    design = EditingDesign((PortraitGroup("g", "woman"),), "man", "woman", {"cook": "low-paid"}, (1.0,))
    for study in range(studies):
        before, after = toned_faces(FEWEST_FACES, rng), toned_faces(FEWEST_FACES, rng)[:, None, None]
        angles, drawn = np.zeros(FEWEST_FACES), np.ones(FEWEST_FACES, bool)
        faces = Faces(angles, angles[:, None, None], drawn, drawn[:, None, None], before, after)
        scores = editing_study(
            [], faces, np.zeros(FEWEST_FACES, int), design, n_permutations=1, n_resamples=60, seed=study
        )
        found = row(scores, "average_face_ita_change", group="g")
        held += found.low <= 0 <= found.high
    assert held / studies >= 0.9


def test_a_resample_with_too_little_skin_takes_the_interval_and_says_so() -> None:
    case = Case(n=4)  # the fourth edit is no skin, a mean of all four is
    case.faces.image_after[:3, :2, 1], case.faces.image_after[3, :2, 1] = LIGHT, 0.8 * LIGHT + [0.02, 0.04, 0.18]
    found = row(case.scores(n_resamples=60), "average_face_ita_change", group="light woman", **HIGH)
    assert np.isfinite(found.value)
    assert np.isnan(found.low)
    assert found.reason == "too little skin in the average face of a resample"


def test_changes_are_tested_by_flipping_their_signs() -> None:
    case = Case()
    change = (case.faces.after - case.faces.before[:, None, None])[case.groups == 2][:, :2, 1].mean(axis=1)
    found = row(case.scores(), "ita_change", group="dark woman", **HIGH)
    assert (found.p, found.n_splits) == (float(sign_flip_test(change).p_value[0]), 2**12)


def test_the_order_of_portraits_does_not_matter() -> None:
    case = Case()
    order = np.random.default_rng(1).permutation(len(case.groups))
    shuffled = editing_study(
        [GenderReadings("toy", case.readings.before[order], case.readings.after[order], case.readings.identity[order])],
        Faces(**{name: values[order] for name, values in vars(case.faces).items()}),
        case.groups[order], DESIGN, n_permutations=999, n_resamples=30,
    )  # fmt: skip
    for one, other in zip(case.scores(), shuffled, strict=True):
        assert (one.component, one.group, one.setting) == (other.component, other.group, other.setting)
        assert (one.value, one.low) == pytest.approx((other.value, other.low), nan_ok=True, rel=1e-9, abs=5)
        assert one.value == pytest.approx(other.value, nan_ok=True)


def test_lost_edits_are_left_out_and_lost_cells_say_so() -> None:
    case = Case()
    case.readings.after[:12, :2, 1] = np.nan  # light women at strength 1, high-paid: nothing is left
    case.readings.after[12, 0, 1] = np.nan
    scores = case.scores()
    lost = row(scores, "flip_rate", group="light woman", **HIGH)
    assert np.isnan(lost.value)
    assert lost.reason == "nothing was measured"
    assert np.isfinite(row(scores, "flip_rate", group="light man", **HIGH).value)
    asymmetry = row(scores, "flip_asymmetry", **HIGH)
    assert np.isnan(asymmetry.value)
    assert asymmetry.reason


def test_unknown_tones_are_counted() -> None:
    case = Case()
    case.faces.after[:6, :, :] = np.nan
    found = row(case.scores(), "unknown_tone", group="light woman", **HIGH)
    assert found.value == 0.5


def test_a_picture_without_a_face_leaves_the_average_and_keeps_its_tone() -> None:
    case = Case()
    case.faces.image_after[:12, 0, 1] = np.nan  # no face in these edits, found by landmarks
    case.faces.image_after[12:24, :2, 1] = np.nan
    scores = case.scores()
    assert row(scores, "average_face_ita_change", group="light woman", **HIGH).n_target == 12
    lost = row(scores, "average_face_ita_change", group="light man", **HIGH)
    assert np.isnan(lost.value)
    assert lost.reason == "no portrait with a face before and after"
    for group in ("light woman", "light man"):
        assert row(scores, "unknown_tone", group=group, **HIGH).value == 0
        assert np.isfinite(row(scores, "ita_change", group=group, **HIGH).value)


def test_images_that_were_not_drawn_are_of_no_unknown_tone() -> None:
    case = Case()
    case.faces.after[:6] = np.nan
    case.faces.drawn_after[:6] = False
    assert row(case.scores(), "unknown_tone", group="light woman", **HIGH).value == 0


def test_q_values_are_at_least_p_and_name_their_family() -> None:
    tested = [s for s in Case().scores() if np.isfinite(s.p)]
    assert tested
    assert all(s.q >= s.p - 1e-12 and s.family.startswith("editing: ") for s in tested)


def test_shapes_that_do_not_match_are_named() -> None:
    case = Case()
    with raises(InvalidInputError, code=Code.WRONG_SHAPE, match=r"toy: after: .*\(48, 3, 2\), .*\(48, 1, 2\)"):
        editing_study(
            [replace(case.readings, after=case.readings.after[:, :1])], case.faces, case.groups, DESIGN
        )  # fmt: skip


@pytest.mark.parametrize("lost", [0.5, 1.0])
def test_edits_that_one_run_lost_make_it_lean_no_other_way(lost: float) -> None:
    """A mean over the professions that are left would be of other edits than the other run's."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 20)
    design = EditingDesign(
        (PortraitGroup("women", "woman", "light"), PortraitGroup("men", "man", "light")), "man", "woman",
        {"doctor": "high-paid", "lawyer": "high-paid", "waiter": "low-paid"}, (0.6,), (),
    )  # fmt: skip
    before = np.where(groups == 0, -1.0, 1.0)[:, None]
    chances = np.where(groups == 0, 0.8, 0.1)[:, None] * [1.0, 0.2, 0.3]
    after = np.where(rng.random((40, 3)) < chances, -1, 1)[..., None, None] * before[:, :, None, None]
    fewer = after.copy()
    fewer[rng.random(40) < lost, 0] = np.nan
    runs = [
        EditedPortraits(
            groups, [GenderReadings("eye", before, held, np.ones(held.shape[:3]))], np.full(held.shape[:3], np.nan)
        )
        for held in (after, fewer)
    ]
    for found in compare_edits(*runs, design, paired=True):
        if found.component in ("flip_rate", "flip_asymmetry", "magnitude") and np.isfinite(found.value):
            assert found.value == pytest.approx(0, abs=1e-12), found
            assert found.p == 1


def test_an_interval_wider_than_skin_is_says_that_it_cannot_tell() -> None:
    """Two portraits that change by −30 and 120 degrees: Student's interval of one degree of freedom says nothing."""
    case = Case(n=2)
    case.faces.after[case.groups == 2] = case.faces.before[case.groups == 2][:, None, None] + [[[-30.0]], [[120.0]]]
    found = row(case.scores(), "ita_change", group="dark woman", **HIGH)
    assert found.value == 45.0
    assert np.isnan([found.low, found.high]).all()
    assert found.reason.startswith("cannot tell: its interval would be wider than the 180 degrees")
    assert np.isfinite(row(Case().scores(), "ita_change", group="dark woman", **HIGH).low)


def test_edits_that_are_missing_give_flips_bounds_and_changes_of_skin_a_reason() -> None:
    whole, part = Case(), Case()
    missing = np.zeros(part.faces.after.shape, bool)
    missing[:2] = True  # as where a portrait was refused
    missing[2, 0, 1] = missing[-1, 1, 1] = True
    part.readings.after[missing], part.faces.after[missing], part.faces.drawn_after[missing] = np.nan, np.nan, False
    plain, scores = part.scores(), part.scores(missing=missing)
    for before, found in zip(plain, scores, strict=True):
        assert repr((before.value, before.low, before.high, before.p, before.verdict)) == repr(
            (found.value, found.low, found.high, found.p, found.verdict)
        )
    for component in ("flip_rate", "flip_rate_single_wording", "flip_asymmetry"):
        named = {} if component == "flip_asymmetry" else {"group": "light woman"}
        found = row(scores, component, **HIGH, **named)
        assert found.n_missing == (6 if not named else 5)
        assert found.bound_low <= found.low <= found.high <= found.bound_high
        assert found.bound_low <= row(whole.scores(), component, **HIGH, **named).value <= found.bound_high
    assert np.isnan(row(scores, "flip_rate", **HIGH, group="dark woman").bound_low)
    assert row(scores, "ita_change", **HIGH, group="light woman").reason.startswith("no bounds for the edits")
    assert not row(scores, "ita_change", **HIGH, group="dark woman").reason


def test_a_finding_that_the_missing_edits_carry_depends_on_them() -> None:
    case = Case()
    women = np.isin(case.groups, (0, 2))
    hidden = np.zeros(case.faces.after.shape, bool)
    hidden[women, :2, 1] = np.arange(women.sum())[:, None] % 3 > 0
    case.readings.after[hidden] = np.nan
    found = row(case.scores(missing=hidden), "flip_asymmetry", **HIGH)
    assert (found.verdict, found.side, found.depends_on) == ("leans", "man", "missing")


# --- instructions that leave no sign ---------------------------------------------------------------------------------

TONES = ("light", "dark", "golden")
THREE = replace(
    DESIGN,
    groups=tuple(PortraitGroup(f"{tone} {gender}", gender, tone) for tone in TONES for gender in ("woman", "man")),
    tones=TONES,
)


def erasure_case(rng: np.random.Generator, shares: tuple[float, ...], n: int = 12) -> dict[str, object]:
    """Portraits of tones whose instructions leave no sign at these shares; all else alike."""
    groups = np.repeat(np.arange(6), n)
    cells = (len(groups), 3, 2)
    share = np.repeat(shares, 2)[groups][:, None, None]
    followed = np.where(rng.random(cells) < share, -0.1, 0.1)
    margins = np.ones((*cells, 1))
    readings = GenderReadings("toy", margins[:, 0, 0], margins, np.full(cells, 0.8), followed)
    angle, drawn, face = np.full(len(groups), 20.0), np.ones(cells, bool), np.zeros((len(groups), 1, 1, 3))
    edited = np.zeros((*cells, 1, 1, 3))
    change = rng.normal(0, 1, cells) + 10 * (groups[:, None, None] >= 4)
    faces = Faces(angle, angle[:, None, None] + change, drawn[:, 0, 0], drawn, face, edited)
    return {"readings": [readings], "faces": faces, "groups": groups, "design": THREE}


def test_soft_erasure_and_skin_of_each_tone_are_held_against_the_first() -> None:
    case = erasure_case(np.random.default_rng(0), (0.1, 0.9, 0.1))
    scores = editing_study(**case, n_permutations=999, n_resamples=30)  # type: ignore[arg-type]
    assert row(scores, "soft_erasure", group="dark man", **HIGH).value > 0.7
    assert row(scores, "edit_gain", group="dark man", **HIGH).value < 0 < row(
        scores, "edit_gain", group="light man", **HIGH
    ).value  # fmt: skip
    dark = row(scores, "erasure_contrast", group="dark", **HIGH)
    golden = row(scores, "erasure_contrast", group="golden", **HIGH)
    assert (dark.side, dark.low > 0.5, dark.family) == ("erased more", True, golden.family)
    assert golden.low < 0 < golden.high
    rates = [row(scores, "soft_erasure", group=f"dark {gender}", **HIGH).value for gender in ("woman", "man")]
    first = [row(scores, "soft_erasure", group=f"light {gender}", **HIGH).value for gender in ("woman", "man")]
    assert dark.value == pytest.approx(np.mean(rates) - np.mean(first))
    assert row(scores, "ita_contrast", group="golden", **HIGH).side == "lighter skin"
    assert row(scores, "ita_contrast", group="dark", **HIGH).side == ""


def test_erasure_is_not_scored_where_no_text_says_what_an_edit_shows() -> None:
    components = {each.component for each in Case().scores()}
    assert not components & {"soft_erasure", "edit_gain", "erasure_contrast"}


def test_missing_edits_bound_soft_erasure() -> None:
    case = erasure_case(np.random.default_rng(1), (0.1, 0.5, 0.1))
    (readings,) = case["readings"]  # type: ignore[misc]
    missing = np.zeros(readings.followed.shape, bool)
    missing[case["groups"] >= 2, 0] = True
    case["readings"] = [replace(readings, followed=np.where(missing, np.nan, readings.followed))]
    scores = editing_study(**case, n_permutations=99, n_resamples=30, missing=missing)  # type: ignore[arg-type]
    for component in ("soft_erasure", "erasure_contrast"):
        found = [each for each in scores if each.component == component and each.n_missing]
        assert found
        assert all(each.bound_low <= each.value <= each.bound_high for each in found if np.isfinite(each.value))


@pytest.mark.thorough
def test_no_tone_is_found_to_be_erased_where_none_is() -> None:
    """Of 12 studies without a difference, at most 5 % find any tone of any class, give or take two errors."""
    rng = np.random.default_rng(2)
    found = 0
    for _ in range(12):
        case = erasure_case(rng, (0.3, 0.3, 0.3), n=5)
        scores = editing_study(**case, n_permutations=99, n_resamples=1)  # type: ignore[arg-type]
        found += any(each.component == "erasure_contrast" and not each.concept and each.q <= 0.05 for each in scores)
    assert found <= 0.6 + 2 * np.sqrt(12 * 0.05 * 0.95)


def erasing(shares: tuple[float, ...], rng: np.random.Generator, n: int = 12) -> EditedPortraits:
    """One run of :func:`erasure_case`, as a comparison takes it."""
    case = erasure_case(rng, shares, n)
    return EditedPortraits(case["groups"], case["readings"], np.zeros((len(case["groups"]), 3, 2)))  # type: ignore[arg-type]


def erasures(*runs: EditedPortraits, paired: bool = True) -> list[Score]:
    rows = compare_edits(*runs, THREE, paired=paired, n_permutations=199)  # type: ignore[arg-type]
    return [each for each in rows if each.component in ("soft_erasure", "erasure_contrast") and each.encoder == "mean"]


@pytest.mark.thorough
def test_soft_erasure_of_two_runs_is_compared_by_group_and_by_tone() -> None:
    rng = np.random.default_rng(0)
    first, second = erasing((0.1, 0.1, 0.1), rng), erasing((0.1, 0.9, 0.1), rng)
    found = erasures(first, second)
    dark = row(found, "soft_erasure", group="dark man", **HIGH)
    assert (dark.side, dark.low > 0.5) == ("leaving instructions out", True)
    assert row(found, "soft_erasure", group="light man", **HIGH).side == ""
    tone = row(found, "erasure_contrast", group="dark", **HIGH)
    assert (tone.side, tone.low > 0.4) == ("leaving out what is asked of the tone", True)
    assert row(found, "erasure_contrast", group="golden", **HIGH).side == ""
    back = row(erasures(second, first), "erasure_contrast", group="dark", **HIGH)
    assert (back.value, back.low) == pytest.approx((-tone.value, -tone.high))


def test_soft_erasure_is_compared_only_where_both_runs_have_it() -> None:
    run = erasing((0.1, 0.1, 0.1), np.random.default_rng(0))
    without = replace(run, readings=[replace(each, followed=None) for each in run.readings])
    assert erasures(run, without) == []


def test_missing_edits_bound_compared_soft_erasure() -> None:
    run = erasing((0.3, 0.3, 0.3), np.random.default_rng(1))
    missing = np.zeros((len(run.groups), 3, 2), bool)
    missing[run.groups >= 2, 0] = True
    readings = [replace(each, followed=np.where(missing, np.nan, each.followed)) for each in run.readings]
    found = erasures(replace(run, readings=readings, missing=missing), run, paired=False)
    bounded = [each for each in found if each.n_missing and np.isfinite(each.value)]
    assert {each.component for each in bounded} == {"soft_erasure", "erasure_contrast"}
    assert all(each.bound_low <= each.low and each.high <= each.bound_high for each in bounded)


@pytest.mark.thorough
def test_no_run_is_found_to_erase_more_where_none_does() -> None:
    """Of 8 pairs of runs that are alike, no more find a class of any group or tone than 5 %, and two errors."""
    rng = np.random.default_rng(2)
    found = [erasures(*(erasing((0.3, 0.3, 0.3), rng, n=6) for _ in range(2))) for _ in range(8)]
    for component in ("soft_erasure", "erasure_contrast"):
        named = [any(each.side for each in rows if each.component == component and not each.concept) for rows in found]
        assert sum(named) <= 0.4 + 2 * np.sqrt(8 * 0.05 * 0.95)


@pytest.mark.parametrize("n", [2, 3, 5])
def test_no_interval_leaves_out_its_own_estimate(n: int) -> None:
    case, rng = Case(n=n, seed=n), np.random.default_rng(n)
    for faces, alone in ((case.faces.image_before, 1), (case.faces.image_after, 3)):
        np.clip(faces + rng.normal(0, 0.05, (*faces.shape[:alone], 1, 1, 3)), 0, 1, out=faces)  # type: ignore[call-overload]
    rows = case.scores(n_permutations=99, n_resamples=60)
    assert not left_out(rows)
    averages = [found for found in rows if found.component == "average_face_ita_change"]
    assert all(np.isnan(found.low) for found in averages) == (n < FEWEST_FACES)
