"""Where a node answers, given as it is or read from the ``listeners`` of its file, whom to trust there, and by what it
knows who may command it."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from pathlib import Path

from mm2.cli.trouble import UsageError
from mm2.config import providers
from mm2.config.environment import BEARER_VARIABLE, Environment
from mm2.config.listening import read_peer_tls, read_server_tls
from mm2.config.node_keys import HTTPS
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry, read_file
from mm2.config.values import Value
from mm2.kafka.errors import SecuritySettingsInvalid
from mm2.kafka.security import ssl_context
from mm2.rest.listeners import (
    EVERY_INTERFACE,
    JAVA_DEFAULT,
    Advertised,
    Listener,
    ListenerError,
    advertised_url,
    url,
)

LOOPBACK = "127.0.0.1"

LISTENERS = "listeners"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
ADVERTISED_HOST = "rest.advertised.host.name"
ADVERTISED_PORT = "rest.advertised.port"
ADVERTISED_LISTENER = "rest.advertised.listener"
ADMIN = "mm2.rest.admin"
BEARER = "mm2.rest.admin.token"
KEYS = (LISTENERS, INTERNAL_REST, ADVERTISED_HOST, ADVERTISED_PORT, ADVERTISED_LISTENER)


def node_url(place: str) -> str:
    """The base URL for ``place``, a URL or the path of a mm2.properties. Raises UsageError when the file has none.

    Only the keys that matter are read, so that this also works where the file's secrets cannot be had.
    """
    return place.rstrip("/") if "://" in place else _url_of(_read(place), place)


def node_urls(place: str) -> tuple[str, ...]:
    """Base URLs to try for ``place``: of a file the listeners of this machine first, for the file may serve several,
    then the advertised one. Raises UsageError as `node_url`."""
    if "://" in place:
        return (node_url(place),)
    keys = _read(place)
    advertised = _url_of(keys, place)  # complains of what cannot be read
    own = [url(one.scheme, LOOPBACK if one.host in EVERY_INTERFACE else one.host, one.port) for one in _listeners(keys)]
    return tuple(dict.fromkeys((*own, advertised)))


def admin_token(place: str, environment: Environment) -> str:
    """The token for commands: of a file its own, for a URL the one in the environment. Raises UsageError."""
    if "://" in place:
        if token := environment.rest_admin_token:
            return token.strip()
        raise UsageError(
            f"commands need the node's token: set {BEARER_VARIABLE} to its {BEARER}, or name its file instead"
        )
    found = _entries(place, (ADMIN, BEARER).__contains__)
    keys = {key: _text(entry) for key, entry in found.items()}
    if keys.get(ADMIN, "").lower() != "true" or not keys.get(BEARER):
        raise UsageError(
            f"{place} does not say {ADMIN} = true and {BEARER}, so its node takes no commands: add both and start "
            "the node again"
        )
    return keys[BEARER]


def node_context(place: str) -> ssl.SSLContext:
    """How ``place`` is spoken to over https: a node of a file with what the file has for nodes' calls to each other, a
    URL with the authorities that the system trusts, or those of SSL_CERT_FILE. Raises UsageError."""
    if "://" in place or not any(one.startswith("https:") for one in node_urls(place)):
        return ssl.create_default_context()
    log = ProblemLog(place)
    properties = {key: Value.of(entry) for key, entry in _entries(place, _matters_to_tls).items()}
    own = any(one.scheme == "https" for one in _listeners(_read(place)))  # else a proxy speaks TLS for the node
    tls = read_server_tls(properties, log).tls if own else read_peer_tls(properties, log)
    if log.failed:
        raise UsageError(_first(log))
    try:
        return ssl_context(tls)
    except SecuritySettingsInvalid as error:
        raise UsageError(f"{place}: {error}; mm2 check {place} tells more") from error


def _read(place: str) -> Mapping[str, str]:
    return {key: _text(entry) for key, entry in _entries(place, KEYS.__contains__).items()}


def _entries(place: str, matters: Callable[[str], bool]) -> Mapping[str, Entry]:
    log = ProblemLog(place)
    entries = read_file(Path(place), log)
    if entries is not None:
        wanted = {key: entry for key, entry in entries.items() if matters(key) or key.startswith("config.providers")}
        found = providers.resolve(wanted, log)
        if not any(entry.broken for entry in found.values()):
            return found
    raise UsageError(_first(log))


def _first(log: ProblemLog) -> str:
    return next(str(problem) for problem in log.in_order() if not problem.is_warning)


def _matters_to_tls(key: str) -> bool:
    return key == LISTENERS or key.startswith(("ssl.", HTTPS))


def _text(entry: Entry) -> str:
    return entry.value.strip()


def _listeners(keys: Mapping[str, str]) -> list[Listener]:
    """Raises ListenerError."""
    texts = keys.get(LISTENERS) or (JAVA_DEFAULT if keys.get(INTERNAL_REST, "").lower() == "true" else "")
    return [Listener.parse(text) for text in texts.split(",") if text.strip()]


def _url_of(keys: Mapping[str, str], place: str) -> str:
    try:
        found = _listeners(keys)
        advertised = Advertised(
            host=keys.get(ADVERTISED_HOST) or None,
            port=int(keys[ADVERTISED_PORT]) if keys.get(ADVERTISED_PORT) else None,
            scheme=keys.get(ADVERTISED_LISTENER, "").lower() or None,
        )
    except (ListenerError, ValueError) as error:
        raise UsageError(f"{place}: {error}; mm2 check {place} tells more") from error
    if not found:
        raise UsageError(
            f"{place} has no listeners, so its node shows nothing: add listeners = http://{LOOPBACK}:8083 and start the"
            " node again, or name the URL of a node"
        )
    return advertised_url(found, advertised, own_host=LOOPBACK)
