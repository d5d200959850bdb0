"""Sentences that rest on numbers: each with the world that would make it false, and what is said in that world.

A world is made of rows, or is a small study with embeddings. A new sentence about numbers gets a line here: which
pictures would make it false?
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from math import isnan, nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchmarks.verdict_simulations import verdict_rows
from clinometer.exports.board import next_steps
from clinometer.metrics import bias_amplification, diffusion_bias
from clinometer.metrics.verdict import LEANING, Verdict
from clinometer.report import wording
from clinometer.report.sections import how_sure
from clinometer.report.verdicts import Verdicts
from clinometer.report.view import Row, Scores
from clinometer.stats.agreement import krippendorff_alpha
from clinometer.stats.multiplicity import benjamini_hochberg
from clinometer.studies.counts import scores as counts
from clinometer.studies.counts.study import SharesCompared
from clinometer.studies.editing.design import _AverageFaces
from clinometer.studies.leaning.page import PAGE, reservations, scale_words
from clinometer.studies.leaning.pictures import onsets_in_words
from clinometer.studies.leaning.view import LeaningView
from clinometer.studies.reporting import _reservations
from tests.report.page import with_only
from tests.report.synthetic import small_input
from tests.studies.leaning.studies import GROUPS, design, embeddings, study

TEMPLATES = Path(wording.__file__).parents[1]
LABELS = {"man": "men", "woman": "women"}.get


def labelled(side: str) -> str:
    return LABELS(side) or side


@cache
def section(name: str) -> str:
    """What a section of a whole report says."""
    (found,) = (element for element in with_only(small_input(), name).elements if element.attributes.get("id") == name)
    return found.text


def view_with(**changed: Any) -> LeaningView:
    """A run whose rows of a metric and component are changed: ``image_part=lambda row: …``; None drops a row."""
    report = small_input()
    rows = []
    for row in report.scores.to_dict("records"):
        change = changed.get(row["component"], lambda row: row) if row["encoder"] == "mean" else lambda row: row
        rows.append(change(row))
    return LeaningView.of(replace(report, scores=pd.DataFrame([row for row in rows if row is not None])))


# --- worlds of embeddings ---------------------------------------------------------------------------------------------


def text_parts(seed: int) -> np.ndarray:
    """Text parts and their intervals, (concepts × 3), with the pictures of the groups drawn again by a seed."""
    fixed, again = (embeddings(seed=of, noise=0.9) for of in (3, seed))
    rows = verdict_rows(replace(fixed, group_images=again.group_images), design(), "text_part")
    return np.array([(row.value, row.low, row.high) for row in rows])


@pytest.mark.thorough
def test_other_pictures_of_the_groups_change_the_text_part_within_its_interval() -> None:
    """False: "the text part does not change with what is drawn", "it holds no picture"."""
    values, low, high = np.moveaxis([text_parts(seed) for seed in range(20, 60)], -1, 0)
    assert np.ptp(values, axis=0).min() > 1e-3
    centre = values.mean(axis=0)
    assert ((low <= centre) & (centre <= high)).mean() > 0.95
    for name in ("categories", "verdicts"):
        assert "does not change with what is drawn" not in section(name)
        assert "uses no picture of the concept" in section(name)
    assert "with the pictures drawn for the groups, so other such pictures may change it" in section("categories")


def test_equal_parts_of_groups_need_not_lie_at_zero() -> None:
    """False: "equal treatment puts every mark on the line", "a model that leans to none … at (⅓, 0)"."""
    rng, spreads = np.random.default_rng(0), {"man": 0.1, "woman": 0.4, "nonbinary": 0.4}
    like = embeddings(images=90, leanings=(0.0,) * 6)
    drawn = [np.eye(24)[i] + 1 + spread * rng.normal(size=(8, 30, 24)) for i, spread in enumerate(spreads.values())]
    same_words = dict.fromkeys(GROUPS, rng.normal(size=(4, 24)))
    equal_parts = replace(
        like,
        target_images=tuple(np.concatenate([of[4 + t % 4] for of in drawn]) for t in range(6)),
        group_images={group: tuple(of[:4]) for group, of in zip(GROUPS, drawn, strict=True)},
        group_words=same_words,
    )
    rows = study(equal_parts, n_resamples=9, n_permutations=9)
    nearer = [row.value for row in rows if (row.metric, row.component, row.group, row.encoder)
              == ("profile", "association", "man", "mean")]  # fmt: skip
    assert min(nearer) > 0.005  # all of them towards the group whose own pictures are alike
    said = section("plane")
    assert "Equal treatment puts" not in said
    assert "Pictures of all groups in equal parts need not lie there" in said
    assert "The paper puts a model that leans to none of the three at (⅓, 0)" in said


def test_delta_and_alpha_compare_sizes_and_not_sides() -> None:
    """False: "at α = 1 nothing is amplified", "δ is how much more the images lean than the text did"."""
    assert bias_amplification(itp=-0.2, ita=-0.2, tt=0.2) == pytest.approx(1)  # turned, with II five times the text
    assert diffusion_bias(ii=0.3, tt=-0.3) == 0
    said = section("internal")
    assert "nothing is amplified" not in said
    assert "how much more" not in said
    assert "compare sizes, not sides" in said
    assert "to whichever side and whatever II is" in said


def test_the_text_that_the_audit_reads_is_not_the_models() -> None:
    """False: "a concept level in TT that leans in II was tilted on the way": TT is of the audit's encoder."""
    said = section("stages")
    assert "tilted on the way" not in said
    assert "The model may read its prompts differently" in said


# --- worlds of rows ---------------------------------------------------------------------------------------------------


def leaning_rows(*sizes: float) -> list[Row]:
    return [Row(concept=f"c{i}", value=x, low=x - 0.01, high=x + 0.01, q=0.01, verdict=Verdict.LEANS, side="man")
            for i, x in enumerate(sizes)]  # fmt: skip


def judged(rows: list[Row]) -> Verdicts:
    return Verdicts("concept", "image part", "", rows, labelled)


def said_of_certainty(rows: list[Row]) -> str:
    return said_of_certainty_in(judged(rows))


def said_of_certainty_in(verdicts: Verdicts) -> str:
    view = SimpleNamespace(unit="images", scores=Scores(tuple(verdicts.rows)), encoders=["e"], reads_images=True)
    return " ".join(sentence for _, sentence in how_sure(view, [verdicts]))  # type: ignore[arg-type]


def test_at_parity_all_that_is_named_is_chance() -> None:
    """False: "no more than one in twenty of those named is expected to be chance": at parity 7 of 7 named were."""
    rng = np.random.default_rng(0)
    called = [int((benjamini_hochberg(p) <= 0.05).sum()) for p in rng.random((4000, 28))]
    assert 0.03 < np.mean(np.array(called) > 0) < 0.07  # of audits, and of what these name all is chance
    said = said_of_certainty(leaning_rows(*[0.2] * 7))
    assert "of those named is expected" not in said
    assert "every side that they name is chance" in said


@pytest.mark.parametrize(
    ("row", "said", "never"),
    [
        # both runs lean to women: the second less
        (Row(component="image_part", verdict=Verdict.MORE, side="man", value=0.1),
         "B is further to men than A", "leans more to men"),
        (Row(component="association", verdict=Verdict.MORE, side="others", group="man", value=-0.1),
         "B is further from men than A", "leans less"),
        (Row(component="magnitude", verdict=Verdict.MORE, side="second", value=0.1), "B leans more", "further"),
    ],
)  # fmt: skip
def test_a_difference_does_not_say_to_which_side_a_run_leans(row: Row, said: str, never: str) -> None:
    words = wording.difference_words(row, ("A", "B"), labelled)
    assert words == said
    assert never not in words


def test_what_is_not_shown_is_not_said_to_be_absent() -> None:
    """False: "its images do not show the concept better than chance": it was not shown that they do."""
    words = wording.share_words(Row(value=1.0, n_target=2, flag="not shown"), "men", "women")
    assert words == "its images are not shown to be what was asked, so no share is read from them"


@pytest.mark.parametrize(
    ("n", "said"),
    [
        ((454_452,), "more than 10,000"),
        ((10_001,), "more than 10,000"),
        ((10_000,), "about 10,000"),
        ((213,), "about 220"),
        ((0, 31, 454_452, 300), "about 31 to more than 10,000"),
        ((20_000, 454_452), "more than 10,000"),
        ((31, 31), "about 31"),
        ((0,), ""),
        ((), ""),
    ],
)
def test_more_images_than_an_estimate_can_tell_have_no_number(n: tuple[int, ...], said: str) -> None:
    assert wording.about(*n) == said


def test_no_sentence_tells_half_a_million_images() -> None:
    row = Row(concept="c", value=0.001, low=-0.1, high=0.1, q=0.9, verdict=Verdict.UNDECIDED, n_decide=454_452)
    told = [wording.needed(row), said_of_certainty([row])]
    view = SimpleNamespace(report=SimpleNamespace(samples={}), encoders=["a", "b"], scores=())
    told += next_steps(view, [judged([row])])  # type: ignore[arg-type]
    assert "more than 10,000" in " ".join(told[:2])
    assert any("more than 10,000" in sentence for sentence in told[2:])
    assert not re.search(r"4\d\d,\d{3}|about more", " ".join(told))


def test_where_the_groups_images_have_to_grow_the_number_says_so() -> None:
    """False: "about 220 images per concept would decide" when the groups' own images hide it at any number."""
    view = view_with()
    name = next(iter(view.pictures))

    def undecided(row: dict[str, Any]) -> dict[str, Any]:
        open_row = {"verdict": "undecided", "side": "", "reason_code": "", "reason": "", "n_decide": 213}
        return row | open_row if row["concept"] == name else row

    grown = (
        "about 220 images per concept, with the groups\u2019 images in proportion, would decide in four of five runs"
    )
    asked = view_with(image_part=undecided)
    (judged_here,) = PAGE.verdicts(asked)
    assert grown in judged_here.notes_of(asked.pictures[name])
    assert "each, with the groups\u2019 images in proportion, would decide" in said_of_certainty_in(judged_here)
    # drawn until decided, the images to come are of concepts alone
    stopped = replace(asked, report=replace(asked.report, stopped_early=True))
    assert "in proportion" not in " ".join(PAGE.verdicts(stopped)[0].notes_of(asked.pictures[name]))


def test_concepts_that_are_not_shown_to_lean_are_not_said_to_be_level() -> None:
    """False: "the 2 others show no leaning" of concepts that are undecided."""
    view = view_with()
    names = list(view.concepts)[:3]
    onsets = [Row(metric="trace", component="onset", concept=name, encoder="mean", value=value, flag="steps")
              for name, value in zip(names, (3.0, nan, nan), strict=True)]  # fmt: skip
    said = " ".join(onsets_in_words(replace(view, scores=Scores(tuple(onsets)))))
    assert "show no leaning" not in said
    assert "2 other concepts are not shown to lean, which is not balance." in said


def test_the_strongest_is_of_those_that_lean() -> None:
    """False: "the strongest", where a concept with no verdict lies further out."""
    view = view_with()
    names = [name for name, row in view.pictures.items() if row.verdict in LEANING]
    further = next(name for name in view.pictures if name not in names)

    def undecided(row: dict[str, Any]) -> dict[str, Any]:
        wide = {"value": 3.0, "low": -1.0, "high": 7.0, "verdict": "undecided", "side": ""}
        return row | wide if row["concept"] == further else row

    said = PAGE.strongest(view_with(image_part=undecided))
    assert said.startswith("The strongest of those that lean: ")
    assert further not in said


def test_pictures_that_are_like_neither_group_are_told_at_their_concept() -> None:
    """False beside each other: "17 of 20 pictures lie between the groups" above "19 of 20 read as men"."""
    view = view_with()
    name = next(iter(view.pictures))
    between = Row(metric="share", component="between", concept=name, encoder="mean", value=0.85, n_target=20,
                  flag="some lie between")  # fmt: skip
    view = replace(view, scores=Scores((*view.scores.rows, between)))
    assert not list(_reservations(view.suite, view.scores))
    said = "; ".join(filter(None, reservations(view, view.pictures[name])))
    a, b = view.label_a, view.label_b
    assert said.endswith(
        f"17 of its 20 pictures fall between the groups: less like {a} than nearly all pictures drawn for {a}, and "
        f"less like {b} than nearly all drawn for {b}"
    )


def test_shares_that_nobody_counted_are_not_said_to_agree() -> None:
    """False: "none of 10 shares is shown to differ" where one run counted nothing of some, or of all."""

    def said(second: list[list[int]]) -> str:
        n = [np.array(rows)[:, None, :] for rows in ([[10, 10]] * len(second), second)]
        tables = [counts.Counts(tuple(f"c{i}" for i in range(len(second))), ("a", "b"), ("",), x, x[..., 0] * 0)
                  for x in n]  # fmt: skip
        rows = pd.DataFrame([vars(row) for row in counts.compared_counts(*tables)])
        return SharesCompared().verdict(SimpleNamespace(scores=rows), ("A", "B"))  # type: ignore[arg-type]

    assert said([[10, 10]] * 3) == "B compared with A: none of 3 shares is shown to differ."
    assert said([[10, 10]] * 3 + [[0, 0]] * 7) == (
        "B compared with A: none of 3 shares is shown to differ; 7 shares could not be compared."
    )
    assert said([[0, 0]] * 10) == "B compared with A: no share could be compared."


def test_a_share_is_counted_for_the_side_that_most_pictures_are_of() -> None:
    """False: "2 of 20 pictures read as men, 10 % [3 %, 30 %]" of what leans to women, or a count of the unread."""
    share = Row(value=0.1, low=0.03, high=0.3, n_target=20)
    counted = wording.counted_share(share, "men", "women")
    assert counted is not None
    assert (counted.out_of, counted.label) == ("18 of 20", "women")
    assert counted.share.replace("\u202f", "") == "90% [70%, 97%]"
    average = wording.counted_share(replace(share, value=0.93), "men", "women")
    assert average is not None
    assert average.out_of.replace("\u202f", "") == "93% of 20"
    assert wording.counted_share(replace(share, flag="not shown"), "men", "women") is None
    assert wording.counted_share(replace(share, value=nan), "men", "women") is None


def test_the_scale_is_anchored_by_what_is_known_of_the_pictures() -> None:
    """False: "planted to show one group" of a model in which nothing was planted; an anchor of a single concept."""
    view = view_with()
    a, b = list(view.pictures)[:2]
    truth = {a: {view.group_a: 0.95}, b: {view.group_a: 0.05}}
    sizes = sorted(abs(view.pictures[name].value) for name in truth)
    told = f"the 2 concepts that were planted to show one group in nine of ten pictures or more lie {sizes[0]:.2f} to "
    assert told + f"{sizes[1]:.2f} from 0" in scale_words(replace(view, report=replace(view.report, planted=truth)))

    def said(*sure: str) -> str:
        read = view_with(share=lambda row: row | {"value": 0.05 if row["concept"] in sure else 0.6})
        return scale_words(replace(read, report=replace(read.report, planted=None)))

    told = f"the 2 concepts that have nine of ten pictures or more that read as one group lie {sizes[0]:.2f} to "
    assert told + f"{sizes[1]:.2f} from 0" in said(a, b)
    assert "In this run" not in said(a)


# --- intervals --------------------------------------------------------------------------------------------------------


def test_agreement_that_hangs_on_one_unit_is_not_certain() -> None:
    """False: α = 0.48 [0.48, 0.48] of ten units, of which raters differ on one."""
    found = krippendorff_alpha([[0] * 9 + [1], [0] * 10, [0] * 9 + [1]])
    assert (found.low, found.high) == (-1, 1)


def test_the_average_face_of_a_few_portraits_has_no_interval() -> None:
    """False: a change of 4.455° with the interval [3.934, 4.182], of two portraits."""
    rng = np.random.default_rng(1)
    faces = np.clip(np.array([0.7, 0.5, 0.4]) + rng.normal(0, 0.05, (2, 1, 1, 3)) * np.ones((2, 6, 6, 3)), 0, 1)
    found = _AverageFaces(faces, 200, 0).change(np.clip(faces + 0.05, 0, 1))
    assert isnan(found.low)
    assert "interval" in found.reason


FALSE = (
    "does not change with what is drawn",
    "Equal treatment puts every mark",
    "α = 1 nothing is amplified",
    "At 1 nothing is amplified",
    "was tilted on the way",
    "would draw every concept at the centre",
    "do not show the concept better than chance",
    "no more than one in twenty of those named",
    "others show no leaning",
    "is how much more the images lean",
)
"""Sentences that were false of some pictures, in the words they had."""


def test_false_sentences_are_in_no_report_terminal_card_or_page() -> None:
    root = TEMPLATES.parents[1]
    files = [path for path in TEMPLATES.rglob("*") if path.suffix in (".html", ".md", ".py")]
    files += [path for path in (root / "docs").glob("*.md")] + [root / "README.md"]
    said = "\n".join(" ".join(path.read_text(encoding="utf-8").split()) for path in files)
    assert "clinometer audit" in said
    assert not [false for false in FALSE if false in said]
