"""Lanes in executors behind the machine's own address: leases over mutual TLS, SASL and Kerberos, encrypted Spark."""

from __future__ import annotations

import contextlib
from base64 import b64encode
from collections.abc import Iterator

import psutil
import pytest

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.integration.kerberos.clients import LISTENER, keytab_options, lines
from tests.integration.security import KEY_PASSWORD, address_only, sasl_tls, stores, two_clusters
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.kdc import Kdc
from tests.lab.listeners import INTERNAL, Authority, Listener
from tests.lab.node import Node
from tests.lab.ports import release_port, reserve_port
from tests.lab.records import plain, write
from tests.lab.spark_cluster import SparkCluster, address_of_this_machine
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(300)  # the test starts a broker, a Spark cluster, and a node that waits for it

SCRAM_512 = SaslMechanism.SCRAM_SHA_512
PASSWORD = "sesame for the lanes"
TOPICS = {"A": "certified", "C": "with-password"}  # of each source
RECORDS = 500
SOON = 60.0  # seconds until the node reports that the master is unreachable
COPIED = 60.0
RUNS = 120.0  # seconds: the engine waits up to 30 s before it retries an unreachable master


@pytest.fixture
def host() -> str:
    """A non-loopback address of this machine."""
    found = address_of_this_machine()
    if found is None:
        pytest.skip("this machine has no address except loopback")
    return found


@pytest.fixture
def ports() -> Iterator[tuple[int, int]]:
    """For tests, http; and for lanes, https."""
    ports = reserve_port(), reserve_port()
    yield ports
    for port in ports:
        release_port(port)


@pytest.fixture
def target() -> Iterator[KafkaCluster]:
    listeners = (Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SCRAM_512,)),)
    with KafkaCluster("secured-b", listeners=listeners, users={"mirror": PASSWORD}) as cluster:
        yield cluster


@pytest.fixture
def source() -> Iterator[KafkaCluster]:
    listeners = (
        Listener(protocol=SecurityProtocol.SSL, client_certificates=True, name="MUTUAL"),
        Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SaslMechanism.PLAIN,)),
    )
    with KafkaCluster("secured-a", listeners=listeners, users={"mirror": PASSWORD}) as cluster:
        yield cluster


def test_only_lanes_receive_secrets(
    source: KafkaCluster, target: KafkaCluster, host: str, ports: tuple[int, int]
) -> None:
    """Client certificates from a JKS store for source A, PLAIN for source C, SCRAM for the target; and a certificate
    for the node's listener. The master starts after the node, which reports that and waits."""
    pems = Authority().write_server_pems(scratch.directory("leases"), host)
    for topic in TOPICS.values():
        source.create_topic(topic, 2)
        write(source.bootstrap, topic, plain(RECORDS, partitions=2), codec="lz4")
    user_and_password = sasl_tls(source, SaslMechanism.PLAIN, user="mirror", password=PASSWORD)
    cluster = SparkCluster(workers=1, host=host)
    properties = two_clusters(
        stores(source, "JKS", key_password=KEY_PASSWORD),
        sasl_tls(target, SCRAM_512, user="mirror", password=PASSWORD),
        **{
            "clusters": "A, B, C",
            **{f"C.{key}": value for key, value in user_and_password.items()},
            "C->B.enabled": "true",
            **{f"{alias}->B.topics": topic for alias, topic in TOPICS.items()},
            "listeners": f"http://{host}:{ports[0]}, https://{host}:{ports[1]}",
            "listeners.https.ssl.keystore.type": "PEM",
            "listeners.https.ssl.keystore.location": str(pems.keystore),
            "listeners.https.ssl.truststore.type": "PEM",
            "listeners.https.ssl.truststore.location": str(pems.truststore),
            "listeners.https.ssl.client.auth": "required",
            "mm2.lanes": "1",
            "mm2.log.level": "DEBUG",
        },
        **cluster.application,
    )
    with Node(properties, name="node-of-cluster") as node, contextlib.closing(cluster):
        wait_until(
            lambda: any(f"cannot reach Spark master {cluster.url}" in one for one in node.health().get("reasons", ())),
            SOON,
            "/health reports that the Spark master is unreachable",
        )
        cluster.start()
        node.wait_running(RUNS)
        for alias, topic in TOPICS.items():
            wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"{alias}.{topic}"), COPIED)
        visible = [line for one in cluster.executors() for line in _visible(one)]
        assert visible, "executors run and were inspected"
        logged = [log.read_text(errors="replace") for log in cluster.logs()]
        shown = (*visible, *logged, node.process.output())
        assert not [line for line in shown for secret in (PASSWORD, KEY_PASSWORD, "PRIVATE KEY") if secret in line]
        assert node.stop() == 0


@pytest.mark.needs("gssapi")
@pytest.mark.needs("krb5kdc")
@pytest.mark.long  # leases with secrets: test_only_lanes_receive_secrets; keytabs: tests/integration/kerberos
def test_lanes_log_in_with_the_keytab_of_the_node(cluster_a: KafkaCluster, start_cluster: StartCluster) -> None:
    """Executors have neither the file nor krb5.conf: both come with the lease, and are not written to a disk."""
    topic = cluster_a.create_topic(unique_name("orders"), 2)
    write(cluster_a.bootstrap, topic, plain(RECORDS, partitions=2), codec="lz4")
    with Kdc() as kdc, SparkCluster(workers=1) as cluster:
        kdc.add("mirror")
        keytab = kdc.keytab("mirror")
        target = start_cluster("kerberized-b", **kdc.broker(LISTENER))
        properties = two_clusters(
            address_only(cluster_a, INTERNAL),
            lines(target, keytab_options("mirror", keytab)),
            topics=topic,
            **cluster.application,
            **{"mm2.lanes": "1"},
        )
        with Node(properties, name="node-of-cluster", env={"KRB5_CONFIG": str(kdc.krb5_conf)}) as node:
            node.wait_running(RUNS)
            wait_until_copied((cluster_a.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
            lanes = [process for one in cluster.executors() for process in (one, *one.children(recursive=True))]
            assert not [line for one in lanes for line in _visible(one) if str(kdc.krb5_conf) in line]
            assert node.stop() == 0
        logged = [log.read_text(errors="replace") for log in cluster.logs()]
        secret = b64encode(keytab.read_bytes()).decode()
        assert not [text for text in (*logged, node.process.output()) if secret in text]


def _visible(process: psutil.Process) -> list[str]:
    """Return what other users of the machine can read of a process, and its environment."""
    try:
        return [*process.cmdline(), *process.environ().values()]
    except psutil.NoSuchProcess:
        return []
