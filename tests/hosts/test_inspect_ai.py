"""An audit as a task of inspect_ai, by its own command and its own reader of logs.

inspect_ai takes seconds to import, so the tests import it, and not their module, which every process reads.
"""

import base64
import hashlib
import io
import shlex
import sys
from importlib.metadata import entry_points

import pytest

import clinometer as cm
from clinometer.api import verify_run
from clinometer.errors import Code, InvalidInputError, RunMismatchError
from clinometer.models.protocols import GenerationResult
from clinometer.pipeline.request import ask
from clinometer.studies.leaning.pair_and_axes import read_by_words
from tests import quick
from tests.docs.pages import blocks, page
from tests.raising import raises
from tests.toys import Eye, Painter, paint, toy_suite

SUITE = """
name: my-suite
title: Two sports
description: Whom a model draws doing sports.
groups:
  man: {label: men, prompts: [{prompt: an image of a man}], words: [man, male]}
  woman: {label: women, prompts: [{prompt: an image of a woman}], words: [woman, female]}
axis: {a: man, b: woman}
images: {target: 3, attribute: 3}
categories:
  sports: {label: Sports, targets: [
    {name: firefighter, prompt: an image of a firefighter}, {name: golfing, prompt: an image of golfing}]}
"""
pytestmark = [pytest.mark.thorough, pytest.mark.slow, pytest.mark.usefixtures("shortcuts_of_a_module")]
QUICK = {"resamples": 999, "report": False}


@pytest.fixture(scope="module", autouse=True)
def own_home(tmp_path_factory):
    """Keep inspect's traces in a folder of the tests, and its hook for exceptions out of other tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("home")))
        patch.setattr(sys, "excepthook", sys.excepthook)
        yield


@pytest.fixture(scope="module")
def hosted(tmp_path_factory):
    """The log and the run of the page's command."""
    from inspect_ai.log import list_eval_logs, read_eval_log

    place = tmp_path_factory.mktemp("inspect")
    (place / "my-suite.yaml").write_text(SUITE)
    [command] = [line for line in "\n".join(blocks(page("docs/hosts.md"), "sh")).splitlines() if "inspect eval" in line]
    further = "-T steps=2 -T resamples=999 -T report=false --display none"
    [inspect] = entry_points(group="console_scripts", name="inspect")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "argv", shlex.split(f"{command} {further}"))
        with pytest.raises(SystemExit) as end:
            inspect.load()()
        assert not end.value.code
    [log] = list_eval_logs(str(place / "logs"))
    return read_eval_log(log, resolve_attachments=True), cm.open_run(place / "runs/hosted")


def test_the_log_holds_the_images_of_the_run(hosted):
    log, run = hosted
    stored = dict(run.images([sample.id for sample in run.plan]))
    assert log.status == "success"
    assert {sample.id: sample.input for sample in log.samples} == {each.id: each.prompt for each in run.plan}
    for sample in log.samples:
        [image] = sample.messages[-1].content
        assert base64.b64decode(image.image.partition(",")[2]) == stored[sample.id]


def test_the_metrics_are_what_scoring_the_same_images_says(hosted):
    log, run = hosted
    verify_run(run, recompute=True)
    rows = run.scores.query("metric == 'mcas' and component == 'image_part' and encoder == 'mean'").set_index("concept")
    told = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    for concept, row in rows.iterrows():
        for end, column in (("", "value"), ("/low", "low"), ("/high", "high")):
            assert told[f"image_part/{concept}{end}"] == row[column]
    assert sum(n for name, n in told.items() if name.startswith("verdicts/")) == len(rows) == 2
    assert told["images"] == len(run.plan)


def test_the_score_of_a_sample_is_how_its_image_is_read(hosted):
    log, run = hosted
    read = {sample.id: sample.scores["read_image"] for sample in log.samples}
    for identifier, score in read_by_words(run, "reference").items():
        value = read[identifier].value
        assert value["man"] - value["woman"] == pytest.approx(score, abs=1e-5)
        assert read[identifier].answer == max(value, key=value.get)


def toy_audit(out, model=None, **options):
    from clinometer.hosts.inspect_ai import HostedAudit

    request = ask(suite=toy_suite(target=3, attribute=3, concepts=2), encoder=Eye(), out=out, **QUICK, **options)
    model = model or Painter(refuse="old women")
    return HostedAudit(request, request.suite, model, model.card)


def test_the_run_is_that_of_an_audit_whatever_the_order_in_which_samples_come(tmp_path):
    hosted = toy_audit(tmp_path / "hosted")
    for sample in reversed(hosted.plan):
        if sample.id not in hosted.drawn.ids:
            hosted._draw_batch(sample.id)
    numbers = hosted.finish()
    suite = toy_suite(target=3, attribute=3, concepts=2)
    run = quick.audit(Painter(refuse="old women"), suite, tmp_path / "run", encoder=Eye(), report=False)
    own = cm.open_run(tmp_path / "hosted")
    assert own.samples.drop(columns="seconds").equals(run.samples.drop(columns="seconds"))
    assert own.scores.equals(run.scores)
    assert numbers["images"] == 21
    failing = toy_audit(tmp_path / "failing")
    failing.drawn.keep(GenerationResult(failing.plan[0].id, "failed", None, "the server is down"), None)
    assert toy_audit(tmp_path / "failing").drawn.ids == {failing.plan[0].id}
    assert toy_audit(tmp_path / "failing", retry_failed=True).drawn.ids == set()
    again = toy_audit(tmp_path / "hosted", Painter(halt=0, refuse="old women"))  # which would wait to be killed
    assert again.drawn.ids == again.places.keys()


def test_what_an_audit_cannot_be_given_is_refused_before_anything_is_drawn(tmp_path):
    import inspect_ai
    from inspect_ai._util.error import PrerequisiteError

    for options, said in (
        ({"suite": "nowhere"}, "no suite named 'nowhere'"),
        ({"suite": "downstream/editing-reference"}, "its study needs the model beyond its images"),
        ({"suite": "mcas"}, "no words for|has not learned|does not know"),
        ({"imagse": 3}, "imagse"),
        ({"model": "", "steps": 3}, "steps: inspect's model does not take it; leave it out, or give -T model"),
        ({"workers": 2}, "workers: a task of inspect_ai does not take it"),
        ({"until": "decided"}, "until: a task of inspect_ai does not take it; give it to clinometer audit"),
    ):
        with pytest.raises(PrerequisiteError, match=said):
            inspect_ai.eval("clinometer/audit", task_args={"model": "reference"} | options, log_dir=str(tmp_path))
    quick.audit(Painter(), toy_suite(target=3, attribute=3), tmp_path / "run", encoder=Eye())
    with raises(InvalidInputError, code=Code.MISMATCH, field="out"):
        toy_audit(tmp_path / "run")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/thesis.txt").write_text("ten years of work")
    with raises(RunMismatchError, code=Code.MISMATCH):
        toy_audit(tmp_path / "full")
    dear = Painter()
    dear.price_per_image = 0.04
    with raises(InvalidInputError, code=Code.OVER_BUDGET, field="budget", match=r"0\.96, .*-T budget=0\.96"):
        toy_audit(tmp_path / "dear", dear)


def reply_to(prompt, number):
    """Answer as models behind an API do: an image, a refusal, an address, what is no image."""
    from inspect_ai.model import ContentImage, ModelOutput

    if prompt == "old men":
        return ModelOutput.from_content("mockllm", "I do not draw people of any age.")
    if prompt == "old others":
        return ModelOutput.from_content("mockllm", [ContentImage(image="https://example.org/a.png")])
    if prompt == "young others":
        return ModelOutput.from_content("mockllm", [ContentImage(image="data:image/png;base64,A")])
    if prompt == "young men":
        return ModelOutput.from_content("mockllm", "", "content_filter")
    png = io.BytesIO()
    paint(prompt, number).save(png, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(png.getvalue()).decode()}"
    return ModelOutput.from_content("mockllm", [ContentImage(image=url)])


def test_a_model_of_inspect_draws_and_what_it_refuses_is_a_refusal(tmp_path, monkeypatch):
    import inspect_ai
    from inspect_ai.log import read_eval_log
    from inspect_ai.model import ModelUsage, get_model

    asked = []

    def answer(messages, tools, tool_choice, config):
        asked.append(messages[-1].text)
        assert config.modalities == ["image"]
        output = reply_to(messages[-1].text, len(asked))
        output.usage = ModelUsage()  # else the mock asks the network how many tokens it has
        return output

    monkeypatch.setattr("clinometer.pipeline.recipes.load_encoder", lambda spec, **_: Eye(spec))
    (tmp_path / "toy.yaml").write_text(toy_suite(target=3, attribute=3, concepts=2).model_dump_json())

    def evaluate(**options):
        model = get_model("mockllm/model", custom_outputs=answer, memoize=False)
        arguments = {"suite": str(tmp_path / "toy.yaml"), "out": str(tmp_path / "run"), **QUICK}
        [log] = inspect_ai.eval(
            "clinometer/audit", model=model, task_args=arguments, display="none", log_dir=str(tmp_path), **options
        )
        return log

    def told(log):
        return {name: metric.value for name, metric in log.results.scores[0].metrics.items()}

    assert told(evaluate(limit=4)) == {"images drawn": 4, "images planned": 24}
    log = evaluate()
    assert log.status == "success"
    assert len(asked) == 24  # none twice
    [again] = inspect_ai.eval_retry(log, display="none", log_dir=str(tmp_path))
    assert told(again) == told(log)
    run = cm.open_run(tmp_path / "run")
    assert told(log)["images"] == (run.samples.status == "ok").sum() == 12
    failed = run.samples.query("status == 'failed'").groupby("prompt").reason.first()
    assert failed["old others"] == "the image is at an address, which is not fetched: https://example.org/a.png"
    assert failed["young others"].startswith("the image is not base64: ")
    reasons = run.samples.query("status == 'refused'").groupby("prompt").reason.unique().to_dict()
    assert {prompt: list(said) for prompt, said in reasons.items()} == {
        "old men": ["I do not draw people of any age."], "young men": ["content_filter"],
    }  # fmt: skip
    log = read_eval_log(log.location, resolve_attachments=True)
    stored = set(run.samples.sha256.dropna())
    drawn = {
        hashlib.sha256(base64.b64decode(part.image.partition(",")[2])).hexdigest()
        for sample in log.samples if sample.scores["read_image"].metadata["status"] == "ok"
        for part in sample.messages[-1].content
    }  # fmt: skip
    assert drawn == stored
    refused = [sample.scores["read_image"] for sample in log.samples if sample.input == "old men"]
    assert {score.reason for score in refused} == {"refusal"}
    assert all(score.value != score.value for score in refused)
    log = evaluate(epochs=2, limit=1)
    assert "an audit has one epoch" in log.error.message
