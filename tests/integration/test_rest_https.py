"""Commands with a node that serves HTTPS. Its clusters are unreachable, but REST works regardless."""

from __future__ import annotations

import pytest

from tests.lab import scratch
from tests.lab.commands import Outcome, run
from tests.lab.key_stores import STORE_PASSWORD, write_key_store
from tests.lab.listeners import Authority
from tests.lab.node import ANSWERS_WITHIN, Node
from tests.lab.ports import HOST, port_answers, release_port, reserve_port
from tests.lab.waiting import wait_until


# without the prefix: the same listener with a PEM store
@pytest.mark.parametrize("prefix", [pytest.param("", marks=pytest.mark.long), "listeners.https."])
def test_node_that_requires_client_certificates(prefix: str) -> None:
    """Its key store is PEM or JKS, and its trust store PEM."""
    port = reserve_port()
    authority, directory = Authority(), scratch.directory("rest-https")
    pems = authority.write_server_pems(directory)
    store = {"type": "PEM", "location": str(pems.keystore)}
    if prefix:
        jks = write_key_store(directory / "node.jks", authority.server(HOST), "JKS")
        store = {"type": "JKS", "location": str(jks), "password": STORE_PASSWORD}
    properties = {
        "clusters": "A, B",
        "A.bootstrap.servers": f"{HOST}:1",
        "B.bootstrap.servers": f"{HOST}:1",
        "A->B.enabled": "true",
        "listeners": f"https://{HOST}:{port}",
        **{f"{prefix}ssl.keystore.{name}": value for name, value in store.items()},
        f"{prefix}ssl.truststore.type": "PEM",
        f"{prefix}ssl.truststore.location": str(pems.truststore),
        f"{prefix}ssl.client.auth": "required",
    }
    try:
        with Node(properties) as node:

            def status(place: str) -> Outcome:
                return run("mm2", "status", place, env={"SSL_CERT_FILE": str(pems.truststore)})

            wait_until(lambda: port_answers(port), ANSWERS_WITHIN, "the node listens")  # each command costs 1 s of CPU
            wait_until(lambda: "A->B  WAITING" in status(str(node.file)).stdout, ANSWERS_WITHIN, "A->B waits")
            without_certificate = status(node.url)
            assert without_certificate.code == 1
            assert "requires a certificate" in without_certificate.stderr
            assert node.stop() == 0
    finally:
        release_port(port)
