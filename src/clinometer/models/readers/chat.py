"""Chat endpoints as readers of images and writers of questions: OpenAI's own, vLLM's, OpenRouter's, and many others.

The official client does the talking. The answer is asked for as JSON of a schema, of a closed question one whose only
values are the options; where a server takes no schema, it is asked in words, and what it says is read strictly: it is
one of the options, or a few words of an open question, or there is no answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from clinometer.errors import ModelError
from clinometer.models.images import encode_png
from clinometer.models.openai import (
    AnswerRefusedError,
    Arguments,
    Pace,
    connect,
    error_line,
    http_library,
    is_refusal,
    raise_if_final,
    require_terms,
    server_of,
)
from clinometer.models.openai.replies import Reply, reply_in
from clinometer.models.protocols import Card
from clinometer.models.readers import (
    ASKED_OPENLY,
    Question,
    Reading,
    ReadingStopped,
    answer_in,
    json_in,
    open_reading,
    option_in,
    refuses,
)
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
"""Hashes of the prompts' templates, without the words of a question, for the card."""

MOST_TOKENS: Final = 200
"""The most tokens of an answer; an essay is cut off, and is no answer."""

MOST_WRITTEN: Final = 2_000
"""The most tokens of a text that it is to write."""

CUT: Final = "unread: it was cut off"


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
        self._pace, self._refused, self.has_answered = Pace(requests_per_minute), Arguments(), False

    def possible_answers(self, question: Question) -> tuple[str, ...]:
        """Return every option; it answers open questions, too."""
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
        return self._all([partial(self._answer, image, question) for image in images])

    def write(self, prompts: Sequence[str], name: str, properties: dict[str, Any]) -> list[Reading]:
        """Ask each prompt for JSON of these properties, and accept whatever words come; no image is sent.

        The answer of a reading is what was said, unparsed; it has a reason as one of :meth:`read` has.

        Raises
        ------
        ModelError
            As in :meth:`read`.
        """
        return self._all([partial(self._ask_in_words, prompt, name, properties) for prompt in prompts])

    def _all(self, asks: Sequence[Callable[[list[str]], Reading]]) -> list[Reading]:
        stopped, pool = threading.Event(), ThreadPoolExecutor(self._concurrency)
        futures = [pool.submit(self._one, ask, stopped) for ask in asks]
        try:
            wait(futures)
        except KeyboardInterrupt:
            stopped.set()  # what is under way is paid for, so it is waited for, until the next interrupt
            with suppress(KeyboardInterrupt):
                wait(futures)
            done = [future.result() if future.done() and not future.exception() else None for future in futures]
            raise ReadingStopped(done) from None
        finally:
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
        error = next((raised for future in futures if (raised := future.exception()) is not None), None)
        readings = [
            Reading(None, reason=f"failed: {future.exception()}") if future.exception()
            else future.result() or Reading(None, reason="failed: it was not asked")
            for future in futures
        ]  # fmt: skip
        if error is not None and all((each.reason or "").startswith("failed: ") for each in readings):
            raise error
        return readings

    def _one(self, ask: Callable[[list[str]], Reading], stopped: threading.Event) -> Reading | None:
        """Ask once, with the hash of the prompt; None where nobody waits any more and nothing was sent."""
        import openai

        log: list[str] = []
        if self._pace.wait(stopped):
            return None
        try:
            reading = ask(log)
            self.has_answered = True
        except openai.APIStatusError as error:
            try:
                reading = self._unsuccessful(error)
            except ModelError:
                stopped.set()  # here, so that no other request begins
                raise
        except AnswerRefusedError as error:
            reading = Reading(None, reason=f"failed: {in_one_line(str(error), 300)}")
        except Exception as error:  # no connection, or a malformed answer: many kinds
            reading = Reading(None, reason=f"failed: {describe(error)}")
        return replace(reading, prompt_sha256=log[-1] if log else None)

    def _answer(self, image: Image, question: Question, log: list[str]) -> Reading:
        """Answer a question of a picture: exactly one of the options, by JSON or by itself, or no answer."""
        properties: dict[str, Any] = {"answer": {"type": "string"}}
        if not question.is_open:
            properties["answer"]["enum"] = list(question.options.values())
        coded = base64.b64encode(encode_png(image)).decode()
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{coded}"}}
        reply = self._said("reading", properties, prompts_of(question), log, picture=picture)
        if unread := _unread(reply):
            return unread
        words = in_one_line(reply.words, 300)
        answer, is_whole = answer_in(reply.words)
        if question.is_open:
            if answer.startswith("{") and not is_whole:
                why = CUT if reply.is_cut else "unread: it is no JSON of the form that was asked for"
                return Reading(None, words=words, reason=why)
            return open_reading(answer, cut=reply.is_cut)
        key = option_in(answer, question.named)
        if key is None or (reply.is_cut and not is_whole):  # one option may be the beginning of another
            why = CUT if reply.is_cut else "unread: it is none of the options"
            return Reading(None, words=words, reason=f"refused: {words}" if refuses(answer) and key is None else why)
        return Reading(key, words=words)

    def _ask_in_words(self, prompt: str, name: str, properties: dict[str, Any], log: list[str]) -> Reading:
        reply = self._said(name, properties, (prompt, prompt), log, max_tokens=MOST_WRITTEN)
        if unread := _unread(reply):
            return unread
        words = in_one_line(reply.words, 300)
        if reply.is_cut:
            return Reading(None, words=words, reason=CUT)
        json_object = next(json_in(reply.words), None)
        return Reading(reply.words if json_object is None else json.dumps(_in_small_letters(json_object)), words=words)

    def _said(
        self, name: str, properties: dict[str, Any], prompts: tuple[str, str], log: list[str], *,
        picture: dict[str, Any] | None = None, **further: Any,
    ) -> Reply:  # fmt: skip
        """Ask by a schema, with the first prompt, and in words alone from then on where the server takes none.

        The hash of every prompt that is sent is added to ``log``.
        """
        schema = {
            "type": "object", "properties": properties, "required": list(properties), "additionalProperties": False
        }  # fmt: skip
        wanted = {"type": "json_schema", "json_schema": {"name": name, "strict": True, "schema": schema}}

        def send(taken: dict[str, Any]) -> Reply:
            prompt = prompts["response_format" not in taken]
            log.append(hashlib.sha256(prompt.encode()).hexdigest())
            content = prompt if picture is None else [{"type": "text", "text": prompt}, picture]
            body = {"messages": [{"role": "user", "content": content}], **taken}
            return reply_in(self._client.post("/chat/completions", cast_to=http_library().Response, body=body))

        reply = self._refused.ask(self._arguments | further | {"response_format": wanted}, send)
        if note := self._refused.note:
            self.card = replace(self.card, notes=self.card.notes | {"asked": note})
        return reply

    def _unsuccessful(self, error: Any) -> Reading:
        """Read an answer with an error status.

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
        if isinstance(error, not_taken) and not self.has_answered:
            raise ModelError.refused(
                f"{self.card.name}: {line}; nothing is read yet, so a setting is at fault"
            ) from None
        return Reading(None, reason=f"failed: {line}")


def prompts_of(question: Question) -> tuple[str, str]:
    """Write the text that is sent with a picture: to a server that takes a schema, and to one that takes none."""
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


def _unread(reply: Reply) -> Reading | None:
    """Return why an answer holds no words, if it holds none."""
    if why := reply.unanswered():
        return Reading(None, reason=": ".join(why))
    if reply.words:
        return None
    if reply.is_empty:
        strange = f": {in_one_line(reply.strange, 100)}" if reply.strange else ""
        return Reading(None, reason=f"failed: malformed answer: it holds no choice{strange}")
    reason = CUT + (" while it thought" if reply.thoughts else "")
    return Reading(None, words="", reason=reason if reply.is_cut else "unread: an empty answer")


def _in_small_letters(value: Any) -> Any:
    """Return JSON with the keys of its mappings in small letters."""
    if isinstance(value, dict):
        return {str(key).strip().casefold(): _in_small_letters(cell) for key, cell in value.items()}
    return [_in_small_letters(each) for each in value] if isinstance(value, list) else value


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
