"""Asks a running node over its REST interface, or tells it what to do; whatever goes wrong becomes a sentence."""

from __future__ import annotations

import json
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from mm2.cli.trouble import CommandError, UsageError
from mm2.rest.command_shapes import COMMAND_TAKEN, CommandShape
from mm2.rest.shapes import FlowShape

ANSWER_WITHIN_S = 10.0
"""A node with 10,000 partitions answers in under 0.1 s; one that is busy to death should be told apart from one that is
slow."""

TAKEN_WITHIN_S = 100.0
"""A node gives up passing a command on after 90 s, and says why."""

_FLOWS = TypeAdapter(tuple[FlowShape, ...])

T = TypeVar("T")


class UnreachableError(CommandError):
    """Nobody gave an answer at a URL; another one may lead to a node."""


def first_answering(urls: Sequence[str], ask: Callable[[str], T]) -> T:
    """What ``ask`` brings from the first of ``urls`` where somebody answers. Raises CommandError."""
    unreachable = []
    for url in urls:
        try:
            return ask(url)
        except UnreachableError as error:
            unreachable.append(str(error))
    raise UnreachableError("; ".join(unreachable))


def fetch_flows(url: str, context: ssl.SSLContext) -> bytes:
    """The body of GET ``url``/flows; ``context`` is for https. Raises CommandError."""
    answer = _request("GET", url, "/flows", context, within=ANSWER_WITHIN_S)
    if answer.status_code != httpx.codes.OK:
        raise CommandError(
            f"{url} answers, but not as an mm2 node (GET /flows gave {answer.status_code}): is that its port?"
        )
    return answer.content


def read_flows(body: bytes, url: str) -> tuple[FlowShape, ...]:
    """The flows in a body of `fetch_flows`. Raises CommandError when they are none."""
    try:
        return _FLOWS.validate_json(body)
    except ValidationError as error:
        raise CommandError(f"{url} answers, but not as an mm2 node (GET /flows): is that its port?") from error


def send_command(
    url: str, context: ssl.SSLContext, *, path: str, body: Mapping[str, object], token: str
) -> CommandShape:
    """Have the node at ``url`` take a command; ``path`` begins behind its base. Raises UsageError where it knows no
    such flow, topic or task, or the token is wrong, CommandError where it refuses otherwise or does not answer."""
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    answer = _request(
        "POST", url, path, context, within=TAKEN_WITHIN_S, body=json.dumps(body).encode(), headers=headers
    )
    try:
        if answer.is_success:
            return COMMAND_TAKEN.validate_json(answer.content)
        detail = answer.json()["detail"]
    except (ValueError, KeyError, TypeError):
        detail = None
    if answer.status_code == httpx.codes.UNPROCESSABLE_ENTITY:
        raise UsageError(f"{url} does not take such names: none may be empty")
    if not isinstance(detail, str) or detail == httpx.codes.get_reason_phrase(answer.status_code):
        raise CommandError(
            f"{url} answers, but not as an mm2 node (POST {path} gave {answer.status_code}): is that its port?"
        )
    wrong = answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.NOT_FOUND)
    raise (UsageError if wrong else CommandError)(f"{url} refuses: {detail}")


def _request(
    method: str,
    url: str,
    path: str,
    context: ssl.SSLContext,
    *,
    within: float,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    try:
        # no proxies from the environment: a node is asked where it is
        limits = httpx.Timeout(within, connect=ANSWER_WITHIN_S)
        with httpx.Client(timeout=limits, trust_env=False, verify=context) as client:
            return client.request(method, f"{url}{path}", content=body, headers=headers)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise CommandError(f"{url} is not the URL of a node: write for example http://127.0.0.1:8083") from error
    except httpx.TimeoutException as error:
        raise UnreachableError(f"{url} did not answer within {within:.0f} s") from error
    except httpx.TransportError as error:
        raise UnreachableError(f"{url} is not reachable: {_why(error, url)}") from error


def _why(error: httpx.TransportError, url: str) -> str:
    text = str(error)
    if "mismatch, certificate is not valid for" in text:
        return "its certificate is for another host. Name the node by a URL with a host name that is in it"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted. Point SSL_CERT_FILE at the CA that signed it (PEM), or name the file"
    if isinstance(error, httpx.RemoteProtocolError | httpx.ReadError):
        if url.startswith("https:"):
            return "it hung up. Does it want a certificate (ssl.client.auth)? Then name its file instead of its URL"
        return "it hung up. Is it an https listener?"
    if "refused" in text:
        return "nothing listens there. Is the node running, and does its file name this listener?"
    return text or type(error).__name__
