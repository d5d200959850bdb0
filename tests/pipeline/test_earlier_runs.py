"""Run directories that an earlier version made open, score to the same bits, report and compare."""

import shutil

import pandas as pd
import pytest

import clinometer as cm
from clinometer.metrics.verdict import FEWEST_IMAGES
from clinometer.pipeline.results import write_report
from tests.docs.pages import ROOT
from tests.quick import thorough_but

pytestmark = [pytest.mark.pages, pytest.mark.usefixtures("shortcuts")]

RUNS = ROOT / "tests/fixtures/runs"
STUDIES = ("leaning", "t2iat", "editing", "classification")


def in_order(scores: pd.DataFrame) -> pd.DataFrame:
    """Rows by what they are about: in which order they stand is no promise."""
    names = ["metric", "component", "concept", "category", "group", "setting", "encoder"]
    return scores.sort_values(names, kind="stable", ignore_index=True)


def without_few(scores: pd.DataFrame) -> pd.DataFrame:
    """Without the verdicts on few images: of eight and nine there were some once."""
    few = (scores.n_target < FEWEST_IMAGES) & (scores.verdict != "") & scores.metric.isin(["mcas", "profile"])
    few |= scores.verdict == "too few images"
    return scores.assign(
        **{name: scores[name].mask(few, "") for name in ("verdict", "side", "reason_code", "reason")},
        n_decide=scores.n_decide.mask(few, 0),
    )


INFERENCE = ["low", "high", "stimulus_low", "stimulus_high", "p", "q", "p_holm", "p_equivalence", "q_equivalence",
             "n_decide", "verdict", "side", "reason_code", "test", "p_error"]  # fmt: skip


def without_images_test(scores: pd.DataFrame) -> pd.DataFrame:
    """Without what another test over images has changed: earlier versions took Student's t for numbers of images."""
    changed = scores.metric.isin(["mcas", "profile", "prior", "amplification"])
    changed |= (scores.metric == "association") & (scores.component == "mean")
    said = scores.reason.str.replace(
        "its images do not show the concept better", "its images are not shown to match their own prompt better"
    )
    # What is not shown is not so; and images that decide do so with a chance of .8 now (decision 5)
    scores = scores.assign(reason=said, n_decide=0)
    return scores.assign(**{name: scores[name].astype(object).mask(changed, None) for name in INFERENCE})


@pytest.mark.parametrize("study", thorough_but(STUDIES, "t2iat", "editing"))
def test_an_earlier_run_scores_to_the_same_digits_and_reports(study, tmp_path):
    shutil.copytree(RUNS / study, tmp_path / study)
    stored = pd.read_parquet(RUNS / study / "scores.parquet")
    found = cm.score_run(tmp_path / study)
    later = ["image_part", "text_part", "between"]  # what earlier versions did not tell
    found = found[~found.component.isin(later) & ~found.metric.isin(["middle", "pictures"])]
    before, after = (without_images_test(without_few(in_order(scores))) for scores in (stored, found[stored.columns]))
    derived = before.metric.isin(["internal_bias", "internal_bias_summary", "xmcas", "xmcas_group"])
    # These were summed in float32 once, whose last digits depended on the processor.
    single = before.metric.isin(["category", "category_by_sign"]) | (before.component == "identity")
    pd.testing.assert_frame_equal(after[single], before[single], rtol=1e-6, atol=1e-7)
    pd.testing.assert_frame_equal(after[~(derived | single)], before[~(derived | single)], rtol=1e-12, atol=1e-15)
    # These take the intervals of their parts now, and no mean is made of an α that may be anything.
    values = before.value[derived].where(after.value.notna())
    pd.testing.assert_series_equal(after.value[derived], values, rtol=1e-6)
    assert write_report(cm.open_run(tmp_path / study)) == []
    assert "Verdicts" in (tmp_path / study / "report.html").read_text()


@pytest.mark.parametrize("study", thorough_but(STUDIES, "leaning"))
def test_an_earlier_run_compares_with_its_copy_as_alike(study, tmp_path):
    shutil.copytree(RUNS / study, tmp_path / "other")
    (comparison,) = cm.compare(RUNS / study, tmp_path / "other", out=tmp_path / "compared")
    assert comparison.paired
    both = comparison.scores[~comparison.scores.component.str.startswith("own_")]  # of each run by itself
    assert (both.value.dropna() == 0).all()
    assert "both have the same images" in (tmp_path / "compared/comparison.html").read_text()
