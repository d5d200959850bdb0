"""Where zero is: the groups' middle by slow loops, its influences, and verdicts that are compared with both zeros."""

from __future__ import annotations

from dataclasses import replace
from math import inf, isfinite, isnan, nan

import numpy as np
import pytest

from clinometer.metrics import Score
from clinometer.metrics.mcas import COMPONENTS
from clinometer.metrics.verdict import ReasonCode, Verdict, judge_family, withheld_by_shares
from clinometer.report.view import scores_table
from clinometer.studies.leaning import Design, EncoderEmbeddings, crossed_study
from clinometer.studies.leaning.scores.contrasts import II, contrast_tests, pair_weights
from clinometer.studies.leaning.scores.design import ResamplingSettings, StudySetup, layout_of
from clinometer.studies.leaning.scores.middle import attribute_influences, from_middle, middles_of, mixture_of
from clinometer.studies.leaning.scores.views import EncoderView, linear_views
from clinometer.studies.leaning.study import LEANING
from tests.studies.leaning.crossed import THREE, crossed_design, crossed_embeddings
from tests.studies.leaning.studies import cosine, design, embeddings, one, study, unit

NAMES = ("ii", "ita", "image_part", "mcas")


def seen(encoder: EncoderEmbeddings, of: Design) -> tuple[StudySetup, EncoderView]:
    """A study of one encoder without replicates, and its view."""
    made = StudySetup(of, layout_of([encoder], of), ResamplingSettings(1, 0, 0, 0.95))
    return made, linear_views([encoder], made).mean


def slow_score(encoder: EncoderEmbeddings, group: str, towards: str, name: str) -> float:
    """Mean cosine of a group's own images to a group; in its own, others of an image's prompt stand for the image."""
    assert encoder.group_words is not None
    if name == "ita":
        images = np.concatenate(encoder.group_images[group])
        return float(np.mean([cosine(x, word) for x in images for word in encoder.group_words[towards]]))
    places = [(k, i) for k, prompt in enumerate(encoder.group_images[towards]) for i in range(len(prompt))]
    own = []
    for k, prompt in enumerate(encoder.group_images[group]):
        for i, x in enumerate(prompt):
            to = {at: cosine(x, encoder.group_images[towards][at[0]][at[1]]) for at in places}
            if group == towards:
                to[k, i] = np.mean([value for at, value in to.items() if at[0] == k and at != (k, i)])
            own.append(np.mean(list(to.values())))
    return float(np.mean(own))


def test_the_middle_is_half_of_either_group_s_own_score():
    encoder = embeddings()
    rows = study(encoder)
    for name in NAMES:
        parts = [part for part in COMPONENTS[name] if part in ("ii", "ita")]
        slow = np.mean([
            sum(slow_score(encoder, g, "man", part) - slow_score(encoder, g, "woman", part) for part in parts)
            for g in ("man", "woman")
        ])  # fmt: skip
        row = one(rows, "middle", name, setting="")
        assert row.value == pytest.approx(slow)
        assert row.low < row.value < row.high
        assert row.stimulus_low <= row.low
    assert one(rows, "middle", "mcas", setting="").value == one(rows, "middle", "image_part").value


def test_the_middle_of_ii_is_half_the_difference_of_squared_lengths_of_means():
    """‖μ‖² over different images of one prompt is unbiased: (‖Σ a‖² − n)/(n (n − 1))."""
    encoder = embeddings(attribute_images=6)
    encoder = replace(encoder, group_images={g: x[:1] for g, x in encoder.group_images.items()}, group_texts=None)
    row = one(study(encoder, of=design(pairs={}, prompts={})), "middle", "ii")
    squares = []
    for group in ("man", "woman"):
        (prompt,) = encoder.group_images[group]
        total = unit(prompt).sum(axis=0)
        squares.append((total @ total - len(prompt)) / (len(prompt) * (len(prompt) - 1)))
    assert row.value == pytest.approx((squares[0] - squares[1]) / 2)


def test_the_middle_changes_sign_with_the_groups_and_not_with_the_targets():
    forth, back = study(), study(of=design(a="woman", b="man"))
    other = study(embeddings(leanings=(1.0, 1.0, 1.0, 1.0, 1.0, 1.0)))
    for name in NAMES:
        value = one(forth, "middle", name, setting="").value
        assert one(back, "middle", name, setting="").value == pytest.approx(-value)
        assert one(other, "middle", name, setting="").value == pytest.approx(value, abs=0.05)
    for t in range(6):
        x, y = (one(rows, "mcas", "image_part", concept=f"target {t}") for rows in (forth, back))
        assert (x.from_middle_low, x.p_middle) == pytest.approx((-y.from_middle_high, y.p_middle))


def test_several_encoders_have_the_mean_of_their_middles():
    rows = study(embeddings("a"), embeddings("b", seed=1))
    for name in NAMES:
        own = [one(rows, "middle", name, encoder=encoder, setting="").value for encoder in ("a", "b")]
        assert one(rows, "middle", name, setting="").value == pytest.approx(np.mean(own))


def test_middles_of_the_profile_and_of_cells_sum_to_0():
    rows = study()
    assert sum(r.value for r in rows if (r.metric, r.component) == ("middle", "association")) == pytest.approx(0)
    of = crossed_design(THREE)
    made = crossed_study([crossed_embeddings(of)], of)
    cells = [r for r in made if r.metric == "middle" and r.setting.startswith("cell:") and r.encoder == "mean"]
    assert len(cells) == len(of.groups)
    assert sum(row.value for row in cells) == pytest.approx(0)
    for row in made:
        if isfinite(row.middle):
            settings = {"setting": row.component, "group": row.group}
            assert one(made, "middle", "image_part", **settings).value == pytest.approx(row.middle)


@pytest.mark.parametrize("name", ["ii", "image_part", "mcas"])
def test_an_influence_is_what_leaving_an_image_out_takes_away(name):
    """θ − m without image i of n is θ − m less (v_i − v̄)/(n − 1), and what is of the order of 1/n² besides."""
    encoder, of = embeddings(attribute_images=40), design()
    encoder = replace(encoder, group_images={g: x[:1] for g, x in encoder.group_images.items()}, group_texts=None)
    of = replace(of, pairs={}, prompts={})
    made, view = seen(encoder, of)
    weights = pair_weights(made, COMPONENTS[name], *made.pair)
    influences = attribute_influences(view, weights)

    def apart(encoder: EncoderEmbeddings) -> np.ndarray:
        made, view = seen(encoder, of)
        tests = contrast_tests(made, view, weights)
        return np.asarray(tests.images.value - middles_of(view, weights))

    whole = apart(encoder)
    for g, group in enumerate(("man", "woman")):
        own = influences[g]
        assert own is not None
        of_group = own[:, made.layout.image_slices[g]]
        (prompt,), changes = encoder.group_images[group], []
        for i in range(len(prompt)):
            less = dict(encoder.group_images) | {group: (np.delete(prompt, i, axis=0),)}
            changes.append(whole - apart(replace(encoder, group_images=less)))
        expected = (of_group - of_group.mean(axis=1, keepdims=True)).T / (len(prompt) - 1)
        np.testing.assert_allclose(changes, expected, atol=0.05 * np.abs(expected).max())


def test_the_influence_on_ii_is_the_distance_from_the_image_s_own_group():
    """v_A(a) = (u − μ_A) · a, with the mean over other images for μ_A."""
    encoder, of = embeddings(), design(third=None)
    made, view = seen(encoder, of)
    own = attribute_influences(view, pair_weights(made, ("ii",), *made.pair))[0]
    assert own is not None
    columns = made.layout.image_slices[0]
    np.testing.assert_allclose(own[:, columns], view.items.images[0][:, columns] - view.group_image_scores[0][:, 0, 0])


def test_pictures_that_are_the_groups_own_are_at_the_middle():
    """Targets of half a's and half b's own distribution, of groups that scatter apart: θ − m is 0, and θ is not."""
    rng, found = np.random.default_rng(0), []
    axis, base = np.eye(24)[:2]

    def pictures(sign: int, n: int) -> np.ndarray:
        return base + 0.2 * sign * axis + (0.05 if sign > 0 else 0.15) * rng.normal(size=(n, 24))

    for _ in range(30):
        encoder = EncoderEmbeddings(
            "e",
            target_images=tuple(np.concatenate([pictures(1, 20), pictures(-1, 20)]) for _ in range(6)),
            target_texts=base + 0.1 * rng.normal(size=(6, 24)),
            group_images={"man": (pictures(1, 20),), "woman": (pictures(-1, 20),)},
            group_words={"man": (base + axis)[None], "woman": (base - axis)[None]},
        )
        made, view = seen(encoder, Design(design().targets, ("man", "woman"), "man", "woman"))
        weights = pair_weights(made, ("ii", "ita"), *made.pair)
        images = contrast_tests(made, view, weights).images
        apart = from_middle(made, view, weights, images, attribute_influences(view, weights))
        found.append(np.array([images.value, apart.value, apart.p_value, images.p_value]))
    value, from_m, p_middle, p_zero = np.moveaxis(found, 1, 0)
    assert np.abs(from_m.mean()) < 0.01 < 0.05 < np.abs(value.mean())
    assert (p_zero <= 0.05).mean() > 0.6
    assert (p_middle <= 0.05).mean() <= 0.05


def test_the_mixture_is_of_the_groups_that_are_weighed():
    made, _ = seen(embeddings(), design())
    np.testing.assert_allclose(mixture_of(pair_weights(made, ("ii", "itp"), 0, 2)), [0.5, 0, 0.5])
    assert not mixture_of(pair_weights(made, ("itp",), 0, 2)).any()
    assert mixture_of(np.eye(4)[[II] * 4]).sum() == pytest.approx(1)


# --- verdicts ---------------------------------------------------------------------------------------------------------


def held(theta: float, middle: float, error: float = 0.02, **fields: float) -> Score:
    """An image part with a middle, by normal tests."""
    from scipy.stats import norm

    p_zero, p_middle = (2 * norm.sf(abs(x) / error) for x in (theta, theta - middle))
    reach = 1.96 * error
    made = {
        "value": theta, "low": theta - reach, "high": theta + reach, "n_target": 60, "middle": middle,
        "from_middle_low": theta - middle - reach, "from_middle_high": theta - middle + reach, "p_zero": p_zero,
        "p_middle": p_middle, "p": max(p_zero, p_middle), "q": max(p_zero, p_middle), "middle_margin": 0.1,
    }  # fmt: skip
    return Score(metric="mcas", component="image_part", concept="c", **(made | fields))


@pytest.mark.parametrize(
    ("theta", "middle", "expected", "side"),
    [
        (0.3, 0.0, Verdict.LEANS, "A"),
        (0.3, 0.1, Verdict.LEANS, "A"),
        (-0.3, 0.1, Verdict.LEANS, "B"),
        (0.1, 0.3, ReasonCode.ZEROS_DISAGREE, ""),  # to A against 0, to B against the middle
        (0.3, 0.31, ReasonCode.ZEROS_DISAGREE, ""),
        (0.01, 0.3, ReasonCode.ZEROS_DISAGREE, ""),
        (0.02, -0.02, Verdict.BALANCED, ""),
        (0.0, 0.07, ReasonCode.ZEROS_DISAGREE, ""),
        (0.09, 0.08, ReasonCode.ZEROS_DISAGREE, ""),
    ],
)
def test_a_verdict_is_held_against_both_zeros(theta, middle, expected, side):
    (row,) = judge_family([held(theta, middle)], a="A", b="B", margin=0.1)
    assert (row.reason_code if row.verdict == Verdict.UNDECIDED else row.verdict, row.side) == (expected, side)
    (mirrored,) = judge_family([held(-theta, -middle)], a="A", b="B", margin=0.1)
    assert (mirrored.verdict, mirrored.side) == (row.verdict, {"A": "B", "B": "A"}.get(side, ""))
    (alone,) = judge_family([replace(held(theta, 0.0), q=held(theta, 0.0).p_zero)], a="A", b="B", margin=0.1)
    assert row.verdict == alone.verdict or row.reason_code == "zeros_disagree"


def test_where_neither_is_shown_the_interval_covers_0_and_more_images_would_tell():
    (row,) = judge_family([held(0.15, 0.05, error=0.1)], a="A", b="B")
    assert (row.verdict, row.reason_code) == (Verdict.UNDECIDED, ReasonCode.INTERVAL)
    (nearer,) = judge_family([held(0.15, 0.0, error=0.1)], a="A", b="B")
    assert row.n_decide > nearer.n_decide > 60
    (never,) = judge_family([held(0.05, 0.1, error=0.1)], a="A", b="B")
    assert never.n_decide == 0  # to A by one zero and to B by the other, however many


def test_a_margin_as_wide_as_the_groups_are_apart_calls_nothing_balanced():
    rows = study(of=design(margin=50.0))
    judged = [row for row in rows if isfinite(row.middle_margin)]
    assert judged
    for row in judged:
        assert row.middle_margin < 0.2
        assert (row.verdict == Verdict.BALANCED) <= (row.from_middle_low > -row.middle_margin)


def share(value: float, low: float, high: float, **fields: str) -> Score:
    """A share of the images that is read as A."""
    about = {"metric": "share", "component": "share", "concept": "c", "group": "A"} | fields
    return Score(**about, value=value, low=low, high=high, n_target=60, null=0.5)


@pytest.mark.parametrize(
    ("verdict", "side", "told", "withheld"),
    [
        (Verdict.BALANCED, "", (0.7, 0.6, 0.8), True),
        (Verdict.BALANCED, "", (0.3, 0.2, 0.4), True),
        (Verdict.BALANCED, "", (0.6, 0.48, 0.7), False),
        (Verdict.LEANS, "B", (0.7, 0.6, 0.8), True),
        (Verdict.LEANS_SLIGHTLY, "A", (0.3, 0.2, 0.4), True),
        (Verdict.LEANS, "A", (0.7, 0.6, 0.8), False),
        (Verdict.LEANS, "B", (0.5, 0.4, 0.6), False),
        (Verdict.UNDECIDED, "", (0.7, 0.6, 0.8), False),
        (Verdict.BALANCED, "", (nan, nan, nan), False),
        (Verdict.BALANCED, "", (1.0, 0.6, inf), True),
    ],
)
def test_what_the_share_denies_is_not_said(verdict, side, told, withheld):
    row = replace(held(0.01, 0.0), verdict=verdict, side=side)
    for fields in ({}, {"component": "corrected_share"}, {"metric": "reading", "encoder": "a reader"}):
        (found,) = withheld_by_shares([row], [share(*told, **fields)], a="A")
        assert (found.reason_code == "witnesses_disagree") is withheld
        assert (found == row) is not withheld
        if withheld:
            assert (found.verdict, found.side) == (Verdict.UNDECIDED, "")
            assert f"{told[0]:.2f}" in found.reason
            assert f"{row.value:+.3f}" in found.reason
    others = share(*told, concept="other"), share(*told, group="B"), share(*told, encoder="e")
    assert withheld_by_shares([row], others, a="A") == [row]


def test_without_a_second_image_there_is_no_middle_and_a_reason():
    encoder = embeddings()
    groups = dict(encoder.group_images) | {
        "man": (encoder.group_images["man"][0][:1], *encoder.group_images["man"][1:])
    }
    row = one(study(replace(encoder, group_images=groups)), "middle", "image_part")
    assert isnan(row.low)
    assert row.reason


def test_a_reader_whose_verdicts_stand_is_a_witness_too():
    said = [replace(held(0.01, 0.0), concept=name, verdict="balanced", n_decide=3) for name in ("c", "other")]
    table = scores_table([*said, share(0.5, 0.4, 0.6)])
    about = {"metric": "reading", "encoder": "a reader", "setting": "gender"}
    told = [share(0.7, 0.6, 0.8, **about), Score(component="separation", flag="decides", **about)]
    found = LEANING.withhold_by_readers(table, told)
    assert list(found.reason_code) == ["witnesses_disagree", "", ""]
    assert found.reason[0].endswith("leans to it, 0.70 [0.60, 0.80]")
    assert (found.n_decide[0], found.n_decide[1]) == (0, 3)
    unchanged = ["metric", "component", "concept", "value", "low", "high", "p", "q", "p_zero", "p_middle"]
    assert found[unchanged].equals(table[unchanged])
    undecided = [told[0], replace(told[1], flag="")]
    of_three = [replace(told[0], null=1 / 3), told[1]]
    for others in (undecided, of_three, [replace(told[0], group="x"), told[1]], []):
        assert LEANING.withhold_by_readers(table, others).equals(table)
