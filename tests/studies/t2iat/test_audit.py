"""A T2IAT study from the suite to the scores, on a painter whose colours are known."""

import numpy as np
import pytest
from PIL import Image

import clinometer as cm
from clinometer.errors import Code, ImportManifestError, RunMismatchError
from clinometer.models.protocols import GenerationResult
from clinometer.suites import load_suite, suite_from_mapping
from tests import quick
from tests.raising import raises
from tests.toys import Eye, Painter, toy_t2iat_suite


@pytest.fixture(scope="module")
def run():
    return quick.finished(Painter(), toy_t2iat_suite(neutral=8, attribute=6, stimuli=4), encoder=Eye())


def scores(run, metric, component):
    rows = run.scores
    return rows[(rows.metric == metric) & (rows.component == component) & (rows.encoder == "mean")]


def test_the_redder_concept_is_tied_to_red(run):
    (test,) = scores(run, "t2iat", "differential_association").to_dict("records")
    assert test["value"] > 0.3
    assert test["p"] == pytest.approx(2 / 70)  # the most extreme of C(8, 4) splits, and its mirror
    assert test["p_exact"]
    assert test["n_splits"] == 70
    assert (test["verdict"], test["side"]) == ("leans", "man")
    assert (test["n_target"], test["n_a"], test["n_b"]) == (63, 48, 47)  # to this eye, two pairs of them look alike
    by_prompt = scores(run, "association", "mean").set_index("concept").value
    assert (by_prompt[["0.670", "0.690", "0.710", "0.730"]] > 0).all()
    assert (by_prompt[["0.270", "0.290", "0.310", "0.330"]] < 0).all()


def test_the_run_keeps_what_the_figures_draw(run):
    curves = run.curves
    assert set(curves.curve) <= {"association_density", "association_outlier"}
    assert set(curves.concept) == {s.name for _, s in run.suite.stimuli()}


def test_scoring_again_gives_the_same_table(run):
    before = run.scores
    cm.score_run(run.url)
    assert cm.open_run(run.url).scores.equals(before)


def test_a_run_knows_its_suite(run):
    assert run.suite == toy_t2iat_suite(neutral=8, attribute=6, stimuli=4)
    assert "red-green" in run._repr_html_()
    with raises(RunMismatchError, code=Code.MISMATCH, match="8 neutral and 2 × 6 .*'toy-tests' .*5 neutral"):
        quick.audit(Painter(), toy_t2iat_suite(neutral=5, attribute=5, stimuli=4), run.url, encoder=Eye())


def test_refused_images_cost_their_own_prompt_and_are_counted(tmp_path):
    suite = toy_t2iat_suite(neutral=4, attribute=3)
    refusing = quick.audit(Painter(refuse="0.680 women"), suite, tmp_path / "run", encoder=Eye())
    (test,) = scores(refusing, "t2iat", "differential_association").to_dict("records")
    assert np.isfinite([test["value"], test["p"]]).all()
    assert "left out for want of images: 1 of the prompts" in test["reason"]
    rows = scores(refusing, "association", "mean").set_index("concept")
    assert "no image with woman" in rows.reason["0.680"]
    assert np.isfinite(rows.value["0.700"])


def test_a_suite_without_tests_is_scored_prompt_by_prompt(tmp_path):
    run = quick.audit(Painter(), toy_t2iat_suite(tests=False), tmp_path / "run", encoder=Eye())
    assert not len(scores(run, "t2iat", "differential_association"))
    assert scores(run, "association", "mean").value.notna().all()


# --- finished images ---------------------------------------------------------------------------------------------


def write_images(folder, lines):
    folder.mkdir()
    rng = np.random.default_rng(0)
    for line in lines[1:]:
        pixels = (rng.integers(0, 64, (8, 8, 3)) + rng.integers(0, 192, 3)).astype(np.uint8)  # no two look alike
        Image.fromarray(pixels).save(folder / line.split(",")[0])
    (folder / "manifest.csv").write_text("\n".join(lines) + "\n")


def test_finished_images_find_their_prompt_by_concept_and_group(tmp_path):
    suite = load_suite("t2iat/judaism-christianity")
    lines, number = ["file,concept,group,prompt"], 0
    for concept in ("torah", "judaism", "church", "bible"):
        for group in ("", "pleasant", "unpleasant"):
            for _ in range(2):
                lines.append(f"{number}.png,{concept},{group},{'my own words' if group else ''}")
                number += 1
    write_images(tmp_path / "made", lines)
    run = quick.import_images(tmp_path / "made", tmp_path / "run", suite=suite, encoder=Eye())
    (test,) = scores(run, "t2iat", "differential_association").to_dict("records")
    assert (test["n_target"], test["n_a"], test["n_b"]) == (8, 8, 8)
    assert np.isfinite(test["p"])
    assert "left out for want of images: 4 of the prompts" in test["reason"]
    assert set(run.samples.prompt[run.samples.group == "pleasant"]) == {"my own words"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0.png,mosque,,", "concept: 'mosque' .*t2iat/judaism-christianity"),
        ("0.png,chruch,,", r"concept: 'chruch' .*mean church\?"),
        ("0.png,church,kind,", "group: 'kind' .*pleasant, unpleasant"),
        ("0.png,,pleasant,", "concept and group: 'pleasant'"),
    ],
)
def test_a_row_that_the_suite_does_not_ask_is_refused_by_line(tmp_path, line, words):
    write_images(tmp_path / "made", ["file,concept,group,prompt", line])
    with raises(ImportManifestError, code=Code.UNKNOWN_NAME, match=f"line 2, {words}"):
        quick.import_images(tmp_path / "made", tmp_path / "run", suite="t2iat/judaism-christianity", encoder=Eye())


def test_a_concept_with_a_group_means_nothing_to_a_leaning_study(tmp_path):
    write_images(tmp_path / "made", ["file,concept,group,prompt", "0.png,housekeeper,man,"])
    with raises(ImportManifestError, code=Code.UNKNOWN_NAME, match=r"line 2, .*'housekeeper"):
        quick.import_images(tmp_path / "made", tmp_path / "run", suite="mcas", encoder=Eye())


# --- the reference model -----------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.pages
@pytest.mark.slow
def test_the_reference_model_is_tied_as_it_was_planted(tmp_path):
    """A few images: the signs of the planted tests are certain, the p-values of so few prompts are not asked."""
    held = load_suite("t2iat/reference").model_dump()
    for name, concept in held["concepts"].items():
        concept["stimuli"] = concept["stimuli"][: 2 if name in ("crafts", "services") else 1]
    held["name"] = "t2iat/small"
    suite = suite_from_mapping(held, source="test").with_options(images=4)
    run = quick.audit("reference", suite, tmp_path / "run", steps=2)
    tests = scores(run, "t2iat", "differential_association").set_index("concept")
    assert tests.value["occupations"] > 0
    assert tests.value["activities"] > 0
    assert "one prompt in each set" in tests.reason["parity"]
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000


@pytest.mark.pages
def test_what_refused_neutral_pictures_might_change_stands_beside_the_verdict(tmp_path):
    class Shy(Painter):
        def generate(self, requests):
            for order, request in enumerate(requests):
                (result,) = super().generate([request])
                yield GenerationResult(request.id, "refused", None, "no") if order % 6 == 0 else result

    suite = toy_t2iat_suite(neutral=8, attribute=4, stimuli=3)
    run = quick.audit(Shy(), suite, tmp_path / "run", encoder=Eye())
    lost = run.samples[(run.samples.status != "ok") & (run.samples.group == "")]
    scores = run.scores[(run.scores.encoder == "mean") & (run.scores.verdict != "")]
    of_stimuli = scores[scores.metric == "association"].set_index("concept")
    assert of_stimuli.n_missing[of_stimuli.n_missing > 0].to_dict() == lost.concept.value_counts().to_dict()
    (test,) = scores[scores.metric == "t2iat"].itertuples()
    assert test.n_missing == len(lost) > 0
    assert test.bound_low < test.stimulus_low < test.stimulus_high < test.bound_high
    page = (tmp_path / "run" / "report.html").read_text()
    assert f"with its {len(lost)} missing pictures filled in either way the interval is" in page
