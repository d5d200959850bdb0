"""What one address may hold of the server: so many connections, each for as long as it moves.

uvicorn counts connections of everybody together, and waits for a request's head and body, and for an answer to be
taken, as long as the other side likes. Here a connection that waits for its other side has a time limit, one address
has its share, and where the server is full the address that holds most gives way. See decision 44.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import defaultdict
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from clinometer.web.settings import ServerSettings, is_local

MOST_HEAD: Final = 2**18
"""Bytes between an answer and the next request's body: a head, or the rest of a body that was refused."""
BACKLOG: Final = 128
"""Connections that are taken at a time, each with a file descriptor, before any can be refused."""


def server_over(app: FastAPI, **config: Any) -> uvicorn.Server:
    """Make the server of an app, with the limits of its settings."""
    settings: ServerSettings = app.state.settings
    given: dict[str, Any] = {
        "http": _protocol(settings),
        "ws": "none",
        "log_level": "warning",
        "access_log": False,
        "server_header": False,
        "proxy_headers": settings.behind_https,
        "backlog": BACKLOG,
        "timeout_graceful_shutdown": 3,
    }
    return uvicorn.Server(uvicorn.Config(app, **given | config))


def neighbours(host: str) -> str:
    """Name whoever shares an address: an IPv6 host has 2^64 of them to itself, so there it is the network.

    >>> neighbours("192.0.2.7"), neighbours("::ffff:192.0.2.7"), neighbours("2001:db8::7")
    ('192.0.2.7', '192.0.2.7', '2001:db8::/64')
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    inner = address.ipv4_mapped
    return str(inner or ipaddress.ip_network((int(address), 64), strict=False))


def _protocol(settings: ServerSettings) -> type[asyncio.Protocol]:
    held = _Held(settings)

    class Bounded(AutoHTTPProtocol):  # type: ignore[misc, valid-type]
        """uvicorn's own protocol, which tells what it waits for."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._head = 0
            self.party = neighbours(self.client[0] if self.client else "")
            if not held.admit(self):
                transport.abort()

        def data_received(self, data: bytes) -> None:
            before = self.cycle
            super().data_received(data)
            awaits_head = self.cycle is before and (before is None or before.response_complete)
            self._head = self._head + len(data) if awaits_head else 0
            if self._head > MOST_HEAD:
                self.transport.abort()

        def connection_lost(self, error: Exception | None) -> None:
            super().connection_lost(error)
            held.parties[self.party].discard(self)

        def waits_for(self) -> object:
            """Say what the other side is to do next, as a value that changes when it has; None if it is our turn."""
            unsent = self.transport.get_write_buffer_size()
            cycle = self.cycle
            if unsent:
                return ("take", unsent)
            is_asked = cycle is not None and not (cycle.response_complete or cycle.more_body)
            return None if is_asked else ("ask", cycle, cycle is not None and cycle.response_complete)

    return Bounded


class _Held:
    """The connections of a server by the address that they come from."""

    def __init__(self, settings: ServerSettings) -> None:
        self.parties: defaultdict[str, set[Any]] = defaultdict(set)
        self._settings = settings
        self._looked: dict[Any, tuple[object, float]] = {}
        self._looks = False

    def admit(self, connection: Any) -> bool:
        """Take a connection in, if its address has not its share yet and somebody makes room where there is none."""
        settings = self._settings
        is_proxy = settings.behind_https and is_local(connection.party)
        if len(self.parties[connection.party]) >= settings.connections_each and not is_proxy:
            return False
        if sum(map(len, self.parties.values())) >= settings.connections and not self._has_made_room():
            return False
        self.parties[connection.party].add(connection)
        self._look_on(connection.loop)
        return True

    def _has_made_room(self) -> bool:
        """End the connection that has waited longest, of the address that holds most."""
        most = max(self.parties.values(), key=len)
        waiting = [connection for connection in most if connection.waits_for() is not None]
        if not waiting:
            return False
        now = waiting[0].loop.time()
        oldest = min(waiting, key=lambda connection: self._looked.get(connection, (None, now))[1])
        most.discard(oldest)
        oldest.transport.abort()
        return True

    def _look_on(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._looks:
            self._looks = True
            loop.call_later(min(1.0, self._settings.patience / 4), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """End what has waited for one and the same thing too long, and look again in a second."""
        self._looks, now, before = False, loop.time(), self._looked
        self._looked = {}
        self.parties = defaultdict(set, {party: of for party, of in self.parties.items() if of})
        for connection in [each for of in self.parties.values() for each in of]:
            what = connection.waits_for()
            if what is None:
                continue
            same, since = before.get(connection, (None, now))
            self._looked[connection] = (what, since if same == what else now)
            if same == what and now - since > self._settings.patience:
                connection.transport.abort()
        if self.parties:
            self._look_on(loop)
