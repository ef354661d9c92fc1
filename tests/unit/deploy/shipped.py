"""The files of deploy/, parsed as by the programs that use them."""

from __future__ import annotations

import contextlib
import ssl
from pathlib import Path
from typing import Any

import yaml

from tests.lab.commands import ROOT

DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
CONTAINER = DEPLOY / "container"
COMPOSE = DEPLOY / "compose"
KUBERNETES = DEPLOY / "kubernetes"
MONITORING = DEPLOY / "monitoring"


def read_yaml(path: Path) -> Any:
    """Return the only document of a YAML file."""
    return yaml.safe_load(path.read_text("utf-8"))


def handshake(certificates: Path, name: str) -> None:
    """Connect a client, which verifies ``name``, to a node with these ``node.pem`` and ``node-ca.pem``, in memory.

    Raises ssl.SSLError.
    """
    server_context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server_context.load_cert_chain(certificates / "node.pem")
    client_context = ssl.create_default_context(cafile=certificates / "node-ca.pem")
    there, back = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = client_context.wrap_bio(back, there, server_hostname=name)
    server = server_context.wrap_bio(there, back, server_side=True)
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.version() == "TLSv1.3"


def seconds(text: str) -> float:
    """Return a duration in the notation of systemd and Compose, of one unit: 30s, 2m."""
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]
