"""Models that draw within a chat, over HTTP, against local servers of three shapes that behave well and badly."""

import base64
import io
import json
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from clinometer.cli.app import app
from clinometer.errors import Code, ModelError
from clinometer.models import GenerationRequest
from clinometer.models.openai import chat, images
from clinometer.models.protocols import EditRequest
from clinometer.suites import load_suite
from tests import quick
from tests.models.openai.image_server import ImageServer, drawn, error, png
from tests.raising import raises
from tests.toy_editing import Reader
from tests.toy_editing import toy_suite as editing_suite
from tests.toys import Eye, paint, toy_suite

pytestmark = pytest.mark.skipif(not find_spec("openai"), reason="openai is not installed")

KEY, GEMINI_KEY = "sk-a-very-secret-key", "a-very-secret-gemini-key"
AT_ONCE = {"retry-after-ms": "1"}
REQUESTS = [GenerationRequest(str(number), f"lean 0.{number}0", number) for number in range(1, 4)]
SHAPES = ("openrouter", "parts", "gemini")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("GEMINI_API_KEY", GEMINI_KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def connect(shape, server, **options):
    load = chat.load_gemini if shape == "gemini" else chat.load
    return load("painter", **({"price": 0.04, "base_url": server.url, "retries": 1} | options))


def prompt_of(asked):
    if "contents" in asked:
        return asked["contents"][0]["parts"][0]["text"]
    content = asked["messages"][-1]["content"]
    return content if isinstance(content, str) else content[0]["text"]


def seed_of(asked):
    return int(asked.get("seed", asked.get("generationConfig", {}).get("seed", 0)))


def reply(shape, *files, words=None, finish=None, **more):
    """An answer with images and words, in the shape of a server."""
    coded = [base64.b64encode(file).decode() for file in files]
    if shape == "gemini":
        parts = [{"text": words}] if words else []
        parts += [{"inlineData": {"mimeType": "image/png", "data": each}} for each in coded]
        return 200, {"candidates": [{"content": {"parts": parts}, "finishReason": finish or "STOP"}]} | more, {}
    urls = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{each}"}} for each in coded]
    message = {"role": "assistant", "content": words}
    if shape == "openrouter":
        message["images"] = urls
    else:
        message["content"] = ([{"type": "text", "text": words}] if words else []) + urls
    return 200, {"choices": [{"index": 0, "message": message, "finish_reason": finish or "stop"}]} | more, {}


def painted(shape):
    return lambda number, asked: reply(shape, png(prompt_of(asked), seed_of(asked)), words="Here it is.")


def draw(shape, behaviour=None, requests=REQUESTS, **options):
    with ImageServer(behaviour or painted(shape)) as server:
        results = {result.id: result for result in connect(shape, server, **options).generate(requests)}
    return results, server.asked


@pytest.mark.parametrize("shape", SHAPES)
def test_images_come_back_as_they_were_sent(shape):
    results, asked = draw(shape, send_seed=True)
    for request in REQUESTS:
        assert (results[request.id].status, results[request.id].reason) == ("ok", None)
        assert np.array_equal(np.asarray(results[request.id].image), np.asarray(paint(request.prompt, request.seed)))
    assert {each["key"] for each in asked} == {GEMINI_KEY if shape == "gemini" else KEY}
    path = "/v1/models/painter:generateContent" if shape == "gemini" else "/v1/chat/completions"
    assert {each["path"] for each in asked} == {path}


@pytest.mark.parametrize("shape", SHAPES)
def test_an_edit_sends_the_image_beside_its_prompt(shape):
    request = EditRequest("1", "lean 0.30", 5, image=paint("before", 1), strength=1.0)
    with ImageServer(painted(shape)) as server:
        (result,) = connect(shape, server).editor().edit([request])
    assert result.status == "ok"
    (asked,) = server.asked
    if shape == "gemini":
        coded = asked["contents"][0]["parts"][1]["inlineData"]["data"]
    else:
        coded = asked["messages"][-1]["content"][1]["image_url"]["url"].partition(",")[2]
    assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(coded)))), np.asarray(request.image))
    assert prompt_of(asked) == request.prompt


@pytest.mark.parametrize("shape", SHAPES)
def test_a_reply_in_words_is_a_refusal_and_its_words_are_kept(shape):
    def behaviour(number, asked):
        said = reply(shape, words="I cannot draw\n real people.")
        return said if prompt_of(asked) == "lean 0.20" else painted(shape)(number, asked)

    results, _ = draw(shape, behaviour)
    assert (results["2"].status, results["2"].reason) == ("refused", "I cannot draw real people.")
    assert [results[each].status for each in "13"] == ["ok", "ok"]


@pytest.mark.parametrize("shape", SHAPES)
def test_of_several_images_the_first_is_taken_and_their_number_told(shape):
    files = [png("lean 0.10", seed) for seed in (1, 2, 3)]
    results, _ = draw(shape, lambda number, asked: reply(shape, *files), REQUESTS[:1])
    assert np.array_equal(np.asarray(results["1"].image), np.asarray(paint("lean 0.10", 1)))
    assert results["1"].reason == "the first of 3 images in the answer"


@pytest.mark.parametrize("shape", SHAPES)
def test_a_system_prompt_is_sent_and_is_part_of_the_card(shape):
    with ImageServer(painted(shape)) as server:
        plain, told = connect(shape, server), connect(shape, server, system_prompt="Draw everybody.")
        list(told.generate(REQUESTS[:1]))
    (asked,) = server.asked
    if shape == "gemini":
        assert asked["systemInstruction"] == {"parts": [{"text": "Draw everybody."}]}
    else:
        assert asked["messages"][0] == {"role": "system", "content": "Draw everybody."}
    assert told.card.settings["system_prompt"] == "Draw everybody."
    assert told.card.fingerprint != plain.card.fingerprint


@pytest.mark.parametrize("shape", [*SHAPES, "images"])
def test_a_rewriter_words_each_prompt_anew_and_is_part_of_the_card(shape):
    def behaviour(number, asked):
        if "writer" in f"{asked.get('model')} {asked['path']}":
            words = reply("gemini" if shape == "gemini" else "openrouter", words=f"{prompt_of(asked)} in a garden")
            return words
        if shape == "images":
            return drawn(asked)
        return painted(shape)(number, asked)

    with ImageServer(behaviour) as server:
        if shape == "images":
            model = images.load("painter", price=0, base_url=server.url, rewriter="writer")
        else:
            model = connect(shape, server, rewriter="writer")
        (result,) = model.generate(REQUESTS[:1])
    assert (result.status, result.reason) == ("ok", "rewritten to: lean 0.10 in a garden")
    assert model.card.settings["rewriter"] == {"model": "writer", "instruction": images.REWRITING}
    prompt = server.asked[1]["prompt"] if shape == "images" else prompt_of(server.asked[1])
    assert prompt == "lean 0.10 in a garden"


@pytest.mark.parametrize(("shape", "status"), [("openrouter", "refused"), ("gemini", "refused"), ("parts", "failed")])
def test_a_rewriter_that_gives_no_wording_is_told(shape, status):
    def behaviour(number, asked):
        if shape == "gemini":
            return 200, {"promptFeedback": {"blockReason": "SAFETY"}}, {}
        refusal = {"role": "assistant", "content": None, "refusal": "no" if shape == "openrouter" else None}
        return 200, {"choices": [{"message": refusal, "finish_reason": "stop"}]}, {}

    results, asked = draw(shape, behaviour, REQUESTS[:1], rewriter="writer")
    assert results["1"].status == status
    assert results["1"].reason.startswith("rewriter writer: ")
    assert len(asked) == 1  # nothing is drawn of it


def test_what_diffusion_servers_take_is_sent_where_it_is_asked_for():
    results, asked = draw(
        "parts", requests=REQUESTS[:1], steps=8, guidance_scale=4.0, height=64, width=32, send_seed=True,
        further={"image_config": {"aspect_ratio": "1:2"}},
    )  # fmt: skip
    wanted = {"num_inference_steps": 8, "guidance_scale": 4.0, "height": 64, "width": 32, "seed": 1}
    assert (wanted | {"image_config": {"aspect_ratio": "1:2"}}).items() <= asked[0].items()
    assert results["1"].status == "ok"
    assert "asked for 32x64, drawn in" in results["1"].reason  # the server ignored the size


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("shape", SHAPES)
def test_what_passes_is_tried_again(shape, status):
    def behaviour(number, asked):
        return error(status, None, "not now", **AT_ONCE) if number <= 2 else painted(shape)(number, asked)

    results, asked = draw(shape, behaviour, REQUESTS[:1], retries=2)
    assert (results["1"].status, len(asked)) == ("ok", 3)


# --- bad answers ---------------------------------------------------------------------------------------------------

NONE = "malformed answer: it holds no image"
BAD = {
    "no choices": ("openrouter", {"choices": []}, "failed", NONE),
    "another shape": ("openrouter", {"created": 1, "data": [{"b64_json": "aGk="}]}, "failed", "not an image"),
    "a list": ("openrouter", [1, 2], "failed", NONE),
    "nonsense within": ("openrouter", {"choices": [{"message": "hi"}]}, "failed", NONE),
    "an empty list": ("openrouter", {"choices": [{"message": {"images": [], "content": ""}}]}, "failed", NONE),
    "no parts": ("parts", {"choices": [{"message": {"content": []}}]}, "failed", NONE),
    "no candidates": ("gemini", {"candidates": []}, "failed", NONE),
    "none made": (
        "gemini", {"candidates": [{"finishReason": "NO_IMAGE"}]}, "failed", f"{NONE} (it ended with NO_IMAGE)",
    ),
    "thoughts alone": (
        "gemini", {"candidates": [{"content": {"parts": [{"text": "Hm", "thought": True}]}}]}, "failed", NONE,
    ),
    "cut off": (
        "openrouter", {"choices": [{"message": {"content": "Let me"}, "finish_reason": "length"}]}, "failed",
        f"{NONE} (it ended with length): Let me",
    ),
    "an error": ("openrouter", {"error": {"code": 502, "message": "upstream"}}, "failed", "502: upstream"),
    "moderation": (
        "openrouter", {"error": {"code": 403, "message": "flagged input", "metadata": {}}}, "refused",
        "403: flagged input",
    ),
    "a filter": (
        "openrouter", {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}, "refused",
        "content_filter",
    ),
    "a refusal": ("openrouter", {"choices": [{"message": {"refusal": "Not this."}}]}, "refused", "Not this."),
    "a blocked prompt": (
        "gemini", {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "why"}}, "refused",
        "PROHIBITED_CONTENT: why",
    ),
    "a blocked picture": (
        "gemini", {"candidates": [{"finishReason": "IMAGE_SAFETY", "finishMessage": "Unable to show it."}]},
        "refused", "IMAGE_SAFETY: Unable to show it.",
    ),
    "no picture": ("openrouter", {"choices": [{"message": {"images": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGVsbG8="}}]}}]}, "failed", "not an image"),
    "no base64": ("gemini", {"candidates": [{"content": {"parts": [{"inlineData": {"data": "%%%"}}]}}]}, "failed",
                  "malformed answer"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_is_one_line_and_takes_no_other_along(name):
    shape, body, status, reason = BAD[name]

    def behaviour(number, asked):
        bad = prompt_of(asked) == "lean 0.20"
        return (200, json.dumps(body).encode(), {}) if bad else painted(shape)(number, asked)

    results, _ = draw(shape, behaviour)
    assert [results[each].status for each in "13"] == ["ok", "ok"]
    assert results["2"].status == status
    assert reason in results["2"].reason
    assert "\n" not in results["2"].reason


@pytest.mark.parametrize("shape", ["openrouter", "gemini"])
def test_a_page_of_html_says_what_came(shape):
    page = (200, b"<html>welcome</html>", {"Content-Type": "text/html"})
    results, _ = draw(shape, lambda number, asked: page, REQUESTS[:1])
    assert results["1"].status == "failed"
    assert results["1"].reason == f"{NONE}: <html>welcome</html>"


@pytest.mark.parametrize("form", ["JPEG", "WEBP"])
def test_an_image_of_another_format_is_read(form):
    buffer = io.BytesIO()
    paint("lean 0.10", 1).convert("RGB").save(buffer, form)
    results, _ = draw("gemini", lambda number, asked: reply("gemini", buffer.getvalue()), REQUESTS[:1])
    assert results["1"].status == "ok"


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_key_or_place_ends_the_run_and_names_the_variable(shape, status):
    variable = "GEMINI_API_KEY" if shape == "gemini" else "OPENAI_API_KEY"
    with raises(ModelError, code=Code.REFUSED, match=rf"painter: .*no such thing; check {variable}"):
        draw(shape, lambda number, asked: error(status, None, "no such thing"))


def test_what_does_not_fit_is_refused_before_a_request():
    with raises(ModelError, code=Code.MISSING, field="price"):
        chat.load("painter")
    with raises(ModelError, code=Code.MISSING, match="write chat:MODEL"):
        chat.load("", price=0)
    with raises(ModelError, code=Code.MISSING, match="write gemini:MODEL"):
        chat.load_gemini("", price=0)
    with raises(ModelError, code=Code.CONFLICT, field=("height", "width")):
        chat.load("painter", price=0, height=64)
    with raises(ModelError, code=Code.WRONG_TYPE, field="further", match="found list"):
        chat.load("painter", price=0, further=[1])


def test_gemini_needs_its_own_key(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY")
    with raises(ModelError, code=Code.MISSING, match="GEMINI_API_KEY"):
        chat.load_gemini("painter", price=0)


# --- in a run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
def test_an_audit_counts_refusals_by_group_and_goes_on_where_it_stopped(shape, tmp_path: Path):
    suite = toy_suite(target=2, attribute=2, concepts=2)

    def behaviour(number, asked):
        if number == 15:
            return error(402, None, "no credit left", **AT_ONCE)
        if "women" in prompt_of(asked):
            return reply(shape, words="I would rather not.")
        return painted(shape)(number, asked)

    with ImageServer(behaviour) as server:
        model = connect(shape, server, send_seed=True, concurrency=1)
        with raises(ModelError, code=Code.REFUSED, match="add credit"):
            quick.audit(model, suite, tmp_path / "run", encoder=Eye(), budget=2.0)
        before = len(server.asked)
        run = quick.audit(model, suite, tmp_path / "run", encoder=Eye(), budget=2.0)
        assert 0 < len(server.asked) - before < len(run.plan)  # what was paid for stays
    samples = run.samples
    women = samples.prompt.str.contains("women")
    assert set(samples.status[women]) == {"refused"}
    assert set(samples.reason[women]) == {"I would rather not."}
    assert set(samples.status[~women]) == {"ok"}
    rates = run.scores[(run.scores.metric == "refusal") & (run.scores.component == "rate")]
    assert rates.set_index("group").value["woman"] == 1.0
    assert rates.set_index("group").value["man"] == 0.0
    for folder, _, files in os.walk(tmp_path):
        for file in files:
            content = Path(folder, file).read_bytes()
            assert KEY.encode() not in content
            assert GEMINI_KEY.encode() not in content


def test_a_model_that_answers_in_words_alone_ends_as_a_run_of_refusals(tmp_path: Path):
    suite = toy_suite(target=1, attribute=1, concepts=2)
    with ImageServer(lambda number, asked: reply("openrouter", words="I write.")) as server:
        run = quick.audit(connect("openrouter", server), suite, tmp_path / "run", encoder=Eye(), budget=9.0)
    assert set(run.samples.status) == {"refused"}
    assert set(run.samples.reason) == {"I write."}


def test_an_endpoint_of_another_shape_ends_the_run_with_what_it_said(tmp_path: Path):
    suite = toy_suite(target=1, attribute=1, concepts=2)
    with ImageServer(lambda number, asked: (200, {"created": 1, "data": []}, {})) as server:
        with raises(ModelError, code=Code.FAILED, match=rf"painter: all \d+ images failed, .*: {NONE}: "):
            quick.audit(connect("openrouter", server), suite, tmp_path / "run", encoder=Eye(), budget=9.0)
        server.behaviour = painted("openrouter")
        run = quick.audit(connect("openrouter", server), suite, tmp_path / "run", encoder=Eye(), budget=9.0)
    assert set(run.samples.status) == {"ok"}


@pytest.mark.parametrize("shape", ["parts", "gemini"])
def test_an_editing_suite_is_edited_through_chat(shape, tmp_path: Path):
    with ImageServer(painted(shape)) as server:
        model = connect(shape, server, send_seed=True)
        run = quick.audit(model, editing_suite(strengths=[1.0]), tmp_path / "run", encoder=Reader(), budget=9.0)
    assert set(run.samples.status) == {"ok"}
    assert {"portrait", "edit"} == set(run.samples.role)


# --- before a cent is spent -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [*SHAPES, "images"])
def test_the_first_request_is_shown_as_it_will_be_sent_with_its_key_masked(shape):
    with ImageServer(drawn if shape == "images" else painted(shape)) as server:
        options = {"rewriter": "writer", "send_seed": True}
        if shape == "images":
            model = images.load("painter", price=0, base_url=server.url, **options)
        else:
            model = connect(shape, server, system_prompt="Draw everybody.", **options)
        rewriting, shown = model.shown_requests(REQUESTS[0])
        assert server.asked == []
        assert "lean 0.10" in rewriting
        answers = reply("openrouter" if shape == "images" else shape, png("x", 1), words="(the rewritten prompt)")
        server.behaviour = lambda number, asked: drawn(asked) if "prompt" in asked else answers
        list(model.generate(REQUESTS[:1]))
    sent = {key: value for key, value in server.asked[1].items() if key not in ("path", "key")}
    head, _, body = shown.partition("\n\n")
    assert head.startswith(f"POST {server.root}{server.asked[1]['path']}")
    assert json.loads(body) == sent
    for secret in (KEY, GEMINI_KEY):
        assert secret not in shown + rewriting
    assert "\N{HORIZONTAL ELLIPSIS}" in head


def test_the_picture_of_an_edit_is_not_shown():
    request = EditRequest("1", "lean 0.30", 5, image=paint("before", 1), strength=1.0)
    with ImageServer() as server:
        (shown,) = connect("parts", server).shown_requests(request)
        assert server.asked == []
    assert len(shown) < 1000
    assert "letters)" in shown


@pytest.mark.parametrize("shape", [*SHAPES, "images"])
def test_a_model_says_what_a_request_can_say(shape):
    with ImageServer() as server:
        if shape == "images":
            model = images.load("painter", price=0.04, base_url=server.url)
        else:
            model = connect(shape, server, system_prompt="Draw everybody.")
        takes = model.takes
    names = {"seed", "size", "steps", "guidance", "system prompt", "rewriter", "strength of edits", "price"}
    assert set(takes) == names
    assert takes["price"] == "0.04 an image"
    assert takes["system prompt"] == ("not in this API" if shape == "images" else "sent")
    assert takes["seed"].startswith("not sent")


@pytest.mark.parametrize("adapter", ["openai", "chat", "gemini"])
def test_the_command_says_both_and_asks_nothing(adapter, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with ImageServer() as server:
        at = ["--base-url", server.url]
        described = CliRunner().invoke(app, ["models", f"{adapter}:painter", *at], env={"COLUMNS": "120"})
        asked = ["audit", "-m", f"{adapter}:painter", "-s", "mcas", "--images", "2", "--price", "0.5", "--dry-run", *at]
        dry = CliRunner().invoke(app, asked, env={"COLUMNS": "120"})
        assert server.asked == []
    assert (described.exit_code, dry.exit_code) == (0, 0), described.output + dry.output
    for name in ("seed", "steps", "guidance", "system prompt", "strength of edits", "none given: 0"):
        assert name in described.output
    assert "184 images. At 0.5 each they cost 92.00." in dry.output
    assert f"POST {server.url}/" in dry.output
    assert "an image of a chief executive officer" in dry.output
    assert KEY not in dry.output
    assert GEMINI_KEY not in dry.output
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_of_a_model_that_asks_no_server_draws_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    dry = CliRunner().invoke(app, ["audit", "--seed", "3,4", "--dry-run"], env={"COLUMNS": "120"})
    assert dry.exit_code == 0, dry.output
    assert "That is the first of 2 audits." in dry.output
    assert "The model asks no server. Nothing was drawn." in dry.output
    assert "each image's own, on the CPU" in dry.output
    assert list(tmp_path.iterdir()) == []


def test_of_given_portraits_the_first_request_is_an_edit(tmp_path):
    groups = list(load_suite("downstream/portrait-edits").groups)
    for at in range(len(groups)):
        Image.new("RGB", (8, 8), (at, 0, 0)).save(tmp_path / f"{at}.png")
    rows = "".join(f"{at}.png,{group}\n" for at, group in enumerate(groups))
    (tmp_path / "manifest.csv").write_text(f"file,group\n{rows}")
    with ImageServer() as server:
        words = ["audit", "-m", "chat:painter", "-s", "downstream/portrait-edits", "--price", "0.5", "--dry-run"]
        asked = [*words, "--portraits", str(tmp_path), "--base-url", server.url]
        dry = CliRunner().invoke(app, asked, env={"COLUMNS": "120"})
        assert server.asked == []
    assert dry.exit_code == 0, dry.output
    assert "1,680 images. At 0.5 each they cost 840.00." in dry.output
    assert "chief executive of a large company" in dry.output
    assert "data:image/png;base64" in dry.output
