"""Edits by OpenAI's images API, over HTTP, against a local server that behaves well and badly."""

import io
import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from clinometer.errors import Code, ModelError
from clinometer.models.openai.images import load
from clinometer.models.protocols import EditRequest
from tests import quick
from tests.models.openai.image_server import ImageServer, drawn, error, slowly, together
from tests.raising import raises
from tests.toy_editing import Reader, toy_suite
from tests.toys import paint

pytestmark = pytest.mark.skipif(not find_spec("openai"), reason="openai is not installed")

KEY = "sk-a-very-secret-key"
AT_ONCE = {"retry-after-ms": "1"}
REQUESTS = [
    EditRequest(str(number), f"lean 0.{number}0", number, image=paint("before", number), strength=1.0)
    for number in range(1, 5)
]
SUITE = toy_suite(strengths=[1.0])


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def connect(server, **options):
    return load("gpt-image-1", **({"price": 0.04, "base_url": server.url} | options))


def edit(behaviour=None, requests=REQUESTS, **options):
    with ImageServer(behaviour) as server:
        results = {result.id: result for result in connect(server, **options).editor().edit(requests)}
    return results, server.asked


def test_the_image_and_the_prompt_are_sent_and_the_edit_comes_back():
    results, asked = edit(send_seed=True, quality="low", style="vivid")
    for request in REQUESTS:
        assert np.array_equal(np.asarray(results[request.id].image), np.asarray(paint(request.prompt, request.seed)))
        (one,) = [each for each in asked if each["prompt"] == request.prompt]
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(one["image"]))), np.asarray(request.image))
        assert (one["path"], one["model"], one["n"], one["quality"]) == ("/v1/images/edits", "gpt-image-1", "1", "low")
        assert one["key"] == KEY
        assert "style" not in one  # generations alone take it


def test_requests_go_together_at_the_generations_pace():
    with ImageServer(together(3)) as server:
        list(connect(server, concurrency=3).editor().edit(REQUESTS))
    assert server.most_at_once == 3


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_tried_again_with_the_image(status):
    def behaviour(number, asked):
        return error(status, None, "not now", **AT_ONCE) if number <= 2 else drawn(asked)

    results, asked = edit(behaviour, REQUESTS[:1])
    assert results["1"].status == "ok"
    assert len({each["image"] for each in asked}) == 1
    assert len(asked) == 3


def test_a_closed_connection_is_tried_again():
    results, asked = edit(lambda number, asked: None if number == 1 else drawn(asked), REQUESTS[:1])
    assert (results["1"].status, len(asked)) == ("ok", 2)


def test_a_slow_server_is_given_up():
    results, _ = edit(slowly(1.0), REQUESTS[:1], timeout=0.1, retries=0)
    assert results["1"].status == "failed"


def test_a_refusal_is_an_answer_with_its_reason():
    def behaviour(number, asked):
        refused = asked["prompt"] == "lean 0.20"
        return error(400, "moderation_blocked", "rejected") if refused else drawn(asked)

    results, asked = edit(behaviour)
    assert (results["2"].status, results["2"].reason) == ("refused", "moderation_blocked: rejected")
    assert [each.status for each in results.values()].count("ok") == 3
    assert len(asked) == 4


@pytest.mark.parametrize("body", [b"{", {"created": 1, "data": []}, {"created": 1, "data": [{"b64_json": "%%%"}]}])
def test_a_malformed_answer_fails_alone(body):
    results, _ = edit(lambda number, asked: (200, body, {}) if "0.10" in asked["prompt"] else drawn(asked), retries=0)
    assert [results[each.id].status for each in REQUESTS] == ["failed", "ok", "ok", "ok"]


def test_a_model_without_edits_ends_the_run():
    with raises(ModelError, code=Code.REFUSED, match="invalid_value: dall-e-3 edits no image"):
        edit(lambda number, asked: error(400, "invalid_value", "dall-e-3 edits no image"))


# --- in a run ------------------------------------------------------------------------------------------------------


def test_several_strengths_are_refused_before_anything_is_spent(tmp_path: Path):
    with ImageServer() as server:
        with raises(ModelError, code=Code.UNSUPPORTED, match="2 strengths in suite toy-editing"):
            quick.audit(connect(server), toy_suite(), tmp_path / "run", encoder=Reader(), budget=9.0)
        assert server.asked == []


def test_a_stopped_run_pays_for_the_edits_that_are_missing(tmp_path: Path):
    def no_credit_left(number, asked):
        return error(429, "insufficient_quota", "no credit left", **AT_ONCE) if number > 14 else drawn(asked)

    with ImageServer(no_credit_left) as server:  # 2 · 3 portraits, each edited into 2 professions: 18 images
        model = connect(server, retries=0, send_seed=True)
        with raises(ModelError, code=Code.OVER_BUDGET, match=r"18 images at 0\.04 each cost 0\.72"):
            quick.audit(model, SUITE, tmp_path / "run", encoder=Reader(), budget=0.5)
        assert server.asked == []
        with raises(ModelError, code=Code.REFUSED, match="add credit"):
            quick.audit(model, SUITE, tmp_path / "run", encoder=Reader(), budget=0.72)
        assert {each["path"] for each in server.asked} == {"/v1/images/generations", "/v1/images/edits"}
        server.behaviour = lambda number, asked: drawn(asked)
        server.asked.clear()
        run = quick.audit(model, SUITE, tmp_path / "run", encoder=Reader(), budget=0.72)
        assert 4 <= len(server.asked) <= 12
        assert {each["path"] for each in server.asked} == {"/v1/images/edits"}
        whole = quick.audit(model, SUITE, tmp_path / "whole", encoder=Reader(), budget=0.72)
    assert list(run.samples.sha256) == list(whole.samples.sha256)
    for folder, _, files in os.walk(tmp_path):
        assert all(KEY.encode() not in Path(folder, file).read_bytes() for file in files)


def test_a_model_that_draws_and_edits_none_ends_the_run_before_the_first_edit(tmp_path: Path):
    def behaviour(number, asked):
        return error(400, "invalid_value", "it edits no image") if asked["path"].endswith("edits") else drawn(asked)

    with ImageServer(behaviour) as server, raises(ModelError, code=Code.REFUSED):
        quick.audit(connect(server), SUITE, tmp_path / "run", encoder=Reader(), budget=9.0)
    assert len([each for each in server.asked if each["path"].endswith("edits")]) == 4  # those under way at once


def test_edits_of_given_portraits_need_a_budget_and_the_portraits_none(tmp_path: Path):
    rows = [f"{group}-{number}.png" for group in SUITE.groups for number in range(3)]
    for number, file in enumerate(rows):
        paint("before", number).save(tmp_path / file)
    manifest = "".join(f"{file},{file.split('-')[0]}\n" for file in rows)
    (tmp_path / "manifest.csv").write_text(f"file,group\n{manifest}")
    with ImageServer() as server:
        asked = {"model": connect(server), "suite": SUITE, "portraits": tmp_path, "encoder": Reader()}
        with raises(ModelError, code=Code.OVER_BUDGET, match=r"12 images at 0\.04 each cost 0\.48, found no budget"):
            quick.audit(out=tmp_path / "run", **asked)
        assert server.asked == []
        quick.audit(out=tmp_path / "run", budget=0.48, **asked)
        assert len(server.asked) == 12
