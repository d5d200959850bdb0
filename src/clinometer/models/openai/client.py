"""A connection to a server of images: its address and key checked, and what it may do bounded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from clinometer._secrets import masked_address, remember
from clinometer.errors import ModelError
from clinometer.models.openai.answers import MOST_ANSWER_BYTES, MOST_BYTES, Downloads
from clinometer.models.openai.guarded_http import Bounds, guarded_client, host_of

KEY = "OPENAI_API_KEY"
OPENAI = "api.openai.com"


def connect(
    base_url: str | None, retries: int, timeout: float, trusted: Sequence[str]
) -> tuple[Any, Callable[[str], bytes]]:
    """Make the official client, with the key, and what fetches images by address, both within bounds."""
    try:
        import openai
        import tenacity  # noqa: F401  (else missed only where the first image comes by address)
    except ImportError as error:
        raise ModelError(
            f"the package {error.name} is not installed; install it with `pip install 'clinometer[openai]'`"
        ) from error
    own_server = base_url or os.environ.get("OPENAI_BASE_URL")
    key = os.environ.get(KEY, "").strip()  # a secret that is mounted as a file ends with a line's end
    if not (key.isascii() and key.isprintable()):
        raise ModelError(f"{KEY}: it contains characters that a key cannot have; set it anew")
    if not key and not own_server:
        raise ModelError(f"no key: set {KEY} in the environment; it is read from nowhere else and written nowhere")
    remember(key)
    _require_address(own_server)
    hosts = frozenset({host_of(own_server or f"https://{OPENAI}"), *(_host(host) for host in trusted)})
    client = openai.OpenAI(
        api_key=key or "none",
        base_url=base_url or None,
        max_retries=retries,
        timeout=timeout,
        http_client=guarded_client(Bounds(MOST_ANSWER_BYTES, timeout, hosts, json=True)),
    )
    fetch = Downloads(guarded_client(Bounds(MOST_BYTES, timeout, hosts)), retries, timeout)
    return client, fetch


def _host(name: str) -> str:
    """A host as a user names it: without scheme, port and path."""
    try:
        host = host_of(f"http://{name}")
    except Exception as error:
        raise ModelError(
            f"{name!r} is not a host; expected one such as images.example.org", field="trusted_host"
        ) from error
    if not name or host != name.lower().strip("[]"):
        raise ModelError(f"found {name!r}, expected a host alone, such as images.example.org", field="trusted_host")
    return host


def _require_address(url: str | None) -> None:
    """Refuse what every request would fail at, one after another. The message leaves out what may hold a password."""
    try:
        address = urlsplit(url) if url else None
        fits = address is None or (address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0)
    except ValueError:  # brackets that do not close, a port that is not a number
        fits = False
    if not fits:
        raise ModelError("not a web address; expected one such as http://localhost:8000/v1", field="base_url")


def server_of(url: str) -> str:
    """Name a server as its card does: gateways tell models apart by port and path. No user, password or key."""
    address = urlsplit(masked_address(url, keys_in_path=True))
    port = f":{address.port}" if address.port else ""
    own = address.hostname == OPENAI
    return str(address.hostname) if own else f"{address.hostname}{port}{address.path.rstrip('/')}"
