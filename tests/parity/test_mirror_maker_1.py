"""``kafka-mirror-maker`` beside MirrorMaker 1 of Kafka 3.9.1: what is copied, what is committed, and take-over."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import StartCluster, unique_name
from tests.lab.history import Record, count, read_topic
from tests.lab.load import Load
from tests.lab.mirror1 import JAVA, MM2, Mirror1, committed
from tests.lab.node import RUNS_WITHIN
from tests.lab.records import Outgoing, write
from tests.lab.verify import compare, wait_until_copied
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(900)

COPIED = RUNS_WITHIN  # a start of Spark included
PER_SECOND = 500
SOURCE_PARTITIONS = 3
EARLIEST = {"auto.offset.reset": "earliest"}
OFTEN = ("--offset.commit.interval.ms", "1000")


def contents(topic: dict[int, list[Record]]) -> Counter[tuple[object, ...]]:
    """Return the records without their places."""
    return Counter(
        (record.key, record.value, record.headers, record.timestamp_ms)
        for records in topic.values()
        for record in records
    )


def orders(topic: dict[int, list[Record]]) -> dict[tuple[bytes, int], list[int]]:
    """Return the numbers of the records of each key and source partition, in the order of their partition here."""
    found: defaultdict[tuple[bytes, int], list[int]] = defaultdict(list)
    for records in topic.values():
        for record in records:
            if record.key is not None:
                number = int(record.headers[0][1] or b"")
                found[record.key, number % SOURCE_PARTITIONS].append(number)
    return dict(found)


def places(topic: dict[int, list[Record]]) -> dict[bytes, int]:
    """Return the partition of each key."""
    return {record.key: number for number, records in topic.items() for record in records if record.key is not None}


def test_same_records_partitions_and_offsets(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, start_cluster: StartCluster
) -> None:
    """With --partitions key: the same partition for each key, and the same committed offsets.

    The records of a key and a source partition are in the order of the source. Those of several source partitions can
    be in any order, also in MirrorMaker 1.
    """
    rng = random.Random(7)
    topic = unique_name("orders")
    cluster_a.create_topic(topic, SOURCE_PARTITIONS)
    records = [
        Outgoing(
            key=None
            if number % 11 == 0
            else rng.randbytes(rng.randint(0, 12))
            if number % 7
            else b"k%d" % (number % 50),
            value=None if number % 13 == 0 else b"%d" % number,
            partition=number % SOURCE_PARTITIONS,
            headers=(("n", b"%d" % number), *([("n", None)] if number % 5 == 0 else [])),
        )
        for number in range(3_000)
    ]
    write(cluster_a.bootstrap, topic, records, codec="lz4")
    copies: dict[str, dict[int, list[Record]]] = {}
    offsets: dict[str, list[int]] = {}
    targets = {JAVA: start_cluster("target-java"), MM2: cluster_b}
    for kind, target in targets.items():
        target.create_topic(topic, 5)
        group = unique_name(f"mirror-{kind}")
        more = ("--partitions", "key") if kind == MM2 else ()
        with Mirror1(kind, cluster_a, target, "--include", topic, *OFTEN, *more, group=group, consumer=EARLIEST) as one:
            wait_for(target, topic, 3_000)
            one.stop()
        copies[kind], offsets[kind] = (
            read_topic(target.bootstrap, topic),
            committed(cluster_a, group, topic, SOURCE_PARTITIONS),
        )
    assert offsets[MM2] == offsets[JAVA] == [1_000] * 3
    assert places(copies[MM2]) == places(copies[JAVA])
    source = read_topic(cluster_a.bootstrap, topic)
    assert contents(copies[MM2]) == contents(copies[JAVA]) == contents(source)
    assert orders(copies[MM2]) == orders(copies[JAVA]) == orders(source)


@contextmanager
def under_load(source: KafkaCluster, target: KafkaCluster) -> Iterator[tuple[str, Load]]:
    topic = unique_name("orders")
    for cluster in (source, target):
        cluster.create_topic(topic, 2)
    with Load(source, topic, partitions=2, per_second=PER_SECOND) as load:
        yield topic, load


def wait_for(target: KafkaCluster, topic: str, records: int) -> None:
    wait_until(lambda: count(read_topic(target.bootstrap, topic)) >= records, COPIED, f"{records} records are copied")


def wait_for_more(target: KafkaCluster, topic: str) -> None:
    wait_for(target, topic, count(read_topic(target.bootstrap, topic)) + 2 * PER_SECOND)


def assert_copied_once_in_order(source: KafkaCluster, target: KafkaCluster, topic: str) -> None:
    """Each record is there once, and those of a key and a partition of the source are in order.

    MirrorMaker 1 chooses other partitions for the keys than the load, which puts record n into partition n % 2.
    """
    originals, copies = (read_topic(cluster.bootstrap, topic) for cluster in (source, target))
    every = Counter((record.key, record.value) for rows in originals.values() for record in rows)
    assert Counter((record.key, record.value) for rows in copies.values() for record in rows) == every
    for rows in copies.values():
        order: defaultdict[tuple[bytes | None, int], list[int]] = defaultdict(list)
        for record in rows:
            number = int((record.value or b"").split()[0])
            order[record.key, number % 2].append(number)
        assert all(numbers == sorted(numbers) for numbers in order.values())


@pytest.mark.long  # test_both_in_one_group: each copies alone, too
def test_take_over_and_back(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """MirrorMaker 1, then ours, then MirrorMaker 1 again, under load: nothing lost or repeated."""
    group = unique_name("mirror")
    with under_load(cluster_a, cluster_b) as (topic, load):
        for kind in (JAVA, MM2, JAVA):
            consumer = EARLIEST
            with Mirror1(kind, cluster_a, cluster_b, "--include", topic, *OFTEN, group=group, consumer=consumer) as one:
                wait_for_more(cluster_b, topic)
                if kind == MM2:
                    assert one.stop() == 0
                else:
                    one.stop()
        load.stop()
        with Mirror1(MM2, cluster_a, cluster_b, "--include", topic, *OFTEN, group=group, consumer=EARLIEST) as one:
            wait_for(cluster_b, topic, count(read_topic(cluster_a.bootstrap, topic)))
            assert one.stop() == 0
    assert_copied_once_in_order(cluster_a, cluster_b, topic)
    source = read_topic(cluster_a.bootstrap, topic)
    assert committed(cluster_a, group, topic, 2) == [len(rows) for _, rows in sorted(source.items())]


@pytest.mark.long  # a Java consumer in the group: tests/integration/consumer_group/test_java_mirror_maker.py
@pytest.mark.parametrize("assignor", ["Range", "RoundRobin"])
def test_both_in_one_group(assignor: str, cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """MirrorMaker 1 and ours share the partitions, and each goes on alone when the other leaves."""
    group = unique_name("mirror")
    consumer = {**EARLIEST, "partition.assignment.strategy": f"org.apache.kafka.clients.consumer.{assignor}Assignor"}
    with under_load(cluster_a, cluster_b) as (topic, load):
        programs = {
            kind: Mirror1(kind, cluster_a, cluster_b, "--include", topic, *OFTEN, group=group, consumer=consumer)
            for kind in (JAVA, MM2)
        }
        with programs[JAVA] as java:
            wait_for_more(cluster_b, topic)
            with programs[MM2] as ours:
                ours.process.wait_until_output("1 partitions assigned", COPIED, "the partitions are shared")
                wait_for_more(cluster_b, topic)
                java.stop()
                ours.process.wait_until_output("2 partitions assigned", COPIED, "ours has all partitions")
                wait_for_more(cluster_b, topic)
                load.stop()
                wait_for(cluster_b, topic, count(read_topic(cluster_a.bootstrap, topic)))
                assert ours.stop() == 0
    assert_copied_once_in_order(cluster_a, cluster_b, topic)
    source = read_topic(cluster_a.bootstrap, topic)
    assert committed(cluster_a, group, topic, 2) == [len(rows) for _, rows in sorted(source.items())]


def test_batches_pass_through(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """Partitions, timestamps, headers and batches of the source stay as they are; the topic is created."""
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 3)
    write(cluster_a.bootstrap, topic, [Outgoing(key=b"k", value=b"%d" % n, partition=n % 3) for n in range(900)])
    with Mirror1(MM2, cluster_a, cluster_b, "--whitelist", topic, group=group, consumer=EARLIEST) as one:
        wait_until_copied((cluster_a.bootstrap, topic), (cluster_b.bootstrap, topic), COPIED)
        assert one.stop() == 0
    assert compare(read_topic(cluster_a.bootstrap, topic), read_topic(cluster_b.bootstrap, topic)).exact
    assert committed(cluster_a, group, topic, 3) == [300] * 3
