"""Brokers of files with zookeeper.connect, found in a real ZooKeeper where a real broker is registered."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from mm2.cli.mirror1.zookeeper_brokers import NoBrokers, registered_brokers, with_brokers
from mm2.config.mirror1.load import load
from mm2.config.mirror1.options import MirrorOptions
from mm2.core.mirror1.settings import MirrorSettings
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.zookeeper_connect import parse_connect
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.waiting import wait_until
from tests.lab.zookeeper import ZooKeeperServer
from tests.lab.zookeeper_mode import ZooKeeperModeCluster

CHROOT = "/clusters/kafka"
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


def test_the_start_waits_for_zookeeper(
    old_cluster: KafkaCluster,
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    wanted = settings(tmp_path, zookeeper)
    found: list[MirrorSettings] = []
    errors = ""

    def reported() -> bool:
        nonlocal errors
        errors += capsys.readouterr().err
        return "retrying in" in errors

    zookeeper.stop()
    waiting = threading.Thread(target=lambda: found.append(with_brokers(wanted, connect_s=1.0, retry_s=0.2)))
    waiting.start()
    try:
        wait_until(reported, FOUND_WITHIN, "the failure is reported")
    finally:
        zookeeper.start()
        waiting.join(FOUND_WITHIN)
    assert [one.consumers[0].client.bootstrap_servers for one in found] == [(old_cluster.bootstrap,)]
    assert f"ZooKeeper {zookeeper.address}{CHROOT} does not answer" in errors
