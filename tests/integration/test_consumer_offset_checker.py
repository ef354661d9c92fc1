"""``kafka-consumer-offset-checker`` on real brokers, and on a real ZooKeeper with znodes of the old consumer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from kazoo.client import KazooClient

from mm2.cli.commands import checker_app, execute
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from tests.lab import groups
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.listeners import Listener
from tests.lab.records import plain, write
from tests.lab.zookeeper import ZooKeeperServer
from tests.lab.zookeeper_mode import ZooKeeperModeCluster

HEADER = "Group           Topic                          Pid Offset          logSize         Lag             Owner"
OLD = "KafkaMirror"

Checker = Callable[..., tuple[int, list[str], str]]


@pytest.fixture
def checker(capsys: pytest.CaptureFixture[str]) -> Checker:
    """Run the program in this process; return the exit code, the lines of stdout, and stderr."""

    def call(*words: str) -> tuple[int, list[str], str]:
        code = execute(checker_app(), words)
        captured = capsys.readouterr()
        return code, captured.out.splitlines(), captured.err

    return call


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture(scope="module")
def old_cluster(zookeeper: ZooKeeperServer) -> Iterator[KafkaCluster]:
    with ZooKeeperModeCluster("old-consumer", zookeeper, protocol="3.9") as cluster:
        cluster.create_topic("test-topic", 3)
        cluster.create_topic("migrated", 2)
        cluster.create_topic("other")
        write(cluster.bootstrap, "test-topic", plain(300, partitions=3))
        write(cluster.bootstrap, "migrated", plain(40, partitions=2))
        yield cluster


@pytest.fixture
def znodes(zookeeper: ZooKeeperServer) -> Iterator[KazooClient]:
    client = KazooClient(hosts=zookeeper.address)
    client.start()
    yield client
    if client.exists("/consumers") is not None:  # Kafka creates it, and not every test does
        client.delete("/consumers", recursive=True)
    client.stop()
    client.close()


def cells(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines[1:]]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_group_with_a_member(protocol: str, cluster_a: KafkaCluster, checker: Checker) -> None:
    topic, other = cluster_a.create_topic(unique_name("b-owned"), 3), cluster_a.create_topic(unique_name("a-left"))
    group = unique_name("größe")
    write(cluster_a.bootstrap, topic, plain(30, partitions=3))
    groups.commit(cluster_a, group, {(other, 0): 0}, protocol=protocol)
    with groups.member(cluster_a, group, {topic}, protocol=protocol) as consumer:
        consumer.commit(offsets=[ClientPartition(topic, 0, 4), ClientPartition(topic, 2, 10)], asynchronous=False)
        code, lines, err = checker("--group", group, "--bootstrap-server", cluster_a.bootstrap, "--broker-info")
        assert (code, err) == (0, "")
        member = consumer.memberid()
    assert lines[0] == HEADER
    owner = lines[2].split()[-1]
    assert member in owner
    assert owner.endswith("_/127.0.0.1")
    assert "rdkafka" in owner
    assert cells(lines[:5]) == [
        [group, other, "0", "0", "0", "0", "none"],
        [group, topic, "0", "4", "10", "6", owner],
        [group, topic, "1", "unknown", "10", "unknown", owner],
        [group, topic, "2", "10", "10", "0", owner],
    ]
    assert lines[5:] == ["BROKER INFO", f"1 -> {cluster_a.bootstrap}"]


def test_chosen_topics_of_a_group_without_members(cluster_a: KafkaCluster, checker: Checker) -> None:
    first, second = cluster_a.create_topic(unique_name("first")), cluster_a.create_topic(unique_name("second"))
    group = unique_name("reader")
    write(cluster_a.bootstrap, second, plain(5))
    groups.commit(cluster_a, group, {(first, 0): 0, (second, 0): 2})
    at = ("--group", group, "--bootstrap-server", cluster_a.bootstrap)
    code, lines, err = checker(*at, "--topic", f"{second},nowhere")
    assert (code, cells(lines)) == (0, [[group, second, "0", "2", "5", "3", "none"]])
    assert err == "kafka-consumer-offset-checker: topic nowhere does not exist, or may not be described\n"
    code, lines, err = checker(*at, "--topic", "nowhere")
    assert (code, lines) == (1, [HEADER])
    assert err.endswith("kafka-consumer-offset-checker: none of the topics exists\n")


def test_group_that_does_not_exist(cluster_a: KafkaCluster, checker: Checker) -> None:
    code, lines, err = checker("--group", "nobody", "--bootstrap-server", cluster_a.bootstrap)
    assert (code, lines) == (1, [])
    assert err == (
        f"kafka-consumer-offset-checker: group nobody does not exist on {cluster_a.bootstrap}: it has neither members"
        " nor offsets\n"
    )


def old_consumer(client: KazooClient) -> None:
    """The znodes of the old consumer: thread IDs of owners, offsets as text."""
    for number, offset in ((0, b"60"), (1, b"100"), (2, b"-1")):
        client.create(f"/consumers/{OLD}/offsets/test-topic/{number}", offset, makepath=True)
    client.create(f"/consumers/{OLD}/offsets/other/0", b"0", makepath=True)
    for number in (0, 2):
        owner = f"{OLD}_h-14-5f-{number}".encode()
        client.create(f"/consumers/{OLD}/owners/test-topic/{number}", owner, makepath=True)
    client.create(f"/consumers/{OLD}/ids", makepath=True)


def test_group_of_the_old_consumer(
    zookeeper: ZooKeeperServer, old_cluster: KafkaCluster, znodes: KazooClient, checker: Checker
) -> None:
    old_consumer(znodes)
    code, lines, err = checker("--group", OLD, "--zkconnect", zookeeper.address, "--broker-info")
    assert (code, err) == (0, "")
    assert lines == [
        HEADER,
        f"KafkaMirror     {'test-topic':30} 0   60              100             40              {OLD}_h-14-5f-0",
        "KafkaMirror     test-topic                     1   100             100             0               none",
        f"KafkaMirror     {'test-topic':30} 2   unknown         100             unknown         {OLD}_h-14-5f-2",
        "BROKER INFO",
        f"1 -> {old_cluster.bootstrap}",
    ]
    code, lines, err = checker("--group", OLD, "--zookeeper", zookeeper.address, "--topic", "test-topic,other")
    assert (code, err) == (0, "")
    assert [line[1:3] for line in cells(lines)] == [
        ["other", "0"],
        *(["test-topic", str(number)] for number in range(3)),
    ]


def test_old_group_without_members_and_with_offsets_in_kafka(
    zookeeper: ZooKeeperServer, old_cluster: KafkaCluster, znodes: KazooClient, checker: Checker
) -> None:
    znodes.create(f"/consumers/{OLD}/offsets/migrated/0", b"3", makepath=True)
    znodes.create(f"/consumers/{OLD}/offsets/migrated/1", b"17", makepath=True)
    groups.commit(old_cluster, OLD, {("migrated", 0): 15})
    code, lines, err = checker("--group", OLD, "--zookeeper", zookeeper.address)
    assert (code, err) == (0, "")
    assert cells(lines) == [
        [OLD, "migrated", "0", "15", "20", "5", "none"],
        [OLD, "migrated", "1", "17", "20", "3", "none"],
    ]


def test_errors_of_zookeeper(
    zookeeper: ZooKeeperServer, old_cluster: KafkaCluster, znodes: KazooClient, checker: Checker, tmp_path: Path
) -> None:
    code, _, err = checker("--group", "nobody", "--zookeeper", zookeeper.address)
    assert code == 1
    assert f"group nobody does not exist in ZooKeeper {zookeeper.address} and on its brokers" in err
    code, _, err = checker("--group", OLD, "--zookeeper", f"{zookeeper.address}/elsewhere")
    assert code == 1
    assert "has no brokers in /brokers/ids: check the path after the last server" in err
    znodes.create("/old/brokers/ids/7", b"creator:b1:9092", makepath=True)  # as in Kafka 0.7
    code, _, err = checker("--group", OLD, "--zookeeper", f"{zookeeper.address}/old")
    assert code == 1
    assert f"ZooKeeper {zookeeper.address}/old: broker 7: cannot read broker registration" in err
    file = tmp_path / "client.properties"
    file.write_text("security.protocol = SSL\n")
    code, _, err = checker("--group", OLD, "--zookeeper", zookeeper.address, "--command-config", str(file))
    assert code == 1
    assert "has a listener with SSL: set security.protocol in --command-config" in err
    registration = json.loads(znodes.get("/brokers/ids/1")[0])
    assert registration["version"] >= 5  # with the map of listeners


@pytest.mark.long  # a broker of its own; commands_of_clusters.py: the command with logins
def test_listener_with_a_login(start_cluster: StartCluster, checker: Checker, tmp_path: Path) -> None:
    listener = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
    kafka = start_cluster("login", listeners=(listener,), users={"alice": "geheim"})
    topic = kafka.create_topic("orders")
    write(kafka.bootstrap, topic, plain(7))
    groups.commit(kafka, "reader", {(topic, 0): 5})
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol = SASL_PLAINTEXT\nsasl.mechanism = PLAIN\nsasl.jaas.config = org.apache.kafka.common."
        'security.plain.PlainLoginModule required username="alice" password="geheim";\n'
    )
    at = ("--group", "reader", "--bootstrap-server", kafka.bootstrap_of("SASL_PLAINTEXT"))
    code, lines, err = checker(*at, "--command-config", str(file))
    assert (code, err) == (0, "")
    assert cells(lines) == [["reader", topic, "0", "5", "7", "2", "none"]]
    code, lines, err = checker(*at)
    assert (code, lines) == (1, [])
    assert err.count("\n") == 1
    assert "does this port require TLS or SASL?" in err
