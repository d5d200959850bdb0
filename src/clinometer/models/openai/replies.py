r"""What a server answered, sorted by what it is and not by where it stands.

An answer has six channels: pictures, thoughts, what the server itself says of a refusal, words, why it ended, and an
error. Servers put each in many places:

* pictures: ``data[].b64_json`` or ``.url``, ``message.images`` (OpenRouter), ``message.image`` (LiteLLM), parts of the
  content (vLLM-Omni, Anthropic, DashScope), ``inlineData`` (Gemini), items of ``output`` and outputs of tools
  (Responses), lists of base64 (Ollama, WebUIs), and the words themselves, as a ``data:`` URI, as Markdown, as a link;
* thoughts: ``reasoning_content``, ``reasoning``, ``thinking``, parts that say so, or between tags in the words, of
  which a chat template may have swallowed the first;
* refusals: ``refusal``, ``promptFeedback``, Azure's filter results, or the reason why it ended;
* an answer is one JSON value, or a stream of them though nobody asked for one.

So the JSON is walked, and each text goes to the channel that its key names, wherever it is. Everything here takes time
in proportion to the answer's length, and none beyond the request's deadline. See decision 72.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from time import monotonic
from typing import Any, Final

from clinometer._secrets import masked
from clinometer.models.openai import AnswerRefusedError, ErrorInAnswer, deadline_of, error_line, is_refusal, letters_of
from clinometer.models.weights import in_one_line

LONGEST_WORDS: Final = 1000
"""Characters of a reply in words that are kept as the reason of a refusal."""

REFUSED: Final = {
    "contentfilter", "contentfiltered", "safety", "imagesafety", "prohibitedcontent", "imageprohibitedcontent",
    "blocklist", "spii", "recitation", "imagerecitation", "refusal", "refused", "sensitive", "blocked", "modelarmor",
    "guardrailintervened", "guardrails", "moderation", "moderated", "contentmoderated",
    "requestmoderated", "filterreason",
}  # fmt: skip
"""Letters of why an answer ended, where that is a refusal whatever it holds."""

CUT_OFF: Final = {"length", "maxtokens", "maxoutputtokens", "modellength", "maxlength", "modelcontextwindowexceeded"}

AT_FAULT: Final = {
    "noimage", "other", "imageother", "error", "language", "malformedfunctioncall", "malformedresponse", "toolcalls",
    "unexpectedtoolcall", "toomanytoolcalls", "functioncall", "tooluse", "missingthoughtsignature", "abort", "aborted",
    "cancelled", "failed", "insufficientsystemresource",
}  # fmt: skip
"""The same where nothing was refused, and no image made, with or without text."""

# --- where servers put things -----------------------------------------------------------------------------------------

_ONE_OF: Final = ("choices", "candidates")
_WITHIN: Final = {
    *_ONE_OF, "message", "delta", "content", "parts", "output", "outputs", "images", "image", "image_url", "data",
    "inlineData", "inline_data", "fileData", "file_data", "file", "source", "result", "results", "response", "item",
    "part", "content_block", "tool_calls", "function", "multi_mod_content", "generatedImages", "generated_images",
    "predictions", "artifacts", "promptFeedback", "prompt_feedback", "prompt_filter_results", "incomplete_details",
    "text", "attachments", "files", "media",
}  # fmt: skip
_WORDS: Final = {"content", "text", "delta", "response", "value"}
_PICTURES: Final = {
    "b64_json", "url", "image_url", "image", "images", "data", "result", "output", "base64", "bytesBase64Encoded",
    "imageBytes", "image_bytes", "image_base64", "file_data", "fileUri", "file_uri",
}  # fmt: skip
_TOLD: Final = {
    "thoughts": ("reasoning_content", "reasoning", "reasoning_text", "thinking", "thought"),
    "finishes": (
        "finish_reason", "finishReason", "native_finish_reason", "stop_reason", "done_reason", "reason",
        "finish_reasons",
    ),
    "refusals": (
        "refusal", "blockReason", "block_reason", "blockReasonMessage", "block_reason_message", "raiFilteredReason",
    ),
    "notices": ("finishMessage", "finish_message"),
    "revised": ("revised_prompt",),
}  # fmt: skip
_UNSAFE: Final = {"has_nsfw_concepts": True, "nsfw_content_detected": True, "is_image_safe": False}
"""Fields by which servers of diffusion models say that their safety checker flagged a picture, with that value."""

_CHANNELS: Final = {key: channel for channel, keys in _TOLD.items() for key in keys}

# --- what stands in words ---------------------------------------------------------------------------------------------

_NAME: Final = r"(?:seed:)?(?:think|thinking|thoughts?|reasoning|reflection)"
_TAG: Final = re.compile(
    rf"(?P<opens><{_NAME}>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|channel\|?>(?:analysis|commentary|thought)\b)"
    rf"|(?P<closes></{_NAME}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|channel\|>final\b|<channel\|>)",
    re.IGNORECASE,
)
_LETTER: Final = r"[A-Za-z0-9+/=_%-]"
_BODY: Final = (  # in lines too, of which the last is short
    rf"{_LETTER}*+(?:\s++{_LETTER}{{60,}}+)*+(?:\s++{_LETTER}{{1,59}}+(?=\s*+(?:\Z|[)\"'])))?"
)
_CODED: Final = re.compile(
    rf"data:(?:image/|application/octet-stream)[\w.+-]*+(?:;[\w.=-]++)*+,\s*+{_BODY}"
    rf"|(?<![\w+/=])(?:iVBORw0KGgo|/9j/4|UklGR|R0lGODl)(?={_LETTER}{{60}}){_BODY}"  # a PNG, JPEG, WebP or GIF
)
_SHOWN: Final = re.compile(  # in Markdown or HTML
    r"(?:!\[[^\[\]]*+\]\(\s*+<?|<img\s(?:(?!src)[^<>])*+src=[\"']?)([^\s<>)\"']*+)[^\n<>)]*+[)>]?"
)
_LINK: Final = re.compile(r"https?://[^\s<>\"'`\])}]++")
_ENDINGS: Final = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".avif", ".tif", ".tiff")
_TOKEN: Final = re.compile(r"<\|(?!begin_of_box|end_of_box)[^<>|\n]{1,40}\|>|</?s>|<(?:end_of_turn|eos|eot)>")
_PARTS: Final = re.compile(r"[:;,/|]")
_TELLING: Final = (REFUSED, CUT_OFF, AT_FAULT)


@dataclass(frozen=True)
class Reply:
    """A model's answer, whatever shape its server gives it.

    Attributes
    ----------
    pictures : each as base64, as a ``data:`` URI, or as the address where it lies.
    links : addresses in its words that may lead to a picture.
    words : its text with them, or instead, without its thoughts.
    thoughts : what it thought on the way.
    finish : why it ended, as the server names that.
    refusal, notice : what the server itself says: of a refusal, and of anything else.
    error : an error that came with a status of success.
    revised : the prompt that was drawn in the place of the one that was sent.
    strange : the beginning of an answer in which nothing was found.
    is_unsafe : whether the server's safety checker flagged a picture.
    """

    pictures: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    words: str = ""
    thoughts: str = ""
    finish: str = ""
    refusal: str = ""
    notice: str = ""
    error: Any = None
    revised: str = ""
    strange: str = ""
    is_unsafe: bool = False

    @property
    def is_cut(self) -> bool:
        """True if the answer was cut off."""
        return _tells(self.finish, CUT_OFF)

    @property
    def is_blocked(self) -> bool:
        """True if the finish reason is a refusal. Any picture in such an answer is blurred or incomplete."""
        return _tells(self.finish, REFUSED)

    @property
    def is_empty(self) -> bool:
        """True if it has nothing that an answer has."""
        return not (self.pictures or self.words or self.thoughts or self.finish or self.notice)

    def unanswered(self) -> tuple[str, str] | None:
        """Return whether the server "refused" or "failed" by its own word, and why; None where the words must say it.

        A refusal is one by the reason why the answer ended, so it is the same with and without a sentence.
        """
        if self.error:
            error = ErrorInAnswer(self.error)
            return "refused" if is_refusal(error) else "failed", error_line(error)
        flagged = self.finish if self.is_blocked else ""
        if flagged or self.refusal:
            words = in_one_line(self.refusal or self.notice or self.words, LONGEST_WORDS)
            return "refused", ": ".join(filter(None, (flagged, words)))
        return None

    def without_image(self) -> tuple[str, str]:
        """Return whether an answer without an image was "refused" or "failed", and why. Words instead are a refusal."""
        if why := self.unanswered():
            return why
        odd = self.is_cut or _tells(self.finish, AT_FAULT)
        if "<svg" in self.words.lower():
            return "failed", "it drew in SVG, which is text; expected an image"
        if self.is_unsafe:
            return "refused", "the server's safety checker flagged the image"
        if self.words and not odd:
            return "refused", in_one_line(self.words, LONGEST_WORDS)
        ended = f" (it ended with {in_one_line(self.finish, 40)})" if odd else ""
        said = in_one_line(self.notice or self.words or self.strange, 100)
        return "failed", f"malformed answer: it holds no image{ended}" + (f": {said}" if said else "")


def reply_in(response: Any) -> Reply:
    """Sort a response of the HTTP library.

    Raises
    ------
    AnswerRefusedError
        The request's deadline passes meanwhile.
    """
    return sort_reply(response.text, deadline_of(response))


def sort_reply(text: str, until: float = inf) -> Reply:
    """Sort the body of an answer: JSON, or a stream of events. ``until`` is the deadline by the monotonic clock."""
    events = list(_events_in(text))
    sorting = _Sorting(until)
    responses = [each.get("response") for each in events if isinstance(each, dict)]
    wholes = [each for each in responses if isinstance(each, dict) and (each.get("output") or each.get("error"))]
    for event in wholes[-1:] or events:  # the last event of a stream of the Responses API holds all before it
        sorting.walk(event)
    reply = sorting.reply()
    if not reply.is_empty or reply.unanswered():
        return reply
    # an answer may be an error without being called so: a message, and perhaps a code
    only = events[0] if len(events) == 1 and isinstance(events[0], dict) else {}
    message = next((only[key] for key in ("message", "detail") if isinstance(only.get(key), str)), None)
    error = {"message": message, "code": only.get("code")} if message else None
    return replace(reply, error=error, strange=masked(text[:500])[:100])


def _tells(finish: str, kind: set[str]) -> bool:
    """Return whether a reason why an answer ended is one of a kind, or begins or ends with one: "filter: SAFETY"."""
    return any(letters_of(part) in kind for part in (finish, *_PARTS.split(finish)))


def _events_in(text: str) -> Iterator[Any]:
    """Yield the JSON values of a body: the one that it begins with, and those of its lines, ``data:`` or not."""
    rest = text.lstrip("\ufeff \t\r\n")
    if rest[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            value, end = json.JSONDecoder().raw_decode(rest)
            yield from value if isinstance(value, list) else [value]
            rest = rest[end:]
    for block in rest.replace("\r\n", "\n").replace("\r", "\n").split("\n\n"):
        lines = [line.removeprefix("data:").strip() for line in block.split("\n")]
        lines = [line for line in lines if not line.startswith(("event:", "id:", "retry:", ":"))]
        yield from _parsed(["\n".join(lines)]) or _parsed(lines)


def _parsed(texts: Sequence[str]) -> list[Any]:
    values = []
    for text in texts:
        if text[:1] in ("{", "["):
            with suppress(ValueError, RecursionError):
                values.append(json.loads(text))
    return values


@dataclass
class _Sorting:
    """The channels as they fill."""

    until: float
    pictures: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    finishes: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    revised: list[str] = field(default_factory=list)
    error: Any = None
    is_unsafe: bool = False

    def walk(self, node: Any, key: str = "", channel: str = "words") -> None:
        """Sort what is in a value that stands under a key."""
        if monotonic() > self.until:
            raise AnswerRefusedError("the answer came in time, but could not be read within the request's deadline")
        if isinstance(node, list):
            for each in node[:1] if key in _ONE_OF else node:
                self.walk(each, key, channel)
        elif isinstance(node, str):
            self._sort_text(node, key, channel)
        elif isinstance(node, dict) and (channel_of_node := _channel_of(node, channel)) != "none":
            self._sort_mapping(node, channel_of_node)

    def _sort_mapping(self, node: Mapping[str, Any], channel: str) -> None:
        if node.get("error") or "error" in (node.get("object"), node.get("type")):
            self.error = self.error or node.get("error") or node
        filters = node.get("content_filter_results")
        for kind, each in filters.items() if isinstance(filters, dict) else ():
            self.refusals += [f"content_filter: {kind}"] if isinstance(each, dict) and each.get("filtered") else []
        for name, value in node.items():
            if name == "message" and node.get("delta"):
                continue  # of a stream, all that it has said so far
            texts = [each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str) and each]
            if name in _CHANNELS and texts:
                getattr(self, _CHANNELS[name]).extend(texts)
            elif name == "status" and texts and _tells(texts[0], REFUSED):
                self.finishes += texts[:1]
            elif name in _UNSAFE:
                self.is_unsafe |= _UNSAFE[name] in (value if isinstance(value, list) else [value])
            elif name in _WITHIN or name in _PICTURES or name in _WORDS:
                self.walk(value, name, channel)

    def _sort_text(self, text: str, key: str, channel: str) -> None:
        if channel == "thought":
            self.thoughts += [text] if key in _WORDS else []
        elif channel == "tool" or key == "output":
            contents = _found_in(text)
            self.pictures += contents.pictures or contents.links[:1]
        elif key in _WORDS:
            self.texts.append(text)
        elif key in _PICTURES and text:
            self.pictures.append(text)

    def reply(self) -> Reply:
        """Assemble the reply."""
        thoughts, words = split_thoughts("".join(self.texts))
        contents = _found_in(words)
        ends = [next((each for each in self.finishes if _tells(each, kind)), "") for kind in _TELLING]
        return Reply(
            pictures=tuple(dict.fromkeys((*self.pictures, *contents.pictures))),
            links=tuple(contents.links),
            words=_TOKEN.sub("", contents.words).strip(),
            thoughts="".join((*self.thoughts, thoughts)).strip(),
            finish=next(filter(None, (*ends, *self.finishes)), ""),
            refusal=": ".join(dict.fromkeys(self.refusals)),
            notice=" ".join(self.notices),
            error=self.error,
            revised=next(iter(self.revised), ""),
            is_unsafe=self.is_unsafe,
        )


def _channel_of(node: Mapping[str, Any], channel: str) -> str:
    """Return what a mapping adds to: words, thoughts, a tool's output, or nothing that an answer is made of."""
    kind, role = str(node.get("type") or "").lower(), node.get("role")
    media = str(node.get("mimeType") or node.get("mime_type") or node.get("media_type") or "image/")
    is_image = media.startswith(("image/", "application/octet-stream"))
    if channel == "none" or role in ("user", "system", "developer") or "partial_image" in kind or not is_image:
        return "none"
    if channel == "thought" or node.get("thought") is True or "reasoning" in kind or "thinking" in kind:
        return "thought"
    is_tool = role == "tool" or "tool" in kind or ("_call" in kind and "image_generation" not in kind)
    return "tool" if is_tool else channel


def split_thoughts(text: str) -> tuple[str, str]:
    """Separate what stands between tags of thoughts, or before a lone closing tag, from the answer.

    >>> split_thoughts("<think>Hm.</think>a man"), split_thoughts("Hm.</think>a man"), split_thoughts("<think>Hm")
    (('Hm.', 'a man'), ('Hm.', 'a man'), ('Hm', ''))
    """
    thoughts, words, inside, at = list[str](), list[str](), False, 0
    for tag in _TAG.finditer(text):
        (thoughts if inside else words).append(text[at : tag.start()])
        if tag["closes"] and not inside:  # a template has opened it
            thoughts += words
            words = []
        inside, at = bool(tag["opens"]), tag.end()
    (thoughts if inside else words).append(text[at:])
    return "".join(thoughts), "".join(words)


@dataclass(frozen=True)
class _InText:
    """The contents of a text: pictures, links that may lead to one, and the text without them."""

    pictures: list[str]
    links: list[str]
    words: str


def _found_in(text: str) -> _InText:
    pictures = _CODED.findall(text)
    rest = _CODED.sub("", text) if pictures else text
    pictures += [shown for shown in _SHOWN.findall(rest) if shown]
    rest = _SHOWN.sub("", rest)
    links = list(dict.fromkeys(link.rstrip(".,;:!?") for link in _LINK.findall(rest)))
    certain = [each for each in links if each == rest.strip() or each.partition("?")[0].lower().endswith(_ENDINGS)]
    return _InText([*pictures, *certain], [each for each in links if each not in certain], rest)
