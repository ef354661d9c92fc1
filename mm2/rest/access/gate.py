"""Authentication of operators, monitoring and other clients over REST: bearer tokens (docs/adr/0007).

    403  commands are disabled, the connection is not encrypted, or the role is not sufficient
    401  missing or wrong token

Commands need a token of an operator, and mm2.rest.admin = true. Everything can be read without a token, unless
mm2.rest.read = token. Tokens are accepted over https and from the local machine. A client certificate (ssl.client.auth)
is not sufficient: monitoring has one, too. Browsers do not send the token by themselves, which rules out cross-site
request forgery.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from ipaddress import IPv6Address, ip_address
from typing import NoReturn

from fastapi import HTTPException, Request, status

from mm2.core.access.callers import Caller, NamedToken, Role, find_token
from mm2.core.access.failed_logins import FailedLoginReport, FailedLogins, LoginFailure

_WHO = {"WWW-Authenticate": 'Bearer realm="mm2"'}


class AccessGate:
    """Checks a request by its headers. Used on one event loop.

    ``token`` is None if commands are disabled; nodes also sign commands with it that they forward to each other.
    ``report`` is called with failed logins that are to be logged.
    """

    def __init__(
        self,
        *,
        enabled: bool,
        token: str | None,
        tokens: Sequence[NamedToken] = (),
        read_needs_token: bool = False,
        report: Callable[[FailedLoginReport], None] = lambda _: None,
    ) -> None:
        """``enabled`` (mm2.rest.admin) without a ``token`` (mm2.rest.admin.token) rejects all commands; ``tokens``:
        those of mm2.rest.tokens.file; ``read_needs_token``: mm2.rest.read = token."""
        self.token = token if enabled and token else None
        self.read_needs_token = read_needs_token
        self.failed_logins = FailedLogins()
        self._admin = (NamedToken.admin(token),) if token else ()
        self._tokens = tuple(tokens)
        self._report = report

    @property
    def takes_commands(self) -> bool:
        """Return whether commands are enabled."""
        return self.token is not None

    def use(self, tokens: Sequence[NamedToken]) -> None:
        """Accept these tokens from now on, instead of the former ones of the file."""
        self._tokens = tuple(tokens)

    def may_command(self, request: Request) -> Caller:
        """Return who sends a command. Raises HTTPException, whose text contains the fix, unless it may do so."""
        if not self.takes_commands:
            raise HTTPException(
                status.HTTP_403_FORBIDDEN,
                "commands are disabled on this node: to enable them, set mm2.rest.admin = true in its file",
            )
        caller = self._authenticate(request, "commands")
        if caller.role is not Role.OPERATOR:
            self._failed(
                request,
                LoginFailure.ROLE,
                status.HTTP_403_FORBIDDEN,
                f"{caller.name} is a {caller.role}: commands need a token of an operator",
                caller,
            )
        return caller

    def may_read(self, request: Request) -> None:
        """Raise HTTPException if reading needs a token, and the request has none."""
        if self.read_needs_token:
            self._authenticate(request, "requests with a token")

    def report_due(self) -> None:
        """Report the failed logins of the last minute that were not reported at once. Call it every few seconds."""
        for report in self.failed_logins.due(time.monotonic()):
            self._report(report)

    def _authenticate(self, request: Request, what: str) -> Caller:
        if request.url.scheme != "https" and not _is_of_this_machine(request):
            self._failed(
                request,
                LoginFailure.UNENCRYPTED,
                status.HTTP_403_FORBIDDEN,
                f"{what} over plain http are accepted from the node's own machine only, because the token is not "
                "encrypted: configure an https listener, and replace a token that was sent over http",
            )
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            self._failed(
                request,
                LoginFailure.MISSING,
                status.HTTP_401_UNAUTHORIZED,
                "missing token: send the header Authorization: Bearer with a token of mm2.rest.tokens.file, or "
                "mm2.rest.admin.token",
            )
        found = find_token(given.strip().encode(), (*self._admin, *self._tokens))
        if found is None:
            self._failed(
                request,
                LoginFailure.WRONG,
                status.HTTP_401_UNAUTHORIZED,
                "wrong token: it must be one of mm2.rest.tokens.file, or mm2.rest.admin.token of the node",
            )
        return Caller(name=found.name, role=found.role, address=_address(request))

    def _failed(
        self, request: Request, why: LoginFailure, code: int, detail: str, caller: Caller | None = None
    ) -> NoReturn:
        """Count a failed login, and raise HTTPException."""
        name = None if caller is None else caller.name
        report = self.failed_logins.add(_address(request), why, detail, time.monotonic(), name=name)
        if report is not None:
            self._report(report)
        raise HTTPException(code, detail, _WHO if code == status.HTTP_401_UNAUTHORIZED else None)


def _address(request: Request) -> str:
    """Return the peer of the connection; headers set by proxies are ignored. Empty: unknown."""
    if request.client is None:
        return ""
    address = ip_address(request.client.host.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)  # mapped: an IPv4 client on a dual-stack socket


def _is_of_this_machine(request: Request) -> bool:
    address = _address(request)
    return bool(address) and ip_address(address).is_loopback
