"""What a server of images answers: whether it says no, in which words, and the file of an image."""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from clinometer.models.openai.guarded_http import AnswerRefusedError, http_library

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
"""The largest file of an image that is taken from a server."""

MOST_ANSWER_BYTES = MOST_BYTES * 4 // 3 + 1_000_000
"""The largest answer: such a file as base64, and words beside it."""

HEARD = 20_000
"""Characters of what a server says that are searched for a refusal."""


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
    code, message = _letters(f"{error.code} {error.type}"), _letters(text_of(error.body))
    return any(word in code for word in REFUSAL_CODES) or any(word in message for word in REFUSALS)


def text_of(body: Any) -> str:
    """What a server said, as it said it."""
    return (body if isinstance(body, str) else json.dumps(body, ensure_ascii=False, default=str))[:HEARD]


def _letters(text: str) -> str:
    """``content_policy_violation``, ``contentFilter`` and "Content policy" have their letters in common."""
    return re.sub("[^a-z]", "", text.lower())


def bytes_of(image: Any, fetch: Callable[[str], bytes]) -> bytes:
    """The file of an image that came as base64, in lines or in a ``data:`` URL too, or as the address where it lies."""
    coded = image.b64_json or (image.url if str(image.url).startswith("data:") else "")
    if coded:
        try:
            return base64.b64decode("".join(coded.rpartition(",")[2].split()), validate=True)
        except binascii.Error as error:
            raise ValueError(f"malformed answer: {error}") from error
    if urlsplit(image.url or "").scheme not in ("http", "https"):
        raise ValueError("malformed answer: neither an image nor its address")
    return fetch(image.url)


class Downloads:
    """Fetches what lies at an address. The image is paid for by then, so it is fetched as often as the model is asked.

    Parameters
    ----------
    client : of `clinometer.models.openai.guarded_http`; it knows no key.
    retries : attempts after the first.
    seconds : after which there is no further attempt.
    """

    def __init__(self, client: Any, retries: int, seconds: float) -> None:
        self._client, self._retries, self._seconds = client, retries, seconds

    def __call__(self, url: str) -> bytes:
        """Fetch a file."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_after_delay, wait_random_exponential

        attempts = Retrying(
            stop=stop_after_attempt(self._retries + 1) | stop_after_delay(self._seconds),
            wait=wait_random_exponential(multiplier=0.5, max=8),
            retry=retry_if_exception(_may_pass),
            reraise=True,
        )
        return attempts(self._fetched, url)

    def _fetched(self, url: str) -> bytes:
        answer = self._client.get(url)
        if place := answer.extensions.get("leads_to"):
            raise AnswerRefusedError(f"its address leads on to {led_to(*place)}")
        if not answer.is_success:
            raise DownloadError(answer.status_code, answer.reason_phrase)
        return bytes(answer.content)


class DownloadError(Exception):
    """An image that is not where the server said."""

    def __init__(self, status: int, phrase: str) -> None:
        super().__init__(f"HTTP Error {status}: {phrase}")
        self.status = status


def led_to(place: str, too_often: bool) -> str:
    """Where a redirect leads, and the way out."""
    address = urlsplit(place)
    destination = f"{address.scheme}://{address.netloc.rpartition('@')[2]}" if address.netloc else place
    if too_often:
        return f"{destination} again and again, which is not followed; check the server's address"
    return f"{destination}, which is not followed; give --trusted-host {address.hostname or 'HOST'} if you trust it"


def _may_pass(error: BaseException) -> bool:
    """Whether asking again may help: a busy server, or a connection that failed or broke off."""
    if isinstance(error, DownloadError):
        return error.status in (408, 429) or error.status >= 500
    return isinstance(error, http_library().TransportError)
