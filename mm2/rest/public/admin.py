"""Authorization of commands over REST: mm2.rest.admin = true and a bearer token, mm2.rest.admin.token (docs/adr/0007).

    403  commands are disabled, or the connection is not encrypted                401  missing or wrong token

The token is accepted over https and from the local machine. A client certificate (ssl.client.auth) is not sufficient:
monitoring has one, too. Browsers do not send the token by themselves, which rules out cross-site request forgery.
"""

from __future__ import annotations

import hmac
from ipaddress import IPv6Address, ip_address

from fastapi import HTTPException, Request, status

_WHO = {"WWW-Authenticate": 'Bearer realm="mm2"'}


class AdminGate:
    """Checks a request by its headers (`gated_route`). ``enabled`` without a ``token`` rejects all commands.

    ``token`` is None if commands are disabled. Nodes also sign commands with it that they forward to each other.
    """

    def __init__(self, *, enabled: bool, token: str | None) -> None:
        self.token = token if enabled and token else None

    @property
    def takes_commands(self) -> bool:
        """Return whether commands are enabled."""
        return self.token is not None

    def __call__(self, request: Request) -> None:
        """Raise HTTPException unless the request may send commands; its text contains the fix."""
        if self.token is None:
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "commands are disabled on this node: to enable them, set mm2.rest.admin = true in its file",
            )
        if request.url.scheme != "https" and not _is_of_this_machine(request):
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "commands over plain http are accepted from the node's own machine only, because the token is not "
                "encrypted: configure an https listener, and replace a token that was sent over http",
            )
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise HTTPException(
                status.HTTP_401_UNAUTHORIZED,
                "missing token: send the header Authorization: Bearer with mm2.rest.admin.token",
                _WHO,
            )
        if not hmac.compare_digest(given.strip().encode(), self.token.encode()):
            raise HTTPException(
                status.HTTP_401_UNAUTHORIZED, "wrong token: it must be mm2.rest.admin.token of the node", _WHO
            )


def _is_of_this_machine(request: Request) -> bool:
    """Return whether the connection comes from this machine; headers set by proxies are ignored."""
    if request.client is None:
        return False
    address = ip_address(request.client.host.partition("%")[0])
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped  # an IPv4 client on a dual-stack socket
    return address.is_loopback
