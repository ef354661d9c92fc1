"""Who may command a node over REST: mm2.rest.admin = true and the bearer of mm2.rest.admin.token (docs/adr/0007).

    403  commands are switched off, or the connection could be listened to        401  no token, or a wrong one

The token is taken over https, and from this machine. A certificate alone (ssl.client.auth) is not enough: monitoring
has one, too. Browsers send no such token by themselves, so no page can command a node behind its user's back.
"""

from __future__ import annotations

import hmac
from ipaddress import IPv6Address, ip_address

from fastapi import HTTPException, Request, status

_WHO = {"WWW-Authenticate": 'Bearer realm="mm2"'}


class AdminGate:
    """A FastAPI dependency. ``enabled`` without a ``token`` lets nobody in."""

    def __init__(self, *, enabled: bool, token: str | None) -> None:
        self._token = token.encode() if enabled and token else None

    @property
    def takes_commands(self) -> bool:
        """Whether anybody can come through."""
        return self._token is not None

    def __call__(self, request: Request) -> None:
        """Raises HTTPException with a sentence that says what to do."""
        if self._token is None:
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "this node shows, and takes no commands: its file does not say mm2.rest.admin = true",
            )
        if request.url.scheme != "https" and not _is_of_this_machine(request):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "commands are taken over https or from the node's own machine only: whoever listens on the way would "
                "learn the token. Let the node have an https listener, and change a token that was sent like this",
            )
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise HTTPException(
                status.HTTP_401_UNAUTHORIZED, "commands need Authorization: Bearer, with mm2.rest.admin.token", _WHO
            )
        if not hmac.compare_digest(given.strip().encode(), self._token):
            raise HTTPException(status.HTTP_401_UNAUTHORIZED, "this is not the node's mm2.rest.admin.token", _WHO)


def _is_of_this_machine(request: Request) -> bool:
    """By the connection itself: headers that proxies set count for nothing."""
    if request.client is None:
        return False
    address = ip_address(request.client.host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # what a socket for both protocols calls an IPv4 caller
    return address.is_loopback
