"""What a run does not have is said or left out; it stops nothing."""

from dataclasses import replace
from math import nan
from types import SimpleNamespace

import pandas as pd
import pytest

from clinometer.pipeline.results import render_html
from clinometer.report import ReportInput, wording
from clinometer.report.gallery import all_there
from clinometer.report.sections import image_counts
from clinometer.studies.leaning import figures
from clinometer.studies.leaning.figures import forest_figure
from clinometer.studies.leaning.page import PAGE
from clinometer.studies.leaning.view import LeaningView
from clinometer.suites import load_suite, suite_from_mapping
from tests import quick
from tests.quick import thorough_but
from tests.report.page import Element, Page, with_only
from tests.report.synthetic import report_input, small_input, small_suite

NUMBERS = ["value", "low", "high", "stimulus_low", "stimulus_high", "p", "q", "null"]


def section(page: Page, name: str) -> str:
    return page.by_id(name).text


def test_no_scores_at_all():
    page = Page(render_html(small_input(scores=pd.DataFrame())))
    assert "Nothing could be measured" in page.find("p", class_="finding")[0].text
    assert "has no scores" in section(page, "table")
    assert not [e for e in page.find("section") if e.attributes.get("id") in ("stages", "internal")]


def test_every_number_is_missing():
    scores = small_input().scores
    scores = scores.assign(**dict.fromkeys(NUMBERS, nan), verdict="not measured", reason="no image of the target")
    page = Page(render_html(small_input(scores=scores)))
    assert "could not be measured" in section(page, "verdicts")
    assert "No image of the target." in section(page, "verdicts")
    assert "no concept has an MCAS" in section(page, "categories")


def test_scores_that_cannot_be_judged_are_scores():
    scores = small_input().scores
    scores = scores.assign(**dict.fromkeys(("low", "high", "p", "q"), nan), verdict="not measured")
    page = with_only(small_input(scores=scores), "verdicts")
    said = page.find("p", class_="finding")[0].text
    assert said.startswith("Nothing could be judged: no concept of the suite has a score with an interval")
    assert page.find("span", class_="score"), "scores are shown"


def test_scores_that_no_encoder_vouches_for_say_why_and_say_it_once():
    scores = small_input().scores
    why = "encoder reference does not fit: it knows nothing but emoji"
    unfit = {"reason_code": "the encoder does not fit the suite", "reason": why, "verdict": "not measured"}
    page = with_only(small_input(scores=scores.assign(**unfit)), "verdicts")
    said = page.find("p", class_="finding")[0].text
    assert said.startswith("Nothing could be judged for ")
    assert said.endswith(": the encoder does not fit the suite or the model.")
    assert section(page, "verdicts").count("Encoder reference does not fit: it knows nothing but emoji.") == 1
    assert why not in section(page, "verdicts"), "it is said above the concepts"


def test_a_reason_that_not_all_share_stands_below_its_concept():
    scores = small_input().scores
    of_one = scores.concept == scores.concept[scores.metric == "mcas"].iloc[0]
    scores = scores.assign(verdict="not measured", reason_code="no interval or no p")
    scores.loc[of_one, ["reason_code", "reason"]] = ["the encoder does not fit the suite", "it never saw a CEO"]
    assert "it never saw a CEO" in section(with_only(small_input(scores=scores), "verdicts"), "verdicts")


def test_imported_images_are_not_said_to_be_drawn():
    samples = pd.DataFrame({"status": ["ok", "ok", "failed"]})
    view = SimpleNamespace(report=SimpleNamespace(samples=samples, settings={"origin": "imported"}))
    assert image_counts(view) == "2 imported, 1 failed"
    view.report.samples = samples[:2]
    assert image_counts(view) == "2 imported, none failed"


def test_a_figure_names_the_concepts_that_have_a_number_and_no_more_than_fit():
    view = LeaningView.of(small_input())
    (lost, *_), few = view.concepts, {"share": 0, "mcas": 2}
    for metric, rows in few.items():
        whole = view.report.scores
        gone = (whole.metric == metric) & (whole.component != "tt") & (whole.concept == lost)
        figure = forest_figure(LeaningView.of(small_input(scores=whole[~gone])))
        assert figure is not None
        assert figure.svg.count(f"<title>{lost}: ") == (0 if rows else 1)
    none = forest_figure(LeaningView.of(small_input(scores=view.report.scores[view.report.scores.metric == "share"])))
    assert none is None


def test_of_many_concepts_the_first_figure_says_how_many_it_leaves_out(monkeypatch):
    monkeypatch.setattr(figures, "MOST_ROWS", 5)
    view = LeaningView.of(small_input())
    figure = forest_figure(view)
    assert figure is not None
    assert figure.svg.count("image part ") == 5 + figure.description.count("image part ")
    assert f"{len(view.concepts) - 5} more are listed below" in PAGE.lead(view)["caption"]


@pytest.mark.parametrize(("n", "said"), [(1, "the one image is there"), (1200, "all 1,200 images are there")])
def test_one_image_is_not_all_of_them(n, said):
    assert all_there(n) == said


def test_a_text_encoder_of_a_small_scale_keeps_its_signs():
    whole = small_input()
    tt = whole.scores[(whole.scores.component == "tt") & (whole.scores.encoder == "mean")]
    small = tt.assign(value=[0.004 * (-1) ** order for order in range(len(tt))])
    own = small.assign(metric="own_text", encoder="own:text", value=small.value / 2)
    scores = pd.concat([whole.scores.drop(tt.index), small, own])
    page = with_only(replace(whole, scores=scores), "own-text")
    cells = [e.text for e in page.find("td", class_="n") if "own-text" in ancestors(e)]
    assert len(cells) == 2 * len(tt)
    assert all(cell[0] in "+\N{MINUS SIGN}" for cell in cells)


def ancestors(element: Element | None) -> set[str]:
    return set() if element is None else {element.attributes.get("id", "")} | ancestors(element.parent)


def few_targets() -> ReportInput:
    """A page of every section and figure, quick to draw: two categories of two targets each."""
    held = small_suite().model_dump(exclude_none=True)
    few = {name: of | {"targets": of["targets"][:2]} for name, of in list(held["categories"].items())[:2]}
    return small_input(suite=suite_from_mapping(held | {"categories": few}, source="test"))


METRICS = ("mcas", "internal_bias", "internal_bias_summary", "xmcas", "xmcas_group", "profile", "share", "category",
           "category_by_sign")  # fmt: skip


@pytest.mark.parametrize("metric", thorough_but(METRICS, "mcas", "xmcas", "category"))
def test_any_metric_may_be_missing(metric: str):
    few = few_targets()
    scores = few.scores
    assert (scores.metric == metric).any()
    Page(render_html(replace(few, scores=scores[scores.metric != metric])))


@pytest.mark.thorough
@pytest.mark.parametrize("column", ["verdict", "group", "n_target"])
def test_any_column_may_be_missing_or_empty(column: str):
    few = few_targets()
    Page(render_html(replace(few, scores=few.scores.drop(columns=column))))
    Page(render_html(replace(few, scores=few.scores.assign(**{column: None}))))


def test_no_verdict_is_not_a_verdict():
    scores = small_input().scores.drop(columns="verdict")
    page = with_only(small_input(scores=scores), "verdicts")
    assert "has no verdict" in section(page, "verdicts")
    assert "leans" not in " ".join(e.text for e in page.find("p", class_="said"))


def test_no_third_group():
    page = with_only(small_input(suite=load_suite("mcas")), "plane")
    assert "names no third group" in section(page, "plane")
    assert not [e for e in page.find("svg") if "plane" in e.attributes.get("aria-labelledby", "")]


def test_one_encoder():
    scores = small_input().scores
    scores = scores[scores.encoder != "ViT-B-32/openai"]
    page = with_only(small_input(scores=scores, encoder_cards={"reference/clip": {"name": "reference/clip"}}), "stages")
    assert "Only one encoder" in section(page, "stages")


def test_nothing_planted():
    page = with_only(small_input(planted=None), "planted", "method")
    assert not [e for e in page.elements if e.attributes.get("id") == "planted"]
    assert "emoji-like" not in section(page, "method")


def test_no_images():
    page = with_only(small_input(samples=pd.DataFrame()), "gallery")
    assert "has no images" in section(page, "gallery")


def test_an_image_that_cannot_be_read_is_shown_as_such():
    page = with_only(small_input(image=lambda _: b"\x89PNG broken"), "gallery")
    assert not page.find("img")
    assert "unreadable" in section(page, "gallery")


def test_no_curve():
    page = with_only(small_input(curves=pd.DataFrame({"curve": [], "x": []})), "internal")
    assert "too few points for a curve" in section(page, "internal")
    assert "LOESS curve" not in section(page, "internal")


def test_where_every_alpha_is_unstable_a_sentence_says_so_and_nothing_is_drawn():
    scores = small_input().scores
    alphas = scores.component == "bias_amplification"
    page = with_only(small_input(scores=scores.assign(flag=scores.flag.mask(alphas, "unstable"))), "internal")
    (n,) = {(alphas & (scores.encoder == "mean")).sum()}
    assert f"α of all {n} concepts is unstable: TT may be zero" in section(page, "internal")
    assert not [e for e in page.find("svg") if "internal-title" in e.attributes.get("aria-labelledby", "")]
    assert "α = 1" not in " ".join(e.text for e in page.find("li") if e.within("internal"))


def test_no_margin_and_no_stereotype():
    suite = load_suite("xmcas")
    bare = suite.model_dump()
    for category in bare["categories"].values():
        for target in category["targets"]:
            target["stereotype"] = None
    page = with_only(small_input(suite=suite_from_mapping(bare, source="test")), "categories", "internal")
    assert "counts as no leaning" not in section(page, "categories")
    assert "tied to no group" in section(page, "internal")


def test_a_large_run_shows_the_first_of_every_prompt():
    suite = load_suite("mcas").with_options(images=60)
    page = with_only(report_input(suite=suite, scores=pd.DataFrame()), "gallery")
    assert "more in the run" in section(page, "gallery")
    assert len(page.find("img")) < 28 * 60


@pytest.mark.thorough
def test_an_empty_cell_of_pandas_is_empty():
    scores = small_input().scores.convert_dtypes()
    scores["reason"] = pd.Series([pd.NA] * len(scores), dtype="string")
    assert "NA" not in {e.text for e in Page(render_html(small_input(scores=scores))).find("td")}


def test_a_group_that_is_refused_more_often_is_told(tmp_path):
    from tests.toys import Eye, Painter, toy_suite

    suite = toy_suite(target=2, attribute=2, concepts=2)
    run = quick.audit(Painter(refuse=" men"), suite, tmp_path / "run", encoder=Eye(), report=True)
    page = Page(run.directory.read_bytes("report.html").decode())
    assert "missing (refused or of one colour) for man and for woman differ by +1.00" in section(page, "gallery")


def test_rates_that_may_be_alike_are_not_called_more(report):
    lost = {"metric": "refusal", "component": "difference", "encoder": "", "value": -0.1, "low": -0.6, "high": 0.4,
            "p": 0.5, "test": "rates permuted"}  # fmt: skip
    for row, said in (
        (lost, "for women and for men differ by +0.10 [−0.40, 0.60], p = 0.500 (rates permuted)."),
        (lost | {"value": 0.0}, "for men and for women differ by 0.00 [−0.60, 0.40]"),
        (
            lost | {"high": -0.05, "p": 0.02, "verdict": "more", "side": "woman"},
            "Pictures of women are missing (refused or of one colour) more often than those of men",
        ),
    ):
        scores = pd.concat([report.scores, pd.DataFrame([row])])
        words = with_only(small_input(scores=scores), "gallery").by_id("gallery").text
        assert said in words
        assert ("more often" in words) == ("Pictures of" in said)


def test_the_group_that_lost_more_is_named_whichever_it_is(tmp_path):
    from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite

    for name, suite in {
        "leaning": toy_suite(target=2, attribute=2, concepts=2),
        "t2iat": toy_t2iat_suite(neutral=2, attribute=2, stimuli=2),
    }.items():
        run = quick.audit(Painter(refuse="women"), suite, tmp_path / name, encoder=Eye(), report=True)
        html = run.directory.read_bytes("report.html").decode()
        words = section(Page(html), "gallery")
        a, b = (suite.label_of(group) for group in (suite.axis.a, suite.axis.b))
        said = {  # four prompts show it, two do not
            "leaning": f"missing (refused or of one colour) for {b} and for {a} differ by +1.00 [",
            "t2iat": f"{b} are missing (refused or of one colour) more often than those of {a}, by +1.00 [",
        }[name]
        assert said in words
        if name == "leaning":
            assert f"Drawn for {b} what this group looks like to the model 0 images, 4 refused" in words
        else:  # no prompt has images of both, so no arrow has an end
            assert "amplification" not in [e.attributes.get("id") for e in Page(html).find("section")]
        low, high = words.split(said)[1].split("]")[0].split(", ")
        (row,) = run.scores[(run.scores.metric == "refusal") & (run.scores.component == "difference")].itertuples()
        assert (low, high) == (wording.number(-row.high), wording.number(-row.low))


@pytest.mark.thorough
def test_a_refused_picture_is_no_second_encoder(tmp_path):
    from tests.toys import Eye, Painter, toy_suite, toy_t2iat_suite

    painter = Painter(refuse="lean 0.20")
    run = quick.audit(painter, toy_suite(target=2, attribute=2), tmp_path / "leaning", encoder=Eye(), report=True)
    page = Page(run.directory.read_bytes("report.html").decode())
    assert (run.scores.metric == "refusal").any()
    assert "Only one encoder measured this run (eye)" in section(page, "stages")
    assert not [e for e in page.find("svg") if "encoders" in e.attributes.get("aria-labelledby", "")]

    suite = toy_t2iat_suite(neutral=2, attribute=2, stimuli=2)
    run = quick.audit(Painter(refuse="0.71"), suite, tmp_path / "t2iat", encoder=Eye(), report=True)
    page = Page(run.directory.read_bytes("report.html").decode())
    assert "Encoder by encoder" not in section(page, "tests")
    assert "The report shows how far its encoders agree" not in section(page, "method")
