"""Signed requests from this node to other nodes of a flow.

Requests have our own three headers of `mm2.core.coordination.request_signing`. A follower signs requests that it
forwards again; Java forwards the body without a signature, and is rejected.

A node gets the URLs of the others from the group, where every client with READ on the group can write one. So a URL has
to be one that a node can advertise, and must not lead to addresses that only this machine or its network segment can
reach, such as the metadata service of a cloud (169.254.169.254).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import ssl
import time
from dataclasses import dataclass, field
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from types import TracebackType
from urllib.parse import quote, urlsplit

import httpx

from mm2.core.coordination.leader_context import LeaderContext
from mm2.core.coordination.request_signing import RequestLine, command_secret, request_id
from mm2.core.settings.spark_master import is_loopback
from mm2.core.wire.formats import FormatError
from mm2.core.wire.json_bytes import decode_json

log = logging.getLogger("mm2.rest")

ANSWER_WITHIN_S = 90.0
"""As Java's DEFAULT_REST_REQUEST_TIMEOUT_MS: the leader may wait for a rebalance of its group before it responds."""

CONNECT_WITHIN_S = 5.0
"""A peer on any continent accepts a connection within a second; a dead one must not delay the caller."""

LARGEST_BYTES = 16 * 1024 * 1024
"""Maximum size of a request or response: ten times what a flow of 10,000 partitions needs."""

_LATER = frozenset(
    {
        HTTPStatus.FORBIDDEN,  # the session key is being replaced
        HTTPStatus.NOT_FOUND,  # the peer has just started and has not opened this flow yet
        HTTPStatus.CONFLICT,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


FORM = "is not a URL that a node advertises: http or https, a host and a port"


async def rejection(url: str, own_url: str | None) -> str | None:
    """Return why this node, whose own URL is ``own_url``, does not connect to ``url``; None: it does.

    Host names are resolved. If that fails, the request itself will report it.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return FORM
    others = (parts.username, parts.password, parts.path not in ("", "/"), parts.query, parts.fragment)
    if parts.scheme not in ("http", "https") or not host or any(others):
        return FORM
    try:
        addresses = await _addresses(host, port)
    except UnicodeError:  # a part of the name is empty, or longer than 63 characters
        return FORM
    for address in addresses:
        if address.is_loopback and not await _is_on_loopback(own_url):
            return "leads to the loopback interface of this machine: set rest.advertised.host.name on that node"
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            return f"leads to {address}, which is not an address of a node"
    return None


async def _is_on_loopback(own_url: str | None) -> bool:
    """Return whether this node advertises a loopback address, or a name that is one in /etc/hosts, as on Debian."""
    parts = urlsplit(own_url or "")
    return parts.hostname is not None and any(one.is_loopback for one in await _addresses(parts.hostname, parts.port))


async def _addresses(host: str, port: int | None) -> list[IPv4Address | IPv6Address]:
    """Raises UnicodeError for what cannot be a name in DNS."""
    try:
        found = [ip_address(host.partition("%")[0])]
    except ValueError:
        try:
            resolved = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return []
        found = [ip_address(str(address[0]).partition("%")[0]) for *_, address in resolved]
    return [getattr(one, "ipv4_mapped", None) or one for one in found]


class PeerError(Exception):
    """A request to another node failed. ``status``: the HTTP status, None without a response; then the node may have
    executed the request all the same. ``retriable``: a later attempt may succeed."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status

    @property
    def retriable(self) -> bool:
        return self.status is None or self.status in _LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """A request to another node. ``path`` follows the flow: ``("connectors", "MirrorSourceConnector", "fence")``;
    ``forward`` as in `mm2.core.coordination.leader_context`; ``token``: the mm2.rest.admin.token of a command; a
    response of more than ``largest`` bytes is rejected."""

    method: str
    path: tuple[str, ...]
    body: bytes = b""
    forward: bool | None = None
    token: str | None = field(default=None, repr=False)
    largest: int = LARGEST_BYTES


class Peers:
    """Sends requests to other nodes. ``context``: trust and certificate for https; None: the system's trust store."""

    def __init__(self, context: ssl.SSLContext | None = None, *, within: float = ANSWER_WITHIN_S) -> None:
        self._warned: set[str] = set()
        self._client = httpx.AsyncClient(
            verify=context or ssl.create_default_context(),
            trust_env=False,  # no proxies from the environment: nodes connect to each other directly
            timeout=httpx.Timeout(within, connect=min(within, CONNECT_WITHIN_S)),
            headers={"User-Agent": "mm2", "Accept": "application/json", "Content-Type": "application/json"},
        )

    async def __aenter__(self) -> Peers:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def ask(self, url: str, leader_context: LeaderContext, request: PeerRequest) -> bytes:
        """Send a signed request in the flow of ``leader_context`` to the node at base ``url``; return the body of the
        response. Raises PeerError, also while this node has no session key to sign with."""
        if leader_context.session_key is None:
            raise PeerError(
                "this node has not read the session key from the config topic yet",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
            )
        place = "/".join(
            quote(part, safe="") for part in (leader_context.flow.source, leader_context.flow.target, *request.path)
        )
        target = f"{url.rstrip('/')}/{place}"
        forward = {} if request.forward is None else {"forward": str(request.forward).lower()}
        secret = leader_context.session_key.secret
        if request.token is not None:
            secret = command_secret(secret, request.token)
        if (why := await rejection(url, leader_context.own_url)) is not None:
            raise PeerError(f"not connecting to {url}, because it {why}", status=HTTPStatus.BAD_GATEWAY)
        self._warn_of_http(url)
        try:
            built = self._client.build_request(request.method, target, content=request.body, params=forward)
            line = RequestLine(
                method=request.method,
                node_url=url,
                path=built.url.raw_path.decode("ascii"),
                id=request_id(time.time_ns() // 1_000_000, secrets.token_bytes(16)),
            )
            built.headers.update(line.sign(secret, request.body, leader_context.signature_algorithm))
            answer = await self._client.send(built, stream=True)
            try:
                body = await _body(answer, target, request.largest)
            finally:
                await answer.aclose()
        except httpx.TimeoutException as error:
            raise PeerError(f"{target} did not answer in time") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise PeerError(f"{target} is not reachable: {_why(error)}") from error
        if not answer.is_success:
            raise PeerError(_message(body, answer.status_code, target), status=answer.status_code)
        return body

    def _warn_of_http(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https" or url in self._warned or is_loopback(parts.hostname or ""):
            return
        self._warned.add(url)
        log.warning(
            "requests to %s are not encrypted: everyone on the network between the nodes can read them. Use https "
            "listeners, and set rest.advertised.listener = https",
            url,
        )


async def _body(answer: httpx.Response, target: str, largest: int) -> bytes:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > largest:
            raise PeerError(f"{target} sent more than {largest} bytes: is it a node of this flow?")
    return bytes(body)


def _message(body: bytes, status: int, target: str) -> str:
    """Return the error message of a response in Java's format, otherwise one with the HTTP status."""
    try:
        match decode_json(body, "error"):
            case {"message": str(message)}:
                return message
    except FormatError:
        pass
    return f"{target} returned HTTP status {status}"


def _why(error: httpx.TransportError | httpx.InvalidURL) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted: check ssl.truststore.* and its advertised host name"
    return text or type(error).__name__
