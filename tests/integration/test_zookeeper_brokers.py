"""Brokers, and offsets of the group, of files with zookeeper.connect, in a real ZooKeeper where a real broker is
registered."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from mm2.cli.mirror1.zookeeper_brokers import NoBrokers, registered_brokers, with_brokers
from mm2.cli.mirror1.zookeeper_offsets import with_old_offsets
from mm2.config.mirror1.load import load
from mm2.config.mirror1.options import MirrorOptions
from mm2.core.mirror1.settings import MirrorSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.zookeeper_connect import parse_connect
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.fixtures import unique_name
from tests.lab.groups import commit
from tests.lab.history import read_topic
from tests.lab.mirror1 import MM2, Mirror1, committed
from tests.lab.node import RUNS_WITHIN
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until
from tests.lab.zookeeper import ZooKeeperServer
from tests.lab.zookeeper_mode import ZooKeeperModeCluster

CHROOT = "/clusters/kafka"
OFFSETS = f"{CHROOT}/consumers/mirror/offsets/orders"
MEMBER = f"{CHROOT}/consumers/mirror/ids/mirror_host-1"
COPIED_WITHIN = RUNS_WITHIN  # a start of Spark included
FOUND_WITHIN = 60.0  # seconds after ZooKeeper has started again


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def old_cluster(zookeeper: ZooKeeperServer) -> Iterator[KafkaCluster]:
    with ZooKeeperModeCluster("old", zookeeper, protocol="2.8", chroot=CHROOT) as cluster:
        yield cluster


def files(directory: Path, zookeeper: ZooKeeperServer) -> tuple[Path, Path]:
    consumer, producer = directory / "consumer.properties", directory / "producer.properties"
    consumer.write_text(f"zk.connect={zookeeper.address}{CHROOT}\ngroupid=mirror\noffsets.storage=kafka\n")
    producer.write_text("broker.list=0:127.0.0.1:1\n")
    return consumer, producer


def settings(directory: Path, zookeeper: ZooKeeperServer) -> MirrorSettings:
    consumer, producer = files(directory, zookeeper)
    found = load(MirrorOptions(consumer_files=(consumer,), producer_file=producer, include=".*")).settings
    assert found is not None
    return found


def test_brokers_are_found(
    old_cluster: KafkaCluster, zookeeper: ZooKeeperServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = with_brokers(settings(tmp_path, zookeeper))
    assert found.consumers[0].client.bootstrap_servers == (old_cluster.bootstrap,)
    assert found.target.bootstrap_servers == ("127.0.0.1:1",)
    assert f"consumer.properties: brokers in ZooKeeper: {old_cluster.bootstrap}\n" in capsys.readouterr().err


def test_migration_writes_the_brokers(old_cluster: KafkaCluster, zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    consumer, producer = files(tmp_path, zookeeper)
    options = ("--consumer.config", str(consumer), "--producer.config", str(producer), "--include", "a")
    printed = run("mm2", "migrate-mm1", *options)
    assert printed.code == 0, printed.stderr
    assert f"A.bootstrap.servers = {old_cluster.bootstrap}\n" in printed.stdout
    consumer.write_text(f"zk.connect={zookeeper.address}/nothing\ngroupid=mirror\n")
    failed = run("mm2", "migrate-mm1", *options)
    assert failed.code == 1
    assert failed.stderr.splitlines()[-1].startswith(f"mm2 migrate-mm1: ZooKeeper {zookeeper.address}/nothing has no")
    assert failed.stdout == ""


@pytest.mark.parametrize(
    ("path", "protocol", "reason"),
    [
        (
            CHROOT,
            SecurityProtocol.SSL,
            "no live broker has a SSL listener; check that brokers run and security.protocol",
        ),
        ("/elsewhere", SecurityProtocol.PLAINTEXT, "has no /brokers/ids; check the path in zookeeper.connect"),
    ],
)
def test_no_brokers(
    path: str, protocol: SecurityProtocol, reason: str, old_cluster: KafkaCluster, zookeeper: ZooKeeperServer
) -> None:
    assert old_cluster.bootstrap
    with pytest.raises(NoBrokers) as caught:
        registered_brokers(parse_connect(zookeeper.address + path), protocol)
    assert str(caught.value).endswith(reason)


def test_registration_of_kafka_0_7(zookeeper: ZooKeeperServer) -> None:
    client = KazooClient(hosts=zookeeper.address)
    client.start()
    client.create("/old/brokers/ids/7", b"creator:b1:9092", makepath=True)
    client.stop()
    client.close()
    with pytest.raises(NoBrokers, match="/old: broker 7: cannot read broker registration"):
        registered_brokers(parse_connect(f"{zookeeper.address}/old"), SecurityProtocol.PLAINTEXT)


def test_unreachable_zookeeper() -> None:
    port = reserve_port()
    try:
        with pytest.raises(NoBrokers, match=r"does not answer \(.+\); check zookeeper\.connect"):
            registered_brokers(parse_connect(f"{HOST}:{port}"), SecurityProtocol.PLAINTEXT, connect_s=1.0)
    finally:
        release_port(port)


def found_after(
    start: Callable[[], MirrorSettings],
    capsys: pytest.CaptureFixture[str],
    failure: str,
    *,
    end: Callable[[], object],
) -> tuple[list[MirrorSettings], str]:
    """Start, and end the failure once it is reported as retried. Return what was found, and the errors."""
    found: list[MirrorSettings] = []
    errors = ""

    def reported() -> bool:
        nonlocal errors
        errors += capsys.readouterr().err
        return "retrying in" in errors

    waiting = threading.Thread(target=lambda: found.append(start()))
    waiting.start()
    try:
        wait_until(reported, FOUND_WITHIN, f"{failure} is reported")
    finally:
        end()
        waiting.join(FOUND_WITHIN)
    return found, errors


def test_the_start_waits_for_zookeeper(
    old_cluster: KafkaCluster,
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = settings(tmp_path, zookeeper)
    zookeeper.stop()
    found, errors = found_after(
        lambda: with_brokers(wanted, connect_s=1.0, retry_s=0.2), capsys, "the failure", end=zookeeper.start
    )
    assert [one.consumers[0].client.bootstrap_servers for one in found] == [(old_cluster.bootstrap,)]
    assert f"ZooKeeper {zookeeper.address}{CHROOT} does not answer" in errors


@pytest.fixture
def old_group(old_cluster: KafkaCluster, zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    """A group of the old consumer: of 100 records it has read 40 of one partition, which only ZooKeeper says, and 90 of
    another one. Kafka has the offset 95 of that one, as of dual.commit.enabled."""
    client = KazooClient(hosts=zookeeper.address)
    client.start()
    for partition, offset in ((0, b"40"), (1, b"90"), (2, b"nonsense")):
        client.create(f"{OFFSETS}/{partition}", offset, makepath=True)
    yield client
    client.delete(f"{CHROOT}/consumers", recursive=True)
    client.stop()
    client.close()


def reading_offsets(directory: Path, zookeeper: ZooKeeperServer, target: str = "127.0.0.1:1") -> tuple[str, ...]:
    consumer, producer = files(directory, zookeeper)
    consumer.write_text(consumer.read_text().replace("offsets.storage=kafka\n", "autooffset.reset=largest\n"))
    producer.write_text(f"metadata.broker.list={target}\n")
    return ("--consumer.config", str(consumer), "--producer.config", str(producer), "--whitelist", "orders")


def test_the_start_waits_for_members_of_the_old_consumer(
    old_group: KazooClient, zookeeper: ZooKeeperServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are no members of the group in Kafka, so both programs would copy everything, and they still commit."""
    reading_offsets(tmp_path, zookeeper)
    files_of = MirrorOptions(
        consumer_files=(tmp_path / "consumer.properties",),
        producer_file=tmp_path / "producer.properties",
        include="orders",
    )
    wanted = load(files_of).settings
    assert wanted is not None

    def commit_and_leave() -> None:
        old_group.set(f"{OFFSETS}/0", b"41")
        old_group.delete(MEMBER)

    old_group.create(MEMBER, ephemeral=True, makepath=True)
    found, errors = found_after(
        lambda: with_old_offsets(wanted, retry_s=0.1), capsys, "the member", end=commit_and_leave
    )
    place = f"{zookeeper.address}{CHROOT}"
    assert f"group mirror has members in ZooKeeper {place} (mirror_host-1): stop MirrorMaker 1 first" in errors
    orders = {TopicPartition("orders", 0): 41, TopicPartition("orders", 1): 90}
    assert [one.consumers[0].old_offsets for one in found] == [orders]


def test_migration_stores_offsets_that_only_zookeeper_has(
    old_cluster: KafkaCluster,
    cluster_b: KafkaCluster,
    old_group: KazooClient,
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
) -> None:
    old_cluster.create_topic("orders", 3)
    commit(old_cluster, "mirror", {("orders", 1): 95})
    aliases = ("--source", unique_name("A"), "--target", unique_name("B"))
    command = ("migrate-mm1", *reading_offsets(tmp_path, zookeeper, cluster_b.bootstrap), *aliases, "--write-offsets")
    old_group.create(MEMBER, ephemeral=True, makepath=True)
    refused = run("mm2", *command)
    assert refused.code == 1
    assert "(mirror_host-1): stop MirrorMaker 1 first" in refused.stderr
    old_group.delete(MEMBER)
    written = run("mm2", *command)
    assert written.code == 0, written.stderr
    assert written.stdout.splitlines()[:3] == [
        "orders-0: continues at offset 40, which only ZooKeeper has",
        "orders-1: continues at offset 95",
        "orders-2: starts at its end, offset 0: no offset is committed, and auto.offset.reset is latest",
    ]


@pytest.mark.long  # a start of Spark; where partitions start: tests/unit/mirror1/test_stream.py
def test_a_mirror_continues_where_only_zookeeper_has_the_group(
    old_cluster: KafkaCluster,
    cluster_b: KafkaCluster,
    old_group: KazooClient,
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
) -> None:
    topic, group = unique_name("payments"), unique_name("old")
    for cluster in (old_cluster, cluster_b):
        cluster.create_topic(topic)
    write(old_cluster.bootstrap, topic, plain(100))
    old_group.create(f"{CHROOT}/consumers/{group}/offsets/{topic}/0", b"40", makepath=True)
    consumer = {"bootstrap.servers": "", "zookeeper.connect": f"{zookeeper.address}{CHROOT}"}
    with Mirror1(MM2, old_cluster, cluster_b, "--whitelist", topic, group=group, consumer=consumer) as mirror:
        wait_until(
            lambda: len(read_topic(cluster_b.bootstrap, topic).get(0, ())) >= 60, COPIED_WITHIN, "the rest is copied"
        )
        assert mirror.stop() == 0
    assert len(read_topic(cluster_b.bootstrap, topic)[0]) == 60
    assert f"starting at that of ZooKeeper: {topic}-0 at 40" in mirror.process.output()
    assert committed(old_cluster, group, topic, 1) == [100]
