"""What the comparisons of all studies share: families, magnitudes, and that no study has its own."""

import ast
import re
from dataclasses import replace
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest

import clinometer
from clinometer.errors import Code, InvalidInputError
from clinometer.metrics.differences import (
    METRIC,
    Family,
    cut_alike,
    image_seeds,
    magnitude_row,
    require_comparable,
    with_reasons,
)
from clinometer.metrics.records import Score
from clinometer.metrics.verdict import stimulus_ends
from clinometer.studies.leaning import EncoderEmbeddings
from tests.raising import raises

ROW = Score(metric=METRIC, component="mcas", value=0.3, low=0.2, high=0.4, p=0.01, n_target=20)
MAGNITUDE = replace(ROW, component="magnitude", stimulus_low=0.25, stimulus_high=0.35)


def test_a_family_is_corrected_together_and_judged_where_it_has_sides():
    rows = [replace(ROW, concept=name, p=p) for name, p in (("cook", 0.01), ("judge", 0.04), ("nurse", nan))]
    family = Family(rows=rows, name="mcas over 3 targets")
    assert [row.q for row in family.corrected()[:2]] == pytest.approx([0.02, 0.04])
    assert isnan(family.corrected()[2].q)
    assert {row.verdict for row in family.judged()} == {""}
    judged = replace(family, sides=("men", "women")).judged()
    assert [(row.verdict, row.side) for row in judged] == [("more", "men"), ("more", "men"), ("not measured", "")]
    assert {row.family for row in judged} == {"comparison: mcas over 3 targets"}


def test_rows_without_a_test_are_no_family():
    (row,) = Family(rows=[ROW]).judged()
    assert row is ROW


def test_a_magnitude_is_moved_outwards_and_judged_by_itself():
    row = magnitude_row(MAGNITUDE, excess=(0.05, 0.1))
    assert (row.low, row.high) == pytest.approx((0.1, 0.45))
    assert (row.stimulus_low, row.stimulus_high) == pytest.approx((0.15, 0.4))
    assert (row.q, row.p_holm, row.family) == (row.p, row.p, "comparison: magnitude")
    assert (row.verdict, row.side) == ("more", "second")
    wider = magnitude_row(MAGNITUDE, (0.05, 0.1), (0.0, 0.0), ends=stimulus_ends, containing=True)
    assert (wider.stimulus_low, wider.stimulus_high) == pytest.approx((0.1, 0.45))


def test_runs_that_are_one_and_the_same_stay_at_zero():
    row = magnitude_row(replace(MAGNITUDE, value=0.0, low=0.0, high=0.0, p=1.0), excess=(0.1, 0.1))
    assert (row.low, row.high, row.verdict) == (0.0, 0.0, "undecided")


def test_partners_share_their_weights():
    assert image_seeds(3, paired=True) == (3, 3)
    assert len(set(image_seeds(3, paired=False))) == 2


def test_runs_of_other_encoders_or_unequal_partners_are_refused():
    seen = [
        EncoderEmbeddings(encoder=name, target_images=(), target_texts=None, group_images={}, group_words={})
        for name in ("clip", "siglip")
    ]
    with raises(InvalidInputError, code=Code.MISMATCH, field="encoders"):
        require_comparable(seen[:1], seen[1:], (1, 1), paired=False)
    with raises(InvalidInputError, code=Code.MISMATCH, field="paired"):
        require_comparable(seen, seen, (1, 2), paired=True)
    require_comparable(seen, seen, (1, 2), paired=False)


def test_the_larger_run_is_cut_to_the_first_images_of_each():
    longer, shorter = {"cook": np.arange(5)}, {"cook": np.arange(3)}
    assert cut_alike(longer, shorter)["cook"].tolist() == [0, 1, 2]
    assert cut_alike(shorter, longer)["cook"].tolist() == [0, 1, 2]


def test_reasons_are_joined_in_order():
    assert with_reasons(replace(ROW, reason="one"), "", "two").reason == "one; two"
    assert with_reasons(ROW, "").reason == ""


def test_no_comparison_corrects_or_judges_a_family_by_itself():
    """Refusals judge each row by an interval of its own; their families are corrected here too."""
    own = {"corrected", "judge_differences", "judge_magnitude", "benjamini_hochberg", "holm", "outward"}
    studies = Path(clinometer.__file__).parent / "studies"
    comparisons = [
        path
        for path in studies.rglob("*.py")
        if re.search(r"metrics\.differences import|from clinometer\.metrics import .*differences", path.read_text())
        and "Family" in path.read_text()
    ]
    assert {path.relative_to(studies).parts[0] for path in comparisons} >= {"leaning", "t2iat", "refusals"}
    for path in {*comparisons, *studies.glob("*/compare.py")}:
        tree = ast.parse(path.read_text())
        compares = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
        if path.name == "scores.py":  # where a study scores and compares in one module
            compares = [node for node in compares if "compar" in node.name or "difference" in node.name]
        nodes = [node for function in compares for node in ast.walk(function)]
        used = {node.id for node in nodes if isinstance(node, ast.Name)}
        used |= {
            node.attr for node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "differences"
        }
        assert compares, path
        assert not used & own, path
