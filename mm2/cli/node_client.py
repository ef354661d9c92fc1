"""Asks a running node over its REST interface; whatever goes wrong becomes a sentence."""

from __future__ import annotations

import ssl

import httpx
from pydantic import TypeAdapter, ValidationError

from mm2.cli.trouble import CommandError
from mm2.rest.shapes import FlowShape

ANSWER_WITHIN_S = 10.0
"""A node with 10,000 partitions answers in under 0.1 s; one that is busy to death should be told apart from one that is
slow."""

_FLOWS = TypeAdapter(tuple[FlowShape, ...])


def fetch_flows(url: str, context: ssl.SSLContext) -> bytes:
    """The body of GET ``url``/flows; ``context`` is for https. Raises CommandError."""
    try:
        # no proxies from the environment: a node is asked where it is
        answer = httpx.get(f"{url}/flows", timeout=ANSWER_WITHIN_S, trust_env=False, verify=context)
    except (httpx.InvalidURL, httpx.UnsupportedProtocol) as error:
        raise CommandError(f"{url} is not the URL of a node: write for example http://127.0.0.1:8083") from error
    except httpx.TimeoutException as error:
        raise CommandError(f"{url} did not answer within {ANSWER_WITHIN_S:.0f} s") from error
    except httpx.TransportError as error:
        raise CommandError(f"{url} is not reachable: {_why(error, url)}") from error
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
