"""The adapter of OpenAI's images API, over HTTP, against a local server that behaves well and badly."""

import base64
import dataclasses
import json
import os
import time
from importlib.util import find_spec

import numpy as np
import pytest

import clinometer as cm
from clinometer.errors import Code, InvalidInputError, ModelError
from clinometer.models import GenerationRequest, load_generator
from clinometer.models.openai import Pace, error_line
from clinometer.models.openai.images import load
from tests import quick
from tests.models.openai.image_server import ImageServer, drawn, error, png, slowly, together
from tests.raising import raises
from tests.toys import Eye, paint, toy_suite

pytestmark = pytest.mark.skipif(not find_spec("openai"), reason="openai is not installed")

KEY = "sk-a-very-secret-key"
REQUESTS = [GenerationRequest(str(number), f"lean 0.{number}0", number) for number in range(1, 7)]
AT_ONCE = {"retry-after-ms": "1"}


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def connect(server, **options):
    return load("gpt-image-1", **({"price": 0.04, "base_url": server.url} | options))


def draw(behaviour=None, requests=REQUESTS, **options):
    with ImageServer(behaviour) as server:
        results = {result.id: result for result in connect(server, **options).generate(requests)}
    return results, server.asked


def test_images_come_back_as_they_were_sent():
    results, asked = draw(send_seed=True)
    for request in REQUESTS:
        assert results[request.id].status == "ok"
        assert np.array_equal(np.asarray(results[request.id].image), np.asarray(paint(request.prompt, request.seed)))
    assert sorted(each["prompt"] for each in asked) == [request.prompt for request in REQUESTS]
    assert all(each["model"] == "gpt-image-1" and each["n"] == 1 and each["key"] == KEY for each in asked)
    assert all("response_format" not in each for each in asked)  # newer models refuse the parameter


def test_what_is_asked_for():
    with ImageServer() as server:
        generator = load(
            "dall-e-3", price=0.08, base_url=server.url, height=1024, width=1792, quality="hd", style="natural"
        )
        list(generator.generate(REQUESTS[:1]))
    (asked,) = server.asked
    wanted = {"model": "dall-e-3", "size": "1792x1024", "quality": "hd", "style": "natural"}
    assert wanted.items() <= asked.items()
    assert asked["response_format"] == "b64_json"
    assert "seed" not in asked


def test_a_revised_prompt_is_kept():
    results, _ = draw(lambda number, asked: drawn(asked, revised_prompt="a diverse crowd"), REQUESTS[:1])
    assert results["1"].status == "ok"
    assert results["1"].reason == "the server drew: a diverse crowd"


def test_several_requests_are_under_way_at_once_and_no_more():
    with ImageServer(together(3)) as server:
        list(connect(server, concurrency=3).generate(REQUESTS))
    assert server.most_at_once == 3


def test_requests_are_read_as_they_are_needed():
    read = []
    with ImageServer() as server:
        results = connect(server, concurrency=2).generate(read.append(each) or each for each in REQUESTS)
        next(results)
        assert len(read) <= 4
        results.close()


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_passes_is_tried_again(status):
    def behaviour(number, asked):
        return error(status, None, "not now", **AT_ONCE) if number <= 2 else drawn(asked)

    results, asked = draw(behaviour, REQUESTS[:1])
    assert results["1"].status == "ok"
    assert len(asked) == 3


def test_a_closed_connection_is_tried_again():
    results, asked = draw(lambda number, asked: None if number == 1 else drawn(asked), REQUESTS[:1])
    assert results["1"].status == "ok"
    assert len(asked) == 2


def test_what_does_not_pass_fails_with_its_reason_and_takes_no_other_along():
    def behaviour(number, asked):
        return error(500, None, "out of order", **AT_ONCE) if asked["prompt"] == "lean 0.30" else drawn(asked)

    results, _ = draw(behaviour, retries=1)
    assert [results[each.id].status for each in REQUESTS] == ["ok", "ok", "failed", "ok", "ok", "ok"]
    assert results["3"].reason == "out of order"


def test_a_slow_server_is_given_up():
    results, _ = draw(slowly(1.0), REQUESTS[:1], timeout=0.1, retries=0)
    assert results["1"].status == "failed"
    assert "APITimeoutError" in results["1"].reason


@pytest.mark.parametrize("code", ["content_policy_violation", "moderation_blocked"])
def test_a_refusal_is_an_answer_with_its_reason(code):
    def behaviour(number, asked):
        refused = asked["prompt"] == "lean 0.20"
        return error(400, code, "rejected by the safety system") if refused else drawn(asked)

    results, asked = draw(behaviour)
    assert results["2"].status == "refused"
    assert results["2"].reason == f"{code}: rejected by the safety system"
    assert [results[each.id].status for each in REQUESTS].count("ok") == 5
    assert len(asked) == 6  # an answer is not asked for twice


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"code": "invalid argument", "error": "Generated image rejected by content moderation."}),  # xAI
        (400, {"error": {"code": "contentFilter", "message": "Your task failed."}}),  # Azure
        (400, {"error": {"code": "x", "message": "no", "inner_error": {"code": "ResponsibleAIPolicyViolation"}}}),
        (400, {"error": {"code": None, "type": "x", "message": "Rejected as a result of our safety system."}}),
        (400, {"error": {"code": "400", "message": "litellm.ContentPolicyViolationError: no"}}),
        (403, {"error": {"code": 403, "message": "no", "metadata": {"flagged_input": "lean"}}}),  # OpenRouter
        (422, {"error": {"code": None, "message": "NSFW content detected"}}),  # Together
        (400, b"blocked by the content filter"),
    ],
)
def test_a_refusal_has_many_shapes(status, body):
    results, _ = draw(lambda number, asked: (status, body, {}), REQUESTS[:1])
    assert results["1"].status == "refused"
    said = body.decode() if isinstance(body, bytes) else body["error"]
    assert (said["message"] if isinstance(said, dict) else said) in results["1"].reason


@pytest.mark.parametrize(
    "message", ["safety_tolerance: expected 1 to 6", "Unknown parameter: 'moderation'", "your account was flagged"]
)
def test_what_only_sounds_like_a_refusal_ends_the_run(message):
    with raises(ModelError, code=Code.REFUSED, match=message):
        draw(lambda number, asked: error(400, "invalid_value", message), REQUESTS[:1])


def not_taken(prompt):
    """A server that takes one prompt for malformed, at once, and draws the others after a while."""
    return lambda number, asked: (
        error(400, "string_above_max_length", "too long") if asked["prompt"] == prompt else slowly(0.05)(number, asked)
    )


@pytest.mark.parametrize(("bad", "concurrency"), [(1, 4), (2, 4), (5, 4), (6, 4), (2, 1), (6, 1)])
def test_a_request_that_is_not_taken_fails_alone_once_another_was(bad, concurrency):
    results, asked = draw(not_taken(f"lean 0.{bad}0"), concurrency=concurrency)
    assert [results[each.id].status for each in REQUESTS].count("ok") == 5
    assert (results[str(bad)].status, results[str(bad)].reason) == ("failed", "string_above_max_length: too long")
    assert len(asked) == 6


def test_a_first_request_that_is_not_taken_ends_the_run_and_names_its_prompt():
    with raises(ModelError, code=Code.REFUSED, match="too long; .* the prompt 'lean 0.10'"):
        draw(not_taken("lean 0.10"), concurrency=1)


def test_the_servers_own_words_are_told_whatever_their_shape():
    with raises(ModelError, code=Code.REFUSED, match="size must be 512"):
        draw(lambda number, asked: (422, {"detail": [{"msg": "size must be 512"}]}, {}), REQUESTS[:1])
    results, _ = draw(lambda number, asked: (502, b"<h1>\nBad gateway</h1>", {}), REQUESTS[:1], retries=0)
    assert "<h1> Bad gateway</h1>" in results["1"].reason


def test_a_key_that_a_long_message_cuts_in_two_is_hidden_too():
    results, _ = draw(lambda number, asked: error(500, None, "x" * 290 + KEY), REQUESTS[:1], retries=0)
    assert KEY[:6] not in results["1"].reason


def test_a_long_key_in_any_error_is_hidden_before_it_is_cut(monkeypatch):
    long = KEY + "-" + "y" * 100
    monkeypatch.setenv("OPENAI_API_KEY", long)
    with ImageServer() as server:
        connect(server)
        said = error_line(RuntimeError("x" * 250 + long))
    assert said == f"RuntimeError: {'x' * 250}…"


@pytest.mark.parametrize(
    "as_told", [base64.encodebytes, lambda data: b"data:image/png;base64," + base64.b64encode(data)]
)
@pytest.mark.parametrize("field", ["b64_json", "url"])
def test_base64_may_come_in_lines_or_in_a_data_url(as_told, field):
    told = as_told(png("lean 0.10", 1)).decode()
    if field == "url" and not told.startswith("data:"):
        told = "data:image/png;base64," + told
    results, _ = draw(lambda number, asked: (200, {"created": 1, "data": [{field: told}]}, {}), REQUESTS[:1])
    assert np.array_equal(np.asarray(results["1"].image), np.asarray(paint("lean 0.10", 1)))


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"<html>gateway</html>",
        b"[]",
        {"created": 1, "data": []},
        {"created": 1},
        {"created": 1, "data": [{"b64_json": "%%%"}]},
        {"created": 1, "data": [{"b64_json": "aGVsbG8="}]},
        {"created": 1, "data": [{}]},
        {"created": 1, "data": [{"url": "file:///etc/hostname"}]},
    ],
)
def test_a_malformed_answer_fails_alone(body):
    results, _ = draw(lambda number, asked: (200, body, {}), REQUESTS[:2], retries=0)
    assert {result.status for result in results.values()} == {"failed"}
    assert all(result.reason and result.image is None for result in results.values())


MODERATED = {"code": "moderation_blocked", "message": "rejected by the safety system"}


@pytest.mark.parametrize(
    ("answer", "status", "words"),
    [
        ((200, {"error": MODERATED}, {}), "refused", "moderation_blocked: rejected by the safety system"),
        ((200, {"error": {"message": "out of order"}}, {}), "failed", "out of order"),
        ((200, {"error": "out of order"}, {}), "failed", "out of order"),
        ((500, {"error": MODERATED}, AT_ONCE), "refused", "moderation_blocked"),
        ((451, {"error": MODERATED}, {}), "refused", "moderation_blocked"),
        ((200, b"<html>gateway</html>", {"Content-Type": "text/html"}), "failed", "gateway"),
    ],
)
def test_what_the_model_says_is_heard_through_any_status(answer, status, words):
    results, _ = draw(lambda number, asked: answer, REQUESTS[:1], retries=0)
    assert results["1"].status == status
    assert words in results["1"].reason


def test_a_proxys_page_is_no_refusal_of_the_model():
    page = b"<html>blocked by the content filter of this house</html>"
    with raises(ModelError, code=Code.REFUSED):
        draw(lambda number, asked: (403, page, {"Content-Type": "text/html"}), retries=0)


@pytest.mark.parametrize("place", ["revised", "error", "refusal"])
def test_words_of_a_server_are_stored_without_the_key_and_without_halves_of_characters(tmp_path, place):
    words = f"{KEY} \x1b[31m a \ud83d cut emoji"

    def behaviour(number, asked):
        if number % 2:
            return drawn(asked)
        if place == "revised":
            status, body, headers = drawn(asked)
            return status, {**body, "data": [{**body["data"][0], "revised_prompt": words}]}, headers
        return error(400 if place == "refusal" else 500, "moderation_blocked" if place == "refusal" else None, words)

    suite = toy_suite(target=2, attribute=1, concepts=2)
    with ImageServer(behaviour) as server:
        run = quick.audit(connect(server, retries=0), suite, tmp_path / "run", encoder=Eye(), budget=1.0)
    reasons = run.samples.reason.dropna()
    assert len(reasons)
    for reason in reasons:
        assert "cut emoji" in reason
        assert KEY not in reason
        assert reason.isprintable()


def test_servers_of_one_host_are_not_one_model():
    def fingerprint(url):
        return load("model", price=0, base_url=url).card.fingerprint

    places = ("http://localhost:1/v1", "http://localhost:2/v1", "http://localhost:1/other/v1")
    assert len(set(map(fingerprint, places))) == 3
    assert fingerprint("http://me:password@localhost:1/v1/") == fingerprint(places[0])


def test_a_key_that_ends_with_a_line_is_taken_without_it_and_none_that_no_header_holds(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    with ImageServer() as server:
        (result,) = connect(server).generate(REQUESTS[:1])
        assert (result.status, server.asked[0]["key"]) == ("ok", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", "clé")
    with raises(ModelError, code=Code.MALFORMED) as caught:
        load("model", price=0)
    assert "clé" not in str(caught.value)


def test_a_part_holds_all_that_is_asked_for_at_once():
    assert load("model", price=0).batch_size == 8
    assert load("model", price=0, concurrency=32).batch_size == 64


def by_address(lying, **options):
    """The one image of a server that tells where it lies; and how often it was fetched."""
    with ImageServer() as server:
        server.lying = lying
        server.behaviour = lambda number, asked: (200, {"created": 1, "data": [{"url": f"{server.root}/a.png"}]}, {})
        (result,) = connect(server, **options).generate(REQUESTS[:1])
        assert len(server.asked) == 1  # asked once, however often it is fetched: each answer is paid for
    return result, server.fetched


def test_an_image_may_come_by_address():
    result, fetched = by_address(lambda number: (200, png("by address", 1), {}))
    assert np.array_equal(np.asarray(result.image), np.asarray(paint("by address", 1)))
    assert fetched == 1


BROKEN_OFF = (200, png("by address", 1)[:60], {"Content-Length": str(len(png("by address", 1)))})


@pytest.mark.parametrize("bad", [(503, {}, {}), (429, {}, {}), None, BROKEN_OFF])
def test_an_image_that_is_paid_for_is_fetched_again(bad):
    result, fetched = by_address(lambda number: bad if number < 3 else (200, png("by address", 1), {}), retries=2)
    assert (result.status, fetched) == ("ok", 3)


@pytest.mark.parametrize(("bad", "times"), [((503, {}, {}), 2), ((404, {}, {}), 1)])
def test_an_image_that_cannot_be_fetched_fails_with_its_reason(bad, times):
    result, fetched = by_address(lambda number: bad, retries=1)
    assert (result.status, fetched) == ("failed", times)
    assert f"HTTP Error {bad[0]}" in result.reason


@pytest.mark.parametrize(
    ("answer", "code", "message"),
    [
        (
            error(401, "invalid_api_key", f"Incorrect API key provided: {KEY}"),
            Code.REFUSED,
            r"invalid_api_key.*OPENAI_API_KEY",
        ),
        (error(404, "model_not_found", "no such model"), Code.REFUSED, "model_not_found: no such model"),
        (error(400, "invalid_value", "size is not one of"), Code.REFUSED, "invalid_value: size is not one of"),
        (error(403, "unsupported_country", "not here"), Code.REFUSED, "unsupported_country"),
        (error(429, "insufficient_quota", "no credit left", **AT_ONCE), Code.REFUSED, "insufficient_quota.*add credit"),
        (
            error(429, None, "no credit left", "insufficient_quota", **AT_ONCE),
            Code.REFUSED,
            "no credit left; add credit",
        ),
        (error(402, None, "no credit left"), Code.REFUSED, "no credit left; add credit"),
        (error(405, None, "no such method"), Code.UNREACHABLE, "the server's address"),
    ],
)
def test_what_no_request_can_get_past_ends_the_run(answer, code, message):
    with raises(ModelError, code=code, match=message) as caught:
        draw(lambda number, asked: answer, retries=1)
    assert KEY not in str(caught.value)


def test_the_key_is_written_nowhere(tmp_path):
    def behaviour(number, asked):
        bad = number % 5 == 0
        return error(500, None, f"the key {KEY} is fine", **AT_ONCE) if bad else drawn(asked)

    with ImageServer(behaviour) as server:
        run = quick.audit(
            connect(server, retries=0), toy_suite(target=2, attribute=1, concepts=2), tmp_path / "run",
            encoder=Eye(), budget=1.0,
        )  # fmt: skip
    assert (run.samples.status == "failed").any()
    for folder, _, files in os.walk(tmp_path):
        for file in files:
            with open(os.path.join(folder, file), "rb") as stream:
                assert KEY.encode() not in stream.read()


@pytest.mark.parametrize(
    ("options", "code", "field", "message"),
    [
        ({"price": None}, Code.MISSING, "price", "found none"),
        ({"price": -1}, Code.MISSING, "price", "found -1"),
        ({"height": 64}, Code.CONFLICT, ("height", "width"), "expected both or none"),
        ({"concurrency": 0}, Code.OUT_OF_RANGE, "concurrency", "found 0"),
        ({"price": float("nan")}, Code.MISSING, "price", "found nan"),
        ({"price": float("inf")}, Code.MISSING, "price", "found inf"),
        ({"requests_per_minute": -5}, Code.OUT_OF_RANGE, "requests_per_minute", "found -5"),
        ({"timeout": 0}, Code.OUT_OF_RANGE, "timeout", "found 0"),
        ({"base_url": "localhost:8000/v1"}, Code.MALFORMED, "base_url", "not a web address"),
        ({"base_url": "http://user:password@[::1/v1"}, Code.MALFORMED, "base_url", "not a web address"),
        ({"base_url": "http://localhost:port/v1"}, Code.MALFORMED, "base_url", "not a web address"),
    ],
)
def test_settings_that_do_not_fit(options, code, field, message):
    with raises(ModelError, code=code, field=field, match=message):
        load("gpt-image-1", **({"price": 1} | options))


def test_no_model_and_no_key(monkeypatch):
    with raises(ModelError, code=Code.MISSING, match="write openai:MODEL"):
        load("", price=1)
    monkeypatch.delenv("OPENAI_API_KEY")
    with raises(ModelError, code=Code.MISSING, match="set OPENAI_API_KEY"):
        load("gpt-image-1", price=1)
    load("anything", price=0, base_url="http://127.0.0.1:1/v1")  # a server of one's own may need none


def test_it_is_loaded_by_its_name():
    card = load_generator("openai:dall-e-2", price=0.02).card
    json.dumps(dataclasses.asdict(card))
    assert (card.name, card.family, card.settings["server"]) == ("dall-e-2", "openai-images/1", "api.openai.com")
    assert load_generator("openai:dall-e-2", price=0.03).card.fingerprint == card.fingerprint
    assert load_generator("openai:dall-e-2", price=0.02, quality="hd").card.fingerprint != card.fingerprint


def test_the_pace_is_kept():
    pace, started = Pace(60 / 0.03), time.monotonic()
    for _ in range(5):
        pace.wait()
    assert time.monotonic() - started >= 0.119


def test_once_it_is_stopped_nothing_more_is_asked_for():
    with ImageServer() as server:
        results = connect(server, requests_per_minute=300).generate(REQUESTS)
        next(results)
        results.close()
        time.sleep(0.7)  # three more waited for their moment
        assert len(server.asked) == 1


# --- in a run ------------------------------------------------------------------------------------------------------


def test_a_total_is_asked_for_before_anything_is_spent(tmp_path):
    suite = toy_suite(target=4, attribute=1, concepts=2)  # 2 · 4 + 6 · 1 = 14 images
    with ImageServer() as server:
        generator = connect(server)
        with raises(
            ModelError,
            code=Code.OVER_BUDGET,
            match=r"14 images at 0\.04 .* cost 0\.56, found no budget; give --budget 0\.56",
        ):
            quick.audit(generator, suite, tmp_path / "run", encoder=Eye())
        with raises(ModelError, code=Code.OVER_BUDGET, match=r"found a budget of 0\.5"):
            quick.audit(generator, suite, tmp_path / "run", encoder=Eye(), budget=0.5)
        assert server.asked == []
        quick.audit(generator, suite, tmp_path / "run", encoder=Eye(), budget=0.56)
        assert len(server.asked) == 14
        quick.audit(generator, suite, tmp_path / "run", encoder=Eye())  # nothing is left to pay for
        assert len(server.asked) == 14


@pytest.mark.parametrize(("price", "total"), [(0.0004, "0.01"), (0.1, "1.40"), (0.7, "9.80"), (0.0033, "0.05")])
def test_the_total_that_is_asked_for_is_enough(tmp_path, price, total):
    asked = {"suite": toy_suite(target=4, attribute=1, concepts=2), "out": tmp_path / "run", "encoder": Eye()}
    with ImageServer() as server:
        generator = connect(server, price=price)
        with raises(ModelError, code=Code.OVER_BUDGET, match=f"14 images .*; give --budget {total} or more"):
            quick.audit(generator, **asked)
        with raises(InvalidInputError, code=Code.NOT_FINITE, field="budget", match="found nan"):
            quick.audit(generator, **asked, budget=float("nan"))
        quick.audit(generator, **asked, budget=float(total))
    assert len(server.asked) == 14


def test_a_stopped_run_pays_for_the_rest_only(tmp_path):
    suite = toy_suite(target=6, attribute=1, concepts=2)  # 18 images: parts of 8, 8 and 2

    def no_credit_left(number, asked):
        return error(429, "insufficient_quota", "no credit left", **AT_ONCE) if number > 12 else drawn(asked)

    with ImageServer(no_credit_left) as server:
        generator = connect(server, retries=0, send_seed=True)
        with raises(ModelError, code=Code.REFUSED, match="add credit"):
            quick.audit(generator, suite, tmp_path / "run", encoder=Eye(), budget=1.0)
        server.behaviour = lambda number, asked: drawn(asked)
        with raises(ModelError, code=Code.OVER_BUDGET, match=r"6 images .* cost 0\.24"):
            quick.audit(generator, suite, tmp_path / "run", encoder=Eye(), budget=0.1)
        server.asked.clear()
        run = quick.audit(generator, suite, tmp_path / "run", encoder=Eye(), budget=0.24)
        assert len(server.asked) == 6
        whole = quick.audit(generator, suite, tmp_path / "whole", encoder=Eye(), budget=1.0)
    assert list(run.samples.sha256) == list(whole.samples.sha256)
    assert not run.directory.names("unfinished", ".parquet")


def test_little_credit_at_a_time_finishes_a_run(tmp_path):
    credit = [5]

    def until_dry(number, asked):
        if not credit[0]:
            return error(402, None, "no credit left")
        credit[0] -= 1
        return drawn(asked)

    suite = toy_suite(target=4, attribute=1, concepts=2)  # 14 images, in parts of 8 and 6
    with ImageServer(until_dry) as server:
        audit = {"suite": suite, "out": tmp_path / "run", "encoder": Eye()}
        for budget in (0.56, 0.36):
            with raises(ModelError, code=Code.REFUSED, match="no credit left; add credit"):
                quick.audit(connect(server, concurrency=1), **audit, budget=budget)
            credit[0] = 5
        run = quick.audit(connect(server, concurrency=1), **audit, budget=0.16)
    assert (run.samples.status == "ok").all()
    assert list(run.samples.id) == [sample.id for sample in run.plan]


def test_what_is_under_way_when_a_run_ends_is_waited_for_and_kept(tmp_path):
    def behaviour(number, asked):
        return error(402, None, "no credit left") if number == 4 else slowly(0.2)(number, asked)

    suite = toy_suite(target=4, attribute=1, concepts=2)
    with ImageServer(behaviour) as server:
        with raises(ModelError, code=Code.REFUSED, match="no credit left"):
            quick.audit(connect(server), suite, tmp_path / "run", encoder=Eye(), budget=1.0)
        assert len(server.asked) == 4
        with raises(ModelError, code=Code.OVER_BUDGET, match="11 images"):
            quick.audit(connect(server), suite, tmp_path / "run", encoder=Eye())


def test_a_prompt_that_the_server_does_not_take_keeps_no_run_from_its_end(tmp_path):
    suite = toy_suite(target=4, attribute=1, concepts=2)
    with ImageServer(not_taken("old others")) as server:
        audit = {"suite": suite, "out": tmp_path / "run", "encoder": Eye(), "budget": 1.0}
        quick.audit(connect(server), **audit)
        run = quick.audit(connect(server), **audit, retry_failed=True)  # its first request, of a run with images
    assert run.samples.status.value_counts().to_dict() == {"ok": 13, "failed": 1}


def test_an_image_of_a_part_that_was_stopped_shows_that_the_settings_are_right(tmp_path):
    suite = toy_suite(target=4, attribute=1, concepts=2)
    with ImageServer(
        lambda number, asked: drawn(asked) if number < 6 else error(402, None, "no credit left")
    ) as server:
        audit = {"suite": suite, "out": tmp_path / "run", "encoder": Eye(), "budget": 1.0}
        with raises(ModelError, code=Code.REFUSED, match="no credit left"):
            quick.audit(connect(server, concurrency=1), **audit)
        server.behaviour = not_taken("lean 0.80")  # what is missing of the first part
        run = quick.audit(connect(server, concurrency=1), **audit)
    assert run.samples.status.value_counts().to_dict() == {"ok": 11, "failed": 3}


def test_failed_images_alone_are_paid_for_again_and_only_within_the_budget(tmp_path):
    def behaviour(number, asked):
        if asked["prompt"].endswith("others"):
            return error(500, None, "out of order")
        return error(400, "moderation_blocked", "no") if asked["prompt"].endswith("women") else drawn(asked)

    suite = toy_suite(target=4, attribute=1, concepts=2)  # 14 images, of which 2 fail and 2 are refused
    with ImageServer(behaviour) as server:
        audit = {"model": connect(server, retries=0), "suite": suite, "out": tmp_path / "run", "encoder": Eye()}
        before = quick.audit(**audit, budget=1.0).samples.set_index("id")
        assert before.status.value_counts().to_dict() == {"ok": 10, "failed": 2, "refused": 2}
        # Other images than before: OpenAI takes no seed.
        server.behaviour = lambda number, asked: drawn(asked | {"seed": number})
        server.asked.clear()
        with raises(ModelError, code=Code.OVER_BUDGET, match=r"2 images at 0\.04 each cost 0\.08, found no budget"):
            quick.audit(**audit, retry_failed=True)
        assert cm.open_run(tmp_path / "run").samples.set_index("id").equals(before)
        run = quick.audit(**audit, retry_failed=True, budget=0.08)
    assert sorted(each["prompt"] for each in server.asked) == ["old others", "young others"]  # two at once
    after = run.samples.set_index("id")
    assert after[before.status != "failed"].equals(before[before.status != "failed"])
    assert after.status.value_counts().to_dict() == {"ok": 12, "refused": 2}
    assert list(after.index) == [sample.id for sample in run.plan]


def test_a_retry_that_is_stopped_keeps_what_was_paid_for(tmp_path):
    suite = toy_suite(target=4, attribute=1, concepts=2)
    with ImageServer(lambda number, asked: error(500, None, "no") if number == 3 else drawn(asked)) as server:
        audit = {"model": connect(server, retries=0), "suite": suite, "out": tmp_path / "run", "encoder": Eye()}
        quick.audit(**audit, budget=1.0)
        server.behaviour = lambda number, asked: error(429, "insufficient_quota", "no credit left")
        with raises(ModelError, code=Code.REFUSED, match="add credit"):
            quick.audit(**audit, retry_failed=True, budget=1.0)
        server.behaviour = lambda number, asked: drawn(asked)
        server.asked.clear()
        run = quick.audit(**audit, retry_failed=True, budget=0.04)
    assert len(server.asked) == 1
    assert (run.samples.status == "ok").all()
