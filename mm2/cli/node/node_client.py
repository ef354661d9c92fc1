"""Requests to the REST interface of a running node; every failure becomes a CommandError with a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from mm2.cli.errors import CommandError, UsageError
from mm2.cli.node.node_address import OWN_TOKEN, NodeAccess, is_safe
from mm2.core.lanes.losses import Loss
from mm2.node.status.status_model import ClusterStatus, FlowStatus
from mm2.rest.merge.partition_merge import PARTITION_DETAILS, PartitionDetails
from mm2.rest.public.response_bodies import COMMAND_RESPONSE, LOSSES_RESPONSE, NODE_DETAILS, CommandResponse

ANSWER_WITHIN_S = 10.0
"""A node with 10,000 partitions answers in under 0.1 s, an overloaded one within a few seconds."""

LOSSES_WITHIN_S = 75.0
"""A node reads the losses from the target, and stops after a minute without an answer."""

TAKEN_WITHIN_S = 100.0
"""A node stops trying to forward a command after 90 s, and returns the reason."""

FLOWS_RESPONSE = TypeAdapter(tuple[FlowStatus, ...])

T = TypeVar("T")


class UnreachableError(CommandError):
    """No response from a URL; another URL of the node may work."""


def first_answering(urls: Sequence[str], ask: Callable[[str], T]) -> T:
    """Return the result of ``ask`` for the first of ``urls`` that responds. Raises CommandError."""
    unreachable = []
    for url in urls:
        try:
            return ask(url)
        except UnreachableError as error:
            unreachable.append(str(error))
    raise UnreachableError("; ".join(unreachable))


def fetch_flows(url: str, context: NodeAccess) -> bytes:
    """Return the body of GET ``url``/flows; ``context``: as `node_context` returns it. Raises CommandError."""
    answer = _request("GET", url, "/flows", context, within=ANSWER_WITHIN_S)
    if answer.status_code != httpx.codes.OK:
        raise CommandError(f"{url} is not an mm2 node (GET /flows returned {answer.status_code}): check the port")
    return answer.content


def fetch(url: str, context: NodeAccess, path: str) -> bytes:
    """Return the body of GET ``url`` + ``path``, whatever its status. Raises CommandError."""
    return _request("GET", url, path, context, within=ANSWER_WITHIN_S).content


def fetch_clusters(url: str, context: NodeAccess) -> tuple[ClusterStatus, ...]:
    """Return the clusters of the node at ``url``, whether they answer it; none from a node of an older release.

    Raises CommandError if the node does not answer.
    """
    answer = _request("GET", url, "/node", context, within=ANSWER_WITHIN_S)
    try:
        return NODE_DETAILS.validate_json(answer.content).clusters
    except ValidationError:
        return ()


def read_flows(body: bytes, url: str) -> tuple[FlowStatus, ...]:
    """Parse a body of `fetch_flows`. Raises CommandError if it is not one."""
    try:
        return FLOWS_RESPONSE.validate_json(body)
    except ValidationError as error:
        raise CommandError(f"{url} is not an mm2 node (unexpected response to GET /flows): check the port") from error


def fetch_losses(url: str, context: NodeAccess, source: str, target: str) -> tuple[Loss, ...]:
    """Return every recorded loss of a flow of the node at ``url``. Raises CommandError."""
    path = f"/flows/{quote(source, safe='')}/{quote(target, safe='')}/losses"
    answer = _request("GET", url, path, context, within=LOSSES_WITHIN_S)
    try:
        if answer.status_code == httpx.codes.OK:
            return LOSSES_RESPONSE.validate_json(answer.content).losses
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = "unexpected response"
    if answer.status_code == httpx.codes.NOT_FOUND and detail == "Not Found":
        raise CommandError(f"the node at {url} is of a release without losses: use FILE instead of the URL")
    raise CommandError(f"{url}: {detail} (GET {path} returned {answer.status_code})")


def fetch_partition(url: str, context: NodeAccess, flow: FlowStatus, topic: str, partition: int) -> bytes:
    """Return the body of GET ``url``/flows/…/partitions/…. Raises CommandError, UsageError if there is no partition."""
    place = "/".join(quote(part, safe="") for part in (flow.source, flow.target, "partitions", topic, str(partition)))
    answer = _request("GET", url, f"/flows/{place}", context, within=ANSWER_WITHIN_S)
    if answer.status_code == httpx.codes.OK:
        return answer.content
    detail = _detail(answer)
    if answer.status_code == httpx.codes.NOT_FOUND and detail not in (None, "Not Found"):
        raise UsageError(str(detail))
    raise CommandError(f"{url}: unexpected response to GET /flows/{place} ({answer.status_code})")


def read_partition(body: bytes, url: str) -> PartitionDetails:
    """Parse a body of `fetch_partition`. Raises CommandError if it is not one."""
    try:
        return PARTITION_DETAILS.validate_json(body)
    except ValidationError as error:
        raise CommandError(f"{url}: unexpected response: do node and command have the same release?") from error


def send_command(url: str, context: NodeAccess, *, path: str, body: Mapping[str, object]) -> CommandResponse:
    """Send a command to the node at ``url``; ``path`` is relative to it. Raises UsageError if the flow, topic or task
    is unknown or the token is wrong, CommandError if the node rejects the command otherwise or does not respond."""
    answer = _request("POST", url, path, context, within=TAKEN_WITHIN_S, body=json.dumps(body).encode())
    try:
        if answer.is_success:
            return COMMAND_RESPONSE.validate_json(answer.content)
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = None
    if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        if isinstance(detail, str) and detail.startswith("the reason"):
            raise UsageError(f"{url} rejected the command: {detail}")
        raise UsageError(f"{url}: invalid topic names: they must not be empty, or a partition below 0")
    if not isinstance(detail, str) or detail == httpx.codes.get_reason_phrase(answer.status_code):
        raise CommandError(f"{url} is not an mm2 node (POST {path} returned {answer.status_code}): check the port")
    wrong = answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND)
    raise (UsageError if wrong else CommandError)(f"{url} rejected the command: {detail}")


def _request(
    method: str,
    url: str,
    path: str,
    context: NodeAccess,
    *,
    within: float,
    body: bytes | None = None,
) -> httpx.Response:
    headers = {} if body is None else {"Content-Type": "application/json"}
    if context.token is not None and is_safe(url):
        headers["Authorization"] = f"Bearer {context.token}"
    try:
        # no proxies from the environment: the connection is direct
        limits = httpx.Timeout(within, connect=ANSWER_WITHIN_S)
        with httpx.Client(timeout=limits, trust_env=False, verify=context.tls) as client:
            answer = client.request(method, f"{url}{path}", content=body, headers=headers)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise CommandError(f"{url} is not a valid URL: write for example http://127.0.0.1:8083") from error
    except httpx.TimeoutException as error:
        raise UnreachableError(f"{url} did not answer within {within:.0f} s") from error
    except httpx.TransportError as error:
        raise UnreachableError(f"{url} is not reachable: {_why(error, url)}") from error

    if answer.status_code == httpx.codes.MISDIRECTED_REQUEST:
        raise CommandError(f"{url}: {_detail(answer) or 'the node has another name'}")
    if method == "GET" and answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise CommandError(f"{url}: {_detail(answer) or 'the node rejected the request'} ({OWN_TOKEN} is sent if set)")
    return answer


def _detail(answer: httpx.Response) -> str | None:
    try:
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return None
    return detail if isinstance(detail, str) else None


def _why(error: httpx.TransportError, url: str) -> str:
    text = str(error)
    if "mismatch, certificate is not valid for" in text:
        return "its certificate is for another host name. Use a URL with a host name in the certificate"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted. Set SSL_CERT_FILE to its CA (PEM), or use FILE instead of the URL"
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        if url.startswith("https:"):
            return (
                "connection closed. If the node requires a certificate (ssl.client.auth), use FILE instead of the URL"
            )
        return "connection closed. Is it an https listener?"
    if "refused" in text:
        return "connection refused. Is the node running, and does its file contain this listener?"
    return text or type(error).__name__
