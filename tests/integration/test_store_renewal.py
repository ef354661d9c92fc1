"""Key stores of Java's types that are replaced while a node runs."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from mm2.core.settings.client import SecurityProtocol
from tests.integration.security import address_only, stores, two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.key_stores import STORE_PASSWORD, write_key_store
from tests.lab.listeners import INTERNAL, Authority, ClientPems, Listener
from tests.lab.node import Node
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # a broker, a node that starts Spark, and a restarted flow

SOON = 30.0  # seconds: a change is seen within 3 s, on an idle machine
COPIED = 60.0
RESTARTS = (
    "A->C: restarting with a changed configuration: C.ssl.keystore.location",
    "the content of the file changed",
)


@pytest.fixture(scope="module")
def mutual() -> Iterator[KafkaCluster]:
    """A broker with a listener that requires client certificates."""
    listeners = (Listener(protocol=SecurityProtocol.SSL, client_certificates=True, name="MUTUAL"),)
    with KafkaCluster("mutual", listeners=listeners) as cluster:
        yield cluster


@pytest.fixture
def port() -> Iterator[int]:
    port = reserve_port()
    yield port
    release_port(port)


def replace_store(path: Path, pems: ClientPems, store_type: str) -> None:
    """Replace a store by rename, as editors and Kubernetes do."""
    write_key_store(path.with_suffix(".new"), pems, store_type).rename(path)


@pytest.mark.long  # tests/contract/test_renewed_certificates.py
def test_certificates_that_are_missing_expired_and_renewed_while_a_node_runs(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, mutual: KafkaCluster, port: int
) -> None:
    """Of a cluster's clients: its flow waits, first for the file, then for a valid certificate; another flow copies
    meanwhile. A certificate that is renewed restarts the flow, which continues with the new one. Of a listener: the
    renewed certificate applies to new connections."""
    topic = cluster_a.create_topic(unique_name("orders"), 2)
    write(cluster_a.bootstrap, topic, plain(50, partitions=2))
    authority, directory = Authority(), scratch.directory("renewal")
    own = write_key_store(directory / "node.jks", authority.server(HOST), "JKS")
    (directory / "ca.pem").write_text(authority.ca_pem)
    secured = stores(mutual, "JKS")
    store = Path(secured["ssl.keystore.location"])
    store.unlink()
    file = two_clusters(
        address_only(cluster_a, INTERNAL),
        address_only(cluster_b, INTERNAL),
        topics=topic,
        **{
            "clusters": "A, B, C",
            "A->C.enabled": "true",
            "emit.heartbeats.enabled": "false",
            **{f"C.{key}": value for key, value in secured.items()},
            "listeners": f"https://{HOST}:{port}",
            "listeners.https.ssl.keystore.location": str(own),
            "listeners.https.ssl.keystore.password": STORE_PASSWORD,
        },
    )

    def reason(words: str) -> bool:
        flow = node.flow("A->C")
        return flow["state"] == "WAITING" and any(words in one for one in flow["reasons"])

    copies = (cluster_a.bootstrap, topic), (mutual.bootstrap, f"A.{topic}")
    with Node(file, name="renewal", trusted=directory / "ca.pem") as node:
        node.wait_answering()
        wait_until_copied(copies[0], (cluster_b.bootstrap, f"A.{topic}"), COPIED)
        wait_until(
            lambda: reason(f"C.ssl.keystore.location = {store}: cannot be read (No such file or directory)"),
            SOON,
            "the flow waits",
        )
        assert not node.healthy
        yesterday = datetime.now(UTC) - timedelta(days=1)
        replace_store(store, mutual.authority.client("carol", yesterday), "JKS")
        wait_until(
            lambda: reason("the broker rejected the client certificate"), SOON, "the broker rejects the certificate"
        )
        assert "its certificate (CN=carol" in node.process.output()
        replace_store(store, mutual.authority.client("carol"), "JKS")
        wait_until_copied(*copies, COPIED)
        node.wait_running()

        renewed = authority.server(HOST)
        replace_store(own, renewed, "PKCS12")  # which Java reads as JKS too
        certificate = renewed.certificate.split("-----END")[0]
        wait_until(
            lambda: ssl.get_server_certificate((HOST, port)).startswith(certificate),
            SOON,
            "the listener presents the renewed certificate",
        )
        since = len(node.process.output())
        replace_store(store, mutual.authority.client("carol"), "JKS")
        wait_until(
            lambda: all(words in node.process.output()[since:] for words in RESTARTS),
            SOON,
            "the flow restarts with the renewed certificate",
        )
        node.wait_running()
        write(cluster_a.bootstrap, topic, plain(50, partitions=2))
        verdict = wait_until_copied(*copies, COPIED)
        assert verdict.records == 100
        assert STORE_PASSWORD not in node.process.output()
        assert node.stop() == 0


@pytest.mark.long  # of its target: the test above
def test_a_node_starts_with_an_expired_certificate(cluster_b: KafkaCluster, mutual: KafkaCluster, port: int) -> None:
    """Of its source: only that flow waits until the certificate is renewed."""
    topic = mutual.create_topic(unique_name("orders"), 1)
    write(mutual.bootstrap, topic, plain(20))
    secured = stores(mutual, "PKCS12")
    store = Path(secured["ssl.keystore.location"])
    replace_store(store, mutual.authority.client("bob", datetime.now(UTC) - timedelta(days=1)), "PKCS12")
    file = two_clusters(secured, address_only(cluster_b, INTERNAL), topics=topic, listeners=f"http://{HOST}:{port}")
    with Node(file, name="expired") as node:
        wait_until(
            lambda: any("rejected the client certificate" in reason for reason in node.health().get("reasons", ())),
            SOON,
            "/health says that the broker rejects the certificate",
        )
        assert "expired on" in node.process.output()
        replace_store(store, mutual.authority.client("bob"), "PKCS12")
        wait_until_copied((mutual.bootstrap, topic), (cluster_b.bootstrap, f"A.{topic}"), COPIED)
        node.wait_running()
        assert node.stop() == 0
