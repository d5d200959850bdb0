"""Settings of a server, fixed when it starts."""

from __future__ import annotations

import ipaddress
import os
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from argon2 import PasswordHasher

from clinometer.errors import InvalidInputError

PASSWORD_VARIABLE: Final = "CLINOMETER_PASSWORD"
LEAST_PASSWORD: Final = 12
"""Characters of the shortest password: whoever finds the address may guess."""
LEAST_KEY: Final = 32
"""Bytes of what signs sessions."""
LOCAL_HOSTS: Final = ("127.0.0.1", "localhost", "[::1]")


def default_cache() -> Path:
    """Return the user's own folder for caches, as XDG names it."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "clinometer"


def default_data() -> Path:
    """Return the user's own folder for data that nothing makes again, as XDG names it."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share") / "clinometer"


def kept_key(folder: Path) -> str:
    """What signs sessions: kept in a folder for its owner alone, so that raters go on where a server starts anew.

    Where it cannot be kept, sessions end with the server. A key that others could read is replaced.
    """
    file = folder / "session.key"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if file.exists() and (file.stat().st_mode & 0o077 or len(file.read_bytes()) < LEAST_KEY):
            file.unlink()
        with (
            suppress(FileExistsError),
            os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as new,
        ):
            new.write(secrets.token_urlsafe(LEAST_KEY))
        return file.read_text()
    except (OSError, UnicodeDecodeError):
        return secrets.token_urlsafe(LEAST_KEY)


@dataclass(frozen=True)
class ServerSettings:
    """How a server runs.

    Attributes
    ----------
    runs : run directories, or folders of them; paths or URLs.
    cache : a folder of this machine for what is made of runs: files that find samples, small pictures.
    data : a folder of this machine for what nothing makes again: the database of ratings, the key of sessions.
    database : SQLAlchemy's URL of the ratings; empty for a file in ``data``.
    host, port : where it listens.
    password_hash : argon2 hash of the organiser's password; empty where none is asked, on this machine alone.
    hosts : names that a request may ask for, so that no other site's name can be pointed here; ``"*"`` for any.
    behind_https : whether browsers come by HTTPS, so that cookies are for HTTPS alone.
    session_key : what signs sessions; a new one at each start, unless one is given.
    requests_a_second : of one address.
    connections, connections_each : held at a time, by everybody and by one address.
    patience : seconds that a head, a body or the taking of an answer may last.
    """

    runs: tuple[str, ...] = ("runs",)
    cache: Path = field(default_factory=default_cache)
    data: Path = field(default_factory=default_data)
    database: str = ""
    host: str = "127.0.0.1"
    port: int = 8765
    password_hash: str = field(default="", repr=False)
    hosts: tuple[str, ...] = LOCAL_HOSTS
    behind_https: bool = False
    session_key: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    requests_a_second: int = 500
    connections: int = 512
    connections_each: int = 256
    patience: float = 30.0


def is_local(host: str) -> bool:
    """Tell whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def password_given(file: Path | None) -> str:
    """Return the organiser's password: the first line of a file, else the environment's; empty for none.

    Raises
    ------
    InvalidInputError
        The file cannot be read, or the password is too short.
    """
    if file is None:
        password, source = os.environ.get(PASSWORD_VARIABLE, ""), PASSWORD_VARIABLE
    else:
        password, source = _first_line(file), f"--password-file {file}"
    if (file is not None or password) and len(password) < LEAST_PASSWORD:
        raise InvalidInputError(
            f"{source}: the password has {len(password)} characters, expected {LEAST_PASSWORD} or more"
        )
    return password


def _first_line(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInputError(f"--password-file {file}: cannot be read: {reason}; give another file") from error


def guarded(host: str, password: str) -> str:
    """Return the hash of a password, or nothing where none is needed.

    Raises
    ------
    InvalidInputError
        Other machines reach the host, and there is no password.
    """
    if password:
        return PasswordHasher().hash(password)
    if not is_local(host):
        raise InvalidInputError(
            f"--host {host}: other machines can reach it, so it needs a password; give --password-file FILE, or set "
            f"{PASSWORD_VARIABLE}"
        )
    return ""


def hosts_asked_for(host: str, named: tuple[str, ...]) -> tuple[str, ...]:
    """Names that a request may ask for: this machine's own, and those that were given."""
    if named:
        return (*LOCAL_HOSTS, *named)
    return LOCAL_HOSTS if is_local(host) else ("*",)
