"""Runs beside each other: pairs by their noise, refusals by name, one page and one table."""

import dataclasses
import os
import shutil
from collections import Counter
from html import unescape
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, RunMismatchError, RunNotFoundError, RunStorageError
from clinometer.models.protocols import GenerationResult
from clinometer.pipeline.comparison_page import (
    comparison_refusals,
    comparison_verdict,
    pairing_in_words,
    side_by_side,
)
from clinometer.runs.several import shared_encoders
from clinometer.studies.reporting import report_input
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.docs.pages import ROOT
from tests.raising import raises
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toy_editing import Reader, Recolourer
from tests.toy_editing import toy_suite as toy_editing_suite
from tests.toys import Eye, Painter, paint, toy_suite, toy_t2iat_suite

pytestmark = pytest.mark.usefixtures("shortcuts_of_a_module")

SUITE = {"target": 4, "attribute": 3, "concepts": 4}


class Redder(Painter):
    """The painter, its targets redder by a little: the same noise, another setting."""

    def __init__(self, by=0.06, **options):
        super().__init__(**options)
        self.by = by
        settings = self.card.settings | {"redder": by}
        self.card = dataclasses.replace(self.card, settings=settings)

    def generate(self, requests):
        for request in requests:
            words = request.prompt.split()
            prompt = request.prompt
            if words[-2:-1] == ["lean"]:
                prompt = f"lean {float(words[-1]) + self.by}"
            if self.refuse and self.refuse in request.prompt:
                yield GenerationResult(request.id, "refused", None, "not allowed here")
            else:
                yield GenerationResult(request.id, "ok", paint(prompt, request.seed))


def audit(out, model=None, **options):
    options = {"suite": toy_suite(**SUITE), "encoder": Eye()} | options
    return quick.audit(model or Painter(), out=out, **options)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("compared")
    return {
        "plain": audit(folder / "plain"),
        "redder": audit(folder / "redder", Redder(name="redder")),
        "seed": audit(folder / "seed", seed=1),
        "refusing": audit(folder / "refusing", Redder(refuse="lean 0.20", name="refusing")),
    }


def mcas(comparison):
    rows = comparison.scores[(comparison.scores.component == "mcas") & (comparison.scores.encoder == "mean")]
    return rows.set_index("concept")


def test_the_same_seed_is_compared_in_pairs(runs):
    (found,) = cm.compare(runs["plain"].url, runs["redder"])
    assert (found.paired, found.pairs, found.dropped) == (True, 4 * 4 + 6 * 3, 0)
    own = [
        run.scores[(run.scores.metric == "mcas") & (run.scores.encoder == "mean")]
        for run in (found.first, found.second)
    ]
    values = [rows[rows.component == "mcas"].set_index("concept").value for rows in own]
    np.testing.assert_allclose(mcas(found).value, (values[1] - values[0])[mcas(found).index], atol=1e-12)
    assert (mcas(found).value > 0).all()
    assert (mcas(found).verdict == "too few images").all()  # four of a target


def test_another_seed_is_not_and_its_intervals_are_wider(runs):
    (paired,) = cm.compare(runs["plain"], runs["redder"])
    (found,) = cm.compare(runs["seed"], runs["redder"])
    assert (found.paired, found.pairs) == (False, 0)
    assert ((mcas(found).high - mcas(found).low) > 2 * (mcas(paired).high - mcas(paired).low)).all()
    assert "unpaired" in mcas(found).test.iloc[0]


def test_an_image_without_a_partner_counts_in_neither(runs):
    (found,) = cm.compare(runs["plain"], runs["refusing"])
    assert (found.pairs, found.dropped) == (3 * 4 + 6 * 3, 4)
    row = mcas(found).loc["concept 0.20"]
    assert np.isnan(row.value)
    assert row.verdict == "not measured"


def test_the_page_and_the_table(runs, tmp_path):
    compared = cm.compare(runs["plain"], runs["redder"], runs["refusing"], out=tmp_path / "out")
    assert [each.second.model_card["name"] for each in compared] == ["redder", "refusing"]
    table = pd.read_csv(tmp_path / "out/comparison.csv")
    assert set(table.second) == {"redder", "refusing"}
    assert len(table) == sum(len(each.scores) for each in compared)
    page = (tmp_path / "out/comparison.html").read_text()
    HTMLParser().feed(page)
    for words in ("redder compared with painter", "34 pairs of images", "4 images without a partner", "concept 0.80"):
        assert words in page
    assert "http://" not in page.replace("http://www.w3.org/", "")  # the name of SVG, not a place
    assert "https://" not in page


@pytest.mark.thorough
def test_names_are_escaped(tmp_path):
    runs = [
        audit(tmp_path / name, Painter(name=f"<b>{name}</b>"), suite=toy_suite(target=2, attribute=2, concepts=2))
        for name in ("one", "two")
    ]
    cm.compare(*runs, out=tmp_path / "out")
    assert "<b>" not in (tmp_path / "out/comparison.html").read_text()


def test_the_command(runs, tmp_path):
    result = CliRunner().invoke(app, ["compare", runs["plain"].url, runs["redder"].url], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    assert "Image part of redder minus image part of painter" in result.output
    assert "redder compared with painter" in result.output
    assert "34 pairs of images, each drawn from the same prompt and noise." in " ".join(result.output.split())


def test_the_command_names_the_page_and_refuses_a_place_before_it_compares(runs, tmp_path, monkeypatch):
    asked = ["compare", runs["plain"].url, runs["redder"].url, "--out"]
    result = CliRunner().invoke(app, [*asked, str(tmp_path / "out")], env={"COLUMNS": "160"})
    assert f"Report: {tmp_path}/out/comparison.html" in result.output
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("clinometer.pipeline.comparison.first_against_rest", None)
    with raises(RunStorageError, code=Code.STORAGE, match="File exists; .*--out"):
        CliRunner().invoke(app, [*asked, str(tmp_path / "file")], catch_exceptions=False)


def test_one_model_at_two_settings_goes_by_its_directories(runs, tmp_path):
    result = CliRunner().invoke(app, ["compare", runs["plain"].url, runs["seed"].url], env={"COLUMNS": "160"})
    assert "Image part of seed minus image part of plain" in result.output
    assert "Not paired: the runs have different seeds (0 and 1)." in result.output


def test_console_page_and_table_name_three_runs_alike(runs, tmp_path):
    """Two of them share a model, so all go by their directories: in either comparison, and on the page."""
    asked = [runs[name].url for name in ("plain", "redder", "seed")]
    result = CliRunner().invoke(app, ["compare", *asked, "--out", str(tmp_path)], env={"COLUMNS": "160"})
    page, table = (tmp_path / "comparison.html").read_text(), pd.read_csv(tmp_path / "comparison.csv")
    for other in ("redder", "seed"):
        assert f"Image part of {other} minus image part of plain" in result.output
        assert f"Image part of {other} minus image part of plain" in unescape(page)
    assert set(zip(table["first"], table["second"], strict=True)) == {("plain", "redder"), ("plain", "seed")}
    assert "painter beside" not in result.output
    assert "beside painter" not in result.output


def test_runs_of_one_seed_and_other_numbers_of_images_are_not_said_to_have_other_seeds(tmp_path):
    runs = [
        audit(tmp_path / str(n), Painter(name=str(n)), suite=toy_suite(target=n, attribute=2, concepts=2))
        for n in (2, 3)
    ]
    (found,) = cm.compare(*runs, out=tmp_path / "out")
    assert not found.paired
    images = [f"{n} per target, 2 per attribute prompt" for n in (2, 3)]
    assert found.unpaired == f"the runs have different numbers of images ({images[0]}; {images[1]})"
    assert f"Not paired: {found.unpaired}." in (tmp_path / "out/comparison.html").read_text()


def test_runs_of_other_seeds_and_other_numbers_of_images_are_said_to_have_both(runs, tmp_path):
    few = audit(tmp_path / "few", suite=toy_suite(target=2, attribute=3, concepts=4), seed=1)
    (found,) = cm.compare(runs["plain"], few)
    seeds = "the runs have different seeds (0 and 1)"
    assert found.unpaired.startswith(f"{seeds} and different numbers of images (4 per target, ")


def test_the_same_images_are_said_to_be_the_same(runs, tmp_path):
    again = shutil.copytree(runs["plain"].url, tmp_path / "again")
    (found,) = cm.compare(runs["plain"], again, out=tmp_path / "out")
    assert found.identical == found.pairs == 34
    page = (tmp_path / "out/comparison.html").read_text()
    assert "again compared with plain: nothing differs, because both have the same images." in page
    assert "identical: model, settings and seed are the same. So every difference is 0." in page
    (other,) = cm.compare(runs["plain"], runs["redder"])
    assert other.identical == 6 * 3  # only targets are redder
    assert "same images" not in comparison_verdict(other)


def test_the_same_images_under_another_name_are_not_said_to_have_the_same_model(runs, tmp_path):
    (found,) = cm.compare(runs["plain"], audit(tmp_path / "again", Painter(name="again")))
    assert pairing_in_words(found).endswith("Both images of every pair are identical. So every difference is 0.")


def test_one_pair_and_one_image_are_one(runs):
    (found,) = cm.compare(runs["plain"], runs["redder"])
    said = pairing_in_words(dataclasses.replace(found, pairs=1, dropped=1))
    assert said.startswith("1 pair of images, ")
    assert said.endswith("; 1 image without a partner is left out.")


def test_which_leans_more_is_not_undecided_where_nothing_can_be_judged(tmp_path):
    suite = toy_suite(target=1, attribute=1, concepts=2)
    runs = [audit(tmp_path / name, Painter(name=name), suite=suite, seed=len(name)) for name in ("one", "another")]
    (found,) = cm.compare(*runs)
    row = differences(found, "magnitude").iloc[0]
    assert (row.verdict, row.reason) == ("not measured", "no interval: a prompt has one image")
    assert np.isfinite(row.value)
    said = comparison_verdict(found)
    assert "another compared with one: which leans more cannot be judged: no interval: a prompt has one image." in said
    assert "undecided" not in said


def test_a_run_is_itself_however_its_path_is_written(runs, tmp_path):
    url = runs["plain"].url
    (tmp_path / "link").symlink_to(url)
    for path in (f"{url}/", f"{url}/../{url.rsplit('/', 1)[1]}", str(tmp_path / "link")):
        with raises(RunMismatchError, code=Code.DUPLICATE):
            cm.compare(url, path)


def test_what_cannot_be_compared_is_refused_by_name(runs, tmp_path):
    small = {"target": 1, "attribute": 1}
    with raises(RunMismatchError, code=Code.TOO_FEW, match="found 1 run"):
        cm.compare(runs["plain"])
    with raises(RunMismatchError, code=Code.DUPLICATE):
        cm.compare(runs["plain"], runs["plain"].url)
    for other_way in (f"{runs['plain'].url}/", f"file://{runs['plain'].url}", os.path.relpath(runs["plain"].url)):
        with raises(RunMismatchError, code=Code.DUPLICATE):
            cm.compare(runs["plain"], other_way)
    asked = toy_suite(**small).model_dump()
    asked["groups"]["man"]["words"] = ["him"]
    other = audit(tmp_path / "other", suite=suite_from_mapping(asked, source="other"))
    with raises(RunMismatchError, code=Code.MISMATCH, match="asks other things"):
        cm.compare(runs["plain"], other)
    strict = audit(tmp_path / "strict", suite=toy_suite(**small, margin=0.3))
    with raises(
        RunMismatchError,
        code=Code.MISMATCH,
        match=r"strict: .*margin 0\.3, .*plain none; .*strict --suite-option margin=null$",
    ):
        cm.compare(runs["plain"], strict)
    unseen = audit(tmp_path / "unseen", suite=toy_suite(**small), encoder=Eye("second"))
    with raises(RunMismatchError, code=Code.MISMATCH, match="no encoder .*has eye.*has second"):
        cm.compare(runs["plain"], unseen)
    eye = Eye()
    eye.card = dataclasses.replace(eye.card, settings={"size": 9})
    changed = audit(tmp_path / "changed", suite=toy_suite(**small), encoder=eye)
    with raises(RunMismatchError, code=Code.MISMATCH, match="different encoders of that name"):
        cm.compare(runs["plain"], changed)


@pytest.mark.thorough
def test_an_encoder_that_is_another_leaves_those_that_are_the_same(tmp_path):
    other = Eye()
    other.card = dataclasses.replace(other.card, settings={"size": 9})
    first = audit(tmp_path / "first", encoder=[Eye(), Eye("second")])
    second = audit(tmp_path / "second", encoder=[other, Eye("second")])
    (compared,) = cm.compare(first, second)
    assert {"second"} <= set(compared.scores.encoder) <= {"second", "mean"}
    reports = {"first": report_input(first), "second": report_input(second)}
    assert side_by_side(reports, shared_encoders((first, second)))["encoder"] == "second"


# --- refusals ------------------------------------------------------------------------------------------------------


def refusals(comparison, component="refusal_rate", **equal):
    equal = {"concept": "", "group": "", "setting": ""} | equal
    rows = comparison.scores[comparison.scores.component == component]
    for name, value in equal.items():
        rows = rows[rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


def test_refusals_are_compared_where_there_are_any(runs):
    (found,) = cm.compare(runs["plain"], runs["refusing"])
    row = refusals(found, concept="concept 0.20")
    assert (row["value"], row["p"], row["n_target"], row["metric"]) == (1, 2 / 2**4, 4, "comparison")
    assert refusals(found)["value"] == pytest.approx(1 / (4 + 4))  # four concepts, young and old, two others
    (none,) = cm.compare(runs["plain"], runs["redder"])
    assert not none.scores.component.str.contains("refusal").any()
    assert comparison_refusals(none) == ""


def test_refusals_turned_round_are_negated(runs):
    (forth,), (back,) = cm.compare(runs["plain"], runs["refusing"]), cm.compare(runs["refusing"], runs["plain"])
    for concept in ("", "concept 0.20"):
        assert refusals(forth, concept=concept)["value"] == -refusals(back, concept=concept)["value"]
        assert refusals(forth, concept=concept)["p"] == refusals(back, concept=concept)["p"]


@pytest.mark.thorough
def test_who_refuses_more_is_said_on_the_page_and_on_the_console(runs, tmp_path):
    suite = toy_suite(target=12, attribute=2, concepts=3)
    one = audit(tmp_path / "one", suite=suite)
    two = audit(tmp_path / "two", Redder(refuse="lean 0.20", name="refusing"), suite=suite)
    result = CliRunner().invoke(app, ["compare", one.url, two.url, "--out", str(tmp_path)], env={"COLUMNS": "160"})
    said = " ".join(result.output.split())
    assert "Refusals: undecided which refuses more." in said
    assert "refusing refuses more of: concept 0.20. So differences of leaning are conditional" in said
    page = (tmp_path / "comparison.html").read_text()
    for words in ("Refusals of refusing minus refusals of painter", "Refusals: undecided which refuses more.",
                  "they are about what both runs drew"):  # fmt: skip
        assert words in page
    assert "refusal_rate" in set(pd.read_csv(tmp_path / "comparison.csv").component)


def test_runs_that_refuse_the_same_are_said_to_hold_the_same_images(runs, tmp_path):
    (found,) = cm.compare(runs["refusing"], shutil.copytree(runs["refusing"].url, tmp_path / "again"))
    assert "nothing differs, because both have the same images" in comparison_verdict(found)
    assert refusals(found)["value"] == 0
    (found,) = cm.compare(runs["refusing"], runs["redder"])
    assert "nothing differs" not in comparison_verdict(found)  # every pair is the same, but not what was refused


def imported_from(run, folder):
    """The images of a run as a folder of finished ones, imported."""
    (folder / "images").mkdir()
    rows = ["file,concept,group,prompt"]
    for sample, (_, image) in zip(run.plan, run.images([each.id for each in run.plan]), strict=True):
        (folder / f"images/{sample.id}.png").write_bytes(image)
        rows.append(f"{sample.id}.png,{sample.concept},{sample.group},{sample.prompt}")
    (folder / "images/manifest.csv").write_text("\n".join(rows))
    return quick.import_images(folder / "images", folder / "out", suite=run.suite, encoder=Eye())


class EveryOther(Painter):
    """The painter, who refuses every other picture of a prompt."""

    def __init__(self, first):
        super().__init__(name=f"from {first}")
        self.card.settings["first"] = self.first = first
        self.asked = Counter()

    def generate(self, requests):
        for request in requests:
            (result,) = super().generate([request])
            self.asked[request.prompt] += 1
            refused = request.prompt.endswith("0.20") and self.asked[request.prompt] % 2 == self.first
            yield GenerationResult(request.id, "refused", None, "not allowed here") if refused else result


@pytest.mark.thorough
def test_runs_that_refuse_as_many_and_others_do_not_hold_the_same_images(tmp_path):
    one, other = (audit(tmp_path / str(first), EveryOther(first)) for first in (0, 1))
    (found,) = cm.compare(one, other)
    assert found.dropped == 4
    assert refusals(found, concept="concept 0.20")["value"] == 0
    assert "nothing differs" not in comparison_verdict(found)


def test_what_an_imported_model_refused_is_not_known(runs, tmp_path):
    imported = imported_from(runs["plain"], tmp_path)
    (found,) = cm.compare(runs["refusing"], imported)
    row = refusals(found)
    assert np.isnan(row["value"])
    assert row["verdict"] == "not measured"
    assert "cannot be compared: the second run was imported" in comparison_refusals(found)


@pytest.mark.thorough
def test_edits_and_stimuli_that_were_refused_are_compared(associations, edits):
    (found,) = cm.compare(associations["plain"], associations["refusing"])
    assert refusals(found)["value"] == pytest.approx(1 / 8 / 4)  # one of a stimulus's four prompts, of eight stimuli
    assert refusals(found, group="woman")["n_splits"] == 2**8
    assert "left out for want of" not in refusals(found)["reason"]
    (found,) = cm.compare(edits["plain"], edits["failing"])
    assert not found.scores.component.str.contains("refusal").any()  # what failed is no answer


# --- T2IAT studies -----------------------------------------------------------------------------------------


class Extreme(Painter):
    """The painter, its neutral pictures farther from the middle by half as much again."""

    def __init__(self, by=1.5, **options):
        super().__init__(name="extreme", **options)
        self.by = by

    def generate(self, requests):
        for request in requests:
            words = request.prompt.split()
            prompt = request.prompt
            if words[-2:-1] == ["lean"]:
                prompt = f"lean {0.5 + self.by * (float(words[-1]) - 0.5)}"
            if self.refuse and self.refuse in request.prompt:
                yield GenerationResult(request.id, "refused", None, "not allowed here")
            else:
                yield GenerationResult(request.id, "ok", paint(prompt, request.seed))


T2IAT = {"neutral": 4, "attribute": 3, "stimuli": 4}


@pytest.fixture(scope="module")
def associations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("associations")
    suite = toy_t2iat_suite(**T2IAT)
    return {
        "plain": audit(folder / "plain", suite=suite),
        "extreme": audit(folder / "extreme", Extreme(), suite=suite),
        "seed": audit(folder / "seed", suite=suite, seed=1),
        "refusing": audit(folder / "refusing", Extreme(refuse="0.670 women"), suite=suite),
    }


def said(comparison):
    """The verdict over all, and the run that it names."""
    (row,) = comparison.scores[comparison.scores.component == "magnitude"].to_dict("records")
    return row["verdict"], row["side"]


def differences(comparison, component):
    rows = comparison.scores
    return rows[(rows.component == component) & (rows.encoder == "mean")].set_index("concept")


def test_t2iat_runs_are_compared_in_pairs_of_prompts_and_of_images(associations):
    (found,) = cm.compare(associations["plain"].url, associations["extreme"])
    assert (found.paired, found.pairs, found.dropped) == (True, 8 * (4 + 3 + 3), 0)
    own = [run.scores[(run.scores.metric == "t2iat") & (run.scores.encoder == "mean")] for run in
           (found.first, found.second)]  # fmt: skip
    for component in ("differential_association", "effect_size"):
        values = [rows.set_index("component").value[component] for rows in own]
        assert differences(found, component).value["red-green"] == pytest.approx(values[1] - values[0], abs=1e-12)
    test = differences(found, "differential_association").loc["red-green"]
    assert (test.p, test.p_exact, test.n_splits) == (2 / 2**8, True, 2**8)
    assert (test.verdict, test.side) == ("more", "man")
    assert said(found) == ("more", "second")
    stimuli = differences(found, "association")
    assert (np.sign(stimuli.value) == [1] * 4 + [-1] * 4).all()
    assert "images of one noise" in stimuli.test.iloc[0]


def test_t2iat_runs_turned_round_say_the_same(associations):
    (forth,) = cm.compare(associations["plain"], associations["extreme"])
    (back,) = cm.compare(associations["extreme"], associations["plain"])
    np.testing.assert_allclose(back.scores.value, -forth.scores.value, atol=1e-12)
    np.testing.assert_allclose(back.scores.p, forth.scores.p)
    assert said(back) == ("more", "first")


def test_t2iat_runs_of_another_seed_are_two_samples(associations):
    (paired,) = cm.compare(associations["plain"], associations["extreme"])
    (found,) = cm.compare(associations["seed"], associations["extreme"])
    assert (found.paired, found.pairs) == (False, 0)
    assert "Welch" in differences(found, "association").test.iloc[0]
    assert (differences(found, "association").eval("high - low") > differences(paired, "association").eval("high - low")
            ).all()  # fmt: skip


def test_a_prompt_without_its_images_is_left_out_of_both_runs(associations):
    (found,) = cm.compare(associations["plain"], associations["refusing"])
    row = differences(found, "differential_association").loc["red-green"]
    assert (found.pairs, found.dropped) == (8 * 10 - 3, 3)
    assert row.n_splits == 2**7
    assert "left out for want of images in one of the runs: 1 of the prompts" in row.reason
    assert differences(found, "association").verdict["0.670"] == "not measured"


@pytest.mark.parametrize("study", ["leaning", "editing", "classification"])
def test_a_run_that_is_not_drawn_to_the_end_is_refused_with_the_way_out(study, tmp_path):
    whole, half = ROOT / "tests/fixtures/runs" / study, tmp_path / "half"
    shutil.copytree(whole, half)
    ledger = cm.open_run(half).ledger
    last = max(name for name in ledger.files if name.startswith("samples/"))
    for name in [name for name in ledger.files if name.endswith(last.removeprefix("samples"))]:
        ledger.remove(name)
    for runs in ((whole, half), (half, whole)):
        with raises(RunNotFoundError, code=Code.INCOMPLETE, match=r"half: \d of \d+ images"):
            cm.compare(*runs)


@pytest.mark.thorough
def test_t2iat_runs_have_a_command_a_page_and_a_table(associations, tmp_path):
    arguments = [associations[name].url for name in ("plain", "extreme")]
    result = CliRunner().invoke(app, ["compare", *arguments, "--out", str(tmp_path)], env={"COLUMNS": "160"})
    assert result.exit_code == 0, result.output
    for words in ("S of extreme minus S of painter", "red-green", "Asc of extreme minus Asc of painter",
                  "extreme compared with painter: extreme leans more."):  # fmt: skip
        assert words in result.output
    table = pd.read_csv(tmp_path / "comparison.csv")
    assert {"differential_association", "effect_size", "association", "magnitude"} == set(table.component)
    assert "Prompt by prompt" in (tmp_path / "comparison.html").read_text()


def test_other_t2iat_suites_are_refused(associations, tmp_path):
    other = audit(tmp_path / "other", suite=toy_t2iat_suite(**T2IAT | {"stimuli": 2}))
    with raises(RunMismatchError, code=Code.MISMATCH, match="asks other things"):
        cm.compare(associations["plain"], other)


# --- editing and classification ----------------------------------------------------------------------------------


class Unmoved(Recolourer):
    """The editor, with fewer flips: three women of four keep their colour."""

    def __init__(self, **options):
        super().__init__(**options)
        self.card = dataclasses.replace(self.card, name="unmoved")

    def edit(self, requests):
        for request in requests:
            kept = GenerationResult(request.id, "ok", request.image)
            yield kept if request.seed % 4 else next(super().edit([request]))


@pytest.fixture(scope="module")
def edits(tmp_path_factory):
    folder = tmp_path_factory.mktemp("edits")
    suite = toy_editing_suite(images={"group": 12})
    return {
        "plain": quick.audit(Recolourer(), suite, folder / "plain", encoder=Reader()),
        "unmoved": quick.audit(Unmoved(), suite, folder / "unmoved", encoder=Reader()),
        "seed": quick.audit(Recolourer(), suite, folder / "seed", encoder=Reader(), seed=1),
        "failing": quick.audit(Unmoved(fail="a man"), suite, folder / "failing", encoder=Reader()),
    }


def cell(comparison, component, **equal):
    rows = comparison.scores[comparison.scores.component == component]
    for name, value in ({"concept": "", "category": "high-paid", "setting": "strength 1"} | equal).items():
        rows = rows[rows[name] == value]
    (row,) = rows.to_dict("records")
    return row


def test_editing_runs_are_compared_portrait_by_portrait(edits):
    (found,) = cm.compare(edits["plain"].url, edits["unmoved"])
    assert (found.paired, found.pairs, found.dropped) == (True, 24 * 5, 0)
    own = [run.scores[run.scores.component == "flip_asymmetry"] for run in (found.first, found.second)]
    own = [rows.set_index(["concept", "category", "setting"]).value["", "high-paid", "strength 1"] for rows in own]
    row = cell(found, "flip_asymmetry", encoder="mean")
    assert row["value"] == pytest.approx(own[1] - own[0])
    assert row["value"] < -0.2
    assert (row["p_exact"], row["n_splits"], row["n_target"]) == (True, 2**24, 24)
    assert (row["verdict"], row["side"]) == ("more", "woman")  # it moves fewer of them to men
    assert cell(found, "flip_asymmetry", encoder="mean", category="low-paid")["verdict"] == "undecided"
    women = cell(found, "flip_rate", encoder="reader", group="women")
    assert women["value"] == pytest.approx(own[1] - own[0])
    assert np.isnan(cell(found, "ita_change", group="women")["value"])  # they are painted green
    size = found.scores[found.scores.component == "magnitude"].iloc[0]
    assert (size.verdict, size.side, size.n_target) == ("more", "first", 24)
    assert "Mean |flip asymmetry|, from 24 portraits, differs by " in comparison_verdict(found)  # a mean over cells


def test_editing_runs_turned_round_say_the_same(edits):
    (forth,), (back,) = cm.compare(edits["plain"], edits["unmoved"]), cm.compare(edits["unmoved"], edits["plain"])
    np.testing.assert_allclose(back.scores.value, -forth.scores.value, atol=1e-12)
    np.testing.assert_allclose(back.scores.p, forth.scores.p)


def test_editing_runs_of_another_seed_are_two_samples(edits):
    (found,) = cm.compare(edits["seed"], edits["unmoved"])
    assert (found.paired, found.pairs) == (False, 0)
    row = cell(found, "flip_asymmetry", encoder="mean")
    assert "shuffled between the runs" in row["test"]
    assert row["n_target"] == 48


def test_a_portrait_that_one_run_lacks_counts_in_neither(edits):
    (found,) = cm.compare(edits["plain"], edits["failing"])
    assert (found.pairs, found.dropped) == (12 * 5, 12 * 5)
    row = cell(found, "flip_asymmetry", encoder="mean")
    assert row["verdict"] == "not measured"
    assert row["reason"].startswith("nothing was measured in one of the runs: ")
    assert "undecided" not in found.scores[found.scores.component == "magnitude"].iloc[0].reason


def test_given_portraits_are_pairs_where_they_are_the_same(tmp_path):
    for folder, brightness in (("faces", 40), ("others", 60)):
        (tmp_path / folder).mkdir()
        for person, code in product(range(3), ("WF", "WM")):
            colour = (brightness, 200, 40) if code == "WF" else (200, brightness, 40)
            Image.new("RGB", (16, 16), colour).save(tmp_path / folder / f"CFD-{code}-{person:03}-001-N.png")
    suite = toy_editing_suite(images={"group": 3})
    plain, unmoved, other = (
        quick.audit(model, suite, tmp_path / name, encoder=Reader(), portraits=tmp_path / folder)
        for name, model, folder in (("one", Recolourer(), "faces"), ("two", Unmoved(), "faces"),
                                    ("three", Unmoved(), "others"))
    )  # fmt: skip
    assert cm.compare(plain, unmoved)[0].paired
    assert cm.compare(plain, other)[0].unpaired == "the runs were given other portraits"
    drawn = quick.audit(Recolourer(), suite, tmp_path / "drawn", encoder=Reader())
    assert cm.compare(plain, drawn)[0].unpaired == "only one of the runs was given portraits"


def test_imported_images_are_said_not_to_be_drawn_here(runs, tmp_path):
    plain = runs["plain"]
    found = imported_from(plain, tmp_path)
    assert cm.compare(plain, found)[0].unpaired == (
        "the second run was imported, so no image shares its noise with another"
    )
    shutil.copytree(tmp_path / "out", tmp_path / "again")
    assert cm.compare(found, tmp_path / "again")[0].unpaired == (
        "both runs were imported, so no image shares its noise with another"
    )


@pytest.fixture(scope="module")
def classified(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classified")
    suite = toy_classification(margin=0.5)
    return {
        "plain": quick.audit(ClassifyingPainter(), suite, folder / "plain"),
        "noisy": quick.audit(ClassifyingPainter(spread=60.0, name="noisy"), suite, folder / "noisy"),
        "copy": quick.audit(ClassifyingPainter(spread=0.21, name="copy"), suite, folder / "copy"),
    }


def test_classification_runs_are_compared_portrait_by_portrait(classified):
    (found,) = cm.compare(classified["plain"], classified["noisy"])
    assert (found.paired, found.pairs, found.dropped) == (True, 24, 0)
    own = [run.scores[(run.scores.component == "differential") & (run.scores.setting == "20 noise samples")]
           .set_index("group").value for run in (found.first, found.second)]  # fmt: skip
    rows = found.scores[found.scores.component == "differential"].set_index("group")
    np.testing.assert_allclose(rows.value, own[1] - own[0])
    assert (rows.verdict["gender"], rows.side["gender"]) == ("more", "women")  # it tells colours less well
    assert said(found) == ("more", "first")
    groups = found.scores[found.scores.component == "association"]
    assert set(groups.group) == {"young man", "young woman", "old man", "old woman"}
    (back,) = cm.compare(classified["noisy"], classified["plain"])
    np.testing.assert_allclose(back.scores.value, -found.scores.value, atol=1e-12)


def test_models_that_classify_alike_are_shown_to(classified):
    (found,) = cm.compare(classified["plain"], classified["copy"])
    rows = found.scores[found.scores.component == "differential"].set_index("group")
    assert rows.verdict["gender"] == "alike"


@pytest.mark.parametrize("study", ["edits", pytest.param("classified", marks=pytest.mark.thorough)])
def test_downstream_runs_have_a_command_a_page_and_a_table(request, study, tmp_path):
    runs = list(request.getfixturevalue(study).values())[:2]
    result = CliRunner().invoke(
        app, ["compare", *(run.url for run in runs), "--out", str(tmp_path)], env={"COLUMNS": "160"}
    )
    assert result.exit_code == 0, result.output
    titles = {"edits": "Flip asymmetry of unmoved minus flip asymmetry of recolourer",
              "classified": "ΔS of noisy minus ΔS of painter"}  # fmt: skip
    assert titles[study] in result.output
    assert "leans more." in result.output
    assert len(pd.read_csv(tmp_path / "comparison.csv")) > 5
    page = (tmp_path / "comparison.html").read_text()
    HTMLParser().feed(page)
    for words in (titles[study], "Side by side", "Every group", "<svg"):
        assert words in page


def test_runs_of_two_studies_are_refused_by_name(edits, classified):
    with raises(RunMismatchError, code=Code.MISMATCH, match="'toy classification' .*'toy-editing'"):
        cm.compare(edits["plain"], classified["plain"])


@pytest.mark.thorough
def test_runs_of_other_concepts_are_compared_by_those_that_both_asked_for(runs, tmp_path):
    """A run that asked for more is scored as if it had asked for what is shared: so it is all the same which had."""
    names = [target.name for target in toy_suite(**SUITE).targets][1:3]
    fewer = audit(tmp_path / "fewer", Redder(name="redder"), concepts=names)
    whole, narrow = runs["plain"], audit(tmp_path / "narrow", concepts=names)
    (found,), (expected,) = cm.compare(whole, fewer), cm.compare(narrow, fewer)
    pd.testing.assert_frame_equal(found.scores, expected.scores)
    pd.testing.assert_frame_equal(found.first.scores, narrow.scores)
    assert (found.pairs, found.unpaired) == (expected.pairs, "")
    assert set(found.left_out) | set(names) == {target.name for target in whole.suite.targets}
    assert "Left out, because not all of the runs asked for them: 2 concepts (" in pairing_in_words(found)
    assert len(whole.scores) > len(found.first.scores)  # the run itself is as it was


def test_runs_that_share_no_concept_are_not_compared(runs, tmp_path):
    other = audit(tmp_path / "other", concepts=[runs["plain"].suite.targets[0].name])
    last = audit(tmp_path / "last", concepts=[runs["plain"].suite.targets[-1].name])
    with raises(RunMismatchError, code=Code.MISMATCH, match="asks other things than suite"):
        cm.compare(other, last)
