"""What a SASL mechanism provides for connections: credentials, and the messages that prove them to a broker."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

Exchange = Generator[bytes, bytes, None]
"""The client's side of one authentication: yields messages, receives the broker's answer to each, and returns after the
last one. It may block, so it runs in a worker thread. Raises LoginFailed, or ValueError for an invalid answer.

If the broker rejects a message with an error, CredentialsRejected is raised at that yield, and the exchange does not
catch it for good. An exchange that is closed instead was interrupted, which says nothing about the credentials."""


class CredentialsRejected(Exception):
    """The broker answered a message with SASL_AUTHENTICATION_FAILED."""


class LoginFailed(Exception):
    """There are no valid credentials. ``key``: the property to check, without the cluster's alias."""

    def __init__(self, reason: str, key: str = "sasl.jaas.config") -> None:
        super().__init__(reason)
        self.key = key


class Login(Protocol):
    """The login of one client, shared by its connections in this process. All methods are thread-safe."""

    @property
    def is_due(self) -> bool:
        """Whether `renew` has something to do."""

    def renew(self) -> None:
        """Obtain credentials, or newer ones if those at hand expire soon. Blocks, for as long as the login's own
        timeouts. Raises LoginFailed only if no valid credentials are at hand; a renewal that fails earlier is logged
        and repeated."""

    def exchange(self, host: str) -> Exchange:
        """Begin an authentication with the broker at ``host``, with the credentials at hand."""
