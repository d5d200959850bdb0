"""What missing and repeated pictures might change: fillings are worst cases, and only a change qualifies."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from benchmarks import picture_simulations as sim
from benchmarks.verdict_simulations import POPULATIONS, design_of
from clinometer.metrics.mcas import COMPONENTS
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import MISSING, REPEATS, Verdict, with_bounds
from clinometer.studies.leaning import crossed_study
from clinometer.studies.leaning.compare import compare_leanings
from clinometer.studies.leaning.scores.contrasts import attribute_shifts, contrast_tests, pair_weights
from clinometer.studies.leaning.scores.cosines import group_scores
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.differences import MissingPictures, compare_intersections
from clinometer.studies.leaning.scores.views import linear_views
from clinometer.studies.t2iat import t2iat_study
from clinometer.studies.t2iat.compare import compare_t2iat
from clinometer.studies.t2iat.scores.stimuli import measured_stimulus, stimulus_cosines
from tests.studies.leaning.crossed import THREE, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import design, embeddings, mcas_study, unit
from tests.studies.t2iat.designs import DESIGN as T2IAT
from tests.studies.t2iat.designs import embeddings as t2iat_embeddings

pytestmark = pytest.mark.usefixtures("shortcuts")

OPTIONS = {"n_resamples": 50, "n_permutations": 0}
IMAGED = ("ii", "ita", "image_part", "mcas")


def missing(of, *counts):
    return replace(of, targets=tuple(replace(t, missing=n) for t, n in zip(of.targets, counts, strict=True)))


def rows_of(rows, *components, metric="mcas"):
    return [row for row in rows if row.metric == metric and row.component in components]


def test_bounds_hold_the_interval_and_nothing_else_of_a_row_changes():
    encoder, of = embeddings("e", images=12), design(margin=0.2)
    whole, part = (mcas_study([encoder], d, **OPTIONS) for d in (of, missing(of, 0, 1, 2, 4, 8, 16)))
    bare = [replace(row, n_missing=0, bound_low=np.nan, bound_high=np.nan, depends_on="") for row in part]
    assert [repr(row) for row in bare] == [repr(row) for row in whole]
    for row in rows_of(part, *IMAGED):
        assert np.isfinite([row.bound_low, row.bound_high]).all() == (row.n_missing > 0)
        assert not row.n_missing or row.bound_low <= row.low <= row.high <= row.bound_high
    assert not any(row.n_missing for row in rows_of(part, "itp", "tt", "text_part"))
    assert any(row.depends_on == MISSING for row in part)


@pytest.mark.thorough
def test_more_missing_never_leave_narrower_bounds():
    encoder = embeddings("e", images=12)

    def width(n):
        rows = mcas_study([encoder], missing(design(), *[n] * 6), **OPTIONS)
        return [row.bound_high - row.bound_low for row in rows_of(rows, "image_part")]

    assert (np.diff([width(n) for n in (1, 5, 27)], axis=0) > -1e-9).all()


def test_bounds_are_mirrored_with_the_groups():
    encoder, of = embeddings("e", images=12), missing(design(), *range(1, 7))
    rows, mirrored = (
        rows_of(mcas_study([encoder], d, **OPTIONS), "image_part") for d in (of, replace(of, a=of.b, b=of.a))
    )
    assert [row.bound_low for row in rows] == pytest.approx([-row.bound_high for row in mirrored], abs=1e-8)


def test_shares_have_the_ends_of_all_missing_read_either_way():
    of = missing(design(), 5, *[0] * 5)
    rows = mcas_study([embeddings("e", images=12)], of, **OPTIONS)
    for component in ("share", "corrected_share"):
        first, second = rows_of(rows, component, metric="share")[:2]
        assert first.bound_low <= first.low <= first.high <= first.bound_high
        assert np.isnan(second.bound_low)


def test_cells_and_axes_have_bounds():
    of = crossed_design(THREE)
    rows = crossed_study([crossed_embeddings(of)], missing(of, *[3] * len(of.targets)))
    judged = [row for row in rows if row.verdict]
    assert judged
    assert any(np.isfinite(row.bound_low) and row.bound_low < row.low for row in judged)


COMPARED = {
    "leaning": (design(), embeddings("e0", images=14), embeddings("e0", seed=5, images=14), compare_leanings),
    "crossed": (
        crossed_design(THREE),
        crossed_embeddings(crossed_design(THREE)),
        replace(crossed_embeddings(crossed_design(THREE), seed=3), encoder="e0"),
        compare_intersections,
    ),
}


@cache
def between(study, counts=None, *, paired=False, turned=False):
    """Differences of two runs of which the last pictures are missing, so many of each target: (first, second)."""
    of, *runs, compare = COMPARED[study]
    counts, alone = counts or (0, 0), None
    there = [[x[: len(x) - n] for x in run.target_images] for run, n in zip(runs, counts, strict=True)]
    if paired:
        both = [[x[: len(x) - max(counts)] for x in run.target_images] for run in runs]
        rest = [
            [x[len(b) :] for x, b in zip(own, of_both, strict=True)] for own, of_both in zip(there, both, strict=True)
        ]
        alone = tuple([replace(run, target_images=tuple(x))] for run, x in zip(runs, rest, strict=True))
        there = both
    first, second = ([replace(run, target_images=tuple(x))] for run, x in zip(runs, there, strict=True))
    lost = [[n] * len(of.targets) for n in counts]
    if turned:
        first, second, lost, alone = second, first, lost[::-1], alone and alone[::-1]
    options = {"n_resamples": 50} if study == "leaning" else {}
    plain = compare(first, second, of, paired=paired, **options)
    return plain, compare(first, second, of, paired=paired, missing=MissingPictures(tuple(lost), alone), **options)


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("study", COMPARED)
def test_bounds_of_a_difference_hold_its_interval_and_change_nothing_else(study, paired):
    plain, rows = between(study, (1, 3), paired=paired)
    bare = [replace(row, n_missing=0, bound_low=np.nan, bound_high=np.nan, depends_on="") for row in rows]
    assert list(map(repr, bare)) == list(map(repr, plain))
    bounded = [row for row in rows if np.isfinite(row.bound_low)]
    assert {row.component for row in rows} - {row.component for row in bounded} <= {"itp"}
    assert all(row.bound_low <= row.low <= row.high <= row.bound_high and row.n_missing == 4 for row in bounded
               if row.component != "magnitude")  # fmt: skip
    assert not any(row.n_missing for row in rows if row.component == "itp")


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("study", COMPARED)
def test_two_runs_without_missing_pictures_have_the_rows_that_they_had(study, paired):
    plain, rows = between(study, (0, 0), paired=paired)
    assert list(map(repr, rows)) == list(map(repr, plain))


@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("study", COMPARED)
def test_bounds_are_mirrored_where_the_runs_change_places(study, paired):
    rows, back = between(study, (1, 3), paired=paired)[1], between(study, (1, 3), paired=paired, turned=True)[1]
    at_images = [i for i, row in enumerate(rows) if np.isfinite(row.bound_low) and row.component != "magnitude"]
    assert [rows[i].bound_low for i in at_images] == pytest.approx([-back[i].bound_high for i in at_images], abs=1e-9)
    assert [rows[i].depends_on for i in at_images] == [back[i].depends_on for i in at_images]


OF_GROUPS = {"man": 7, "woman": 2}


def bare_of(rows):
    return [
        repr(replace(row, n_missing=0, n_missing_attributes=0, bound_low=np.nan, bound_high=np.nan, depends_on=""))
        for row in rows
    ]


def test_missing_pictures_of_groups_bound_what_rests_on_them_and_change_nothing_else():
    encoder, of = embeddings("e", images=12), design(margin=0.2)
    whole, part = (mcas_study([encoder], d, **OPTIONS) for d in (of, replace(of, missing_attributes=OF_GROUPS)))
    assert bare_of(part) == bare_of(whole)
    for row in rows_of(part, "ii", "itp", "image_part", "text_part", "mcas"):
        assert row.n_missing_attributes == 9
        assert row.bound_low < row.low <= row.high < row.bound_high
    for row in rows_of(part, "ita", "tt"):
        assert row.n_missing_attributes == 0
        assert np.isnan(row.bound_low)
    assert MISSING in {row.depends_on for row in rows_of(part, "image_part")}


@pytest.mark.thorough
def test_bounds_of_groups_are_mirrored_with_them_and_wider_with_more():
    encoder = embeddings("e", images=12)

    def ends(of, lost):
        rows = rows_of(mcas_study([encoder], replace(of, missing_attributes=lost), **OPTIONS), "image_part", "itp")
        return np.array([(row.bound_low, row.bound_high) for row in rows])

    of = design()
    np.testing.assert_allclose(ends(of, OF_GROUPS), -ends(replace(of, a=of.b, b=of.a), OF_GROUPS)[:, ::-1], atol=1e-8)
    widths = [np.diff(ends(of, {"man": n})) for n in (1, 5, 27)]
    assert (np.diff(widths, axis=0) > 0).all()


@pytest.mark.parametrize("component", ["ii", "itp", "image_part", "mcas"])
def test_the_farthest_that_pictures_of_a_group_may_move_a_target_is_where_they_are_all_the_extreme_one(component):
    """One target and group at a time: the missing pictures are put there, each a copy of the one that is farthest."""
    encoder, of = embeddings("e", images=12), design()
    study = StudySetup(of, layout_of([encoder], of), ResamplingSettings(1, 0, 0, 0.95))
    view = linear_views([encoder], study).mean
    weights = pair_weights(study, COMPONENTS[component], *study.pair)
    shifts = attribute_shifts(study, view, weights, {"woman": 5})
    point = contrast_tests(study, view, weights).images.value
    everyone = [x for prompts in encoder.group_images.values() for prompt in prompts for x in prompt]
    for t in (0, 3):
        moved = []
        for picture in everyone:
            first, *rest = encoder.group_images["woman"]
            more = {**encoder.group_images, "woman": (np.concatenate([first, [picture] * 5]), *rest)}
            other = replace(encoder, group_images=more)
            of_more = StudySetup(of, layout_of([other], of), study.settings)
            tests = contrast_tests(of_more, linear_views([other], of_more).mean, weights)
            moved.append(tests.images.value[t] - point[t])
        assert (min(moved), max(moved)) == pytest.approx(shifts[:, t], abs=1e-9)


def test_cells_and_axes_have_bounds_for_missing_pictures_of_cells():
    of, lost = crossed_design(THREE), {}
    for group in of.groups[:2]:
        lost[group] = 4
    rows, plain = (
        crossed_study([crossed_embeddings(of)], d) for d in (replace(of, missing_attributes=lost), of)
    )  # fmt: skip
    assert bare_of(rows) == bare_of(plain)
    judged = [row for row in rows if row.verdict and not row.component.startswith("interaction")]
    assert judged
    assert all(row.bound_low < row.low and row.n_missing_attributes == 8 for row in judged)


@pytest.mark.thorough
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("study", COMPARED)
def test_missing_pictures_of_groups_bound_differences_both_ways(study, paired):
    of, first, second, compare = COMPARED[study]
    none, options = [0] * len(of.targets), {"n_resamples": 50} if study == "leaning" else {}
    lost = {of.groups[0]: 3}, {of.groups[0]: 1, of.groups[1]: 2}
    plain = compare([first], [second], of, paired=paired, **options)
    rows, back = (
        compare(*runs, of, paired=paired, missing=MissingPictures((none, none), attributes=by_run), **options)
        for runs, by_run in ((([first], [second]), lost), (([second], [first]), lost[::-1]))
    )
    assert bare_of(rows) == bare_of(plain)
    for row, other in zip(rows, back, strict=True):
        if row.component == "ita":
            assert (row.n_missing_attributes, np.isnan(row.bound_low)) == (0, True)
        elif np.isfinite(row.low):
            assert row.n_missing_attributes == 6
            assert row.bound_low < row.low <= row.high < row.bound_high
            if row.component != "magnitude":
                assert row.bound_low == pytest.approx(-other.bound_high, abs=1e-9)


@pytest.mark.thorough
def test_a_filter_of_a_group_s_own_pictures_makes_no_verdict_without_a_qualifier():
    """Such a filter moves the groups' middle, so nothing leans against both zeros, and nothing without saying so."""
    some, bare = sim.a_filter_of_attributes(8, 0.4, 60, "of both")
    assert (some.rate, bare.rate) == (0, 0)


@pytest.mark.parametrize("paired", [False, True])
def test_a_difference_with_its_missing_pictures_back_lies_within_the_bounds(paired):
    """The pictures that were taken away are known here; they score between the groups' own, as these are the poles."""
    whole, rows = between("leaning")[0], between("leaning", (2, 4), paired=paired)[1]
    for before, row in zip(whole, rows, strict=True):
        if row.component == "image_part" and row.encoder == "mean":
            assert row.bound_low <= before.value <= row.bound_high


def test_the_difference_of_magnitudes_is_moved_as_far_as_each_target_may_lean_more_or_less():
    rows = {n: between("leaning", (0, n))[1][-1] for n in (1, 4)}
    assert all(row.bound_low <= row.low <= row.high <= row.bound_high for row in rows.values())
    assert rows[4].bound_high - rows[4].bound_low > rows[1].bound_high - rows[1].bound_low


def test_what_is_missing_of_runs_drawn_until_decided_moves_the_ends_of_the_sequence():
    of, first, second = design(), *(embeddings("e0", images=60, leanings=x) for x in ([0.0] * 6, [1.5, *[0.0] * 5]))
    alone = [replace(first, target_images=tuple(x[:1] for x in first.target_images))], [
        replace(second, target_images=tuple(x[:0] for x in second.target_images))
    ]  # fmt: skip

    def judged(n):
        missing = MissingPictures(([0] * 6, [n] * 6), alone if n else None)
        rows = compare_leanings([first], [second], of, paired=True, until_decided=True, n_resamples=50, missing=missing)
        return [row for row in rows if (row.component, row.encoder) == ("image_part", "mean")]

    for plain, row in zip(judged(0), judged(1), strict=True):
        assert (row.low, row.high, row.verdict) == (plain.low, plain.high, plain.verdict)
        assert row.bound_low <= row.low <= row.high <= row.bound_high
    assert judged(1)[0].verdict == Verdict.MORE


def row(verdict, side="", low=-1.0, high=1.0, **fields):
    return Score(metric="mcas", component="mcas", value=0.5, low=low, high=high, verdict=verdict, side=side, **fields)


@pytest.mark.parametrize(
    ("own", "filled", "depends"),
    [
        (row(Verdict.LEANS, "a", n_missing=1), row(Verdict.LEANS_SLIGHTLY, "a"), ""),
        (row(Verdict.LEANS, "a", n_missing=1), row(Verdict.LEANS, "b"), MISSING),
        (row(Verdict.LEANS, "a", n_missing=1), row(Verdict.UNDECIDED), MISSING),
        (row(Verdict.BALANCED, n_missing=1), row(Verdict.UNDECIDED), MISSING),
        (row(Verdict.UNDECIDED, n_missing=1), row(Verdict.LEANS, "a"), ""),
        (row(Verdict.TOO_FEW, n_missing=1), row(Verdict.LEANS, "a"), ""),
        (row(Verdict.LEANS, "a"), row(Verdict.LEANS, "b"), ""),
    ],
)
def test_a_verdict_depends_on_what_would_change_it(own, filled, depends):
    (held,) = with_bounds([own], {MISSING: [[own], [filled]]})
    assert held.depends_on == depends


@pytest.mark.thorough
def test_a_filter_makes_no_verdict_without_a_qualifier():
    some, bare = sim.a_filter(12, 0.4, 12, 60)
    assert some.rate >= 0.5
    assert bare.rate <= 0.1


@pytest.mark.thorough
def test_a_model_that_knows_few_of_one_group_leans_only_if_each_counts_once():
    each, once, bare = sim.few_known(6, (50, 5), 0.5, 60)
    assert (each.rate, once.rate, bare.rate) == (0, 1, 0)


def test_what_qualifies_a_verdict_of_repeats_is_the_mean_over_all_as_drawn():
    encoder = embeddings("e", images=20, noise=0.05)
    drawn = tuple(np.r_[200, np.ones(len(x) - 1, int)] for x in encoder.target_images)
    rows = mcas_study([replace(encoder, target_copies=drawn)], design(), **OPTIONS)
    assert {row.n_repeated for row in rows_of(rows, *IMAGED)} == {199}
    assert all(np.isfinite(row.bound_low) for row in rows_of(rows, *IMAGED))
    assert {row.depends_on for row in rows_of(rows, "image_part")} <= {"", REPEATS}


def test_what_a_group_s_own_images_score_is_the_mean_of_all_cosines_but_those_with_themselves():
    encoder, of = embeddings("e", attribute_images=7), design()
    scores = group_scores(encoder, layout_of([encoder], of))
    images = {g: [unit(x) for x in prompts] for g, prompts in encoder.group_images.items()}
    for own, group in zip(scores, of.groups, strict=True):
        for h, other in enumerate(of.groups):
            held = []
            for p, prompt in enumerate(images[group]):
                for i, image in enumerate(prompt):
                    cosines = [x @ image for x in images[other]]
                    if other == group:
                        cosines[p][i] = np.delete(cosines[p], i).mean()
                    held.append(np.concatenate(cosines).mean())
            np.testing.assert_allclose(own[:, 0, h], held)
            words = np.concatenate(images[group]) @ unit(encoder.group_words[other]).T
            np.testing.assert_allclose(own[:, 1, h], words.mean(axis=1))


@pytest.mark.thorough
def test_pictures_halfway_are_told_and_two_clean_kinds_are_not():
    clean, mixed = sim.third_kind(8, 0.0, 0, 20)[0], sim.third_kind(8, 0.4, 0, 20)[0]
    assert clean.rate <= 0.03
    assert mixed.rate >= 0.6


def test_where_the_groups_overlap_nothing_is_told_to_lie_between():
    rng = np.random.default_rng(0)
    rows = sim.picture_rows(POPULATIONS[2].draw(rng, np.full(3, 0.5), 12), design_of(3))
    between = [row for row in rows if row.component == "between"]
    assert all(np.isnan(row.value) and "do not lie apart" in row.reason for row in between)


def test_associations_have_bounds_for_neutral_pictures_that_are_missing():
    encoder = replace(t2iat_embeddings(n=14), neutral={
        name: x[:11] if order == 0 else x for order, (name, x) in enumerate(t2iat_embeddings(n=14).neutral.items())
    })  # fmt: skip
    short = next(iter(encoder.neutral))
    plain, rows = (
        t2iat_study([encoder], of, n_resamples=60, seed=0).scores for of in (T2IAT, replace(T2IAT, missing={short: 3}))
    )
    bare = [replace(row, n_missing=0, bound_low=np.nan, bound_high=np.nan, depends_on="") for row in rows]
    assert list(map(repr, bare)) == list(map(repr, plain))
    bounded = [row for row in rows if np.isfinite(row.bound_low)]
    assert {(row.metric, row.component) for row in bounded} == {
        ("t2iat", "differential_association"), ("t2iat", "effect_size"), ("association", "mean")
    }  # fmt: skip
    for row in bounded:
        low, high = (row.stimulus_low, row.stimulus_high) if row.metric == "t2iat" else (row.low, row.high)
        assert row.n_missing == 3
        assert row.bound_low <= low <= high <= row.bound_high


def test_associations_have_bounds_for_missing_pictures_with_an_attribute_and_tests_say_that_they_have_none():
    encoder = t2iat_embeddings(n=14)
    short = next(iter(encoder.neutral))
    lost = replace(T2IAT, missing_attributes={(short, T2IAT.a): 2, (short, T2IAT.b): 1})
    plain, rows = (t2iat_study([encoder], of, n_resamples=60, seed=0).scores for of in (T2IAT, lost))
    for before, row in zip(plain, rows, strict=True):
        assert bare_of([replace(row, reason="")]) == bare_of([replace(before, reason="")])
    bounded = [row for row in rows if np.isfinite(row.bound_low)]
    assert {(row.component, row.concept, row.n_missing_attributes) for row in bounded} == {("mean", short, 3)}
    assert all(row.bound_low < row.low <= row.high < row.bound_high for row in bounded)
    tests = [row for row in rows if row.metric == "t2iat" and np.isfinite(row.value)]
    named = [row for row in tests if "no bounds for the 3 missing pictures with an attribute" in row.reason]
    assert {row.component for row in named} == {"differential_association", "effect_size"}
    compared = compare_t2iat([encoder], [t2iat_embeddings(1, n=14)], lost, paired=False, n_resamples=60)
    told = {row.component for row in compared if "with an attribute" in row.reason}
    assert told >= {"differential_association", "effect_size", "association", "magnitude"}


def test_an_association_moves_as_far_as_the_farthest_picture_with_its_attribute_moves_it():
    encoder = t2iat_embeddings(n=8)
    short = next(iter(encoder.neutral))
    a, b = (encoder.attribute[short, group] for group in (T2IAT.a, T2IAT.b))
    (shifts,) = (
        measured_stimulus(stimulus_cosines(encoder, short, T2IAT.a, T2IAT.b), of, short).shifts
        for of in [replace(T2IAT, missing_attributes={(short, T2IAT.b): 4})]
    )

    def association(more):
        other = replace(encoder, attribute={**encoder.attribute, (short, T2IAT.b): np.concatenate([b, more])})
        return stimulus_cosines(other, short, T2IAT.a, T2IAT.b).associations.mean()

    ends = [association([picture] * 4) - association(b[:0]) for picture in np.concatenate([a, b])]
    assert (min(ends), max(ends)) == pytest.approx(tuple(shifts), abs=1e-9)


def test_an_association_that_missing_pictures_might_undo_depends_on_them():
    encoder = t2iat_embeddings(n=14)
    of = replace(T2IAT, missing=dict.fromkeys(encoder.neutral, 400))
    rows = t2iat_study([encoder], of, n_resamples=60, seed=0).scores
    leaning = [row for row in rows if row.verdict == "leans" and row.metric == "association"]
    assert leaning
    assert {row.depends_on for row in leaning} == {MISSING}


@pytest.mark.parametrize("paired", [False, True])
def test_differences_of_associations_have_bounds_and_tests_of_prompts_a_reason(paired):
    first, second = t2iat_embeddings(n=12), t2iat_embeddings(1, n=12, lean=0.2)
    short = next(iter(first.neutral))
    plain, rows = (
        compare_t2iat([first], [second], T2IAT, paired=paired, n_resamples=60, missing=missing)
        for missing in (({}, {}), ({}, {short: 3}))
    )
    for before, row in zip(plain, rows, strict=True):
        assert repr((before.value, before.low, before.high, before.p, before.verdict, before.n_target)) == repr(
            (row.value, row.low, row.high, row.p, row.verdict, row.n_target)
        )
    bounded = [row for row in rows if np.isfinite(row.bound_low)]
    assert {(row.component, row.concept, row.n_missing) for row in bounded} == {("association", short, 3)}
    assert all(row.bound_low <= row.low <= row.high <= row.bound_high for row in bounded)
    others = [row for row in rows if row.component in ("differential_association", "effect_size", "magnitude")]
    assert {row.component for row in others} >= {"differential_association", "effect_size", "magnitude"}
    assert all("no bounds for the 3 missing pictures" in row.reason for row in others)
