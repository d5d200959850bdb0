"""Verdicts in formats that others read: valid by their schemas, each number one of the scores, and nothing made up."""

import hashlib
import json
from math import isnan

import numpy as np
import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from huggingface_hub import parse_eval_result_entries
from PIL import Image
from typer.testing import CliRunner

import clinometer as cm
from clinometer.cli.app import app
from clinometer.errors import Code, InvalidInputError, RunCorruptError, SuiteError, UncheckedRunWarning
from clinometer.exports.formats import FORMATS, tasks_of
from clinometer.report.wording import not_measured, too_few
from clinometer.studies import study_of
from clinometer.studies.reporting import report_input
from clinometer.suites import suite_from_mapping
from tests import quick
from tests.docs.pages import ROOT
from tests.old_runs import as_of_format_1
from tests.quick import thorough_but
from tests.raising import raises
from tests.toy_denoisers import ClassifyingPainter, toy_classification
from tests.toy_editing import Reader, Recolourer
from tests.toy_editing import toy_suite as toy_editing
from tests.toys import SCENARIOS, Eye, Notes, Painter, crossed_suite, toy_suite, toy_t2iat_suite

AUDITS = {
    "leaning": (Painter(refuse="0.20"), toy_suite(target=12), Eye()),
    "axes": (Painter(), crossed_suite(), Eye()),
    "t2iat": (Painter(), toy_t2iat_suite(), Eye()),
    "editing": (Recolourer(), toy_editing(), Reader()),
    "classification": (ClassifyingPainter(), toy_classification(), ()),
}
SCOPE = {"in_scope": ["a comparison of versions"], "out_of_scope": "the people in the pictures"}
HELD = ROOT / "tests/fixtures/schemas"
EVERY_EVAL_EVER = json.loads((HELD / "every_eval_ever-0.3.0.schema.json").read_text("utf-8"))
CORE = yaml.safe_load((HELD / "fairness-core.yaml").read_text("utf-8"))
IMAGE = yaml.safe_load((ROOT / "docs/schemas/image.yaml").read_text("utf-8"))


@pytest.fixture(scope="module")
def jsonschema():
    """Import it where it is used: it takes a second, which each process of the tests would wait."""
    import jsonschema

    return jsonschema


@pytest.fixture(scope="module", params=thorough_but(AUDITS, "axes", "t2iat"))
def run(request):
    model, suite, encoder = AUDITS[request.param]
    return quick.finished(model, suite, encoder=encoder)


@pytest.fixture(scope="module")
def leaning():
    model, suite, encoder = AUDITS["leaning"]
    return quick.finished(model, suite, encoder=encoder)


def judged(run):
    page = study_of(run.suite).page(run.suite)
    return [(said, row) for said in page.verdicts(page.view.of(report_input(run))) for row in said.rows]


@pytest.mark.thorough
def test_a_fairness_card_is_valid_and_holds_every_verdict(run, jsonschema):
    card = yaml.safe_load(cm.model_card(run, format="fairness", by="somebody", **SCOPE))
    for schema in (CORE, IMAGE):
        jsonschema.Draft202012Validator(schema).validate(card)
    assert card["intended_use"] == {"in_scope": ["a comparison of versions"], "out_of_scope": [SCOPE["out_of_scope"]]}
    rows = [dict(zip(card["example_result"]["columns"], row, strict=True)) for row in card["example_result"]["rows"]]
    assert len(rows) == len(judged(run))
    for told, (said, row) in zip(rows, judged(run), strict=True):
        assert told["about"] == said.name(row)
        assert told["verdict"] == said.verdict(row)
        assert (told["value"] is None) is isnan(row.value)
        assert isnan(row.value) or (told["value"], told["low"], told["high"]) == (row.value, *row.ends(said.over))
    assert sum(card["refusal_handling"]["counts"].values()) == len(run.samples)
    assert card["prompt_suite"]["suite_hash"] == run.record["suite_fingerprint"]


def test_a_fairness_card_tells_how_the_reader_errs_and_who_is_refused(leaning):
    card = yaml.safe_load(cm.model_card(leaning, format="fairness", **SCOPE))
    rates = {(rate["measure"], rate.get("group")): rate for rate in card["reader"]["error_rates"]}
    scores = leaning.scores[(leaning.scores.metric == "reader") & (leaning.scores.encoder == "mean")]
    for row in scores[scores.component.isin(["sensitivity", "specificity"])].itertuples():
        assert rates[row.component, row.group]["value"] == row.value
    assert card["reader"]["errors_known"]
    assert card["refusal_handling"]["counts"] == {"ok": 66, "refused": 12}
    assert [part["name"] for part in card["prompt_suite"]["families"]] == [
        "target: low", "target: high", "attribute: man", "attribute: woman", "attribute: other",
    ]  # fmt: skip


def test_the_schemas_refuse_what_they_must(leaning, jsonschema):
    card = yaml.safe_load(cm.model_card(leaning, format="fairness", **SCOPE))
    for schema, field in [(CORE, each) for each in CORE["required"]] + [(IMAGE, each) for each in IMAGE["required"]]:
        with pytest.raises(jsonschema.ValidationError, match=field):
            jsonschema.Draft202012Validator(schema).validate({key: card[key] for key in card if key != field})
    card["reader"]["error_rates"] = []
    with pytest.raises(jsonschema.ValidationError, match="non-empty"):
        jsonschema.Draft202012Validator(IMAGE).validate(card)


def test_every_eval_ever_holds_each_number_with_its_interval_n_and_hashes(leaning, jsonschema):
    record = json.loads(cm.model_card(leaning, format="every-eval-ever", by="somebody"))
    jsonschema.Draft7Validator(EVERY_EVAL_EVER).validate(record)
    results = {each["evaluation_result_id"]: each for each in record["evaluation_results"]}
    measured = {f"{row.metric}/{row.component}/{row.concept}": row for _, row in judged(leaning) if row.defined}
    assert set(results) == set(measured)
    for name, row in measured.items():
        told = results[name]["score_details"]
        interval = told["uncertainty"]["confidence_interval"]
        assert (told["score"], interval["lower"], interval["upper"]) == (row.value, row.low, row.high)
        assert told["uncertainty"]["num_samples"] == row.n_target
        assert results[name]["source_data"]["additional_details"] == {
            "suite_fingerprint": leaning.record["suite_fingerprint"],
            "run_checksum": leaning.record["checksum"],
            "scores_sha256": leaning.directory.sha256("scores.parquet"),
        }
    named = json.loads(cm.model_card(leaning, format="every-eval-ever", benchmark="me/colours"))
    jsonschema.Draft7Validator(EVERY_EVAL_EVER).validate(named)
    assert {each["source_data"]["hf_repo"] for each in named["evaluation_results"]} == {"me/colours"}


def test_an_ml_bom_is_valid_and_holds_each_verdict(run):
    text = cm.model_card(run, format="cyclonedx")
    from cyclonedx.validation.json import JsonStrictValidator  # with jsonschema, which takes a second

    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert cm.model_card(run, format="cyclonedx") == text
    (component,) = json.loads(text)["components"]
    shown = component["modelCard"]
    verdicts = [each for each in shown["properties"] if each["name"].startswith("clinometer:verdict:")]
    rows = [row for _, row in judged(run)]
    assert len(verdicts) == len({each["name"] for each in verdicts}) == len(rows)
    metrics = shown["quantitativeAnalysis"]["performanceMetrics"]
    assert [float(each["value"]) for each in metrics] == [row.value for row in rows if row.defined]
    assert {each["name"]: each["value"] for each in shown["properties"]}["clinometer:run_checksum"] == (
        run.record["checksum"]
    )


def test_what_was_not_measured_or_rests_on_too_few_images_is_not_passed_on(run, jsonschema):
    kept = [row for _, row in judged(run) if row.defined and not too_few(row) and not not_measured(row)]
    if not kept:
        with raises(InvalidInputError, code=Code.UNDEFINED):
            cm.model_card(run, format="every-eval-ever")
        return
    record = json.loads(cm.model_card(run, format="every-eval-ever"))
    jsonschema.Draft7Validator(EVERY_EVAL_EVER).validate(record)
    assert [each["score_details"]["score"] for each in record["evaluation_results"]] == [row.value for row in kept]


def test_evaluation_results_name_tasks_of_the_benchmark(leaning, tmp_path):
    given = {"format": "eval-results", "benchmark": "me/colours", "source": "https://example.org/run"}
    text = cm.model_card(leaning, out=tmp_path, **given)
    assert (tmp_path / ".eval_results" / "clinometer-toy.yaml").read_text("utf-8") == text
    entries = parse_eval_result_entries(yaml.safe_load(text))
    numbers = {row.concept: row for _, row in judged(leaning) if row.defined}
    assert [entry.task_id for entry in entries] == [f"image_part-{name.replace(' ', '-')}" for name in numbers]
    assert {entry.task_id for entry in entries} <= set(tasks_of(leaning.suite))
    for entry, row in zip(entries, numbers.values(), strict=True):
        assert (entry.dataset_id, entry.value, entry.date) == ("me/colours", row.value, leaning.record["created"])
        assert f"n {row.n_target};" in entry.notes
        assert "95 % over images" in entry.notes
        assert entry.source_url == "https://example.org/run"
    assert set(yaml.safe_load(text)[0]) <= {"dataset", "value", "verifyToken", "date", "source", "notes"}


@pytest.mark.parametrize(("form", "given"), [("every-eval-ever", {}), ("fairness", SCOPE), ("cyclonedx", {})])
def test_a_file_of_somebody_else_is_not_replaced(leaning, tmp_path, form, given):
    place = tmp_path / "file.json"
    place.write_text("{}")
    with raises(InvalidInputError, code=Code.ALREADY_EXISTS):
        cm.model_card(leaning, format=form, out=place, **given)
    assert place.read_text() == "{}"
    place.unlink()
    for _ in range(2):  # our own may be replaced
        cm.model_card(leaning, format=form, out=place, **given)


def test_tasks_of_names_in_other_letters_are_told_apart():
    said = toy_suite().model_dump(mode="json")
    said["categories"]["low"]["targets"][0]["name"] = "женщина"
    said["categories"]["low"]["targets"][1]["name"] = "мужчина"
    tasks = tasks_of(suite_from_mapping(said, source="toy"))
    assert len(set(tasks)) == 4
    assert all(name.isascii() for name in tasks)


def test_studies_whose_tasks_follow_from_a_run_are_refused(run):
    if run.suite.study in ("editing", "classification"):
        with raises(SuiteError, code=Code.UNSUPPORTED):
            cm.model_card(run, format="eval-results", benchmark="me/colours")


@pytest.mark.parametrize(
    ("given", "code", "field", "words"),
    [
        ({"format": "xml"}, Code.UNKNOWN_NAME, "format", "model-card, eval-results, every-eval-ever, fairness"),
        ({"format": "fairness"}, Code.MISSING, "in_scope", "nothing is given"),
        ({"format": "fairness", "in_scope": "a"}, Code.MISSING, "out_of_scope", "nothing is given"),
        ({"format": "eval-results"}, Code.MALFORMED, "benchmark", "found '', .*owner/name"),
        ({"format": "eval-results", "by": "me"}, Code.UNSUPPORTED, "by", "format eval-results"),
        ({"by": "me"}, Code.UNSUPPORTED, "by", "a model card .*name a format"),
    ],
)
def test_what_is_missing_or_does_not_belong_is_a_line(leaning, given, code, field, words):
    with raises(InvalidInputError, code=code, field=field, match=words):
        cm.model_card(leaning, **given)


def test_a_run_without_checksums_is_not_passed_on_and_several_are_no_single_card(leaning, tmp_path):
    with raises(InvalidInputError, code=Code.TOO_MANY, field="runs", match="found 2, .*format fairness"):
        cm.model_card(leaning, leaning, format="fairness", **SCOPE)
    old = quick.audit(Painter(), toy_suite(), tmp_path / "old", encoder=Eye())
    as_of_format_1(tmp_path / "old")
    for form in FORMATS:
        with pytest.warns(UncheckedRunWarning), raises(RunCorruptError, code=Code.CORRUPT):
            cm.model_card(old.url, format=form)


def test_the_command_takes_what_each_format_takes(leaning, tmp_path):
    def told(*words):
        return CliRunner().invoke(app, ["card", leaning.url, *words], catch_exceptions=False)

    done = told(
        "-f", "fairness", "--in-scope", "a", "--in-scope", "b", "--out-of-scope", "c", "-o", str(tmp_path / "c")
    )
    assert done.exit_code == 0
    assert yaml.safe_load((tmp_path / "c").read_text("utf-8"))["intended_use"]["in_scope"] == ["a", "b"]
    assert json.loads(told("-f", "every-eval-ever").stdout)["schema_version"] == "0.3.0"
    folder = tmp_path / "model"
    folder.mkdir()
    assert told("-f", "eval-results", "--benchmark", "me/x", "-o", str(folder)).exit_code == 0
    assert [path.name for path in (folder / ".eval_results").iterdir()] == ["clinometer-toy.yaml"]


def test_images_that_fairbench_saved_import_by_their_prompts(tmp_path):
    folder, prompts = tmp_path / "images", {"A player": "A player", "man": "A male player", "woman": "A female player"}
    folder.mkdir()
    (tmp_path / "kick.yaml").write_text(SCENARIOS)
    for colour, prompt in enumerate([*prompts.values(), "A Black player"]):
        name = hashlib.md5(prompt.encode()).hexdigest()[:16]
        Image.fromarray(np.random.default_rng(colour).integers(0, 255, (8, 8, 3), np.uint8)).save(
            folder / f"{name}.png"
        )
    notes = Notes()
    run = quick.import_images(
        folder, tmp_path / "run", suite=tmp_path / "kick.yaml", encoder=Eye(), name="a model", progress=notes
    )
    assert dict(zip(run.samples.prompt, zip(run.samples.concept, run.samples.group, strict=True), strict=True)) == {
        "A player": ("player", ""), "A male player": ("", "man"), "A female player": ("", "woman"),
    }  # fmt: skip
    assert any("1 further images, of prompts" in note for note in notes.messages)
    verdicts = run.scores[(run.scores.component == "image_part") & (run.scores.encoder == "mean")].verdict
    assert set(verdicts) <= {"too few", "not measured", "too_few", "not_measured", ""}
