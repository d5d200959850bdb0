"""Axes, cells and interactions: algebra first, then slow oracles, then examples."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from math import isfinite, isnan

import numpy as np
import pytest
from scipy.stats import f as fisher

from clinometer.errors import Code, InvalidInputError
from clinometer.metrics import Score
from clinometer.metrics.verdict import OTHERS, ReasonCode
from clinometer.studies.leaning import Design, TargetDesign
from clinometer.studies.leaning.scores.axes import effects_of, joint_inference, joint_tests
from clinometer.studies.leaning.scores.contrasts import contrast_weights, difference_contrast
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.views import linear_views
from tests.raising import raises
from tests.studies.leaning.crossed import THREE, TWO, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import mcas_study

EIGHT = {"gender": ("man", "woman"), "tone": ("light", "dark"), "age": ("young", "old")}


def rows_of(design, *embeddings, **options) -> dict[tuple[str, str, str, str, str], Score]:
    rows = mcas_study(list(embeddings), design, **options)
    return {(row.encoder, row.component, row.group, row.concept, row.setting): row for row in rows}


@pytest.mark.parametrize("axes", [TWO, THREE, EIGHT])
def test_the_parts_of_a_cell_add_up_to_its_deviation(axes):
    design = crossed_design(axes)
    *parts, cells = effects_of(design)
    ranks = [effect.rank for effect in parts]
    assert sum(ranks) == cells.rank == len(design.groups) - 1
    spans = [effect.basis.T @ effect.basis for effect in parts]
    np.testing.assert_allclose(sum(spans), cells.weights, atol=1e-12)  # Σ_S P_S = I − J/G
    for effect in (*parts, cells):
        np.testing.assert_allclose(effect.weights.sum(axis=1), 0, atol=1e-12)
        assert np.linalg.matrix_rank(effect.weights) == min(effect.rank, len(effect.weights))


def test_an_axis_says_nothing_of_the_others():
    """A profile that lies along one axis alone is 0 in every other effect, in whatever order the groups stand."""
    design = crossed_design(THREE)
    shuffled = replace(design, groups=design.groups[::-1])
    for each in (design, shuffled):
        along = np.array([{"light": 2.0, "medium": -3.0, "dark": 1.0}[each.cells[g][1]] for g in each.groups])
        found = {effect.component: effect.weights @ along for effect in effects_of(each)}
        np.testing.assert_allclose(found["axis:tone"], [2, -3, 1])
        np.testing.assert_allclose(found["axis:gender"], 0, atol=1e-12)
        np.testing.assert_allclose(found["interaction:gender×tone"], 0, atol=1e-12)


def test_turning_the_levels_of_an_axis_negates_it_and_leaves_the_others_alone():
    design, embeddings = crossed_design(), crossed_embeddings(crossed_design())
    turned = replace(design, axes={"gender": ("woman", "man"), "tone": ("light", "dark")})
    before, after = rows_of(design, embeddings), rows_of(turned, embeddings)
    for t in design.targets:
        one, other = before["mean", "axis:gender", "man", t.name, ""], after["mean", "axis:gender", "woman", t.name, ""]
        assert (other.value, other.low, other.high) == pytest.approx((-one.value, -one.high, -one.low))
        assert other.p == pytest.approx(one.p)
        same = [rows["mean", "axis:tone", "light", t.name, ""] for rows in (before, after)]
        assert same[0].value == pytest.approx(same[1].value)
        excess = [next(r for k, r in rows.items() if k[1].startswith("interaction") and k[3] == t.name)
                  for rows in (before, after)]  # fmt: skip
        assert excess[0].value == pytest.approx(-excess[1].value)  # another first cell


def test_rotating_and_scaling_the_embeddings_changes_nothing():
    design, embeddings = crossed_design(), crossed_embeddings(crossed_design())
    turn = 3 * np.linalg.qr(np.random.default_rng(1).normal(size=(10, 10)))[0]
    turned = replace(
        embeddings,
        target_images=tuple(x @ turn for x in embeddings.target_images),
        target_texts=embeddings.target_texts @ turn,
        group_images={g: tuple(x @ turn for x in xs) for g, xs in embeddings.group_images.items()},
        group_words={g: x @ turn for g, x in embeddings.group_words.items()},
    )
    for one, other in zip(mcas_study([embeddings], design), mcas_study([turned], design), strict=True):
        assert (one.value, one.low, one.p) == pytest.approx((other.value, other.low, other.p), nan_ok=True, abs=1e-9)


def test_values_are_those_of_a_slow_oracle():
    """Every cosine one by one: an axis, a cell, and the components that an axis and MCAS along it are the sums of."""
    design, embeddings = crossed_design(), crossed_embeddings(crossed_design())
    rows = rows_of(design, embeddings)

    def cosine(x, y):
        return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))

    def mean(xs, ys):
        return np.mean([cosine(x, y) for x in xs for y in ys])

    for t, target in enumerate(design.targets[:2]):
        own, text = embeddings.target_images[t], embeddings.target_texts[t][None]
        c = {}
        for group in design.groups:
            drawn, words = np.concatenate(embeddings.group_images[group]), embeddings.group_words[group]
            c[group] = np.array([mean(own, drawn), mean(text, drawn), mean(own, words), mean(text, words)])
        gender = (c["light man"] + c["dark man"] - c["light woman"] - c["dark woman"]) / 2
        parts = [rows["mean", "axis:gender", "man", target.name, m].value for m in ("ii", "itp", "ita", "tt")]
        np.testing.assert_allclose(parts, gender)
        for setting, value in (("", gender[[0, 2]].sum()), ("text_part", gender[[1, 3]].sum()), ("mcas", gender.sum())):
            assert rows["mean", "axis:gender", "man", target.name, setting].value == pytest.approx(value)
        pictures = {group: x[0] + x[2] for group, x in c.items()}
        for group, own in pictures.items():
            value = own - np.mean(list(pictures.values()))
            assert rows["mean", f"cell:{group}", group, target.name, ""].value == pytest.approx(value)


def test_p_is_dual_to_the_interval():
    design = crossed_design(targets=40)
    rows = mcas_study([crossed_embeddings(design)], design)
    single = [row for row in rows if row.group and isfinite(row.p)]
    assert {row.p < 0.05 for row in single} == {True, False}
    for row in single:
        assert ((row.p_zero if isfinite(row.middle) else row.p) < 0.05) == (not row.low <= 0 <= row.high)
        assert (row.p_middle < 0.05) == (not row.from_middle_low <= 0 <= row.from_middle_high or isnan(row.middle)) & (
            isfinite(row.middle)
        )


def test_the_joint_test_of_one_contrast_is_nearly_its_own_test():
    """Both moderate the variance; the single test also lets it follow the hypothesis."""
    design = crossed_design(targets=12)
    embeddings = crossed_embeddings(design)
    study = StudySetup(design, layout_of([embeddings], design), ResamplingSettings(1, 0, 0, 0.95))
    view = linear_views([embeddings], study).mean
    effect = effects_of(design)[0]
    single = difference_contrast(study, view, contrast_weights(("ii", "ita"), effect.weights[0]))
    joint = joint_tests(study, view, effect.basis)
    np.testing.assert_allclose(joint.p, single.p_value, rtol=0.1)


def test_the_joint_test_does_not_depend_on_the_basis():
    rng = np.random.default_rng(0)
    scores, mix = [rng.normal(size=(15, 3)) for _ in range(1)], np.array([[1, 2, 0], [0, 1, 0], [3, 0, 1.0]])
    nothing = np.zeros((1, 3, 3))
    one = joint_inference(scores, scores[0].mean(axis=0)[None], nothing, np.inf, 0.95)
    other_scores = [x @ mix for x in scores]
    other = joint_inference(other_scores, other_scores[0].mean(axis=0)[None], nothing, np.inf, 0.95)
    np.testing.assert_allclose(one.p, other.p)
    t2 = 15 * scores[0].mean(axis=0) @ np.linalg.solve(np.cov(scores[0], rowvar=False), scores[0].mean(axis=0))
    np.testing.assert_allclose(one.p, fisher.sf(t2 * 12 / (14 * 3), 3, 12))  # Hotelling's T² of one sample


def test_the_parts_of_the_design_have_the_reasons_they_lack():
    design = crossed_design()
    silent = rows_of(design, crossed_embeddings(design, texts=False))
    row = silent["mean", "axis:gender", "man", "t0", ""]
    assert isnan(row.value)
    assert row.reason == "the encoder reads no text"
    assert isfinite(silent["mean", "axis:gender", "man", "t0", "ii"].value)
    assert isfinite(silent["mean", "interaction:gender×tone", "light man", "t0", ""].value)
    held = crossed_embeddings(design)
    empty = replace(held, target_images=(held.target_images[0][:0], held.target_images[1][:1], *held.target_images[2:]))
    rows = rows_of(design, empty)
    assert rows["mean", "axis:gender", "man", "t0", ""].reason == "no image of the target"
    assert rows["e0", "axis:gender", "man", "t1", ""].reason == "no interval from one image of the target"
    assert rows["mean", "axis:gender", "man", "t1", ""].reason_code == ReasonCode.READER  # made of noise: it reads none
    assert rows["mean", "cells", "", "t1", ""].p != rows["mean", "cells", "", "t1", ""].p
    lost = replace(
        held, group_images={**held.group_images, "dark man": tuple(x[:0] for x in held.group_images["dark man"])}
    )
    rows = rows_of(design, lost)
    assert rows["mean", "axis:gender", "man", "t0", ""].reason == "no image of group 'dark man'; draw or import some"
    assert isnan(rows["mean", "interaction:gender×tone", "light man", "t0", ""].value)


def test_rows_say_why_they_lack_an_interval():
    design = crossed_design(THREE)
    for row in mcas_study([crossed_embeddings(design)], design):
        assert row.reason or all(map(isfinite, (row.value, row.low, row.high, row.stimulus_low, row.stimulus_high)))
        assert isnan(row.p) or row.family


def test_encoders_are_averaged_and_widen_the_stimulus_interval_alone():
    design = crossed_design()
    one = crossed_embeddings(design)
    twin = replace(one, encoder="twin")
    alone, both = rows_of(design, one), rows_of(design, one, twin)
    key = ("mean", "axis:gender", "man", "t0", "")
    assert (both[key].value, both[key].low) == pytest.approx((alone[key].value, alone[key].low))
    other = replace(crossed_embeddings(design, seed=5), encoder="other")
    mixed = rows_of(design, one, other)
    values = [mixed[name, *key[1:]].value for name in ("e0", "other")]
    assert mixed[key].value == pytest.approx(np.mean(values))


def planted(excess: float, seed: int = 0, noise: float = 0.2, images: int = 60):
    """Concepts at parity by axis, the first with levels that go together; cells stand apart in a space of their own."""
    design, rng = crossed_design(targets=8), np.random.default_rng(seed)
    ways = np.eye(10)[:2]
    centres = {g: 3 * np.eye(10)[9] + sum((1 if level in ("man", "light") else -1) * way
               for level, way in zip(design.cells[g], ways, strict=True)) for g in design.groups}  # fmt: skip
    signs = np.array([1 if len({"man", "light"} & set(design.cells[g])) != 1 else -1 for g in design.groups])

    def around(names):
        return np.stack([centres[name] for name in names]) + noise * rng.normal(size=(len(names), 10))

    def drawn(t):
        counts = np.rint((0.25 + excess * signs * (t == 0)) * images).astype(int)
        shuffled = np.random.default_rng(t).permutation(np.repeat(design.groups, counts))  # no order to see
        return around(shuffled)

    base = crossed_embeddings(design)
    return design, replace(
        base, target_images=tuple(map(drawn, range(8))), target_texts=np.tile(3 * np.eye(10)[9], (8, 1)),
        group_images={g: (around([g] * 8), around([g] * 8)) for g in design.groups},
        group_words={g: around([g] * 5) for g in design.groups},
    )  # fmt: skip


def test_what_was_planted_is_found_where_it_was_and_nowhere_else():
    design, embeddings = planted(0.15)
    rows = {k: row for k, row in rows_of(design, embeddings).items() if k[0] == "mean"}
    found = rows["mean", "interaction:gender×tone", "light man", "t0", ""]
    assert found.value == pytest.approx(0.15, abs=0.03)
    assert found.low < 0.15 < found.high
    assert (found.verdict, found.side) == ("leans", "light man")
    others = [row for k, row in rows.items() if k[1].startswith(("axis", "interaction")) and k[3] != "t0" and not k[4]]
    assert {row.verdict for row in others} == {"undecided"}
    assert rows["mean", "axis:gender", "man", "t0", ""].verdict == "undecided"


def test_levels_that_never_go_together_are_negative():
    design, embeddings = planted(-0.15)
    row = rows_of(design, embeddings)["mean", "interaction:gender×tone", "light man", "t0", ""]
    assert row.value == pytest.approx(-0.15, abs=0.03)
    assert (row.verdict, row.side) == ("leans", OTHERS)


def test_no_verdict_names_a_corner_of_a_diagonal():
    """A verdict of an axis names a level of it; one of a cell, that cell alone."""
    design = crossed_design(THREE, targets=30, margin=0.05)
    for row in mcas_study([crossed_embeddings(design)], design):
        if not row.verdict.startswith("leans"):
            continue
        kind, _, name = row.component.partition(":")
        assert kind in ("axis", "cell", "interaction")
        assert row.side in (OTHERS, *(design.axes[name] if kind == "axis" else (row.group,)))


def test_more_levels_have_a_joint_test_and_a_row_each():
    design = crossed_design(THREE)
    rows = rows_of(design, crossed_embeddings(design))
    joint = rows["mean", "axis:tone", "", "t0", ""]
    levels = [rows["mean", "axis:tone", level, "t0", ""].value for level in THREE["tone"]]
    assert sum(levels) == pytest.approx(0, abs=1e-12)
    assert joint.low <= joint.value <= joint.high
    assert joint.null > 0
    assert joint.family == "intersections: axis:tone over 6 targets"
    excess = [rows["mean", "interaction:gender×tone", g, "t0", ""].value for g in design.groups]
    assert sum(excess) == pytest.approx(0, abs=1e-9)
    assert rows["mean", "axis:tone", "dark", "t0", ""].family.endswith("over 6 targets and 3 levels")


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        ({"a": "light man", "b": "dark woman"}, Code.CONFLICT, "'light man', 'dark woman', None"),
        ({"axes": {"gender": ("man", "woman")}}, Code.DUPLICATE, "axes"),
        ({"groups": ("light man", "dark man")}, Code.DUPLICATE, "cells"),
        ({"cells": {}}, Code.DUPLICATE, "cells"),
    ],
)
def test_a_design_that_is_no_product_is_refused(changes, code, message):
    with raises(InvalidInputError, code=code, match=message):
        crossed_design(**changes)


def test_a_design_must_be_complete_and_know_its_levels():
    design = crossed_design()
    short = {g: design.cells[g] for g in design.groups[:3]}
    with raises(InvalidInputError, code=Code.DUPLICATE, match="groups: .*4.*3"):
        replace(design, groups=design.groups[:3], cells=short)
    with raises(InvalidInputError, code=Code.DUPLICATE, match="'dark man' is at man, grey; .*gender, tone"):
        replace(design, cells={**design.cells, "dark man": ("man", "grey")})


def test_a_design_of_two_groups_is_what_it_was():
    plain = Design((TargetDesign("t", "c"),), ("a", "b"), "a", "b")
    assert (plain.axes, plain.cells) == ({}, {})
    with raises(InvalidInputError, code=Code.UNKNOWN_NAME):
        Design((TargetDesign("t", "c"),), ("a", "b"))


@pytest.mark.thorough
def test_more_images_narrow_the_interval():
    design = crossed_design()
    embeddings = crossed_embeddings(design, images=80, attribute=40)
    widths = []
    for n in (10, 20, 40, 80):
        fewer = replace(embeddings, target_images=tuple(x[:n] for x in embeddings.target_images))
        row = rows_of(design, fewer)["mean", "axis:gender", "man", "t0", "ita"]
        widths.append(row.high - row.low)
    assert all(wide > narrow for wide, narrow in pairwise(widths))
