"""What a server of images answers: whether it says no, in which words, and the file of an image."""

from __future__ import annotations

import base64
import binascii
import http.client
import json
import re
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

REFUSAL_CODES = ("moderationblocked", "safety")
"""Letters in the code or type of an error that mean: the prompt or the picture is not allowed."""

REFUSALS = (
    "contentpolicy",
    "contentfilter",
    "contentmoderation",
    "flaggedinput",
    "nsfw",
    "responsibleai",
    "safetysystem",
)
"""The same, anywhere in what a server says: many have no code for it, or one that they share with other errors."""

MOST_BYTES = 64_000_000


class ErrorInAnswer(Exception):  # noqa: N818 - the answer's, in the shape of the client's own errors
    """An error that came in an answer of status 200."""

    def __init__(self, body: Any) -> None:
        super().__init__("the answer holds an error")
        self.body = body
        self.code, self.type = (body.get(key) if isinstance(body, dict) else None for key in ("code", "type"))


def is_refusal(error: Any) -> bool:
    """Whether it is the model that says no. A page of HTML is a proxy's, and says no to everything."""
    if isinstance(error.body, str) and error.body.lstrip().startswith("<"):
        return False
    code, said = _letters(f"{error.code} {error.type}"), _letters(text_of(error.body))
    return any(word in code for word in REFUSAL_CODES) or any(word in said for word in REFUSALS)


def text_of(body: Any) -> str:
    """What a server said, as it said it."""
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str)


def _letters(text: str) -> str:
    """``content_policy_violation``, ``contentFilter`` and "Content policy" have their letters in common."""
    return re.sub("[^a-z]", "", text.lower())


def bytes_of(image: Any, retries: int) -> bytes:
    """The file of an image that came as base64, in lines or in a ``data:`` URL too, or as the address where it lies."""
    coded = image.b64_json or (image.url if str(image.url).startswith("data:") else "")
    if coded:
        try:
            return base64.b64decode("".join(coded.rpartition(",")[2].split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"malformed answer: {error}") from error
    if urlsplit(image.url or "").scheme not in ("http", "https"):
        raise ValueError("malformed answer: neither an image nor its address")
    return _downloaded(image.url, retries)


def _downloaded(url: str, retries: int) -> bytes:
    """What lies at an address. The image is paid for by now, so it is fetched as often as the model is asked."""
    from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

    attempts = Retrying(
        stop=stop_after_attempt(retries + 1),
        wait=wait_random_exponential(multiplier=0.5, max=8),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    return attempts(_fetched, url)


def _fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        content = bytes(answer.read(MOST_BYTES))
        if (
            answer.length and len(content) < MOST_BYTES
        ):  # reading up to a limit, Python takes a broken-off file as whole
            raise http.client.IncompleteRead(content, answer.length)
        return content


def _may_pass(error: BaseException) -> bool:
    """Whether asking again may help: a busy server, or a connection that failed or broke off."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code in (408, 429) or error.code >= 500
    return isinstance(error, OSError | http.client.HTTPException)
