"""Two runs of crossed axes beside each other: algebra, a slow oracle, the level, and the reader of each axis."""

from __future__ import annotations

from dataclasses import replace
from math import isnan

import numpy as np
import pytest
from scipy import stats

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.verdict import ReasonCode, Verdict
from clinometer.studies.leaning import EncoderEmbeddings
from clinometer.studies.leaning.scores.differences import compare_intersections
from clinometer.studies.leaning.scores.encoder_check import checks_of, pair_of_levels, reader_checks
from tests.raising import raises
from tests.studies.leaning.crossed import THREE, TWO, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import mcas_study

DIM = 12


def readable(design, *, seed=0, unread=(), shift=0.0, images=12):
    """Each level has a direction that images and words share, but for axes ``unread``; targets move by ``shift``."""
    rng, fixed = np.random.default_rng(seed), np.random.default_rng(99)
    towards = {}
    for k, levels in enumerate(design.axes.values()):
        for level, x in zip(levels, np.linspace(1, -1, len(levels)), strict=True):
            towards[level] = x * np.eye(DIM)[k] * (0.0 if list(design.axes)[k] in unread else 1.0)
    base = 2 * np.eye(DIM)[-1]
    words = {
        g: base + sum(towards[x] for x in design.cells[g]) + 0.2 * fixed.normal(size=(8, DIM)) for g in design.groups
    }

    def around(centre, n):
        return centre + 0.2 * rng.normal(size=(n, DIM))

    first = towards[next(iter(design.axes.values()))[0]]
    return EncoderEmbeddings(
        encoder="clip",
        target_images=tuple(around(base + shift * first, images) for _ in design.targets),
        target_texts=np.stack([base + np.eye(DIM)[3]] * len(design.targets)),
        group_images={g: tuple(around(base + sum(towards[x] for x in design.cells[g]), 5) for _ in range(3))
                      for g in design.groups},
        group_words=words,
    )  # fmt: skip


def keyed(rows):
    return {(row.encoder, row.component, row.group, row.concept): row for row in rows}


@pytest.mark.parametrize("paired", [True, False])
def test_values_are_the_differences_of_the_studies(paired):
    design = crossed_design(THREE)
    runs = [crossed_embeddings(design, seed=0), replace(crossed_embeddings(design, seed=1), encoder="e0")]
    rows = keyed(compare_intersections([runs[0]], [runs[1]], design, paired=paired))
    single = [keyed(row for row in mcas_study([run], design) if not row.setting) for run in runs]
    assert {component for _, component, *_ in rows} == {
        "axis:gender",
        "axis:tone",
        *(f"cell:{g}" for g in design.groups),
    }
    for key, row in rows.items():
        assert row.value == pytest.approx(single[1][key].value - single[0][key].value)
        p = row.p_zero if row.p_zero == row.p_zero else row.p
        assert (p < 0.05) == (row.low > 0 or row.high < 0)


def test_exchanging_the_runs_negates_and_a_run_beside_itself_differs_by_nothing():
    design = crossed_design()
    one, other = crossed_embeddings(design, seed=0), replace(crossed_embeddings(design, seed=1), encoder="e0")
    for paired in (True, False):
        forth, back = (
            keyed(compare_intersections([x], [y], design, paired=paired)) for x, y in ((one, other), (other, one))
        )
        for key, row in forth.items():
            assert (back[key].value, back[key].low, back[key].high) == pytest.approx((-row.value, -row.high, -row.low))
            assert back[key].p == pytest.approx(row.p)
    for row in compare_intersections([one], [one], design, paired=True):
        assert (row.value, row.low, row.high, row.p) == (0, 0, 0, 1)


def test_few_targets_in_pairs_are_a_paired_t_test_plus_the_attribute_images():
    """Of attribute images that are the same in both runs nothing is left but the paired t of the images' scores."""
    design = crossed_design()
    one = crossed_embeddings(design, attribute=400)
    rng = np.random.default_rng(4)
    other = replace(one, target_images=tuple(x + 0.3 * rng.normal(size=x.shape) for x in one.target_images))
    row = keyed(compare_intersections([one], [other], design, paired=True))["mean", "axis:gender", "man", "t0"]

    def unit(x):
        return x / np.linalg.norm(x, axis=1, keepdims=True)

    towards = 0.0
    for group in design.groups:
        mean = unit(np.concatenate(one.group_images[group])).mean(0) + unit(one.group_words[group]).mean(0)
        towards = towards + (1 if design.cells[group][0] == "man" else -1) * mean / 2
    scores = [unit(run.target_images[0]) @ towards for run in (one, other)]
    assert row.value == pytest.approx(np.mean(scores[1] - scores[0]))
    # few targets keep their own variance; what the attribute images add to it is next to nothing here
    assert row.p == pytest.approx(stats.ttest_rel(*scores[::-1]).pvalue, rel=0.05)


def test_what_moved_is_found_on_its_axis_and_not_on_the_other():
    design = crossed_design(margin=0.02)
    rows = compare_intersections([readable(design)], [readable(design, seed=1, shift=0.8)], design, paired=False)
    verdicts = {(row.component, row.verdict, row.side) for row in rows if row.verdict and row.component[:4] == "axis"}
    assert ("axis:gender", Verdict.MORE, "man") in verdicts
    assert not [each for each in verdicts if each[:2] == ("axis:tone", Verdict.MORE)]
    cells = {(row.group, row.side) for row in rows if row.verdict == Verdict.MORE and row.component.startswith("cell")}
    assert {(g, "others" if "woman" in g else g) for g in design.groups} == cells


@pytest.mark.thorough
def test_equal_runs_are_called_different_as_seldom_as_they_may_be():
    design, p, said = crossed_design(targets=8), [], 0
    for study in range(20):
        runs = [replace(readable(design, seed=2 * study + k), encoder="clip") for k in range(2)]
        rows = [
            row for row in compare_intersections([runs[0]], [runs[1]], design, paired=False) if row.encoder == "mean"
        ]
        p += [row.p for row in rows if row.component == "axis:gender"]
        said += any(row.verdict == Verdict.MORE for row in rows if row.component == "axis:gender")
    assert np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / len(p))
    assert said <= 4  # 20 runs at 6 %, and three standard errors


def test_an_axis_that_is_not_read_has_no_verdict_and_the_other_keeps_its_own():
    design = crossed_design(margin=0.02)
    encoder = readable(design, unread=("tone",), shift=0.8)
    rows = mcas_study([encoder], design)
    of = {name: [row for row in rows if row.component == name and row.verdict] for name in ("axis:gender", "axis:tone")}
    assert {row.verdict for row in of["axis:gender"]} == {Verdict.LEANS}
    others = [*of["axis:tone"], *(row for row in rows if row.verdict and row.component[:4] in ("cell", "inte"))]
    assert {(row.verdict, row.reason_code) for row in others} == {(Verdict.NOT_MEASURED, ReasonCode.READER)}
    assert all("'light'" in row.reason for row in others)
    flags = {row.setting: row.flag for row in rows if (row.component, row.encoder) == ("informedness", "mean")}
    assert flags == {"axis:gender": "", "axis:tone": "cannot read"}
    compared = compare_intersections([encoder], [readable(design, seed=1)], design, paired=False)
    tone = {(row.verdict, row.reason[:18]) for row in compared if row.component == "axis:tone" and row.verdict}
    assert tone == {(Verdict.NOT_MEASURED, "in the first run, ")}


def test_the_check_of_an_axis_is_that_of_its_levels_as_two_groups():
    design = crossed_design(THREE)
    encoder = readable(design)
    checks = checks_of([encoder], design)
    assert [(each.axis, each.level) for each in checks] == [
        ("gender", "man"), ("tone", "light"), ("tone", "medium"), ("tone", "dark")
    ]  # fmt: skip
    pooled = replace(
        encoder,
        group_images={g: tuple(x for n in design.groups if design.cells[n][0] == g for x in encoder.group_images[n])
                      for g in ("man", "woman")},
        group_words={g: np.concatenate([encoder.group_words[n] for n in design.groups if design.cells[n][0] == g])
                     for g in ("man", "woman")},
        group_texts=None,
    )  # fmt: skip
    expected = reader_checks([pooled], pair_of_levels(design, "gender", "man"))["mean"]
    assert checks[0].by_view["mean"] == expected
    assert expected.reads


def test_prompts_of_two_levels_are_matched_where_they_differ_in_nothing_else():
    pairs = dict.fromkeys(crossed_design(TWO).groups, ("young", "old"))
    found = pair_of_levels(crossed_design(TWO, pairs=pairs), "gender", "man")
    assert set(found.pairs["man"]) == {"young light", "old light", "young dark", "old dark"}
    assert set(found.pairs["man"]) == set(found.pairs["woman"])
    assert not pair_of_levels(crossed_design(TWO), "gender", "man").pairs


def test_what_cannot_be_compared_is_refused_or_says_why():
    design = crossed_design()
    one, other = crossed_embeddings(design), crossed_embeddings(design, seed=1)
    with raises(InvalidInputError, code=Code.MISMATCH, field="encoders"):
        compare_intersections([one], [other], design, paired=True)
    fewer = replace(one, target_images=(one.target_images[0][:3], *one.target_images[1:]))
    with raises(InvalidInputError, code=Code.MISMATCH, field="paired"):
        compare_intersections([one], [fewer], design, paired=True)
    none = replace(one, target_images=(one.target_images[0][:0], *one.target_images[1:]))
    row = keyed(compare_intersections([one], [none], design, paired=False))["mean", "axis:gender", "man", "t0"]
    assert isnan(row.value)
    assert row.reason.startswith("one of the runs has no such number")
    group = design.groups[0]
    cut = replace(
        one, group_images=one.group_images | {group: (one.group_images[group][0], one.group_images[group][1][:0])}
    )
    row = keyed(compare_intersections([one], [cut], design, paired=False))["e0", "axis:gender", "man", "t0"]
    assert f"1 of {group}" in row.reason
