"""Replies are sorted by what they are: the same answer in every place where servers put it, over HTTP and by itself."""

import base64
import json
from importlib.util import find_spec

import numpy as np
import pytest

from clinometer.errors import Code
from clinometer.models import GenerationRequest
from clinometer.models.openai import chat as chat_images
from clinometer.models.openai import images
from clinometer.models.openai.replies import sort_reply
from clinometer.models.readers import Answer, Question, answer_in, chat, option_in
from tests.models.openai.image_server import ImageServer, error, png
from tests.raising import raises
from tests.toys import paint

pytestmark = pytest.mark.skipif(not find_spec("openai"), reason="openai is not installed")

REQUEST = GenerationRequest("1", "lean 0.10", 1)
FILE = png("lean 0.10", 1)
CODED = base64.b64encode(FILE).decode()
OTHER = base64.b64encode(png("no", 3)).decode()
LINES = base64.encodebytes(FILE).decode()
URI = f"data:image/png;base64,{CODED}"
GENDER = Question("gender", "Who is it?", (Answer("woman", "a woman"), Answer("man", "a man")))
HAT = Question("hat", "What does the person wear on the head?")


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")
    monkeypatch.setenv("GEMINI_API_KEY", "gemini-secret-of-tests")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def said(content, finish="stop", **more):
    return {"choices": [{"index": 0, "message": {"role": "assistant", "content": content} | more,
                         "finish_reason": finish}]}  # fmt: skip


def streamed(*events, done=True):
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n" if done else ""])


def delta(text, finish=None, **more):
    return {"choices": [{"index": 0, "delta": {"content": text} | more, "finish_reason": finish}]}


def answer(body, kind="application/json"):
    content = body if isinstance(body, str) else json.dumps(body)
    return lambda number, asked: (200, content.encode(), {"Content-Type": kind})


def draw(behaviour, load=chat_images.load, lying=None, **options):
    with ImageServer(behaviour) as server:
        server.lying = lying or server.lying
        if isinstance(behaviour, str):
            server.behaviour = answer(behaviour.replace("ROOT", server.root))
        model = load("painter", **({"price": 0, "base_url": server.url, "retries": 0} | options))
        (result,) = model.generate([REQUEST])
    return result, server


def read(behaviour, question=GENDER, **options):
    with ImageServer(behaviour) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, **options)
        return reader.read([paint("x", 1)], question)[0], server.asked, reader


def of_responses(*output, **more):
    return {"object": "response", "status": "completed", "error": None, "text": {"format": {"type": "text"}},
            "output": list(output)} | more  # fmt: skip


IMAGE_CALL = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": CODED}
SHOWN = {
    "a data URI as the content": said(URI),
    "Markdown": said(f"Here you are:\n\n![lean]({URI})\n\nEnjoy."),
    "Markdown in lines": said(f"![lean](data:image/png;base64,{LINES})"),
    "HTML": said(f'<img alt="lean" src="{URI}" />'),
    "base64 as the content": said(CODED),
    "base64 in lines as the content": said(LINES),
    "JSON as the content": said(json.dumps({"image": CODED, "text": "Here it is."})),
    "behind thoughts": said(f"<think>I draw ![no](https://example.org/no.png).</think>![yes]({URI})"),
    "beside the content": said("Here.", images=[{"type": "image_url", "image_url": {"url": URI}}]),
    "LiteLLM": said("Here.", image={"url": URI, "detail": "auto"}),
    "Ollama": {"message": {"role": "assistant", "content": "", "images": [CODED]}, "done": True, "done_reason": "stop"},
    "parts": said([{"type": "text", "text": "Here."}, {"type": "image_url", "image_url": {"url": URI}}]),
    "parts of Anthropic": {"type": "message", "role": "assistant", "stop_reason": "end_turn", "content": [
        {"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Here."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": CODED}}]},
    "parts of a tool": said([{"type": "tool_result", "content": [{"type": "image", "data": CODED,
                                                                  "mimeType": "image/png"}]}]),
    "parts of a gateway": said("", multi_mod_content=[{"inline_data": {"mime_type": "image/png", "data": CODED}}]),
    "Gemini": {"candidates": [{"content": {"parts": [
        {"text": "Hm.", "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": OTHER}, "thought": True},
        {"inlineData": {"mimeType": "image/png", "data": CODED}}]}, "finishReason": "STOP"}]},
    "Gemini in pieces": [{"candidates": [{"content": {"parts": [{"text": "Here."}]}}]}, {"candidates": [
        {"content": {"parts": [{"inlineData": {"mimeType": "image/png", "data": CODED}}]}, "finishReason": "STOP"}]}],
    "the Responses API": of_responses(
        {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I draw."}]}, IMAGE_CALL),
    "a tool of the Responses API": of_responses(
        {"type": "function_call_output", "output": json.dumps({"url": URI})},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here."}]}),
    "the images API": {"created": 1, "data": [{"b64_json": CODED}]},
    "a list of images": {"images": [CODED], "parameters": {"prompt": "lean"}, "info": "{}"},
    "a stream": streamed(delta("Here: ![a]("), delta(URI[:900]), delta(URI[900:] + ")"), delta("", "stop")),
    "a stream with images": streamed(delta("Here."), delta("", "stop", images=[{"image_url": {"url": URI}}])),
    "a stream of the Responses API": "event: response.image_generation_call.partial_image\n" + streamed(
        {"type": "response.image_generation_call.partial_image", "partial_image_b64": OTHER},
        {"type": "response.output_item.done", "item": IMAGE_CALL},
        {"type": "response.completed", "response": of_responses(IMAGE_CALL)}),
    "a stream of the images API": streamed(
        {"type": "image_generation.partial_image", "b64_json": OTHER},
        {"type": "image_generation.completed", "b64_json": CODED}),
    "lines of JSON": json.dumps({"message": {"content": "Here."}}) + "\n" + json.dumps({"image": CODED, "done": True}),
    "JSON with the end of a stream": json.dumps(said(URI)) + "\n\ndata: [DONE]\n\n",
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_is_found_wherever_it_is(name):
    body = SHOWN[name]
    kind = "text/event-stream" if isinstance(body, str) else "application/json"
    for load in (chat_images.load, images.load, chat_images.load_gemini):
        result, _ = draw(answer(body, kind), load)
        assert (result.status, result.reason) == ("ok", None)
        assert np.array_equal(np.asarray(result.image), np.asarray(paint("lean 0.10", 1)))


LINKED = {
    "Markdown": "![lean]({}/made)", "alone": "{}/made", "with an ending": "Done: {}/made.png?x=1.",
    "a link in a sentence": "Here is your image: {}/made.", "a Markdown link": "[Download]({}/made)",
    "HTML": "<img src='{}/made'>",
}  # fmt: skip


@pytest.mark.parametrize("name", LINKED)
def test_a_link_to_a_picture_is_followed(name):
    body = json.dumps(said(LINKED[name].format("ROOT")))
    result, server = draw(body, lying=lambda number: (200, FILE, {}))
    assert (result.status, result.reason, server.fetched) == ("ok", None, 1)
    for place in ({"image": "ROOT/made.png"}, {"type": "image_url", "image_url": {"url": "ROOT/made"}}):
        result, _ = draw(json.dumps({"output": said([place])}), lying=lambda number: (200, FILE, {}))
        assert result.status == "ok"


@pytest.mark.parametrize(
    "link", ["![a](http://127.0.0.2:9/a)", "http://169.254.169.254/a.png", "See http://127.0.0.2/a"]
)
def test_a_link_into_a_private_network_is_not_followed_and_no_refusal_of_the_model(link):
    result, _ = draw(answer(said(link)))
    assert result.status == "failed"
    assert "is not a public address; give --trusted-host" in result.reason


@pytest.mark.parametrize(
    "link", ["![a](ROOT/gone)", "ROOT/gone.png", "![a](file:///etc/hostname)", "![a](sandbox:/a.png)"]
)
def test_a_picture_that_is_not_there_has_failed(link):
    result, _ = draw(json.dumps(said(link)), lying=lambda number: (404, {}, {}))
    assert result.status == "failed"
    assert "404" in result.reason or "neither an image nor its address" in result.reason


def test_words_with_a_link_to_rules_stay_a_refusal():
    words = "I cannot draw that. See ROOT/policies for why."
    result, server = draw(json.dumps(said(words)), lying=lambda number: (200, b"<html>Rules</html>", {}), retries=3)
    assert (result.status, result.reason.startswith("I cannot draw that.")) == ("refused", True)
    down, server = draw(json.dumps(said(words)), lying=lambda number: (503, {}, {}), retries=3)
    assert (down.status, server.fetched) == ("refused", 1)


EVENTS = {
    "no image": ("failed", {"finishReason": "NO_IMAGE"}), "other": ("failed", {"finishReason": "IMAGE_OTHER"}),
    "neither": ("failed", {"finishReason": "STOP"}), "a filter": ("refused", {"finishReason": "IMAGE_SAFETY"}),
    "rules": ("refused", {"finishReason": "PROHIBITED_CONTENT"}),
}  # fmt: skip


@pytest.mark.parametrize("event", EVENTS)
def test_an_event_has_one_label_with_a_sentence_and_without(event):
    status, body = EVENTS[event]
    sentence = {"finishMessage": "Unable to show the generated image."}
    for more in ({}, sentence, *([] if event == "neither" else [{"content": {"parts": [{"text": "Sorry."}]}}])):
        result, _ = draw(answer({"candidates": [body | more]}), chat_images.load_gemini)
        assert result.status == status
    routed = said("Sorry.", body["finishReason"].lower())
    routed["choices"][0] |= {"finish_reason": "stop", "native_finish_reason": body["finishReason"]}
    if event != "neither":
        assert draw(answer(routed))[0].status == status


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (said("I will not."), "refused", "I will not."),
        (said("<think>They ask for people.</think>I will not."), "refused", "I will not."),
        (said("", reasoning_content="Should I?"), "failed", "malformed answer: it holds no image"),
        (said("<think>Should I?", "length"), "failed", "it ended with length"),
        (said("", "sensitive"), "refused", "sensitive"),
        (said("Calling it.", "tool_calls"), "failed", "it ended with tool_calls"),
        ({"content": [{"type": "text", "text": "I will not."}], "stop_reason": "end_turn"}, "refused", "I will not."),
        ({"content": [], "stop_reason": "refusal"}, "refused", "refusal"),
        (of_responses({"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}), "refused", "No."),
        (
            of_responses(status="incomplete", incomplete_details={"reason": "content_filter"}),
            "refused",
            "content_filter",
        ),
        (of_responses(status="failed", error={"code": "server_error", "message": "x"}), "failed", "server_error: x"),
        ({"data": [{"content_filter_results": {"violence": {"filtered": True}}}]}, "refused", "violence"),
        (streamed(delta("I will"), delta(" not."), delta("", "stop")), "refused", "I will not."),
        (streamed({"error": {"code": 502, "message": "upstream"}}), "failed", "502: upstream"),
        (streamed({"type": "error", "message": "overloaded"}), "failed", "overloaded"),
    ],
)
def test_what_is_no_picture_is_told_by_what_it_is(body, status, reason):
    result, _ = draw(answer(body))
    assert result.status == status
    assert reason in result.reason


@pytest.mark.parametrize(
    ("body", "status", "reason"),
    [
        (said(None, "content_filter: SAFETY"), "refused", "content_filter: SAFETY"),
        ({"id": "1", "status": "Request Moderated", "result": None}, "refused", "Request Moderated"),
        ({"finish_reasons": ["Filter reason: prompt"]}, "refused", "Filter reason: prompt"),
        ({"predictions": [{"raiFilteredReason": "It was blocked."}]}, "refused", "It was blocked."),
        ({"data": [{"url": None, "is_image_safe": False}]}, "refused", "safety checker flagged"),
        ({"code": "DataInspectionFailed", "message": "Inappropriate."}, "refused", "DataInspectionFailed: Inappr"),
        ({"error": {"code": "1301", "message": "系统检测到敏感内容"}}, "refused", "1301"),
        ({"detail": "Not enough memory"}, "failed", "Not enough memory"),
        ({"status": "queued", "id": "7"}, "failed", '{"status": "queued"'),
        (said('<svg xmlns="http://www.w3.org/2000/svg"></svg>'), "failed", "it drew in SVG"),
    ],
)
def test_what_servers_of_their_own_shape_say_is_sorted_too(body, status, reason):
    found, told = sort_reply(json.dumps(body)).without_image()
    assert (found, reason in told) == (status, True)


def test_a_picture_that_a_filter_blurred_is_a_refusal_and_one_that_it_flagged_is_flagged():
    blurred = {"artifacts": [{"base64": CODED, "finishReason": "CONTENT_FILTERED"}]}
    result, _ = draw(answer(blurred))
    assert (result.status, result.image, result.reason) == ("refused", None, "CONTENT_FILTERED")
    for word, values in (("has_nsfw_concepts", [True]), ("nsfw_content_detected", [False])):
        result, _ = draw(answer({"images": [CODED], word: values}))
        assert (result.status, result.flagged) == ("ok", values[0])
    lines = streamed(delta("Here: ![a]("), delta(URI + ")"), delta("", "stop")).replace("\n", "\r")
    assert sort_reply(lines).pictures == (URI,)
    assert sort_reply(json.dumps(said("", attachments=[{"type": "image", "url": URI}]))).pictures == (URI,)


# --- readers ----------------------------------------------------------------------------------------------------------

ANSWERED = {
    "a block of thoughts": "<think>A woman? No.</think>\n\na man",
    "two blocks": "<think>Hm.</think><think>A woman?</think>a man",
    "a bare end of thoughts": "It could be a woman.\n</think>\n\na man",
    "other tags": "[THINK]A woman?[/THINK]a man",
    "Kimi's": "◁think▷A woman?◁/think▷a man",
    "channels": "<|channel|>analysis<|message|>A woman?<|end|><|channel|>final<|message|>a man<|return|>",
    "JSON behind thoughts": '<think>{"answer": "a woman"}</think>{"answer": "a man"}',
    "a fence and a sentence": '```json\n{"answer": "a man"}\n```\nI chose it by the beard.',
    "a sentence and a fence": 'Here:\n```\n{"answer": "a man"}\n```',
    "a fence without JSON": "```text\na man\n```",
    "JSON in a sentence": 'I see {"answer": "a man"} here.',
    "a capital": '{"Answer": "A man"}',
    "capitals": '{"ANSWER": "a man"}',
    "a list": '{"answer": ["a man"]}',
    "a box": "The person has a beard. <|begin_of_box|>a man<|end_of_box|>",
    "JSON in a box": '<|begin_of_box|>{"answer": "a man"}<|end_of_box|>',
    "TeX": r"So it is $\boxed{\text{a man}}$.",
    "a tag": "<think>A woman?</think><answer> a man </answer>",
    "a label": "**Answer:** a man",
    "tokens of a template": "a man<|im_end|>",
    "many marks": "***a man***" + "!" * 50,
}


@pytest.mark.parametrize("name", ANSWERED)
def test_an_answer_is_found_in_what_a_model_says(name):
    reading, _, _ = read(answer(said(ANSWERED[name])))
    assert (reading.answer, reading.reason) == ("man", None)
    open_one, _, _ = read(answer(said(ANSWERED[name].replace("a man", "a hat"))), HAT)
    if name not in ("a capital", "many marks"):
        assert (open_one.answer, open_one.reason) == ("a hat", None)


WORDED = {
    "a sentence": "The person is a man.",
    "a sentence about the answer": "I think the answer is: **a man**.",
    "a number": "2. a man",
    "another colon": "Answer：a man",
    "wide letters": "ａ　ｍａｎ",
    "two lines": "a\nman",
    "a role": "assistant\n\na man",
    "HTML": "<p>a man</p>",
    "a hidden space": "a man\u200b",
    "single quotes": "{'answer': 'a man'}",
    "a key without quotes": "{answer: a man}",
    "a comma too many": '{"answer": "a man",}',
    "a remark": '{"answer": "a man" // by the beard\n}',
    "JSON without an end": '{"answer": "a man"',
    "a list alone": '["a man"]',
    "nested": '{"response": {"answer": {"value": "a man"}}}',
    "another key": '{"result": "a man"}',
    "JSON as a string": json.dumps('{"answer": "a man"}'),
    "the same twice": '{"answer": "a man"}\n{"answer": "a man"}',
}
AMBIGUOUS = (
    "a woman or a man", "not a man", "a man? no, a woman", "a man, not a woman", "It is not a man.", "a mango", "B",
    "{}", '{"answer": "a man"} {"answer": "a woman"}', '{"answer": ["a man", "a woman"]}', '{"answer": null}',
)  # fmt: skip


def meant(words, question=GENDER):
    return option_in(answer_in(words)[0], question.named)


def test_an_option_is_found_in_other_words_where_they_mean_no_other():
    assert {name: meant(words) for name, words in WORDED.items()} == dict.fromkeys(WORDED, "man")
    assert {words: meant(words) for words in AMBIGUOUS} == dict.fromkeys(AMBIGUOUS)
    hat = Question("hat", "Does the person wear a hat?", (Answer("hat", "yes"), Answer("bare", "no")))
    told = {"hat": ["Yes, on the head.", "true", '{"answer": true}', "Ja.", "是", "Sí"], "bare": ["No, none.", "нет"]}
    assert {group: {meant(words, hat) for words in each} for group, each in told.items()} == {g: {g} for g in told}
    middle = Question("age", "How old?", (Answer("middle", "a middle-aged person"), Answer("old", "an old person")))
    assert meant("A middle aged person, because of the hair", middle) == "middle"


def test_what_is_no_answer_to_an_open_question_is_told():
    for words, reason in (
        ("I'm sorry, I can't help with that.", "refused: I'm sorry"), ("Es tut mir leid.", "refused: "),
        ('{"answer": null}', "unread: an empty answer"), ("N/A", "unread: it says that the answer is missing (N/A)"),
    ):  # fmt: skip
        reading, _, _ = read(answer(said(words)), HAT)
        assert (reading.answer, reading.reason[: len(reason)]) == (None, reason)
    assert read(answer(said('{"answer": ["a hat", "glasses"]}')), HAT)[0].answer == "a hat, glasses"
    assert read(answer(said("I'm sorry, I can't tell.")))[0].reason.startswith("refused: ")


@pytest.mark.parametrize(
    "body",
    [
        said("a man", reasoning_content="A woman?"),
        said("a man", reasoning="A woman?", reasoning_details=[{"type": "reasoning.text", "text": "A woman?"}]),
        said([{"type": "reasoning", "text": "A woman?"}, {"type": "text", "text": "a "}, {"text": "man"}]),
        {"content": [{"type": "thinking", "thinking": "A woman?"}, {"type": "text", "text": "a man"}]},
        {"message": {"role": "assistant", "content": "a man", "thinking": "A woman?"}, "done": True},
        {"candidates": [{"content": {"parts": [{"text": "A woman?", "thought": True}, {"text": "a man"}]}}]},
        of_responses({"type": "reasoning", "summary": [{"type": "summary_text", "text": "A woman?"}]},
                     {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a man"}]}),
        streamed(delta("", reasoning_content="A woman?"), delta("a "), delta("man"), delta(None, "stop")),
        streamed({"choices": [{"delta": {"content": "a "}, "message": {"content": "a "}}]},
                 {"choices": [{"delta": {"content": "man"}, "message": {"content": "a man"}}]}),
        streamed({"type": "content_block_start", "content_block": {"type": "text", "text": ""}},
                 {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": "A woman?"}},
                 {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a man"}},
                 {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}, done=False),
        streamed({"type": "response.output_text.delta", "delta": "a man"},
                 {"type": "response.completed", "response": of_responses(
                     {"type": "message", "content": [{"type": "output_text", "text": "a man"}]})}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("question", [GENDER, HAT])
def test_thoughts_are_no_answers_wherever_they_are(body, question):
    reading, _, _ = read(answer(body, "text/event-stream" if isinstance(body, str) else "application/json"), question)
    assert reading.answer == ("man" if question is GENDER else "a man")


@pytest.mark.parametrize("question", [GENDER, HAT])
@pytest.mark.parametrize(
    "body",
    [
        said("<think>A man, or a", "length"),
        said("", "length", reasoning_content="A man, or a"),
        said("a man", "length"),
        said('```json\n{"answer": "a m', "length"),
        said("<|begin_of_box|>a man", "max_tokens"),
        {"candidates": [{"content": {"parts": [{"text": "A man", "thought": True}]}, "finishReason": "MAX_TOKENS"}]},
        {"content": [{"type": "text", "text": "a ma"}], "stop_reason": "max_tokens"},
        of_responses(status="incomplete", incomplete_details={"reason": "max_output_tokens"}),
        {"message": {"content": "a ma"}, "done": True, "done_reason": "length"},
    ],
)
def test_an_answer_that_was_cut_off_says_so(body, question):
    reading, _, _ = read(answer(body), question)
    assert reading.answer is None
    assert reading.reason.startswith("unread: it was cut off")


@pytest.mark.parametrize("content", ["<think>a hat", "a hat</think>", "<think>a hat</think>"])
def test_thoughts_alone_are_no_answer(content):
    reading, _, _ = read(answer(said(content)), HAT)
    assert (reading.answer, reading.reason) == (None, "unread: an empty answer")


# --- what servers refuse to be asked with -----------------------------------------------------------------------------

REFUSALS = {
    "max_tokens": "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' "
    "instead.",
    "temperature": "Unsupported value: 'temperature' does not support 0 with this model. Only the default (1) value is "
    "supported.",
    "max_completion_tokens": "Unrecognized request argument supplied: max_completion_tokens",
    "response_format": "response_format is not supported",
    "modalities": "No endpoints found that support the requested output modalities: image, text",
}


def picky(refused, then):
    """A server that refuses some arguments, the first that it meets each time."""

    def behaviour(number, asked):
        found = next((name for name in refused if name in asked), None)
        return (
            then if found is None else error(400, "unsupported_parameter", REFUSALS[found], **{"retry-after-ms": "1"})
        )

    return behaviour


@pytest.mark.parametrize(
    "refused",
    [["max_tokens"], ["temperature"], ["temperature", "max_tokens", "max_completion_tokens", "response_format"]],
)
def test_a_reader_asks_again_without_what_is_refused_and_remembers(refused):
    with ImageServer(picky(refused, (200, said('{"answer": "a man"}'), {}))) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, concurrency=1)
        assert [each.answer for each in reader.read([paint("x", 1)] * 3, GENDER)] == ["man"] * 3
        assert len(server.asked) == len(refused) + 3
        assert not any(name in each for each in server.asked[-3:] for name in refused)
        assert ("max_completion_tokens" in server.asked[-1]) is (refused == ["max_tokens"])
        assert reader.card.notes["asked"].startswith("asked without max_completion" if len(refused) > 1 else "asked")
        written = reader.write(["Write."], "proposals", {"answer": {"type": "string"}})
        assert (json.loads(written[0].answer), len(server.asked)) == ({"answer": "a man"}, len(refused) + 4)


def test_images_are_asked_for_again_without_what_is_refused():
    body = {"created": 1, "data": [{"b64_json": CODED}]}
    with ImageServer(picky(["response_format"], (200, body, {}))) as server:
        model = images.load("dall-e-9", price=0, base_url=server.url, retries=0, concurrency=1)
        results = list(model.generate([REQUEST] * 2))
        assert [(each.status, each.reason) for each in results] == [("ok", None)] * 2
        assert ["response_format" in each for each in server.asked] == [True, False, False]
    further = {"temperature": 0, "max_tokens": 50}
    refused = ["modalities", "temperature", "max_tokens"]
    result, server = draw(picky(refused, (200, said(URI), {})), further=further)
    assert result.status == "ok"
    assert result.reason == "asked without max_tokens, modalities, temperature, which the server does not take"
    assert len(server.asked) == 4


def test_a_setting_that_makes_another_image_is_never_left_out():
    told = error(400, "unsupported_parameter", "Unsupported parameter: 'size'")
    with raises(Exception, code=Code.REFUSED):
        draw(lambda number, asked: told, images.load, height=256, width=256)


def test_what_one_picture_is_refused_for_is_sent_with_the_next():
    def behaviour(number, asked):
        return error(400, None, "too long for max_tokens") if number <= 2 else (200, said('{"answer": "a man"}'), {})

    with ImageServer(lambda number, asked: (200, said('{"answer": "a man"}'), {})) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, concurrency=1)
        reader.read([paint("x", 1)], GENDER)
        server.behaviour = lambda number, asked: behaviour(number - 1, asked)
        first, second = reader.read([paint("x", 1)] * 2, GENDER)
    assert (first.answer, second.answer) == (None, "man")
    assert server.asked[-1]["max_tokens"] == chat.MOST_TOKENS


# --- time -------------------------------------------------------------------------------------------------------------


def test_the_deadline_of_a_request_covers_its_parsing(monkeypatch):
    from clinometer.models.openai import replies

    moments = iter([0.0] * 5 + [10.0] * 10**6)
    monkeypatch.setattr(replies, "monotonic", lambda: next(moments))
    with pytest.raises(replies.AnswerRefusedError, match="within the request's deadline"):
        sort_reply(json.dumps(said([{"type": "text", "text": "a"}] * 1000)), until=5.0)


@pytest.mark.parametrize(
    "words",
    [
        "```" + " " * 300_000 + "x",
        "a" + "!" * 300_000 + "a",
        "{" * 100_000,
        "<think>" * 40_000,
        '{"a": ' + "[" * 1_900,
        "{'a': [" + "&a [*a," * 200,
        "it is the " * 30_000,
        "a, " * 100_000,
    ],
)
def test_hostile_words_are_read_in_a_moment(words):
    answer_in(words)
    reading, _, _ = read(answer(said(words)), timeout=60)
    assert reading.answer is None
