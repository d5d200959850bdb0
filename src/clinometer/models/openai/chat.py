"""Models that draw within a chat: behind OpenAI's chat endpoint, and behind Gemini's own.

Where the images of an answer stand differs from server to server, see `clinometer.models.openai.replies`. What all
have in common is that such a model may answer in words instead. That is a refusal, and its words are the reason.

The official client of OpenAI sends the requests, those of Gemini too: its pauses, attempts, limits and errors are the
same for all, see `clinometer.models.openai.images`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Final
from urllib.parse import quote

from clinometer.errors import ModelError
from clinometer.models.images import encode_png
from clinometer.models.openai import connect, require_terms, server_of
from clinometer.models.openai.images import REWRITING, OpenAIImages, Rewriter
from clinometer.models.openai.replies import Reply
from clinometer.models.protocols import Card, EditRequest, GenerationRequest

GEMINI: Final = "https://generativelanguage.googleapis.com/v1beta"
GEMINI_KEY: Final = "GEMINI_API_KEY"
MODALITIES: Final = ("image", "text")


@dataclass(eq=False, repr=False, kw_only=True)
class ChatImages(OpenAIImages):
    """Draws and edits images by asking a chat endpoint of OpenAI's shape, one image a request.

    The prompt is the user's message, behind the system prompt if there is one; of an edit the image goes with it.
    Parameters are those of `OpenAIImages`; ``arguments`` goes into the body of every request.
    """

    system_prompt: str | None = None

    @property
    def takes(self) -> dict[str, str]:
        """The settings that a request can have, described by name."""
        sent = self.card.settings
        size, steps, guidance = (sent.get(name) for name in ("size", "num_inference_steps", "guidance_scale"))
        by_server = "the server's; {} asks for another, which servers of diffusion models take and others ignore"
        return super().takes | {
            "seed": "sent; whether the server keeps to it is its own affair" if self.send_seed else "not sent; "
            "--send-seed sends it, and servers of diffusion models keep to it",
            "size": f"sent: {size}" if size else by_server.format("--height with --width"),
            "steps": f"sent: {steps}" if steps else by_server.format("--steps"),
            "guidance": f"sent: {guidance:g}" if guidance is not None else by_server.format("--guidance"),
            "system prompt": "sent" if self.system_prompt else "none; --system-prompt sends one",
        }  # fmt: skip

    def _ask_image(self, request: GenerationRequest) -> Reply:
        return self._chat(request.prompt, self.arguments | self._seed(request), self.system_prompt)

    def _ask_edit(self, request: EditRequest) -> Reply:
        coded = base64.b64encode(encode_png(request.image)).decode()
        content = [
            {"type": "text", "text": request.prompt},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{coded}"}},
        ]
        return self._chat(content, self.arguments | self._seed(request), self.system_prompt)

    def _ask_rewriting(self, rewriter: Rewriter, prompt: str) -> Reply:
        return self._chat(prompt, {"model": rewriter.model}, rewriter.instruction)

    def _chat(self, content: Any, arguments: Mapping[str, Any], system_prompt: str | None) -> Reply:
        system = [{"role": "system", "content": system_prompt}] if system_prompt else []
        messages = [*system, {"role": "user", "content": content}]
        return self._refused.ask(
            arguments, lambda taken: self._post("/chat/completions", {**taken, "messages": messages})
        )


class GeminiImages(ChatImages):
    """Draws and edits images by Gemini's ``generateContent``.

    ``arguments`` goes into ``generationConfig``.
    """

    key_name: ClassVar = GEMINI_KEY

    @property
    def takes(self) -> dict[str, str]:
        """The settings that a request can have, described by name."""
        seed = "sent, its last 31 bits; the service does not promise to keep to it" if self.send_seed else "not sent"
        return super().takes | {
            "seed": seed,
            "size": "by aspect ratio only: further={'imageConfig': {'aspectRatio': '1:1'}} in Python",
            "steps": "not in this API",
            "guidance": "not in this API",
        }

    def _ask_image(self, request: GenerationRequest) -> Reply:
        return self._generate([{"text": request.prompt}], request.seed)

    def _ask_edit(self, request: EditRequest) -> Reply:
        coded = base64.b64encode(encode_png(request.image)).decode()
        parts: list[dict[str, Any]] = [
            {"text": request.prompt},
            {"inlineData": {"mimeType": "image/png", "data": coded}},
        ]
        return self._generate(parts, request.seed)

    def _ask_rewriting(self, rewriter: Rewriter, prompt: str) -> Reply:
        return self._content(rewriter.model, [{"text": prompt}], {}, rewriter.instruction)

    def _generate(self, parts: list[dict[str, Any]], seed: int) -> Reply:
        arguments = dict(self.arguments)
        model = str(arguments.pop("model"))
        if self.send_seed:
            arguments["seed"] = seed % 2**31
        return self._content(model, parts, arguments, self.system_prompt)

    def _content(
        self, model: str, parts: list[dict[str, Any]], config: Mapping[str, Any], system_prompt: str | None
    ) -> Reply:
        import openai

        body: dict[str, Any] = {"contents": [{"role": "user", "parts": parts}]}
        if system_prompt:
            body["systemInstruction"] = {"parts": [{"text": system_prompt}]}
        headers = {"Authorization": openai.Omit(), "x-goog-api-key": self.client.api_key}
        path = f"/models/{quote(model.removeprefix('models/'), safe='')}:generateContent"
        return self._refused.ask(
            config, lambda taken: self._post(path, body | ({"generationConfig": taken} if taken else {}), **headers)
        )


def load(
    source: str,
    *,
    price: float | None = None,
    base_url: str | None = None,
    system_prompt: str | None = None,
    rewriter: str | None = None,
    rewriter_prompt: str = REWRITING,
    steps: int | None = None,
    guidance_scale: float | None = None,
    height: int | None = None,
    width: int | None = None,
    send_seed: bool = False,
    further: Mapping[str, Any] | None = None,
    concurrency: int = 4,
    requests_per_minute: float | None = None,
    retries: int = 6,
    timeout: float = 180.0,
    trusted_host: Sequence[str] = (),
    device: str | None = None,
    name: str | None = None,
    prefer: Mapping[str, float] | None = None,
) -> ChatImages:
    """Connect to a chat endpoint whose model ``source`` draws, such as ``google/gemini-2.5-flash-image`` on OpenRouter.

    Parameters
    ----------
    price : of one image, with its rewriting, from the server's price list; 0 for a server of one's own.
    base_url : the server; None is OpenAI's own, or ``OPENAI_BASE_URL``.
    system_prompt : the instruction before every prompt.
    rewriter, rewriter_prompt : a chat model of the server that rewrites every prompt, and its instruction.
    steps, guidance_scale, height, width : sent as ``num_inference_steps``, ``guidance_scale``, ``height``, ``width``,
        which servers of diffusion models take; None leaves them to the server.
    send_seed : put each image's seed into the request.
    further : what else goes into the body of every request, such as ``{"image_config": {"aspect_ratio": "1:1"}}``.
    concurrency, requests_per_minute, retries, timeout, trusted_host : as in `clinometer.models.openai.images.load`.
    device : no meaning here; the server has its own.
    name : the name in the card.
    prefer : left out: whether the server's model has such a setting is unknown.

    Raises
    ------
    ModelError
        The package openai, the key or the price is missing, or a setting does not fit.
    """
    if (height is None) != (width is None):
        raise ModelError.conflict("found one of them, expected both or none", field=("height", "width"))
    settings = {"num_inference_steps": steps, "guidance_scale": guidance_scale, "height": height, "width": width}
    arguments = {"modalities": list(MODALITIES)} | {key: value for key, value in settings.items() if value is not None}
    price = require_terms(
        source, like="chat:google/gemini-2.5-flash-image", price=price, of="one image",
        concurrency=concurrency, retries=retries, timeout=timeout, requests_per_minute=requests_per_minute,
    )  # fmt: skip
    client, fetch = connect(base_url, retries, timeout, trusted_host)
    return ChatImages(
        client, fetch=fetch, price_per_image=price, concurrency=concurrency, requests_per_minute=requests_per_minute,
        **_card_and_arguments(
            client, "openai-chat-images/1", source, name, arguments, further, price, system_prompt, rewriter,
            rewriter_prompt, send_seed, f"{width}x{height}" if height is not None else None,
        ),
    )  # fmt: skip


def load_gemini(
    source: str,
    *,
    price: float | None = None,
    base_url: str | None = None,
    system_prompt: str | None = None,
    rewriter: str | None = None,
    rewriter_prompt: str = REWRITING,
    send_seed: bool = False,
    further: Mapping[str, Any] | None = None,
    concurrency: int = 4,
    requests_per_minute: float | None = None,
    retries: int = 6,
    timeout: float = 180.0,
    trusted_host: Sequence[str] = (),
    device: str | None = None,
    name: str | None = None,
) -> GeminiImages:
    """Connect to Gemini's own API for images of the model ``source``, such as ``gemini-2.5-flash-image``.

    The key comes from ``GEMINI_API_KEY``. Parameters as in `load`; ``further`` goes into ``generationConfig``, and
    ``base_url`` is the service's own where None.

    Raises
    ------
    ModelError
        The package openai, the key or the price is missing, or a setting does not fit.
    """
    price = require_terms(
        source, like="gemini:gemini-2.5-flash-image", price=price, of="one image", concurrency=concurrency,
        retries=retries, timeout=timeout, requests_per_minute=requests_per_minute,
    )  # fmt: skip
    client, fetch = connect(base_url, retries, timeout, trusted_host, key_name=GEMINI_KEY, home=GEMINI)
    arguments = {"responseModalities": [each.upper() for each in MODALITIES[::-1]]}
    return GeminiImages(
        client, fetch=fetch, price_per_image=price, concurrency=concurrency, requests_per_minute=requests_per_minute,
        **_card_and_arguments(
            client, "gemini-images/1", source, name, arguments, further, price, system_prompt, rewriter,
            rewriter_prompt, send_seed, None,
        ),
    )  # fmt: skip


def _card_and_arguments(
    client: Any, family: str, source: str, name: str | None, arguments: Mapping[str, Any],
    further: Mapping[str, Any] | None, price: float, system_prompt: str | None, rewriter: str | None,
    rewriter_prompt: str, send_seed: bool, size: str | None,
) -> dict[str, Any]:  # fmt: skip
    """Return what both adapters are made of: a card that pins all that an image depends on, and the requests' body."""
    if further is not None and not isinstance(further, Mapping):
        raise ModelError.wrong_type(f"found {type(further).__name__}, expected a mapping of settings", field="further")
    rewrites = Rewriter(rewriter, rewriter_prompt) if rewriter else None
    body = {"model": source, **arguments, **(further or {})}
    optional = {"size": size, "system_prompt": system_prompt, "rewriter": asdict(rewrites) if rewrites else None}
    settings = body | {"server": server_of(str(client.base_url)), "seed_sent": send_seed}
    settings |= {key: value for key, value in optional.items() if value is not None}
    card = Card("generator", name or source, family, settings=settings, notes={"price_per_image": price})
    return {
        "card": card, "arguments": body, "send_seed": send_seed, "rewriter": rewrites, "system_prompt": system_prompt,
    }  # fmt: skip
