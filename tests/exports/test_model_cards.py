"""Model cards of runs: of every study, of places of every kind, into files that hold somebody else's words."""

import os
import shlex
import shutil
from copy import copy
from dataclasses import replace
from math import isnan
from types import SimpleNamespace

import pytest
from huggingface_hub import ModelCard
from typer.main import get_command
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, RunError, RunMismatchError
from clinometer.exports.model_cards import card_input, command_lacks, command_words, in_a_shell, require_one_model
from clinometer.metrics.verdict import Verdict
from clinometer.report.model_card import BEGIN, END, escaped, section_of
from clinometer.report.wording import MISSING
from clinometer.runs import Run
from clinometer.studies import study_of
from clinometer.suites import load_suite
from tests import quick
from tests.docs.pages import ROOT, blocks, page, table_rows
from tests.raising import raises
from tests.report.markdown import tables
from tests.toys import Eye, Painter, toy_suite

RUNS = ROOT / "tests/fixtures/runs"
STUDIES = ("leaning", "t2iat", "editing", "classification")
THEIRS = "---\nlicense: mit # mine\n---\n# A model\n\nIt draws.\n"


def results_of(text):
    return ModelCard(text).data.eval_results


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """Places of the runs, the earlier scores of leaning made again: they did not tell pictures and text apart."""
    folder = tmp_path_factory.mktemp("scored")
    for study in STUDIES:
        shutil.copytree(RUNS / study, folder / study)
    cm.score_run(folder / "leaning")
    return folder


@pytest.fixture(scope="module")
def judged(scored, tmp_path_factory):
    """Places of the runs, as if none had too few images for a verdict."""
    folder = tmp_path_factory.mktemp("judged")
    for study in STUDIES:
        shutil.copytree(scored / study, folder / study)
        run = Run(folder / study)
        scores, curves = run.scores, run.curves
        scores.loc[scores.verdict == Verdict.TOO_FEW, "verdict"] = Verdict.UNDECIDED
        run.write_scores(scores, curves)
    return folder


@pytest.mark.parametrize("study", STUDIES)
def test_every_number_of_every_study_is_one_of_the_scores(study, judged):
    scores = cm.open_run(judged / study).scores
    results = results_of(cm.model_card(judged / study))
    assert results
    for result in results:
        rows = scores[(scores.component == result.metric_type) & (scores.encoder == result.metric_args["encoder"])]
        known = rows[(rows.value == result.metric_value) & (rows.q == result.metric_args["q"])]
        ends = {
            tuple(row) for names in (["low", "high"], ["stimulus_low", "stimulus_high"]) for row in known[names].values
        }
        assert (result.metric_args["low"], result.metric_args["high"]) in ends


@pytest.mark.parametrize("study", STUDIES)
def test_every_study_says_its_finding_and_lists_what_its_summary_lists(study, scored):
    run = cm.open_run(scored / study)
    text, page = cm.model_card(run), study_of(run.suite).page(run.suite)
    card = card_input(run)
    summary = page.summary(run.suite, run.scores)
    assert escaped(page.finding(card.view)) in text
    assert escaped(page.strongest(card.view)) in text
    shown = [table for table in tables(text) if "Verdict" in table[0]]
    assert len(shown) == len([verdicts for verdicts in card.verdicts if verdicts.rows])
    verdicts = sorted(row[4] for row in shown[0][1:])
    assert verdicts == sorted(row[-1] for row in summary.rows)
    for row in shown[0][1:]:
        assert (row[1] == MISSING) is (row[2] == "")


@pytest.mark.parametrize("study", STUDIES)
def test_a_file_is_written_once_and_keeps_what_was_there(study, judged, tmp_path):
    card = tmp_path / "README.md"
    card.write_text(THEIRS)
    text = cm.model_card(judged / study, out=card)
    assert card.read_text() == text
    assert text.startswith("---\nlicense: mit # mine\nmodel-index:")
    assert "---\n# A model\n\nIt draws.\n\n<!--" in text
    before = card.stat()
    assert cm.model_card(judged / study, out=card) == text
    assert (card.stat().st_mtime_ns, card.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert os.listdir(tmp_path) == ["README.md"]


def test_what_rests_on_too_few_images_is_no_result():
    text = cm.model_card(RUNS / "t2iat")
    assert "too few images to tell" in text
    assert results_of(text) is None


def test_several_suites_of_one_model_are_one_card(judged, tmp_path):
    text = cm.model_card(judged / "leaning", judged / "t2iat", out=tmp_path / "README.md")
    assert text.count(BEGIN) == text.count(END) == 1
    assert {result.dataset_type for result in results_of(text)} == {"clinometer/toy", "clinometer/toy-tests"}
    assert cm.model_card(judged / "leaning", out=tmp_path / "README.md") == cm.model_card(judged / "leaning")


def test_imported_images_of_one_model_are_one_card_and_their_hash_is_none_of_weights(tmp_path):
    drawn, imported = cm.open_run(RUNS / "leaning"), []
    for place in ("some", "others"):
        folder = tmp_path / place
        folder.mkdir()
        rows = [row for row in drawn.samples.itertuples() if row.status == "ok"][:: 1 if place == "some" else 2]
        for name, content in drawn.images([row.id for row in rows]):
            (folder / f"{name}.png").write_bytes(content)
        lines = [f"{row.id}.png,{row.prompt}" for row in rows]
        (folder / "manifest.csv").write_text("\n".join(["file,prompt", *lines]))
        run = quick.import_images(folder, tmp_path / f"{place}-run", suite=drawn.suite, name="a model", encoder=Eye())
        imported.append(run)
    text = cm.model_card(*imported)
    assert text.count("### a model × ") == 2
    assert "images (SHA-256): " in text
    assert "weights" not in text


def test_weights_with_another_adaptation_are_another_model():
    cards = [{"name": "m", "weights_sha256": "00", "settings": {"lora": lora}} for lora in (None, {"scale": 1.0})]
    one, other = (SimpleNamespace(url="runs/x", model_card=card, record={"origin": "generated"}) for card in cards)
    require_one_model([one, one])
    with raises(RunMismatchError, code=Code.MISMATCH):
        require_one_model([one, other])


def test_fewer_rows_are_asked_for(judged):
    one = cm.model_card(judged / "leaning", rows=1)
    assert len(results_of(one)) == 1
    assert "3 of them are not listed: 3 undecided." in one


def test_a_run_elsewhere_has_the_same_card(tmp_path):
    run = quick.audit(
        Painter(), toy_suite(target=2, attribute=2, concepts=2), f"memory://card{tmp_path}", encoder=Eye()
    )
    there = f"memory://card{tmp_path}/README.md"
    text = cm.model_card(run.url, out=there)
    assert run.directory.read_bytes("README.md").decode() == text == cm.model_card(run)
    assert cm.model_card(run.url, out=there) == text


def test_refusals_are_told(tmp_path):
    run = quick.audit(Painter(refuse="lean 0.20"), toy_suite(target=3, attribute=3), tmp_path / "run", encoder=Eye())
    text = cm.model_card(run)
    assert "3 refused" in text
    assert "not measured" in text
    assert "Not measured: " in text
    lost = run.scores[(run.scores.component == "image_part") & (run.scores.concept == "concept 0.20")].iloc[0]
    assert isnan(lost.value)
    assert lost.reason in text
    assert "concept 0.20" not in str(results_of(text))


def test_what_cannot_be_is_refused(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    for out, code in ((folder, Code.WRONG_TYPE), (tmp_path / "no/README.md", Code.NOT_FOUND)):
        with raises(InvalidInputError, code=code, field="out", match=r"(folder|no)/README\.md"):
            cm.model_card(RUNS / "leaning", out=out)
    with raises(InvalidInputError, code=Code.TOO_FEW, field="runs"):
        cm.model_card()
    with raises(InvalidInputError, code=Code.OUT_OF_RANGE, field="rows"):
        cm.model_card(RUNS / "leaning", rows=0)
    with raises(RunMismatchError, code=Code.MISMATCH):
        cm.model_card(RUNS / "leaning", RUNS / "editing")
    with raises(RunError, code=Code.NOT_FOUND):
        cm.model_card(folder)
    (folder / "README.md").write_bytes(b"\xff")
    with raises(InvalidInputError, code=Code.NOT_TEXT):
        cm.model_card(RUNS / "leaning", out=folder / "README.md")
    assert (folder / "README.md").read_bytes() == b"\xff"


def test_a_card_that_cannot_be_merged_stays_as_it_is(tmp_path):
    card = tmp_path / "README.md"
    card.write_text(f"{BEGIN}\n")
    with raises(InvalidInputError, code=Code.MALFORMED):
        cm.model_card(RUNS / "leaning", out=card)
    assert card.read_text() == f"{BEGIN}\n"


def test_a_link_and_a_mark_of_the_byte_order_stay(tmp_path):
    (tmp_path / "real.md").write_text(f"\ufeff{THEIRS}", encoding="utf-8")
    (tmp_path / "README.md").symlink_to("real.md")
    cm.model_card(RUNS / "leaning", out=tmp_path / "README.md")
    assert (tmp_path / "README.md").is_symlink()
    assert (tmp_path / "real.md").read_text(encoding="utf-8").startswith("\ufeff---\nlicense")


def test_a_damaged_run_says_so(tmp_path):
    shutil.copytree(RUNS / "leaning", tmp_path / "run")
    next((tmp_path / "run/samples").iterdir()).unlink()
    assert "Part of this run is missing, damaged or has changed: " in cm.model_card(tmp_path / "run")


def test_the_pages_python_runs(tmp_path, monkeypatch):
    (block,) = blocks(page("docs/model-card.md"), "python")
    shutil.copytree(RUNS / "leaning", tmp_path / "runs/mine")
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs/model-card.md", "exec"), {})
    assert (tmp_path / "README.md").read_text() == cm.model_card(tmp_path / "runs/mine")


def test_the_page_names_the_fields_that_are_written(judged):
    told = page("docs/model-card.md")
    (entry, *_) = ModelCard(cm.model_card(judged / "leaning")).data.to_dict()["model-index"][0]["results"]
    fields = {f"{part}.{name}" for part in ("task", "dataset") for name in entry[part]} - {"dataset.name"}
    fields |= {f"metrics.{name}" for metric in entry["metrics"] for name in metric}
    assert {row[0].strip("`") for row in table_rows(told, "field")} == fields
    assert all(f"`{name}`" in told for metric in entry["metrics"] for name in metric["args"])
    assert BEGIN in told
    assert END in told


# the command


def run_of(suite, *, settings=None, encoders=("eye",), **record) -> Run:
    card = {"name": "owner/model", "revision": "abc", "settings": settings or {}}
    record = {"origin": "generated", "seed": 3, "until": None, "protocol": None, **record}
    return SimpleNamespace(suite=suite, model_card=card, encoder_cards={name: {} for name in encoders}, record=record)


@pytest.mark.parametrize(
    ("options", "words"),
    [({}, ""), ({"images": 7}, " --images 7"), ({"text_targets": "keyword"}, " --text-targets keyword")],
)
def test_the_command_names_a_built_in_suite_and_what_was_changed(options, words):
    run = run_of(load_suite("mcas").with_options(**options), settings={"steps": 20, "guidance_scale": 7.5})
    assert " ".join(command_words(run)) == (
        f"clinometer audit --model owner/model@abc --suite mcas{words} --steps 20 --guidance 7.5 --encoder eye --seed 3"
    )


@pytest.mark.parametrize(("concepts", "word"), [(2, "2"), (["CEO", "nurse"], "CEO, nurse")])
def test_the_command_names_the_concepts_that_were_asked_for(concepts, word):
    suite = load_suite("mcas").with_options(concepts=concepts, images=7)
    words = list(command_words(run_of(suite, options={"concepts": concepts, "resamples": 99})))
    assert words[words.index("--suite") :][:6] == ["--suite", "mcas", "--concepts", word, "--images", "7"]


def test_the_command_follows_the_protocol_the_rounds_and_what_was_imported():
    suite = load_suite("internal-bias")
    under = run_of(suite.as_in_the_paper(), protocol={"departures": []}, until={"precision": None})
    assert "--suite internal-bias --protocol paper --until decided" in " ".join(command_words(under))
    assert " ".join(command_words(run_of(toy_suite(), origin="imported"))) == (
        "clinometer import DIR --name owner/model --suite SUITE.yaml --encoder eye --seed 3"
    )
    large = run_of(toy_suite(), origin="imported", settings={"max_pixels": 50_000_000})
    assert "--max-pixels 50000000" in " ".join(command_words(large))


def test_the_command_takes_every_setting_that_is_recorded_under_a_name_of_audit():
    settings = {
        "steps": 4, "guidance_scale": 7.125, "height": 64, "width": 32, "negative_prompt": "a $b 'c'",
        "edit_steps": None, "edit_guidance_scale": 2.0, "lora": {"name": "owner/lora", "revision": "f0", "scale": 1.0},
        "portraits": {"name": "CFD"}, "scheduler": {"class": "DDIMScheduler", "config_sha256": "0"},
        "dtype": "float16", "compiled": True, "vae_tiling": True, "safety_checker": "mark",
    }  # fmt: skip
    words = list(command_words(run_of(load_suite("mcas"), settings=settings)))
    options = get_command(app).commands["audit"].make_context("audit", words[2:]).params
    assert (options["steps"], options["guidance_scale"], options["seed"]) == (["4"], ["7.125"], ["3"])
    assert (options["height"], options["width"], options["edit_steps"]) == (64, 32, None)
    assert (options["lora"], options["lora_scale"]) == (["owner/lora@f0"], 1.0)
    assert (options["edit_guidance_scale"], options["portraits"]) == (2.0, "CFD")
    assert (options["scheduler"], options["dtype"], options["safety_checker"]) == ("DDIMScheduler", "float16", "mark")
    assert options["compile"]
    assert options["vae_tiling"]
    assert shlex.split(in_a_shell(words))[words.index("a $b 'c'")] == "a $b 'c'" == options["negative_prompt"]


def test_the_command_asks_a_server_for_the_same():
    settings = {"model": "gpt-image-1", "size": "1536x1024", "quality": "low", "server": "api.openai.com"}
    run = run_of(load_suite("mcas"), settings=settings)
    run.model_card |= {"name": "ours", "family": "openai-images/1", "notes": {"price_per_image": 0.25}}
    options = get_command(app).commands["audit"].make_context("audit", list(command_words(run))[2:]).params
    assert (options["model"], options["price"], options["quality"]) == (["openai:gpt-image-1"], 0.25, "low")
    assert (options["width"], options["height"]) == (1536, 1024)


def test_the_command_names_portraits_as_they_are_asked_for():
    words = list(command_words(run_of(load_suite("mcas"), settings={"portraits": {"name": "reference portraits"}})))
    assert words[words.index("--portraits") + 1] == "reference"


def test_a_suite_of_ones_own_with_the_name_of_another_is_no_built_in_one():
    suite = load_suite("mcas").model_copy(update={"description": "another"})
    assert "SUITE.yaml" in list(command_words(run_of(suite)))


def test_a_cell_of_a_sweep_that_drew_until_decided_is_not_made_again_by_an_audit():
    cell = run_of(load_suite("mcas"), until={"precision": None, "of": "differences"})
    assert command_lacks(cell, list(command_words(cell))).startswith("The run is a cell of a sweep")
    assert not command_lacks(run_of(load_suite("mcas")), [])


def test_the_card_says_what_the_command_lacks():
    assert "Replace SUITE.yaml with a file of the suite, which run.json contains." in cm.model_card(RUNS / "leaning")


# the command line


def test_the_command_line_prints_or_writes(tmp_path):
    run, card = str(RUNS / "leaning"), tmp_path / "README.md"
    printed = CliRunner().invoke(app, ["card", run, "--rows", "2"])
    assert printed.exit_code == 0
    assert printed.stdout == cm.model_card(run, rows=2)
    written = CliRunner().invoke(app, ["card", run, "--rows", "2", "--out", str(card)])
    assert "Card: " in written.stdout
    assert card.read_text() == printed.stdout


def test_a_study_of_another_shape_needs_no_limits():
    run = card_input(cm.open_run(RUNS / "leaning"))
    page = copy(run.page)
    page.sections = tuple(section for section in page.sections if section.id != "method-limits")
    text = section_of([replace(run, page=page)], rows=5, version="1")
    assert "Nobody’s gender" not in text
    assert "#### How to measure it again" in text
