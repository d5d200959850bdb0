"""Keys and passwords: how they are masked in whatever is printed or stored.

A password within an address is recognised by its place there, and a key in the path of a server's address by its look,
once the address is used (:func:`masked_address`); from then on the process knows the secrets themselves, so that they
are masked without their address too, as in an error of a library. Errors, the streams of the command, the templates of
pages, cards, records and other people's words all pass through :func:`masked`. See decision 54.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote, unquote

HIDDEN: Final = "…"
LEAST: Final = 6
"""Characters of a secret that is masked without its address; a shorter one would occur within words."""

_USER: Final = re.compile(
    r"(?<=://)(?:"  # user:password@, of which the password may hold slashes; bounded, for a hostile text is long
    r"[^\s/:@\[\"'<>]{0,256}:(?:[^\s/\"'<>]{0,512}|(?!\d+(?:[/\s\"'<>]|$))[^\s@\"'<>]{0,512})@"
    r"|(?:(?<=http://)|(?<=https://))[^\s/:@\"'<>]{1,512}@"  # a token alone
    r")"
)
_QUERY: Final = re.compile(
    r"([?&;](?:[\w.-]{0,64}?(?:key|token|secret|signature|passw|credential)[\w.-]{0,64}|sig)=)[^\s&#\"'<>]+",
    re.IGNORECASE,
)
_WORD: Final = re.compile(
    r"[a-z]{0,20}\d{0,4}[a-z]{0,3}|(?:[A-Z][a-z]{1,15}){1,3}\d{0,3}|[A-Z]{1,8}\d{0,3}|v\d+[a-z]+\d*"
)
_KEYED: Final = re.compile(r"(?i)^(?:sk|pk|ak|key)[-_.]|secret|token|passw|api[-_.]?key")

_known: dict[str, str] = {}
_authorities: dict[str, str] = {}


def remember(*secrets: str) -> None:
    """Mask secrets from now on, as they are and as addresses spell them."""
    for secret in secrets:
        _known.update(
            {form: HIDDEN for form in (secret, quote(secret, safe=""), unquote(secret)) if len(form) >= LEAST}
        )


def masked(text: str) -> str:
    """Mask known secrets in a text, and passwords within addresses.

    >>> masked("s3://AKIA:a/secret@bucket/run, http://token@host:80/v1?sig=abc&page=2, http://host:80/a@b")
    's3://…@bucket/run, http://…@host:80/v1?sig=…&page=2, http://host:80/a@b'
    """
    if "://" in text:
        text = _USER.sub(f"{HIDDEN}@", text)
        text = _QUERY.sub(rf"\1{HIDDEN}", text)
    for secret in sorted(_known, key=len, reverse=True):
        text = text.replace(secret, _known[secret])
    return text


def without_home(text: str) -> str:
    """Write the user's home directory as ``~``: what a run holds is shared, and a home names its user."""
    home = os.path.expanduser("~")
    return text.replace(home, "~") if len(home) > 1 and home in text else text


def masked_address(url: str, *, keys_in_path: bool = False) -> str:
    """Mask an address, and remember what was masked.

    ``keys_in_path`` : mask parts of its path that are no words, such as ``openai``, ``v1`` or ``flux-1-dev-fp8`` are.

    >>> masked_address("https://gateway.example/sk-0123456789abcdef/openai/v1", keys_in_path=True)
    'https://gateway.example/…/openai/v1'
    """
    login = _USER.search(url)
    if login and login[0] != f"{HIDDEN}@":
        user, _, password = login[0].removesuffix("@").partition(":")
        _known[f"{user}:{password}@"] = f"{HIDDEN}@"
        # of a password with slashes, a library may take the beginning for a host
        _remember_unlike_words(f"{user}:{password.partition('/')[0]}", password or user, *password.split("/"))
        host = re.split("[/?#]", url[login.end() :], maxsplit=1)[0]
        _authorities[f"{url[: login.start()]}{HIDDEN}@{host}"] = f"{url[: login.end()]}{host}"
    _remember_unlike_words(*(match[0].removeprefix(match[1]) for match in _QUERY.finditer(url)))
    shown = masked(url)
    if not keys_in_path:
        return shown
    scheme, mark, rest = shown.rpartition("://")
    place, question, query = rest.partition("?")
    host, *parts = place.split("/")
    keys = [part for part in parts if _may_be_key(part)]
    _remember_unlike_words(*keys)
    path = "/".join([host, *(HIDDEN if part in keys else part for part in parts)])
    return f"{scheme}{mark}{path}{question}{query}"


def recalled(url: str) -> str:
    """Return a masked address as this process can use it: with the password of the address before."""
    for shown, whole in _authorities.items():
        if url.startswith(shown) and url[len(shown) :][:1] in ("", "/", "?", "#"):
            return f"{whole}{url.removeprefix(shown)}"
    return url


def _remember_unlike_words(*secrets: str) -> None:
    """Remember secrets, except common words, which sentences may contain by chance."""
    remember(*(secret for secret in secrets if not re.fullmatch(r"[A-Z]?[a-z]{1,11}", secret)))


def _may_be_key(part: str) -> bool:
    words = re.split(r"[-_.~+:@=,]|%[0-9A-Fa-f]{2}", part)
    return bool(_KEYED.search(part)) or not all(_WORD.fullmatch(word) for word in words)


def masked_values(value: Any) -> Any:
    """Mask the texts of a mapping or a list, at any depth, and the parts of a ``base_url`` that may be keys."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {
            key: masked_address(one, keys_in_path=True) if key == "base_url" and one else masked_values(one)
            for key, one in value.items()
        }
    return [masked_values(one) for one in value] if isinstance(value, list) else value


class MaskedStream:
    """A stream of text to which everything is written masked."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: Any) -> Any:
        """Write a text; bytes are passed to the stream as they are."""
        return self._stream.write(masked(text) if isinstance(text, str) else text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Write texts one after another."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
