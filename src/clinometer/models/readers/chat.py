"""Chat endpoints as readers of images and writers of questions: OpenAI's own, vLLM's, OpenRouter's, and many others.

The official client does the talking. The answer is asked for as JSON of a schema, of a closed question one whose only
values are the options; where a server takes no schema, it is asked in words, and what it says is read strictly: it is
one of the options, or a few words of an open question, or there is no answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from clinometer.errors import ModelError
from clinometer.models.images import encode_png
from clinometer.models.openai import (
    ErrorInAnswer,
    Pace,
    connect,
    error_line,
    is_refusal,
    raise_if_final,
    require_terms,
    server_of,
)
from clinometer.models.openai.guarded_http import AnswerRefusedError
from clinometer.models.protocols import Card
from clinometer.models.readers import ASKED_OPENLY, Question, Reading, open_reading
from clinometer.models.weights import describe, in_one_line

if TYPE_CHECKING:
    from PIL.Image import Image

ASKED: Final = "{question}\nAnswer with exactly one of these, in these words: {options}."
AS_JSON: Final = '\nAnswer in JSON, as {{"answer": "…"}}.'
FAMILY: Final = "openai-chat/1"
TEMPLATES: Final = {
    "prompt_sha256": hashlib.sha256((ASKED + AS_JSON).encode()).hexdigest(),
    "open_prompt_sha256": hashlib.sha256((ASKED_OPENLY + AS_JSON).encode()).hexdigest(),
}
"""Of the card: hashes of how questions are put, before a question's own words come in."""

MOST_TOKENS: Final = 200
"""Of an answer: an essay is cut off, and is no answer."""

MOST_WRITTEN: Final = 2_000
"""Of what it writes."""


class ChatReader:
    """Reads by asking a server, one image a request; several are under way at once.

    Parameters
    ----------
    client : the official client.
    card : what it is.
    arguments : further arguments of every request: model, temperature.
    price_per_image : of one answer, in any one currency; 0 for a server of one's own.
    concurrency : requests under way at once.
    requests_per_minute : the pace; None leaves it to the server's 429.
    """

    def __init__(
        self, client: Any, card: Card, *, arguments: dict[str, Any], price_per_image: float, concurrency: int = 4,
        requests_per_minute: float | None = None,
    ) -> None:  # fmt: skip
        self.card, self.price_per_image = card, price_per_image
        self.batch_size = max(8, 2 * concurrency)
        self._client, self._arguments, self._concurrency = client, arguments, concurrency
        self._pace, self._takes_schema, self._has_answered = Pace(requests_per_minute), True, False

    def offers(self, question: Question) -> tuple[str, ...]:
        """Name every option; it answers open questions too."""
        return () if question.is_open else tuple(question.options)

    def read(self, images: Sequence[Image], question: Question) -> list[Reading]:
        """Read each image.

        A refusal, an answer that is none of the options, and what stays impossible after the client's own attempts have
        no answer, with the reason.

        Raises
        ------
        ModelError
            The server takes no request: the key, the model's name, a setting, or the account's quota. Answers that came
            before are paid for, so they are given, and the next call raises it.
        """
        logs: list[list[str]] = [[] for _ in images]
        readings = self._all(
            [partial(self._answer, image, question, log) for image, log in zip(images, logs, strict=True)]
        )
        return [
            replace(reading, prompt_sha256=log[-1] if log else None)
            for reading, log in zip(readings, logs, strict=True)
        ]

    def write(self, prompts: Sequence[str], name: str, properties: dict[str, Any]) -> list[Reading]:
        """Have each prompt answered in JSON of these properties, or in whatever words come; no image is sent.

        The answer of a reading is what was said, unparsed; it has a reason as one of :meth:`read` has.

        Raises
        ------
        ModelError
            As of :meth:`read`.
        """
        return self._all([partial(self._ask_in_words, prompt, name, properties) for prompt in prompts])

    def _all(self, asks: Sequence[Callable[[], Reading]]) -> list[Reading]:
        stopped, error = threading.Event(), None
        readings = []
        with ThreadPoolExecutor(self._concurrency) as pool:
            try:
                for each in [pool.submit(self._one, ask, stopped) for ask in asks]:
                    try:
                        readings.append(each.result())
                    except ModelError as raised:
                        error = error or raised
                        readings.append(Reading(None, reason=f"failed: {raised}"))
            finally:
                stopped.set()
        if error is not None and all((each.reason or "").startswith("failed: ") for each in readings):
            raise error
        return readings

    def _one(self, ask: Callable[[], Reading], stopped: threading.Event) -> Reading:
        import openai

        if self._pace.wait(stopped):
            return Reading(None, reason="failed: it was not asked")
        try:
            answer = ask()
        except openai.APIStatusError as error:
            try:
                return self._unsuccessful(error)
            except ModelError:
                stopped.set()  # here, so that no other request begins
                raise
        except AnswerRefusedError as error:
            return Reading(None, reason=f"failed: {in_one_line(str(error), 300)}")
        except Exception as error:  # no connection, or a malformed answer: many kinds
            return Reading(None, reason=f"failed: {describe(error)}")
        self._has_answered = True
        return answer

    def _answer(self, image: Image, question: Question, log: list[str]) -> Reading:
        """Answer a question of a picture: exactly one of the options, by JSON or by itself, or no answer."""
        properties: dict[str, Any] = {"answer": {"type": "string"}}
        if not question.is_open:
            properties["answer"]["enum"] = list(question.options.values())
        coded = base64.b64encode(encode_png(image)).decode()
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{coded}"}}
        answer = self._said("reading", properties, prompts_of(question), picture=picture, log=log)
        said, finish, reason = said_in(answer)
        if reason:
            return Reading(None, reason=reason)
        words = in_one_line(said, 300)
        told = _unfence(said)
        try:
            held = json.loads(told)
            told = str(held["answer"]) if isinstance(held, dict) else str(held)
        except (ValueError, KeyError):
            if question.is_open and told.startswith("{"):
                cut = "it was cut off" if finish == "length" else "it is no JSON of the form that was asked for"
                return Reading(None, words=words, reason=f"unread: {cut}")
        if question.is_open:
            return open_reading(told, cut=finish == "length")
        meant = {text.casefold(): key for key, text in question.options.items()}
        meant |= {name: each.group for each in question.answers for name in each.names}
        key = meant.get(re.sub(r"^[\s\W]+|[\s\W]+$", "", told).casefold())
        if key is None:
            cut = "it was cut off" if finish == "length" else "it is none of the options"
            return Reading(None, words=words, reason=f"unread: {cut}" if said else "unread: an empty answer")
        return Reading(key, words=words)

    def _ask_in_words(self, prompt: str, name: str, properties: dict[str, Any]) -> Reading:
        said, finish, reason = said_in(self._said(name, properties, (prompt, prompt), max_tokens=MOST_WRITTEN))
        if not reason and (not said or finish == "length"):
            reason = "unread: it was cut off" if said else "unread: an empty answer"
        return Reading(None if reason else _unfence(said), words=in_one_line(said, 300), reason=reason or None)

    def _said(
        self, name: str, properties: dict[str, Any], prompts: tuple[str, str], *, picture: dict[str, Any] | None = None,
        log: list[str] | None = None, **further: Any,
    ) -> Any:  # fmt: skip
        """Ask by a schema, with the first prompt, and in words alone from then on where the server takes none.

        The hash of every prompt that is sent is added to ``log``.
        """
        import openai

        def ask(prompt: str, **form: Any) -> Any:
            if log is not None:
                log.append(hashlib.sha256(prompt.encode()).hexdigest())
            content = prompt if picture is None else [{"type": "text", "text": prompt}, picture]
            arguments = self._arguments | further | form
            return self._client.chat.completions.create(messages=[{"role": "user", "content": content}], **arguments)

        schema = {
            "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
        }  # fmt: skip
        wanted = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}
        if self._takes_schema:
            try:
                return ask(prompts[0], response_format=wanted)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                if is_refusal(error) or not re.search("response_format|json_schema|schema|structured", str(error)):
                    raise
                self._takes_schema = False
        return ask(prompts[1])

    def _unsuccessful(self, error: Any) -> Reading:
        """Read an answer with a status of its own.

        Raises
        ------
        ModelError
            No request gets past it.
        """
        import openai

        line = error_line(error)
        if is_refusal(error):
            return Reading(None, reason=f"refused: {line}")
        raise_if_final(error, self.card.name)
        not_taken = (openai.BadRequestError, openai.UnprocessableEntityError, openai.PermissionDeniedError)
        if isinstance(error, not_taken) and not self._has_answered:
            raise ModelError(f"{self.card.name}: {line}; nothing is read yet, so a setting is at fault") from None
        return Reading(None, reason=f"failed: {line}")


def prompts_of(question: Question) -> tuple[str, str]:
    """Write what is sent beside a picture: to a server that takes a schema, and to one that takes none."""
    wording = ASKED_OPENLY if question.is_open else ASKED
    options = "; ".join(question.options.values())
    with_form, alone = (
        (wording + form).format(question=question.text, options=options) for form in (AS_JSON, "")
    )  # fmt: skip
    return with_form, alone


def unknown_prompts(card: Mapping[str, Any], question: Question, hashes: Collection[str]) -> set[str]:
    """Find the hashes of prompts that a reader with this card does not send when it is asked this question.

    None of a reader whose wording is another version's, or that sends no prompt that is known here.
    """
    settings = card.get("settings", {})
    template = "open_prompt_sha256" if question.is_open else "prompt_sha256"
    if card.get("family") != FAMILY or settings.get(template) != TEMPLATES[template]:
        return set()
    return {*hashes} - {hashlib.sha256(prompt.encode()).hexdigest() for prompt in prompts_of(question)}


def said_in(answer: Any) -> tuple[str, str, str]:
    """Take what a server said out of its answer, why it ended, and the reason where there is nothing to take.

    A gateway may say that all is well and put the model's error in place of the choices, or into one.
    """
    choices = getattr(answer, "choices", None)
    body = getattr(choices[0] if choices else answer, "error", None)
    if body:
        error = ErrorInAnswer(body)
        return "", "", f"{'refused' if is_refusal(error) else 'failed'}: {error_line(error)}"
    if not choices or getattr(choices[0], "message", None) is None:
        return "", "", "failed: malformed answer: it holds no choice"
    message, finish = choices[0].message, str(choices[0].finish_reason or "")
    if getattr(message, "refusal", None):
        return "", finish, f"refused: {in_one_line(str(message.refusal), 300)}"
    if finish in ("content_filter", "refusal", "safety"):
        return "", finish, "refused: the server's filter held the answer back"
    content = message.content
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    return str(content or "").strip(), finish, ""


def _unfence(said: str) -> str:
    fenced = re.fullmatch(r"```(?:json)?\s*(.*?)\s*```", said, re.DOTALL)
    return said if fenced is None else fenced[1]


def load(
    source: str,
    *,
    price: float | None = None,
    base_url: str | None = None,
    temperature: float | None = 0.0,
    concurrency: int = 4,
    requests_per_minute: float | None = None,
    retries: int = 6,
    timeout: float = 180.0,
    device: str | None = None,
    name: str | None = None,
) -> ChatReader:
    """Connect to a chat endpoint for answers of the model ``source``, such as ``gpt-4o-mini``.

    Parameters
    ----------
    price : of one answer, picture and words, as the server's price list has it; 0 for a server of one's own.
    base_url : the server; None is OpenAI's own, or ``OPENAI_BASE_URL``.
    temperature : 0 asks for the most probable answer; None leaves it out, for models that take none.
    concurrency, requests_per_minute : how fast to ask.
    retries, timeout : attempts after the first, with growing pauses; seconds for each.
    device : no meaning here; the server has its own.
    name : the name in the card.

    Raises
    ------
    ModelError
        The package openai, the key or the price is missing, or a setting does not fit.
    """
    price = require_terms(
        source, like="openai:gpt-4o-mini", price=price, of="one answer", concurrency=concurrency, retries=retries,
        timeout=timeout, requests_per_minute=requests_per_minute,
    )  # fmt: skip
    client, _ = connect(base_url, retries, timeout, ())
    settings: dict[str, Any] = {
        "model": source,
        "server": server_of(str(client.base_url)),
        "temperature": temperature,
        "max_tokens": MOST_TOKENS,
        **TEMPLATES,
    }
    arguments = {"model": source, "max_tokens": MOST_TOKENS}
    if temperature is not None:
        arguments["temperature"] = temperature
    card = Card(
        kind="reader", name=name or source, family=FAMILY, settings=settings,
        notes={"price_per_image": price, "cannot": "a server may change what stands behind a model's name"},
    )  # fmt: skip
    return ChatReader(
        client, card, arguments=arguments, price_per_image=price, concurrency=concurrency,
        requests_per_minute=requests_per_minute,
    )  # fmt: skip
