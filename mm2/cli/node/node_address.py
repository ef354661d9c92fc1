"""The URL, the trusted certificates and the token for a node, from its URL, its file and the environment."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from mm2.cli.errors import UsageError
from mm2.config.grammar import providers
from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.properties import read_file
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys.declaration import read
from mm2.config.keys.node_keys import HTTPS, RestSettings
from mm2.kafka.connection.security import ssl_context
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.program.addresses import advertised_of, listeners_of
from mm2.rest.server.listeners import EVERY_INTERFACE, advertised_url, url

if TYPE_CHECKING:  # slow to import, and status and lag do not need it
    from mm2.config.grammar.environment import Environment

LOOPBACK = "127.0.0.1"

ADMIN = "mm2.rest.admin"
BEARER = "mm2.rest.admin.token"
READ = "mm2.rest.read"
OWN_TOKEN = "MM2_TOKEN"  # noqa: S105 a name
"""The variable with the token of the person or program that runs a command: not an option of the command line, which
every user of the machine can read."""

_ADDRESS_KEYS = ("listeners", "dedicated.mode.enable.internal.rest")
_ADVERTISED = "rest.advertised."


def node_url(node: str) -> str:
    """Return the base URL of ``node``, a URL or the path of an mm2.properties. Raises UsageError if the file has none.

    Only the required keys are read, so that this also works without access to the file's secrets.
    """
    return node.rstrip("/") if "://" in node else _url_of(_read(node), node)


def node_urls(node: str) -> tuple[str, ...]:
    """Return the base URLs to try for ``node``. For a file these are the listeners on this machine, because several
    nodes may share the file, then the advertised URL. Raises UsageError as `node_url`."""
    if "://" in node:
        return (node_url(node),)
    rest = _read(node)
    own = [
        url(one.scheme, LOOPBACK if one.host in EVERY_INTERFACE else one.host, one.port) for one in listeners_of(rest)
    ]
    return tuple(dict.fromkeys((*own, _url_of(rest, node))))


def admin_token(node: str, environment: Environment) -> str:
    """Return the token for commands: from the environment, or the one of the node's file. Raises UsageError."""
    if own := _own_token():
        return own
    if "://" in node:
        if token := environment.rest_admin_token:
            return token.strip()
        from mm2.config.grammar.environment import BEARER_VARIABLE  # noqa: PLC0415 as above

        raise UsageError(
            f"commands need a token: set {OWN_TOKEN} to yours, or {BEARER_VARIABLE} to the node's {BEARER}, or"
            " use its file instead of the URL"
        )
    keys = {key: value.text.strip() for key, value in _properties(node, (ADMIN, BEARER).__contains__).items()}
    if keys.get(ADMIN, "").lower() != "true" or not keys.get(BEARER):
        raise UsageError(
            f"{node} does not set {ADMIN} = true and {BEARER}, so commands are disabled: add both and restart the node"
        )
    return keys[BEARER]


def _own_token() -> str | None:
    return os.environ.get(OWN_TOKEN, "").strip() or None


def _read_token(node: str) -> str | None:
    """Return the token for reading: that of the environment, or the one of the node's file if it requires one; None:
    none.

    Only then it is read from the file, so that reading works without access to the file's secrets. Raises UsageError.
    """
    if (own := _own_token()) is not None or "://" in node:
        return own
    read = _properties(node, READ.__eq__).get(READ)
    if read is None or read.text.strip() != "token":
        return None
    found = _properties(node, BEARER.__eq__).get(BEARER)
    return None if found is None else found.text.strip()


def is_safe(url: str) -> bool:
    """Return whether a token may be sent to ``url``: requests are encrypted, or stay on this machine."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "http" or parts.hostname == "localhost":
        return True  # an invalid URL is reported when the request is sent
    try:
        return ip_address(parts.hostname or "").is_loopback
    except ValueError:
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAccess:
    """What requests to a node need: the context for https, and a token; None: they are sent without one."""

    tls: ssl.SSLContext
    token: str | None = field(default=None, repr=False)


def node_context(node: str) -> NodeAccess:
    """Return what requests to ``node`` need. Raises UsageError."""
    return NodeAccess(tls=_tls(node), token=_read_token(node))


def _tls(node: str) -> ssl.SSLContext:
    """Return the TLS context for ``node``: for a file with its settings for requests between nodes, for a URL with the
    CAs that the system trusts, or those of SSL_CERT_FILE. Raises UsageError."""
    if "://" in node or not any(one.startswith("https:") for one in node_urls(node)):
        return ssl.create_default_context()
    from mm2.config.security.listeners import read_peer_tls, read_server_tls  # noqa: PLC0415 slow, only for https

    log = ProblemLog(node)
    properties = _properties(node, lambda key: key == "listeners" or key.startswith(("ssl.", HTTPS)))
    own = any(
        one.scheme == "https" for one in listeners_of(_read(node))
    )  # otherwise a proxy terminates TLS for the node
    tls = read_server_tls(properties, log).tls if own else read_peer_tls(properties, log)
    if log.failed:
        raise UsageError(_first(log))
    try:
        return ssl_context(tls)
    except SecuritySettingsInvalid as error:
        raise UsageError(f"{node}: {error}; run mm2 check {node}") from error


def _read(node: str) -> RestSettings:
    log = ProblemLog(node)
    rest = read(RestSettings, _properties(node, lambda key: key in _ADDRESS_KEYS or key.startswith(_ADVERTISED)), log)
    if log.failed:
        raise UsageError(_first(log))
    return rest


def _properties(node: str, matters: Callable[[str], bool]) -> Properties:
    log = ProblemLog(node)
    entries = read_file(Path(node), log)
    if entries is not None:
        wanted = {key: entry for key, entry in entries.items() if matters(key) or key.startswith("config.providers")}
        found = providers.resolve(wanted, log)
        if not any(entry.broken for entry in found.values()):
            return {key: Value.of(entry) for key, entry in found.items()}
    raise UsageError(_first(log))


def _first(log: ProblemLog) -> str:
    return next(str(problem) for problem in log.in_order() if not problem.is_warning)


def _url_of(rest: RestSettings, node: str) -> str:
    found = listeners_of(rest)
    if not found:
        raise UsageError(
            f"{node} has no listeners, so its node has no REST interface: add listeners = http://{LOOPBACK}:8083 and"
            " restart the node, or use the URL of another node"
        )
    return advertised_url(found, advertised_of(rest), own_host=LOOPBACK)
