"""Images from a server that speaks OpenAI's images API: OpenAI itself, and the many others that do.

The official client does the talking: it keeps connections, waits as a 429 or a 5xx asks it to, and tries again with
growing pauses. What is added here is what an audit needs: several requests at once, a pace, an outcome with a reason
for every image, and a price known before a cent is spent.

The key comes from the environment (``OPENAI_API_KEY``) and goes nowhere else: not into the card, not into a reason.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from copy import copy
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, TypeVar

from clinometer._secrets import masked
from clinometer.errors import ModelError
from clinometer.models.images import decode_image, encode_png
from clinometer.models.openai.answers import ErrorInAnswer, bytes_of, is_refusal
from clinometer.models.openai.client import Pace, connect, error_line, raise_if_final, require_terms, server_of
from clinometer.models.openai.guarded_http import AnswerRefusedError
from clinometer.models.protocols import Card, EditRequest, GenerationRequest, GenerationResult, Status
from clinometer.models.weights import in_one_line

PART = 8
"""Images of a part: what is drawn again, beside those under way, when the process is killed."""

SIZES = {"dall-e-2": ("256x256", "512x512", "1024x1024")}
"""What can be asked for, of models whose sizes include those that papers use."""


R = TypeVar("R", bound=GenerationRequest)


@dataclass(frozen=True)
class _RejectedResult(GenerationResult):
    """A request that the server does not take: its prompt is at fault, or a setting that all requests share."""

    prompt: str = ""


class OpenAIImages:
    """Draws and edits images by asking a server, one image a request.

    ``names_strength`` is false: an edit of the API has no strength, so a suite may ask for one only. ``has_drawn`` says
    that an image has come back, so that the settings are such as the server takes.

    Parameters
    ----------
    client : the official client.
    fetch : gives the file at an address that an answer holds instead of an image.
    card : what it is.
    arguments : further arguments of every request: model, size, quality.
    price_per_image : in any one currency; 0 for a server of one's own.
    concurrency : requests under way at once.
    requests_per_minute : the pace; None leaves it to the server's 429.
    send_seed : put each image's seed into the request, for servers that take one.
    """

    names_strength = False

    def __init__(
        self,
        client: Any,
        card: Card,
        *,
        fetch: Callable[[str], bytes],
        arguments: dict[str, Any],
        price_per_image: float,
        concurrency: int = 4,
        requests_per_minute: float | None = None,
        send_seed: bool = False,
    ) -> None:
        self.card = card
        self.batch_size = max(PART, 2 * concurrency)  # a part is waited for as a whole
        self.price_per_image = price_per_image
        self.has_drawn = False
        self._client = client
        self._fetch = fetch
        self._arguments = arguments
        self._concurrency = concurrency
        self._pace = Pace(requests_per_minute)
        self._send_seed = send_seed

    def generate(self, requests: Iterable[GenerationRequest]) -> Iterator[GenerationResult]:
        """Yield a result for each request, as they come; at most ``concurrency`` are under way.

        A refusal is an answer: its status is "refused", with the server's reason. What stays impossible after the
        client's own attempts is "failed", and so is a request that the server does not take, once it has taken another.

        Raises
        ------
        ModelError
            The server takes none of the requests: the key, the model's name, a setting, or the account's quota. What
            was under way is waited for and given first: it is paid for.
        """
        return self._results(requests, self._ask_image)

    def editor(self) -> OpenAIImages:
        """Return the same model as an editor of images; it keeps the same pace. It has yet to show that it edits."""
        editor = copy(self)
        editor.has_drawn = False
        return editor

    def edit(self, requests: Iterable[EditRequest]) -> Iterator[GenerationResult]:
        """Yield a result for each request, as `generate` does; the strength is not sent, for the API has none."""
        return self._results(requests, self._ask_edit)

    def _results(self, requests: Iterable[R], ask: Callable[[R], Any]) -> Iterator[GenerationResult]:
        source, stopped = iter(requests), threading.Event()
        pool = ThreadPoolExecutor(self._concurrency)
        under_way: set[Future[GenerationResult | None]] = set()
        rejected: list[_RejectedResult] = []
        try:
            while True:
                if not rejected:
                    free = self._concurrency - len(under_way)
                    under_way |= {pool.submit(self._outcome, request, ask, stopped) for request in islice(source, free)}
                if not under_way:
                    break
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                if any(future.exception() for future in done):
                    stopped.set()
                    done |= wait(under_way).done
                for result in _results(done):
                    self.has_drawn |= result.image is not None
                    if isinstance(result, _RejectedResult) and not self.has_drawn:
                        rejected.append(result)  # what is under way beside it may show that the settings are right
                    else:
                        yield result
                if self.has_drawn or not under_way:
                    yield from self._failed(rejected)
                    rejected.clear()
        finally:
            stopped.set()  # those that wait for their moment must not ask for what nobody takes any more
            pool.shutdown(wait=False, cancel_futures=True)

    def _failed(self, rejected: Sequence[_RejectedResult]) -> Iterator[GenerationResult]:
        """Requests that were not taken, as images that failed, unless none has ever been taken."""
        if rejected and not self.has_drawn:
            raise ModelError(
                f"{self.card.name}: {rejected[0].reason}; nothing is drawn yet, so a setting is at fault, or the "
                f"prompt {rejected[0].prompt!r}"
            )
        yield from rejected

    def _ask_image(self, request: GenerationRequest) -> Any:
        return self._client.images.generate(prompt=request.prompt, n=1, **self._arguments, **self._seed(request))

    def _ask_edit(self, request: EditRequest) -> Any:
        arguments = {name: value for name, value in self._arguments.items() if name != "style"}  # generations only
        image = ("image.png", encode_png(request.image), "image/png")
        return self._client.images.edit(image=image, prompt=request.prompt, n=1, **arguments, **self._seed(request))

    def _seed(self, request: GenerationRequest) -> dict[str, Any]:
        return {"extra_body": {"seed": request.seed}} if self._send_seed else {}

    def _outcome(self, request: R, ask: Callable[[R], Any], stopped: threading.Event) -> GenerationResult | None:
        """What became of a request; None where nobody takes its image any more, and it was not asked for."""
        import openai

        started = perf_counter()
        if self._pace.wait(stopped):
            return None
        try:
            result = self._received(request, ask(request))
        except openai.APIStatusError as error:
            result = self._unsuccessful(request, error)
            if isinstance(result, _RejectedResult):
                return result
        except openai.APIConnectionError as error:
            reason = f"{error_line(error).rstrip('.')} ({self.card.settings['server']})"
            result = GenerationResult(request.id, "failed", None, reason)
        except AnswerRefusedError as error:
            result = GenerationResult(request.id, "failed", None, in_one_line(str(error), 300))
        except Exception as error:  # a malformed answer: many kinds
            result = GenerationResult(request.id, "failed", None, error_line(error))
        return GenerationResult(request.id, result.status, result.image, result.reason, perf_counter() - started)

    def _unsuccessful(self, request: GenerationRequest, error: Any) -> GenerationResult:
        """What became of a request that the server answers with a status of its own: a refusal, or a failure.

        Raises
        ------
        ModelError
            No request gets past it.
        """
        import openai

        message = error_line(error)
        not_taken = (openai.BadRequestError, openai.UnprocessableEntityError, openai.PermissionDeniedError)
        led_away = "leads_to" in error.response.extensions
        if led_away or (isinstance(error, not_taken) and not is_refusal(error)):
            return _RejectedResult(request.id, "failed", None, message, prompt=request.prompt)
        raise_if_final(error, self.card.name)
        # A gateway's 500 may hold what the model said.
        status: Status = "refused" if is_refusal(error) else "failed"
        return GenerationResult(request.id, status, None, message)

    def _received(self, request: GenerationRequest, answer: Any) -> GenerationResult:
        """Decode the one image of an answer; the prompt that the server drew instead, if it says so, is kept."""
        data = getattr(answer, "data", None)
        if not data:
            return self._without_image(request, answer)
        decoded = decode_image(bytes_of(data[0], self._fetch))
        revised = getattr(data[0], "revised_prompt", None)
        drew = f"the server drew: {masked(str(revised))}" if revised and revised != request.prompt else None
        return GenerationResult(request.id, decoded.status, decoded.image, decoded.reason or drew)

    def _without_image(self, request: GenerationRequest, answer: Any) -> GenerationResult:
        """An answer that says it went well and holds no image: a gateway may put the model's own error into it."""
        body = getattr(answer, "error", None)
        if not body:
            excerpt = f": {masked(answer)[:100]}" if isinstance(answer, str) else ""
            return GenerationResult(request.id, "failed", None, f"malformed answer: it holds no image{excerpt}")
        error = ErrorInAnswer(body)
        return GenerationResult(request.id, "refused" if is_refusal(error) else "failed", None, error_line(error))


def load(
    source: str,
    *,
    price: float | None = None,
    base_url: str | None = None,
    height: int | None = None,
    width: int | None = None,
    quality: str | None = None,
    style: str | None = None,
    concurrency: int = 4,
    requests_per_minute: float | None = None,
    retries: int = 6,
    timeout: float = 180.0,
    trusted_host: Sequence[str] = (),
    send_seed: bool = False,
    device: str | None = None,
    name: str | None = None,
    prefer: Mapping[str, float] | None = None,
) -> OpenAIImages:
    """Connect to a server for images of the model ``source``, such as ``dall-e-3`` or ``gpt-image-1``.

    Parameters
    ----------
    price : of one image at these settings, from the server's price list; 0 for a server of one's own.
    base_url : the server; None is OpenAI's own, or ``OPENAI_BASE_URL``.
    height, width : in pixels, both or none; None is the server's default.
    quality, style : as the server names them.
    concurrency, requests_per_minute : how fast to ask.
    retries, timeout : attempts after the first, with growing pauses; seconds for each, to the last byte of its answer.
    trusted_host : hosts beside the server's own that may have an address in a private network, or be where a redirect
        leads, such as the one that keeps its images.
    send_seed : put each image's seed into the request. OpenAI takes none, so its images cannot be repeated.
    device : no meaning here; the server has its own.
    name : the name in the card.
    prefer : a height and a width to ask for where none are given and the model is known to have them.

    Raises
    ------
    ModelError
        The package openai, the key or the price is missing, or a setting does not fit.
    """
    price = require_terms(
        source, like="gpt-image-1", price=price, of="one image", concurrency=concurrency,
        retries=retries, timeout=timeout, requests_per_minute=requests_per_minute,
    )  # fmt: skip
    if (height is None) != (width is None):
        raise ModelError("found one of them, expected both or none", field=("height", "width"))
    client, fetch = connect(base_url, retries, timeout, trusted_host)
    size = _preferred_size(source, prefer or {}) if height is None else f"{width}x{height}"
    settings = {"model": source, "size": size, "quality": quality, "style": style}
    arguments = {key: value for key, value in settings.items() if value is not None}
    if source.startswith("dall-e"):
        arguments["response_format"] = "b64_json"  # newer models answer with it and refuse to be asked for it
    card = Card(
        kind="generator",
        name=name or source,
        family="openai-images/1",
        settings=arguments | {"server": server_of(str(client.base_url)), "seed_sent": send_seed},
        notes={"price_per_image": price},
    )
    return OpenAIImages(
        client,
        card,
        fetch=fetch,
        arguments=arguments,
        price_per_image=price,
        concurrency=concurrency,
        requests_per_minute=requests_per_minute,
        send_seed=send_seed,
    )


def _preferred_size(model: str, prefer: Mapping[str, float]) -> str | None:
    """A size that is wished for, of a model that is known to have it: a server refuses every request for another."""
    size = f"{prefer.get('width', 0):g}x{prefer.get('height', 0):g}"
    return size if size in SIZES.get(model, ()) else None


def _results(done: Iterable[Future[GenerationResult | None]]) -> Iterator[GenerationResult]:
    """Results of finished requests; where one ended the run, those beside it are given first: they were paid for."""
    ended = None
    for future in done:
        if future.exception() is not None:
            ended = future.exception()
        elif (result := future.result()) is not None:
            yield result
    if ended is not None:
        raise ended
