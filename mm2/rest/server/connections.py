"""Accepts the connections of a listener, and limits their number.

Connections count from the moment they are accepted, so those without a TLS handshake count, too. The limit follows the
number of files that the process may open: the connections to brokers must not run out of descriptors.

At the limit a new connection takes the place of one that waits for a request: of the address that has the most of them,
the one that has waited longest. So clients that send nothing cannot keep others out. If every connection is busy, a few
more are accepted, on which only probes are answered, so that an orchestrator does not restart a node that is busy.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

log = logging.getLogger("mm2.rest")

MOST_CONNECTIONS = 1_000
"""Connections of one listener. Lanes, other nodes and monitoring need one each."""

FOR_PROBES = 32
"""Connections beyond the limit on which only probes are answered."""

ACCEPT_AGAIN_S = 1.0
"""Pause after the process has run out of descriptors or memory."""

WARN_EVERY_S = 60.0


def connection_limit(files: int) -> int:
    """Return the limit of a listener in a process that may open ``files``: a quarter of them, since a node can have
    several listeners, and also connects to brokers. resource.RLIM_INFINITY: no limit on files."""
    return MOST_CONNECTIONS if files == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, files // 4)


def open_files() -> int:
    """Return how many files this process may open (RLIMIT_NOFILE, the soft limit)."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Served(Protocol):
    """The protocol of a connection."""

    @property
    def waiting(self) -> bool:
        """Whether the client has not sent a complete request."""

    def abort(self) -> None:
        """Close the connection at once."""


@dataclass(eq=False, slots=True)
class AcceptedConnection:
    """An accepted connection. ``since``: monotonic time since when it waits for a request; ``protocol``: None until
    the TLS handshake is done; ``only_probes``: it was accepted beyond the limit."""

    host: str
    since: float
    only_probes: bool
    protocol: Served | None = None
    opening: asyncio.Task[Any] | None = None

    @property
    def waiting(self) -> bool:
        """Whether the client has not sent a complete request."""
        return self.protocol is None or self.protocol.waiting

    def abort(self) -> None:
        """Close it at once."""
        if self.protocol is not None:
            self.protocol.abort()
        elif self.opening is not None:
            self.opening.cancel()


@dataclass(slots=True)
class Connections:
    """The connections of one listener. Used on one event loop.

    ``serve`` creates the asyncio protocol of a connection, which sets `AcceptedConnection.protocol` as soon as it is
    connected, and calls `closed` at its end. ``most`` and ``handshake_within_s`` as in
    `mm2.rest.server.server.ServerLimits`; ``name`` is the listener's URL, for the log.
    """

    serve: Callable[[AcceptedConnection], asyncio.Protocol]
    context: ssl.SSLContext | None
    most: int
    handshake_within_s: float
    name: str = ""
    _open: dict[AcceptedConnection, None] = field(default_factory=dict)
    _warned: float | None = None

    async def accept(self, listening: socket.socket) -> None:
        """Accept connections until cancelled, then close ``listening``."""
        loop = asyncio.get_running_loop()
        listening.setblocking(False)
        with listening:
            while True:
                try:
                    accepted, address = await loop.sock_accept(listening)
                except OSError as error:
                    log.warning("%s: cannot accept a connection: %s", self.name, error)
                    await asyncio.sleep(ACCEPT_AGAIN_S)
                    continue
                connection = self._admit(str(address[0]))
                if connection is None:
                    accepted.close()
                else:
                    self._connect(accepted, connection)
                await asyncio.sleep(0)  # otherwise many new connections would delay everything else

    def closed(self, connection: AcceptedConnection) -> None:
        """Forget a connection."""
        self._open.pop(connection, None)

    def abort(self) -> None:
        """Close all connections at once."""
        for connection in list(self._open):
            connection.abort()

    async def abort_handshakes(self) -> None:
        """Close the connections whose handshake is not done."""
        opening = [one.opening for one in self._open if one.protocol is None and one.opening is not None]
        for task in opening:
            task.cancel()
        await asyncio.gather(*opening, return_exceptions=True)

    def _admit(self, host: str) -> AcceptedConnection | None:
        """Return a new connection, for which another one may have been closed; None: it must be closed."""
        now = time.monotonic()
        if len(self._open) < self.most:
            return AcceptedConnection(host=host, since=now, only_probes=False)
        self._warn(now)
        waiting = [one for one in self._open if one.waiting]
        if waiting:
            by_host = Counter(one.host for one in waiting)
            longest = max(waiting, key=lambda one: (by_host[one.host], now - one.since))
            self.closed(longest)
            longest.abort()
            return AcceptedConnection(host=host, since=now, only_probes=len(self._open) >= self.most)
        if len(self._open) < self.most + FOR_PROBES:
            return AcceptedConnection(host=host, since=now, only_probes=True)
        return None

    def _warn(self, now: float) -> None:
        if self._warned is not None and now - self._warned < WARN_EVERY_S:
            return
        self._warned = now
        host, count = Counter(one.host for one in self._open).most_common(1)[0]
        log.warning(
            "%s: all %d connections are in use, %d of them by %s: closing those that wait for a request. If they are "
            "needed, raise the limit of open files (%d; ulimit -n, LimitNOFILE)",
            self.name,
            self.most,
            count,
            host,
            open_files(),
        )

    def _connect(self, accepted: socket.socket, connection: AcceptedConnection) -> None:
        loop = asyncio.get_running_loop()
        connect = loop.connect_accepted_socket(
            lambda: self.serve(connection),
            accepted,
            ssl=self.context,
            ssl_handshake_timeout=None if self.context is None else self.handshake_within_s,
        )

        def opened(task: asyncio.Task[Any]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                log.debug("%s: connection from %s failed: %s", self.name, connection.host, error)
            if task.cancelled() or error is not None:
                accepted.close()
                self.closed(connection)

        self._open[connection] = None
        connection.opening = loop.create_task(connect, name="accepted connection")
        connection.opening.add_done_callback(opened)
