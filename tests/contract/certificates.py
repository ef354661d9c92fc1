"""Property files with certificates of a test authority, and TLS contexts of clients that trust it."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path

import javaproperties

from mm2.config.load import load
from mm2.config.settings import NodeSettings
from mm2.kafka.connection.security import ssl_context
from tests.lab.listeners import Authority

FILE = {
    "clusters": "A, B",
    "A.bootstrap.servers": "a:9092",
    "B.bootstrap.servers": "b:9092",
    "A->B.enabled": "true",
}


def https_file(
    authority: Authority, directory: Path, more: Mapping[str, str] | None = None, *, trust: bool = True
) -> NodeSettings:
    """Return the settings of a file whose node listens on https://127.0.0.1 with PEM files in ``directory``.

    ``more``: additional or replaced lines; ``trust``: whether the file has a trust store.
    """
    pems = authority.write_server_pems(directory)
    properties = {
        **FILE,
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.type": "PEM",
        "listeners.https.ssl.keystore.location": str(pems.keystore),
        **(more or {}),
    }
    if trust:
        properties["listeners.https.ssl.truststore.type"] = "PEM"
        properties["listeners.https.ssl.truststore.location"] = str(pems.truststore)
    path = directory / "mm2.properties"
    path.write_text(javaproperties.dumps(properties, timestamp=False))
    loaded = load(path)
    assert loaded.settings is not None, "\n".join(map(str, loaded.problems))
    return loaded.settings


def node_context(settings: NodeSettings) -> ssl.SSLContext:
    """Return the TLS context with which the node of these settings calls other nodes."""
    assert settings.listening.tls is not None
    return ssl_context(settings.listening.tls.tls)


def caller_context(authority: Authority, name: str | None = None) -> ssl.SSLContext:
    """Return a TLS context that trusts ``authority``, with a certificate issued to ``name`` if given."""
    context = ssl.create_default_context(cadata=authority.ca_pem)
    if name is not None:
        authority.configure(context, name)
    return context
