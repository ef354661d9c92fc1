"""Which URL a node answers at: given as it is, or read from the ``listeners`` of its file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mm2.cli.trouble import UsageError
from mm2.config import providers
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry, read_file
from mm2.rest.listeners import JAVA_DEFAULT, Advertised, Listener, ListenerError, advertised_url

LOOPBACK = "127.0.0.1"

LISTENERS = "listeners"
INTERNAL_REST = "dedicated.mode.enable.internal.rest"
ADVERTISED_HOST = "rest.advertised.host.name"
ADVERTISED_PORT = "rest.advertised.port"
ADVERTISED_LISTENER = "rest.advertised.listener"
KEYS = (LISTENERS, INTERNAL_REST, ADVERTISED_HOST, ADVERTISED_PORT, ADVERTISED_LISTENER)


def node_url(place: str) -> str:
    """The base URL for ``place``, a URL or the path of a mm2.properties. Raises UsageError when the file has none.

    Only the keys that matter are read, so that this also works where the file's secrets cannot be had.
    """
    return place.rstrip("/") if "://" in place else _url_of(_read(place), place)


def _read(place: str) -> Mapping[str, str]:
    log = ProblemLog(place)
    entries = read_file(Path(place), log)
    if entries is not None:
        found = providers.resolve({key: entry for key, entry in entries.items() if _matters(key)}, log)
        if not any(entry.broken for entry in found.values()):
            return {key: _text(entry) for key, entry in found.items()}
    raise UsageError(next(str(problem) for problem in log.in_order() if not problem.is_warning))


def _matters(key: str) -> bool:
    return key in KEYS or key.startswith("config.providers")


def _text(entry: Entry) -> str:
    return entry.value.strip()


def _url_of(keys: Mapping[str, str], place: str) -> str:
    listeners = keys.get(LISTENERS) or (JAVA_DEFAULT if keys.get(INTERNAL_REST, "").lower() == "true" else "")
    if not listeners:
        raise UsageError(
            f"{place} has no listeners, so its node shows nothing: add listeners = http://{LOOPBACK}:8083 and start the"
            " node again, or name the URL of a node"
        )
    try:
        found = [Listener.parse(text) for text in listeners.split(",") if text.strip()]
        advertised = Advertised(
            host=keys.get(ADVERTISED_HOST) or None,
            port=int(keys[ADVERTISED_PORT]) if keys.get(ADVERTISED_PORT) else None,
            scheme=keys.get(ADVERTISED_LISTENER, "").lower() or None,
        )
    except (ListenerError, ValueError) as error:
        raise UsageError(f"{place}: {error}; mm2 check {place} tells more") from error
    return advertised_url(found, advertised, own_host=LOOPBACK)
