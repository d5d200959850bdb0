"""The functions that promptfoo calls, and promptfoo itself where it is here."""

import json
import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location

import pytest
import yaml

import clinometer as cm
from clinometer.hosts import promptfoo
from clinometer.pipeline.request import AuditRequest
from tests.docs.pages import ROOT, blocks, page
from tests.example import PLUGIN, register_example
from tests.toys import Eye, Painter, toy_suite

EXAMPLE = ROOT / "examples/promptfoo"
TOOL = os.environ.get("PROMPTFOO") or shutil.which("promptfoo")
RULE = {"metric": "mcas", "component": "image_part"}


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """What the provider says of a concept; later rows find the run and draw nothing."""
    out = tmp_path_factory.mktemp("promptfoo") / "run"
    config = {"suite": toy_suite(target=12, attribute=12), "encoder": Eye(), "out": out, "resamples": 999}

    def give(concept, **further):
        model = Painter(halt=0 if out.exists() else -1)  # which would wait to be killed
        config_of_all = config | {"model": model, "report": False, "basePath": "/where/the/config/lies"}
        return promptfoo.call_api(concept, {"config": config_of_all | further}, {"vars": {}})

    return give


def held(answered, **config):
    return promptfoo.get_assert(answered["output"], {"config": RULE | config, "providerResponse": answered})


def test_the_provider_says_what_the_audit_found(answer):
    told = [answer(f"concept {lean}") for lean in ("0.80", "0.20")]
    run = cm.open_run(told[0]["metadata"]["run"])
    rows = run.scores.query("metric == 'mcas' and component == 'image_part' and encoder == 'mean'").set_index("concept")
    for said in told:
        row = rows.loc[said["metadata"]["concept"]]
        assert f"{row.value:+.2f}".replace("-", "\N{MINUS SIGN}") in said["output"]
        assert len(said["images"]) == promptfoo.PICTURES
        assert all(image["data"].startswith(f"data:{image['mimeType']};base64,") for image in said["images"])
        assert "base64" not in said["output"]
    assert json.loads(json.dumps(told)) == told


def test_the_assertion_is_a_rule_of_a_gate(answer):
    found = answer("concept 0.80")
    run = cm.open_run(found["metadata"]["run"])
    [row] = run.scores.query(
        "metric == 'mcas' and component == 'image_part' and encoder == 'mean' and concept == 'concept 0.80'"
    ).itertuples()
    holds, broken = held(found, within=4), held(found, at_most=row.value / 10)
    undecided = held(found, at_most=row.value)
    assert [each["reason"].partition(":")[0] for each in (holds, broken, undecided)] == ["holds", "broken", "undecided"]
    assert [(each["pass"], each["score"]) for each in (holds, broken, undecided)] == [(True, 1), (False, 0), (False, 0)]
    numbers = {"image_part": row.value, "image_part/low": row.low, "image_part/high": row.high}
    assert holds["namedScores"] == pytest.approx(numbers)


def test_what_is_wrong_is_said_in_one_line(answer):
    assert "found 'concept 9', expected a concept of which there are images: concept" in answer("concept 9")["error"]
    assert "imagse" in answer("concept 0.80", imagse=3)["error"]
    assert "names no run" in held({"output": "a poem"})["reason"]
    wrong = held(answer("concept 0.80"), widthin=3)
    assert wrong["pass"] is False
    assert "widthin" in wrong["reason"]
    assert "\n" not in answer("concept 9")["error"]


def test_the_example_is_that_of_the_page_and_asks_what_an_audit_takes():
    config = yaml.safe_load((EXAMPLE / "promptfooconfig.yaml").read_text("utf-8"))
    assert yaml.safe_load(blocks(page("docs/hosts.md"), "yaml")[0]) == config
    [provider] = config["providers"]
    assert provider["config"].keys() <= AuditRequest.model_fields.keys()
    assert [test["vars"]["concept"] for test in config["tests"]] == provider["config"]["concepts"]
    spec = spec_from_file_location("audit", EXAMPLE / provider["id"].removeprefix("file://"))
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.call_api, module.get_assert) == (promptfoo.call_api, promptfoo.get_assert)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.skipif(not TOOL, reason="promptfoo is 1.4 GB of npm: put it on the PATH, or name it in PROMPTFOO")
def test_promptfoo_itself_shows_a_row_for_each_concept(tmp_path, monkeypatch):
    config = yaml.safe_load((EXAMPLE / "promptfooconfig.yaml").read_text("utf-8"))
    asked = {"model": "stripes:4", "suite": "example/colours", "encoder": "mean-colour", "out": "run", "resamples": 999}
    config["providers"][0]["config"] = asked
    config["tests"] = [{"vars": {"concept": concept}} for concept in ("chair", "table")]
    config["defaultTest"]["assert"][0]["config"] = RULE | {"within": 0.5}
    shutil.copy(EXAMPLE / "audit.py", tmp_path)
    (tmp_path / "promptfooconfig.yaml").write_text(yaml.safe_dump(config))
    register_example(monkeypatch, tmp_path)
    own = {
        "PROMPTFOO_PYTHON": sys.executable, "PROMPTFOO_CONFIG_DIR": str(tmp_path / "home"),
        "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_DISABLE_UPDATE": "1", "PROMPTFOO_FAILED_TEST_EXIT_CODE": "0",
        "PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "site", PLUGIN, ROOT / "src"))),
    }  # fmt: skip
    command = [TOOL, "eval", "--no-cache", "--no-progress-bar", "--output", "told.json"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "told.json").read_text("utf-8"))["results"]["results"]
    rows = cm.open_run(tmp_path / "run").scores.query("component == 'image_part' and encoder == 'mean'")
    values = rows[rows.metric == "mcas"].set_index("concept").value.to_dict()
    told = {each["vars"]["concept"]: each for each in results}
    assert {concept: each["namedScores"]["image_part"] for concept, each in told.items()} == pytest.approx(values)
    assert all(len(each["response"]["images"]) == 6 for each in results)
    assert all(each["gradingResult"]["reason"].startswith("undecided: image_part within") for each in results)
