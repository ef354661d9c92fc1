"""The end of ``kafka-mirror-maker`` after a failure: no stream continues without the others."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupState

from tests.integration.mirror1 import user_classes
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.freezing import frozen
from tests.lab.history import count, read_topic
from tests.lab.load import Load
from tests.lab.mirror1 import MM2, Mirror1, committed
from tests.lab.node import RUNS_WITHIN
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.records import Outgoing, plain, write
from tests.lab.waiting import require_within, wait_until

pytestmark = pytest.mark.timeout(600)

ENDS = RUNS_WITHIN  # a start of Spark included
RECORDS = 1_000
EARLIEST = {"auto.offset.reset": "earliest"}
STOPS = 40.0  # seconds after SIGTERM: 10 for what is in flight, and a few each for lanes, commits and the engine


def contents(cluster: KafkaCluster, topic: str) -> set[tuple[bytes | None, bytes | None]]:
    return {(record.key, record.value) for rows in read_topic(cluster.bootstrap, topic).values() for record in rows}


def has_no_members(cluster: KafkaCluster, group: str) -> bool:
    described = cluster.admin.describe_consumer_groups([group])[group].result(30)
    return described.state is ConsumerGroupState.EMPTY


@pytest.mark.long  # the end of a process: test_a_failure_to_send_ends_the_process
def test_a_failure_to_send_while_another_source_is_unreachable(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path
) -> None:
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(topic, 1, config={"max.message.bytes": "10000"})
    write(cluster_a.bootstrap, topic, [Outgoing(key=None, value=b"x" * 20_000, partition=0)])
    port = reserve_port()
    unreachable = tmp_path / "unreachable.properties"
    unreachable.write_text(f"bootstrap.servers={HOST}:{port}\ngroup.id={group}\n", "utf-8")
    options = ("--include", topic, "--consumer.config", str(unreachable))
    try:
        with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=EARLIEST) as mirror:
            assert mirror.process.wait(ENDS, "it ends") == 1
    finally:
        release_port(port)
    said = mirror.process.output()
    assert "stopping, because --abort.on.send.failure is true" in said
    assert "Traceback" not in said


@pytest.mark.long  # what is not committed is copied again: test_a_killed_process_is_replaced
def test_a_target_that_does_not_answer(cluster_a: KafkaCluster, start_cluster: StartCluster) -> None:
    """SIGTERM ends the process soon, and it leaves the group. The next start copies what was in flight again."""
    target = start_cluster("target")
    topic, group = unique_name("orders"), unique_name("mirror")
    for cluster in (cluster_a, target):
        cluster.create_topic(topic, 2)
    options = ("--include", topic, "--offset.commit.interval.ms", "1000")
    mirror = Mirror1(MM2, cluster_a, target, *options, group=group, consumer=EARLIEST)
    with Load(cluster_a, topic, partitions=2, per_second=500) as load:
        with mirror:
            wait_until(lambda: min(committed(cluster_a, group, topic, 2)) > 0, ENDS, "both partitions are committed")
            with frozen(target.broker(1).process):
                load.wait_for_more(RECORDS)
                began = time.monotonic()
                assert mirror.process.stop(ENDS) == 1
                require_within(time.monotonic() - began, STOPS, "it ends although the target does not answer")
            assert has_no_members(cluster_a, group)
        load.stop()
    said = mirror.process.output()
    assert "the target has not acknowledged everything in flight within 10 s" in said
    assert f"what is not committed of {topic}-" in said
    assert "stopped: some offsets could not be committed, so their records will be copied again" in said
    assert "Traceback" not in said
    every = contents(cluster_a, topic)
    with mirror:
        wait_until(lambda: contents(target, topic) >= every, ENDS, "all records are copied")
        assert mirror.stop() == 0


@pytest.mark.long  # the end of a process: test_a_failure_to_send_ends_the_process
def test_a_failure_to_send_while_another_broker_hangs(cluster_a: KafkaCluster, start_cluster: StartCluster) -> None:
    target = start_cluster("target", brokers=2)
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 2)
    target.create_topic(topic, 2, copies=1, config={"max.message.bytes": "10000"})
    hangs, other = (target.leader(topic, number) for number in range(2))
    assert hangs is not other
    with Mirror1(MM2, cluster_a, target, "--include", topic, group=group, consumer=EARLIEST) as mirror:
        write(cluster_a.bootstrap, topic, plain(RECORDS, partitions=2))
        wait_until(lambda: count(read_topic(target.bootstrap, topic)) == RECORDS, ENDS, "both partitions are copied")
        with frozen(hangs.process):
            write(cluster_a.bootstrap, topic, [Outgoing(key=None, value=b"x", partition=0)])
            write(cluster_a.bootstrap, topic, [Outgoing(key=None, value=b"x" * 20_000, partition=1)])
            assert mirror.process.wait(ENDS, "it ends") == 1
    said = mirror.process.output()
    assert "stopping, because --abort.on.send.failure is true" in said
    assert "the target has not acknowledged everything in flight within 10 s" in said
    assert "Traceback" not in said


@pytest.mark.long  # the end of a process: test_a_failure_to_send_ends_the_process
def test_sighup(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It ends the process as SIGTERM does: Java's shutdown hooks run after both."""
    topic, group = unique_name("orders"), unique_name("mirror")
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 1)
    write(cluster_a.bootstrap, topic, plain(RECORDS))
    with Mirror1(MM2, cluster_a, cluster_b, "--include", topic, group=group, consumer=EARLIEST) as mirror:
        wait_until(lambda: count(read_topic(cluster_b.bootstrap, topic)) == RECORDS, ENDS, "everything is copied")
        mirror.process.signal(signal.SIGHUP)
        assert mirror.process.wait(ENDS, "it ends") == 0
    said = mirror.process.output()
    assert "SIGHUP received: completing the records in flight" in said
    assert "stopped: no records are in flight, and all offsets are committed" in said
    assert committed(cluster_a, group, topic, 1) == [RECORDS]


@pytest.mark.long  # the end of a process: test_a_failure_to_send_ends_the_process
def test_the_failure_of_one_stream(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path) -> None:
    """The other stream of the source completes what is in flight and commits it before the process ends."""
    topic, group, fail = unique_name("orders"), unique_name("mirror"), tmp_path / "fail"
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 2)
    options = (
        *("--include", f"{topic}.*", "--num.streams", "2"),
        *(
            "--consumer.rebalance.listener",
            f"{user_classes.__name__}:FailsOnce",
            "--rebalance.listener.args",
            str(fail),
        ),
    )
    consumer = {**EARLIEST, "metadata.max.age.ms": "1000"}
    env = {"PYTHONPATH": str(ROOT)}
    with Load(cluster_a, topic, partitions=2, per_second=500) as load:
        with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=consumer, env=env) as mirror:
            wait_until(lambda: count(read_topic(cluster_b.bootstrap, topic)) > RECORDS, ENDS, "both copy")
            fail.touch()
            cluster_a.create_topic(f"{topic}-later", 1)
            assert mirror.process.wait(ENDS, "it ends") == 1
        load.stop()
    said = mirror.process.output()
    assert "RuntimeError: cannot use " in said
    assert "stopped: no records are in flight, and all offsets are committed" in said
    copied = read_topic(cluster_b.bootstrap, topic)
    assert committed(cluster_a, group, topic, 2) == [len(copied[partition]) for partition in range(2)]
