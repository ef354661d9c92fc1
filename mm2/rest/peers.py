"""Signed requests from this node to others (mm2-compat §6.4): the client's side of what nodes ask each other.

Requests carry the two headers of `mm2.core.request_signing`. Where the node that is asked does not lead, it signs what
it passes on with its own copy of the session key; Java passes on the body without a signature, and is refused.
"""

from __future__ import annotations

import json
import ssl
from dataclasses import dataclass
from http import HTTPStatus
from types import TracebackType
from urllib.parse import quote

import httpx

from mm2.core.request_signing import sign
from mm2.core.standing import Standing

ANSWER_WITHIN_S = 90.0
"""As Java's DEFAULT_REST_REQUEST_TIMEOUT_MS: the leader may wait for a round of its group before it answers."""

CONNECT_WITHIN_S = 5.0
"""A peer on any continent accepts a connection within a second; one that is gone must not hold up the caller."""

LARGEST_BYTES = 16 * 1024 * 1024
"""Of a request or an answer: ten times what a flow of 10,000 partitions needs."""

_LATER = frozenset(
    {
        HTTPStatus.FORBIDDEN,  # the session key is being replaced
        HTTPStatus.NOT_FOUND,  # the peer has just been started and has not come to this flow yet
        HTTPStatus.CONFLICT,
        HTTPStatus.INTERNAL_SERVER_ERROR,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)


class PeerError(Exception):
    """Another node did not do what it was asked for. ``status``: its HTTP status, None when it gave no answer; then it
    may have done it all the same. ``retriable``: asking again later may help."""

    def __init__(self, text: str, *, status: int | None = None) -> None:
        super().__init__(text)
        self.status = status

    @property
    def retriable(self) -> bool:
        return self.status is None or self.status in _LATER


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRequest:
    """``path`` begins behind the flow: ``("connectors", "MirrorSourceConnector", "fence")``; ``forward`` as in
    `mm2.core.request_routing`; an answer of more than ``largest`` bytes is refused."""

    method: str
    path: tuple[str, ...]
    body: bytes = b""
    forward: bool | None = None
    largest: int = LARGEST_BYTES


class Peers:
    """Asks other nodes. ``context``: trust and certificate for those behind https; None: the system's trust."""

    def __init__(self, context: ssl.SSLContext | None = None, *, within: float = ANSWER_WITHIN_S) -> None:
        self._client = httpx.AsyncClient(
            verify=context or ssl.create_default_context(),
            trust_env=False,  # no proxies from the environment: a node is asked where it is
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

    async def ask(self, url: str, standing: Standing, request: PeerRequest) -> bytes:
        """Ask the node at base ``url`` in the flow of ``standing``, signed; gives the body of its answer. Raises
        PeerError, also while this node has no session key to sign with."""
        if standing.session_key is None:
            raise PeerError(
                "this node has not read the session key from the config topic yet",
                status=HTTPStatus.SERVICE_UNAVAILABLE,
            )
        place = "/".join(quote(part, safe="") for part in (standing.flow.source, standing.flow.target, *request.path))
        target = f"{url.rstrip('/')}/{place}"
        forward = {} if request.forward is None else {"forward": str(request.forward).lower()}
        signature = sign(standing.session_key.secret, request.body, standing.signature_algorithm)
        try:
            async with self._client.stream(
                request.method, target, content=request.body, headers=signature, params=forward
            ) as answer:
                body = await _body(answer, target, request.largest)
        except httpx.TimeoutException as error:
            raise PeerError(f"{target} did not answer in time") from error
        except (httpx.TransportError, httpx.InvalidURL) as error:
            raise PeerError(f"{target} is not reachable: {_why(error)}") from error
        if not answer.is_success:
            raise PeerError(_message(body, answer.status_code, target), status=answer.status_code)
        return body


async def _body(answer: httpx.Response, target: str, largest: int) -> bytes:
    body = bytearray()
    async for chunk in answer.aiter_bytes():
        body += chunk
        if len(body) > largest:
            raise PeerError(f"{target} answers with more than {largest} bytes: is that a node of this flow?")
    return bytes(body)


def _message(body: bytes, status: int, target: str) -> str:
    """What the peer says, in Java's shape, or its status where it says nothing that can be understood."""
    try:
        match json.loads(body):
            case {"message": str(message)}:
                return message
    except ValueError:
        pass
    return f"{target} answers with HTTP status {status}"


def _why(error: httpx.TransportError | httpx.InvalidURL) -> str:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted: look at ssl.truststore.* and at the host name it advertises"
    return text or type(error).__name__
