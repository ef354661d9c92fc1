"""Tests of the lab, on which all other integration tests depend."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.lab import scratch
from tests.lab.cluster import ADMIN_TIMEOUT, KafkaCluster
from tests.lab.fixtures import StartCluster
from tests.lab.history import count, read_topic
from tests.lab.jars import KAFKA_3, KAFKA_4
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.records import CODECS, every_shape, plain, write, write_transactions
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import GaveUp, wait_until

VERSIONS = (KAFKA_4, KAFKA_3)
# every codec is written by tests of flows
ONE_CODEC = tuple(codec if codec == "lz4" else pytest.param(codec, marks=pytest.mark.long) for codec in CODECS)
USERS = {"alice": "alice-secret"}
KEPT = {"retention.ms": "-1"}  # otherwise the broker would delete the old records
EVERY_LISTENER = (
    Listener(protocol=SecurityProtocol.SSL),
    Listener(protocol=SecurityProtocol.SSL, name="MUTUAL", client_certificates=True),
    Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256)),
    Listener(protocol=SecurityProtocol.SASL_SSL, mechanisms=(SaslMechanism.SCRAM_SHA_512,)),
)


@pytest.mark.long  # nodes connect to all of them in test_security_listeners.py
@pytest.mark.parametrize("version", VERSIONS)
def test_all_listeners_accept_matching_clients(start_cluster: StartCluster, version: str) -> None:
    cluster = start_cluster(version=version, listeners=EVERY_LISTENER, users=USERS)
    pems = cluster.authority.client("bob")
    tls: dict[str, str] = {"security.protocol": "SSL", "ssl.ca.pem": cluster.authority.ca_pem}
    sasl = {"sasl.username": "alice", "sasl.password": "alice-secret"}

    assert sees_one_broker(cluster, "SSL", tls)
    own = {"ssl.certificate.pem": pems.certificate, "ssl.key.pem": pems.key}
    assert sees_one_broker(cluster, "MUTUAL", tls | own)
    for mechanism in ("PLAIN", "SCRAM-SHA-256"):
        login = sasl | {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        assert sees_one_broker(cluster, "SASL_PLAINTEXT", login)
    login = tls | sasl | {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}
    assert sees_one_broker(cluster, "SASL_SSL", login)

    with pytest.raises(KafkaException):
        sees_one_broker(cluster, "MUTUAL", tls, timeout=3)
    with pytest.raises(KafkaException):
        sees_one_broker(cluster, "SASL_SSL", login | {"sasl.password": "wrong"}, timeout=3)


def sees_one_broker(
    cluster: KafkaCluster, listener: str, settings: dict[str, str], *, timeout: float = ADMIN_TIMEOUT
) -> bool:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_of(listener), "log_level": 0, **settings})
    return list(admin.list_topics(timeout=timeout).brokers) == [1]


@pytest.mark.long  # tests/integration/guarded and access find what is denied
def test_authorizer_denies_by_default(start_cluster: StartCluster) -> None:
    plain = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
    cluster = start_cluster(listeners=(plain,), users=USERS, properties=AUTHORIZER)
    topic = cluster.create_topic("orders")

    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    login |= {"sasl.username": "alice", "sasl.password": "alice-secret"}
    alice = AdminClient({"bootstrap.servers": cluster.bootstrap_of("SASL_PLAINTEXT"), "log_level": 0, **login})

    assert topic in cluster.admin.list_topics(timeout=10).topics
    assert topic not in alice.list_topics(timeout=10).topics


@pytest.mark.long  # tests/faults/test_leaders.py kills a leader, too
@pytest.mark.parametrize("version", VERSIONS)
def test_killed_leader_loses_leadership_and_recovers(start_cluster: StartCluster, version: str) -> None:
    cluster = start_cluster(version=version, brokers=3)
    topic = cluster.create_topic("orders")
    first = cluster.leader(topic)

    first.kill()
    wait_until(lambda: cluster.leader(topic) is not first, 30, "another broker leads")

    first.restart()
    wait_until(lambda: len(cluster.admin.list_topics(timeout=10).brokers) == 3, 30, "all three brokers are live again")


@pytest.mark.long  # test_demo.py interrupts a process with brokers
def test_brokers_exit_with_the_test_process_and_the_next_run_cleans_up() -> None:
    script = (
        "from tests.lab.cluster import KafkaCluster\n"
        "cluster = KafkaCluster('doomed').start()\n"
        "print(cluster.broker(1).process.pid, flush=True)\n"
        "import time; time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as tests:
        assert tests.stdout is not None
        broker = psutil.Process(int(tests.stdout.readline()))
        directory = Path(broker.cwd())
        tests.kill()
    wait_until(lambda: not broker.is_running() or broker.status() == psutil.STATUS_ZOMBIE, 10, "the broker has exited")

    assert directory.exists()
    scratch.remove_orphans()
    assert not directory.exists()


@pytest.mark.long  # every test that restarts a broker does so
async def test_broker_restarts_while_the_event_loop_runs(start_cluster: StartCluster) -> None:
    broker = start_cluster().broker(1)
    first = broker.process.pid

    await asyncio.to_thread(broker.restart)

    assert broker.process.running
    assert broker.process.pid != first


@pytest.mark.parametrize("codec", ONE_CODEC)
def test_all_shapes_are_written_and_read_back(
    cluster_a: KafkaCluster, unique: Callable[[str], str], rng: random.Random, codec: str
) -> None:
    topic = cluster_a.create_topic(unique("shapes"), partitions=3, config=KEPT)
    records = every_shape(rng, 500, partitions=3, now_ms=1_700_000_000_000)

    assert write(cluster_a.bootstrap, topic, records, codec=codec) == 500

    read = read_topic(cluster_a.bootstrap, topic)
    for partition in range(3):
        sent = [(one.key, one.value, one.headers, one.timestamp_ms) for one in records if one.partition == partition]
        assert [one.content for one in read[partition]] == sent


def test_aborted_transactions_are_read_only_on_request(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    topic = cluster_a.create_topic(unique("transactions"))
    batches = [(list(plain(10, first=first)), first != 10) for first in (0, 10, 20)]

    write_transactions(cluster_a.bootstrap, topic, batches, transactional_id=topic)

    assert count(read_topic(cluster_a.bootstrap, topic)) == 20
    assert count(read_topic(cluster_a.bootstrap, topic, isolation="read_uncommitted")) == 30


def test_waiting_for_a_copy_and_reporting_a_wrong_one(cluster_a: KafkaCluster, unique: Callable[[str], str]) -> None:
    source, copy = (
        cluster_a.create_topic(unique("source"), config=KEPT),
        cluster_a.create_topic(unique("copy"), config=KEPT),
    )
    records = [replace(record, timestamp_ms=1_700_000_000_000) for record in plain(100)]
    write(cluster_a.bootstrap, source, records)
    write(cluster_a.bootstrap, copy, records)
    sides = ((cluster_a.bootstrap, source), (cluster_a.bootstrap, copy))

    assert wait_until_copied(*sides, timeout=10).exact

    write(cluster_a.bootstrap, copy, records[-1:])
    with pytest.raises(GaveUp, match="1 duplicated"):
        wait_until_copied(*sides, timeout=2)
    assert wait_until_copied(*sides, timeout=10, repeats_allowed=True).complete

    write(cluster_a.bootstrap, copy, records[:1])  # stale, until the others are repeated, too
    write(cluster_a.bootstrap, copy, records[1:])
    assert wait_until_copied(*sides, timeout=10, repeats_allowed=True).complete
