"""The split by guidance: its algebra, a truth that was planted, and whose attribute images it is measured by."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from benchmarks.comparison_simulations import two_runs
from benchmarks.split_simulations import SHARPER, _sharpened
from benchmarks.verdict_simulations import POPULATIONS, design_of
from clinometer.errors import Code, RunMismatchError, SuiteError
from clinometer.metrics.verdict import LEANING, Verdict
from clinometer.models.protocols import GenerationResult
from clinometer.pipeline.comparison import split_runs
from clinometer.report.view import Scores
from clinometer.stats.association import unit_vectors
from clinometer.studies.leaning.compare import compare_leanings, split_rows
from clinometer.studies.leaning.scores.differences import MissingPictures
from tests import quick
from tests.raising import raises
from tests.sweeps.toy_sweeps import Shifted
from tests.toys import Eye, crossed_suite, toy_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

CONCEPTS = 6
SHARES = np.full(CONCEPTS, 0.7), np.array([0.7, 0.95, 0.4, 0.7, 0.95, 0.4])
DESIGN = design_of(CONCEPTS, margin=0.1)


def runs(seed=0, images=20):
    rng = np.random.default_rng(seed)
    return two_runs(POPULATIONS[0], rng, SHARES, images, "partners, closely")


def numbers(rows):
    """Rows of concepts by number, a list each."""
    return {name: [row for row in rows if row.component == name] for name in ("learned", "added", "leaning")}


def split(first, second, **options):
    return split_rows([first], [second], DESIGN, **options)


@pytest.mark.parametrize("seed", range(3))
def test_the_two_numbers_sum_to_the_leaning_at_the_other_guidance(seed):
    found = numbers(split(*runs(seed)))
    for learned, added, leaning in zip(*found.values(), strict=True):
        assert learned.value + added.value == pytest.approx(leaning.value, abs=1e-12)
        assert learned.low <= learned.value <= learned.high
        assert added.low <= added.value <= added.high
    assert {row.family for row in found["added"]} == {"split: added over 6 targets"}


def test_what_was_learned_is_the_image_part_of_the_run_and_what_is_added_that_of_compare():
    """With one set of attribute images; each number as the report and the comparison have it."""
    first, second = runs()
    second = replace(second, group_images=first.group_images)
    compared = compare_leanings([first], [second], DESIGN, paired=True, n_resamples=2)
    expected = [row for row in compared if (row.component, row.encoder) == ("image_part", "mean")]
    for own, other in zip(numbers(split(first, second))["added"], expected, strict=True):
        for name in ("value", "low", "high", "p", "q", "verdict", "side", "n_target"):
            assert getattr(own, name) == getattr(other, name)


def test_the_same_images_add_exactly_nothing():
    first, _ = runs()
    rows = split(first, first)
    for row in numbers(rows)["added"]:
        assert (row.value, row.low, row.high, row.p, row.verdict) == (0, 0, 0, 1, Verdict.ALIKE)
    (change,) = (row for row in rows if row.component == "diversity" and not row.setting)
    assert (change.value, change.low, change.high, change.verdict) == (0, 0, 0, "kept")


def test_the_order_of_the_pairs_is_of_no_matter():
    first, second = runs()
    turned = [
        replace(run, target_images=tuple(images[::-1] for images in run.target_images)) for run in (first, second)
    ]
    for row, other in zip(split(first, second), split(*turned), strict=True):
        assert (row.component, row.concept, row.verdict) == (other.component, other.concept, other.verdict)
        assert [row.value, row.low, row.high, row.p] == pytest.approx(
            [other.value, other.low, other.high, other.p], abs=1e-9, nan_ok=True
        )


def test_swapping_the_groups_negates_both_numbers():
    swapped = replace(DESIGN, a="b", b="a")
    for row, other in zip(split_rows(*([run] for run in runs()), DESIGN),
                          split_rows(*([run] for run in runs()), swapped), strict=True):  # fmt: skip
        if row.component in ("learned", "added"):
            assert [row.value, row.low, row.high] == pytest.approx([-other.value, -other.high, -other.low])
            assert row.p == pytest.approx(other.p)


def test_attribute_images_of_the_other_guidance_are_not_looked_at():
    """Sharper pictures of men and women are no leaning of a nurse; measured each by its own, they would seem to be."""
    first, _ = runs()
    sharper = _sharpened(first)
    assert SHARPER > 1
    assert split(first, sharper) == split(first, first)
    own = compare_leanings([first], [sharper], design_of(CONCEPTS), paired=True, n_resamples=2)
    assert Verdict.MORE in {row.verdict for row in own if row.component == "image_part"}


def test_pairs_that_are_missing_are_told_and_may_qualify_a_verdict():
    first, second = runs()
    lost = [6] * CONCEPTS
    kept = [replace(run, target_images=tuple(images[6:] for images in run.target_images)) for run in (first, second)]
    alone = [replace(run, target_images=tuple(images[:0] for images in run.target_images)) for run in kept]
    missing = MissingPictures((lost, lost), ([alone[0]], [alone[1]]))
    design = replace(DESIGN, targets=tuple(replace(target, missing=6) for target in DESIGN.targets))
    rows = numbers(split_rows([kept[0]], [kept[1]], design, missing=missing))
    assert {row.n_missing for own in ("learned", "leaning") for row in rows[own]} == {6}
    assert {row.n_missing for row in rows["added"]} == {12}
    for row in [row for own in rows.values() for row in own]:
        assert row.bound_low <= row.low
        assert row.high <= row.bound_high
        assert row.bound_high - row.bound_low > row.high - row.low
    said = [row for row in rows["added"] if row.verdict == Verdict.MORE]
    assert said
    assert all("missing" in row.depends_on for row in said if row.bound_low < 0 < row.bound_high)


# --- a truth that was planted ----------------------------------------------------------------------------------------

GUIDANCES = {1.0: 0.0, 7.5: 0.25}
"""By how much the share of red images of every concept is larger at a guidance."""


class Guided(Shifted):
    """Paints red or green, red in a share of the images that its concept and guidance say: of one noise, more red."""

    def generate(self, requests):
        for request in requests:
            last = request.prompt.split()[-1]
            share = {"men": 1.0, "women": 0.0, "others": 0.5}.get(last)
            if share is None:
                share = float(last) + GUIDANCES[self.guidance]
            red = 1.0 if np.random.default_rng(request.seed).random() < share else 0.0
            colour = np.array([0.7 * red + 0.15, 0.85 - 0.7 * red, 0.2])
            shade = 0.05 * np.random.default_rng([request.seed, 1]).standard_normal(3)  # no two pictures are alike
            pixels = np.broadcast_to(colour + shade, (8, 8, 3)) + 0.01 * np.arange(8)[:, None, None] / 8
            yield GenerationResult(request.id, "ok", Image.fromarray((255 * pixels.clip(0, 1)).astype(np.uint8)))


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    suite, folder = toy_suite(target=80, attribute=8), tmp_path_factory.mktemp("planted")
    return {
        guidance: quick.audit(Guided(guidance, name="guided"), suite, folder / str(guidance), encoder=Eye())
        for guidance in GUIDANCES
    }


@pytest.mark.thorough
def test_a_planted_truth_is_recovered(planted):
    """The share that guidance adds, times how far a red image lies from a green one."""
    found = numbers(Scores.from_frame(split_runs(planted[1.0], planted[7.5])))
    red, green = (unit_vectors(np.array([[0.7 * r + 0.15, 0.85 - 0.7 * r, 0.2]]))[0] for r in (1.0, 0.0))
    words = [unit_vectors(Eye().encode_texts(words)).mean(axis=0) for words in (["he", "his"], ["she", "hers"])]
    towards = red - green + words[0] - words[1]
    for learned, added in zip(found["learned"], found["added"], strict=True):
        share = float(learned.concept.split()[1])
        expected = share * red @ towards + (1 - share) * green @ towards
        gained = GUIDANCES[7.5] if share < 0.75 else 1 - share
        assert learned.low - 0.02 <= expected <= learned.high + 0.02
        assert added.low - 0.02 <= gained * (red - green) @ towards <= added.high + 0.02
        assert (added.verdict, added.side) == (Verdict.MORE, "man")
    by_name = {row.concept: row for row in found["learned"]}
    assert by_name["concept 0.20"].verdict in LEANING
    assert by_name["concept 0.20"].side == "woman"
    assert by_name["concept 0.80"].side == "man"


@pytest.mark.thorough
def test_the_numbers_of_a_run_at_guidance_1_are_those_of_its_report(planted):
    rows = Scores.from_frame(split_runs(planted[1.0], planted[7.5]))
    own = planted[1.0].scores
    own = own[(own.metric == "mcas") & (own.component == "image_part") & (own.encoder == "mean")].set_index("concept")
    for row in numbers(rows)["learned"]:
        assert row.value == pytest.approx(own.value[row.concept], abs=1e-12)
        assert [row.low, row.high, row.q] == pytest.approx(own.loc[row.concept, ["low", "high", "q"]].tolist())
        assert row.verdict == own.verdict[row.concept]


@pytest.mark.thorough
def test_runs_that_cannot_be_split_say_why(planted, tmp_path):
    suite = toy_suite(target=10, attribute=8)
    other = quick.audit(Guided(7.5, name="guided"), suite, tmp_path / "seed", encoder=Eye(), seed=1)
    with raises(RunMismatchError, code=Code.MISMATCH, match="0 and 1"):
        split_runs(planted[1.0], other)
    crossed = [
        quick.audit(Shifted(shift, name=name), crossed_suite(), tmp_path / name, encoder=Eye())
        for name, shift in (("one", 1.0), ("two", 2.0))
    ]
    with raises(SuiteError, code=Code.UNSUPPORTED):
        split_runs(*crossed)
