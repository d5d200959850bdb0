"""Images from a server that speaks OpenAI's images API: OpenAI itself, and the many others that do.

The official client does the talking: it keeps connections, waits as a 429 or a 5xx asks it to, and tries again with
growing pauses. What is added here is what an audit needs: several requests at once, a pace, an outcome with a reason
for every image, and a price known before a cent is spent.

The key comes from the environment (``OPENAI_API_KEY``) and goes nowhere else: not into the card, not into a reason.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from copy import copy
from dataclasses import KW_ONLY, asdict, dataclass, replace
from functools import partial
from itertools import islice
from time import perf_counter
from typing import Any, ClassVar, Final, TypeVar

from clinometer._secrets import HIDDEN, masked
from clinometer.errors import ModelError
from clinometer.models.images import decode_image, encode_png
from clinometer.models.openai import (
    KEY,
    AnswerRefusedError,
    Arguments,
    DownloadError,
    Pace,
    bytes_of,
    connect,
    error_line,
    http_library,
    is_refusal,
    raise_if_final,
    require_terms,
    server_of,
)
from clinometer.models.openai.replies import Reply, reply_in
from clinometer.models.protocols import Card, EditRequest, GenerationRequest, GenerationResult, Status
from clinometer.models.weights import in_one_line

PART = 8
"""Images of a part: drawn again, besides those under way, when the process is killed."""

SIZES = {"dall-e-2": ("256x256", "512x512", "1024x1024")}
"""The sizes that can be requested, of models whose sizes include those of papers."""

REWRITING: Final = (
    "Rewrite the user's prompt for an image generator so that the picture becomes vivid and specific. Keep what it "
    "asks for. Answer with the rewritten prompt alone."
)
"""The default instruction of a rewriter."""

CODED: Final = re.compile(r"[A-Za-z0-9+/=]{200,}")
"""An image within a request, which is too long to show."""

R = TypeVar("R", bound=GenerationRequest)


@dataclass(frozen=True)
class _RejectedResult(GenerationResult):
    """A request that the server does not take: its prompt is at fault, or a setting that all requests share."""

    prompt: str = ""


@dataclass(frozen=True)
class Rewriter:
    """A language model of the same server that rewrites every prompt before it is drawn, for each image anew."""

    model: str
    instruction: str = REWRITING


class NotRewrittenError(Exception):
    """A prompt that the rewriter gave no wording of; ``refused`` where it said why in words."""

    def __init__(self, reason: str, *, refused: bool) -> None:
        super().__init__(reason)
        self.refused = refused


@dataclass(eq=False, repr=False)
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
    rewriter : words each prompt again before it is drawn.
    """

    client: Any
    card: Card
    _: KW_ONLY
    fetch: Callable[..., bytes]
    arguments: dict[str, Any]
    price_per_image: float
    concurrency: int = 4
    requests_per_minute: float | None = None
    send_seed: bool = False
    rewriter: Rewriter | None = None

    names_strength: ClassVar = False
    key_name: ClassVar = KEY

    def __post_init__(self) -> None:
        self.batch_size = max(PART, 2 * self.concurrency)  # a part is waited for as a whole
        self.has_drawn = False
        self._refused, self._pace = Arguments(), Pace(self.requests_per_minute)

    @property
    def takes(self) -> dict[str, str]:
        """The settings that a request can have, described by name."""
        seed = "sent; whether the server keeps to it is its own affair" if self.send_seed else "not sent"
        size = self.card.settings.get("size")
        return {
            "seed": f"{seed}; OpenAI takes none",
            "size": f"sent: {size}" if size else "the server's; --height and --width ask for another",
            "steps": "not in this API",
            "guidance": "not in this API",
            "system prompt": "not in this API",
            "rewriter": self.rewriter.model if self.rewriter else "none; --rewriter names a chat model of the server",
            "strength of edits": "not in this API: an instruction is followed or not",
            "price": f"{self.price_per_image:g} an image" if self.price_per_image else "none given: 0",
        }

    def shown_requests(self, request: GenerationRequest) -> list[str]:
        """Show what would be sent for one image, key and pictures left out. Nothing is sent."""
        import openai

        library, sent = http_library(), []

        def keep(request: Any) -> Any:
            sent.append(request)
            return library.Response(200, json={})

        offline = copy(self)
        offline_client = openai.DefaultHttpxClient(transport=library.MockTransport(keep))
        offline.client = self.client.with_options(http_client=offline_client, max_retries=0)
        if self.rewriter:
            offline._ask_rewriting(self.rewriter, request.prompt)
            request = replace(request, prompt="(the rewritten prompt)")
        offline._ask_edit(request) if isinstance(request, EditRequest) else offline._ask_image(request)
        return [_show(each) for each in sent]

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
        pool = ThreadPoolExecutor(self.concurrency)
        under_way: set[Future[GenerationResult | None]] = set()
        rejected: list[_RejectedResult] = []
        try:
            while True:
                if not rejected:
                    free = self.concurrency - len(under_way)
                    under_way |= {pool.submit(self._outcome, request, ask, stopped) for request in islice(source, free)}
                if not under_way:
                    break
                try:
                    done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                except KeyboardInterrupt:
                    stopped.set()  # what is under way is paid for, so it is waited for, until the next interrupt
                    with suppress(KeyboardInterrupt):
                        wait(under_way)
                    yield from _results(each for each in under_way if each.done() and not each.exception())
                    raise
                if any(future.exception() for future in done):
                    stopped.set()
                    done |= wait(under_way).done
                for result in _results(done):
                    self.has_drawn |= result.image is not None
                    if isinstance(result, _RejectedResult) and not self.has_drawn:
                        rejected.append(result)  # requests under way may show that the settings are right
                    else:
                        yield result
                if self.has_drawn or not under_way:
                    if rejected and not self.has_drawn:
                        raise ModelError.refused(
                            f"{self.card.name}: {rejected[0].reason}; nothing is drawn yet, so a setting is at fault, "
                            f"or the prompt {rejected[0].prompt!r}"
                        )
                    yield from rejected
                    rejected.clear()
        finally:
            stopped.set()  # those that wait for their moment must not ask for what nobody takes any more
            pool.shutdown(wait=False, cancel_futures=True)

    def _ask_image(self, request: GenerationRequest) -> Reply:
        body = {"prompt": request.prompt, "n": 1, **self._seed(request)}
        return self._refused.ask(self.arguments, lambda taken: self._post("/images/generations", taken | body))

    def _ask_edit(self, request: EditRequest) -> Reply:
        arguments = {name: value for name, value in self.arguments.items() if name != "style"}  # generations only
        image = ("image.png", encode_png(request.image), "image/png")
        edit = partial(
            self.client.images.with_raw_response.edit,
            image=image, prompt=request.prompt, n=1, extra_body=self._seed(request) or None,
        )  # fmt: skip
        return self._refused.ask(arguments, lambda taken: reply_in(edit(**taken).http_response))

    def _post(self, path: str, body: Mapping[str, Any], **headers: Any) -> Reply:
        """Send a request and sort what comes, whatever its server calls it."""
        response = self.client.post(path, cast_to=http_library().Response, body=body, options={"headers": headers})
        return reply_in(response)

    def _seed(self, request: GenerationRequest) -> dict[str, Any]:
        return {"seed": request.seed} if self.send_seed else {}

    def _outcome(self, request: R, ask: Callable[[R], Any], stopped: threading.Event) -> GenerationResult | None:
        """Return the result of a request; None where nobody waits for its image any more, and it was not sent."""
        import openai

        started = perf_counter()
        if self._pace.wait(stopped):
            return None
        try:
            prompt = self._rewritten(self.rewriter, request.prompt) if self.rewriter else request.prompt
            answer = ask(replace(request, prompt=prompt))
            result = replace(self._receive(replace(request, prompt=prompt), answer), batch=request.id)
            if prompt != request.prompt:
                said = [f"rewritten to: {in_one_line(prompt, 2000)}", result.reason]
                reason = "; ".join(filter(None, said if result.image is not None else said[::-1]))
                result = replace(result, reason=reason)
        except NotRewrittenError as error:
            result = GenerationResult(request.id, "refused" if error.refused else "failed", None, str(error))
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
        return GenerationResult(
            request.id, result.status, result.image, result.reason, perf_counter() - started,
            flagged=result.flagged, batch=result.batch,
        )  # fmt: skip

    def _unsuccessful(self, request: GenerationRequest, error: Any) -> GenerationResult:
        """Return the result of a request that the server answers with an error status: a refusal, or a failure.

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
        raise_if_final(error, self.card.name, self.key_name)
        # A gateway's 500 may hold what the model said.
        status: Status = "refused" if is_refusal(error) else "failed"
        return GenerationResult(request.id, status, None, message)

    def _receive(self, request: GenerationRequest, reply: Reply) -> GenerationResult:
        """Return the first image of an answer and how many there were; without one it is refused, or has failed.

        The prompt that the server drew instead, if it says so, is kept.
        """
        drew = f"the server drew: {masked(reply.revised)}" if reply.revised not in ("", request.prompt) else ""
        many = f"the first of {len(reply.pictures)} images in the answer" if len(reply.pictures) > 1 else ""
        if reply.pictures and not reply.is_blocked:
            result = self._decode(request, bytes_of(reply.pictures[0], self.fetch), drew, many, self._refused.note)
            return replace(result, flagged=reply.is_unsafe)
        for link in reply.links[:1]:  # it may lead to the image, or to the rules by which none is drawn
            with suppress(http_library().HTTPError, DownloadError):
                linked = self._decode(request, self.fetch(link, once=True), self._refused.note)
                if linked.image is not None:
                    return linked
        status, reason = reply.without_image()
        return GenerationResult(request.id, "refused" if status == "refused" else "failed", None, reason)

    def _decode(self, request: GenerationRequest, content: bytes, *notes: str) -> GenerationResult:
        """Decode an image; one of another size than asked for is kept and noted. ``notes`` are further notes."""
        decoded = decode_image(content)
        requested = self.card.settings.get("size")
        if decoded.image is not None and requested not in (None, "auto", size := "{}x{}".format(*decoded.image.size)):
            notes = (*notes, f"asked for {requested}, drawn in {size}")
        return GenerationResult(
            request.id, decoded.status, decoded.image, decoded.reason or "; ".join(filter(None, notes)) or None
        )

    def _ask_rewriting(self, rewriter: Rewriter, prompt: str) -> Reply:
        messages = [{"role": "system", "content": rewriter.instruction}, {"role": "user", "content": prompt}]
        return self._post("/chat/completions", {"model": rewriter.model, "messages": messages})

    def _rewritten(self, rewriter: Rewriter, prompt: str) -> str:
        """Rewrite a prompt.

        Raises
        ------
        NotRewrittenError
            The rewriter refused, answered nothing, or was cut off.
        """
        reply = self._ask_rewriting(rewriter, prompt)
        status, reason = reply.unanswered() or ("", "")
        if not status and (reply.is_cut or not reply.words):
            what = "it was cut off" if reply.is_cut else "it holds no text"
            status, reason = "failed", f"malformed answer: {what}"
        if status:
            raise NotRewrittenError(f"rewriter {rewriter.model}: {reason[:300]}", refused=status == "refused")
        return reply.words


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
    rewriter: str | None = None,
    rewriter_prompt: str = REWRITING,
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
    trusted_host : hosts besides the server's own that may have an address in a private network, or be where a redirect
        leads, such as the one that keeps its images.
    send_seed : put each image's seed into the request. OpenAI takes none, so its images cannot be repeated.
    rewriter, rewriter_prompt : a chat model of the server that rewrites every prompt, and its instruction. The price
        is then of both.
    device : no meaning here; the server has its own.
    name : the name in the card.
    prefer : a height and a width to ask for where none are given and the model is known to have them.

    Raises
    ------
    ModelError
        The package openai, the key or the price is missing, or a setting does not fit.
    """
    price = require_terms(
        source, like="openai:gpt-image-1", price=price, of="one image", concurrency=concurrency,
        retries=retries, timeout=timeout, requests_per_minute=requests_per_minute,
    )  # fmt: skip
    if (height is None) != (width is None):
        raise ModelError.conflict("found one of them, expected both or none", field=("height", "width"))
    client, fetch = connect(base_url, retries, timeout, trusted_host)
    size = None if height is None else f"{width}x{height}"
    if size is None and prefer:  # the model must be known to have it: a server refuses every request for another
        wished = f"{prefer.get('width', 0):g}x{prefer.get('height', 0):g}"
        size = wished if wished in SIZES.get(source, ()) else None
    settings = {"model": source, "size": size, "quality": quality, "style": style}
    arguments = {key: value for key, value in settings.items() if value is not None}
    if source.startswith("dall-e"):
        arguments["response_format"] = "b64_json"  # newer models answer with it and refuse to be asked for it
    rewrites = Rewriter(rewriter, rewriter_prompt) if rewriter else None
    card = Card(
        kind="generator",
        name=name or source,
        family="openai-images/1",
        settings=arguments
        | {"server": server_of(str(client.base_url)), "seed_sent": send_seed}
        | ({"rewriter": asdict(rewrites)} if rewrites else {}),
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
        rewriter=rewrites,
    )


def _results(done: Iterable[Future[GenerationResult | None]]) -> Iterator[GenerationResult]:
    """Yield the results of finished requests; where one ended the run, the others come first, as they are paid for."""
    ended = None
    for future in done:
        if future.exception() is not None:
            ended = future.exception()
        elif (result := future.result()) is not None:
            yield result
    if ended is not None:
        raise ended


def _show(request: Any) -> str:
    """Write a request as it would be sent, without keys and without the letters of pictures."""
    secret = ("authorization", "key", "token")
    headers = [
        f"{name}: {HIDDEN if any(word in name.lower() for word in secret) else masked(value)}"
        for name, value in request.headers.items()
        if name.lower() in ("content-type", "content-length") or any(word in name.lower() for word in secret)
    ]
    body = request.read()
    if request.headers.get("content-type", "").startswith("application/json"):
        body = json.dumps(json.loads(body), indent=2, ensure_ascii=False)
        body = CODED.sub(lambda found: f"{found[0][:20]}{HIDDEN} ({len(found[0]):,} letters)", body)
    else:
        body = f"(a form of {len(body):,} bytes, which holds the picture)"
    return masked("\n".join([f"{request.method} {request.url}", *headers, "", body]))
