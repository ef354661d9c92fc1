"""The addresses of a node, from the REST settings of its file."""

from __future__ import annotations

import os
import socket

from mm2.config.keys.node_keys import RestSettings
from mm2.config.settings import NodeSettings
from mm2.rest.server.listeners import EVERY_INTERFACE, JAVA_DEFAULT, LOOPBACK, Advertised, Listener


def listeners_of(rest: RestSettings) -> list[Listener]:
    """Return the listeners of a node with these settings."""
    urls = rest.listeners if rest.listeners is not None else (JAVA_DEFAULT,) if rest.internal_rest else ()
    return [Listener.parse(url) for url in urls if url.strip()]


def advertised_of(rest: RestSettings) -> Advertised:
    """Return the settings of the address that other nodes use."""
    return Advertised(host=rest.advertised_host_name, port=rest.advertised_port, scheme=rest.advertised_listener)


def node_id(settings: NodeSettings) -> str:
    """Return the node ID: the configured one, otherwise the node's advertised address.

    Without a listener with a fixed port it is host name and process ID, which change with a restart.
    """
    rest = settings.rest
    if settings.own.node_id is not None:
        return settings.own.node_id
    listener = next((one for one in listeners_of(settings.rest) if one.port), None)
    if listener is None:
        return f"{socket.gethostname()}:{os.getpid()}"
    everywhere = listener.host in EVERY_INTERFACE or listener.host in LOOPBACK
    host = rest.advertised_host_name or (socket.gethostname() if everywhere else listener.host)
    return f"{host}:{rest.advertised_port or listener.port}"
