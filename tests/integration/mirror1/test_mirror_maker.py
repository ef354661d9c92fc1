"""``kafka-mirror-maker`` as a process: its options, failures to send, new topics, and kill -9."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.mirror1 import user_classes
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import ROOT
from tests.lab.fixtures import unique_name
from tests.lab.history import count, read_topic
from tests.lab.load import Load
from tests.lab.mirror1 import MM2, Mirror1, committed
from tests.lab.node import RUNS_WITHIN
from tests.lab.ports import release_port, reserve_port
from tests.lab.records import Outgoing, plain, write
from tests.lab.topic_configs import alter
from tests.lab.waiting import wait_until

pytestmark = pytest.mark.timeout(600)

COPIED = RUNS_WITHIN  # a start of Spark included
RECORDS = 200
LARGE = 20_000  # bytes of the record that the target rejects
EARLIEST = {"auto.offset.reset": "earliest"}
OFTEN = ("--offset.commit.interval.ms", "1000")
USER_CLASSES = user_classes.__name__


def topics(cluster: KafkaCluster) -> set[str]:
    return set(cluster.admin.list_topics(timeout=10).topics)


def wait_for(cluster: KafkaCluster, topic: str, records: int) -> None:
    wait_until(
        lambda: topic in topics(cluster) and count(read_topic(cluster.bootstrap, topic)) >= records,
        COPIED,
        f"{records} records are in {topic}",
    )


def in_partitions(value: bytes, partitions: int) -> list[Outgoing]:
    return [Outgoing(key=b"%d" % n, value=value, partition=n % partitions) for n in range(RECORDS)]


def contents(cluster: KafkaCluster, topic: str) -> Counter[tuple[bytes | None, bytes | None]]:
    rows = (record for rows in read_topic(cluster.bootstrap, topic).values() for record in rows)
    return Counter((record.key, record.value) for record in rows)


def exposed(url: str) -> dict[str, float]:
    """Return the sum of the samples of each metric."""
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0.0) + sample.value
    return found


@pytest.fixture
def topic_with_a_large_record(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> str:
    """The target rejects the record in the middle."""
    topic = unique_name("orders")
    cluster_a.create_topic(topic, 1)
    cluster_b.create_topic(topic, 1, config={"max.message.bytes": "10000"})
    sizes = (LARGE if number == RECORDS // 2 else 50 for number in range(RECORDS))
    records = [Outgoing(key=b"%d" % number, value=b"x" * size, partition=0) for number, size in enumerate(sizes)]
    write(cluster_a.bootstrap, topic, records)
    return topic


def test_a_member_copies_what_is_written_since_it_joined(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """It joins when Spark runs, and decides then where auto.offset.reset = latest, the default, is."""
    topic, group = unique_name("orders"), unique_name("mirror")
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 2)
    write(cluster_a.bootstrap, topic, in_partitions(b"before", 2))
    port = reserve_port()
    url = f"http://127.0.0.1:{port}"
    with Mirror1(MM2, cluster_a, cluster_b, "--include", topic, "--listeners", url, group=group) as mirror:
        mirror.process.wait_until_output("starting at the end", COPIED, "it has decided where it starts")
        write(cluster_a.bootstrap, topic, in_partitions(b"since", 2))
        assert f"joining group {group}" in mirror.process.output(), "Spark runs before it joins"
        wait_until(lambda: sum(committed(cluster_a, group, topic, 2)) == RECORDS, COPIED, "the start is committed")
        wait_for(cluster_b, topic, RECORDS)
        assert [httpx.get(url + path).status_code for path in ("/health", "/health/ready", "/health/live")] == [200] * 3
        wait_until(lambda: exposed(url)["mm2_mirror_records_total"] == RECORDS, COPIED, "the records are counted")
        assert exposed(url)["mm2_mirror_lag_records"] == 0
        assert mirror.stop() == 0
    release_port(port)
    assert {value for _, value in contents(cluster_b, topic)} == {b"since"}
    assert sum(committed(cluster_a, group, topic, 2)) == 2 * RECORDS


@pytest.mark.long  # the source task: tests/integration/flows/test_routing.py
def test_a_failure_to_send_ends_the_process(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, topic_with_a_large_record: str
) -> None:
    """The next start continues with the record that was rejected."""
    topic, group = topic_with_a_large_record, unique_name("mirror")
    mirror = Mirror1(MM2, cluster_a, cluster_b, "--include", topic, *OFTEN, group=group, consumer=EARLIEST)
    with mirror:
        assert mirror.process.wait(COPIED, "it ends") == 1
    said = mirror.process.output()
    assert f"offset {RECORDS // 2}" in said
    assert "stopping, because --abort.on.send.failure is true" in said
    assert "Traceback" not in said
    assert count(read_topic(cluster_b.bootstrap, topic)) == RECORDS // 2
    alter(cluster_b, topic, "max.message.bytes", "1000000")
    with mirror:
        wait_for(cluster_b, topic, RECORDS)
        assert mirror.stop() == 0
    copied = [record.key for record in read_topic(cluster_b.bootstrap, topic)[0]]
    assert copied == [b"%d" % number for number in range(RECORDS)]


@pytest.mark.long  # the source task: tests/integration/flows/test_routing.py
def test_a_failure_to_send_is_a_dead_letter(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, topic_with_a_large_record: str
) -> None:
    topic, group = topic_with_a_large_record, unique_name("mirror")
    options = ("--whitelist", topic, "--abort.on.send.failure", "false", *OFTEN)
    with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=EARLIEST) as mirror:
        wait_for(cluster_b, topic, RECORDS - 1)
        assert mirror.stop() == 0
    copied = [record.key for record in read_topic(cluster_b.bootstrap, topic)[0]]
    assert copied == [b"%d" % number for number in range(RECORDS) if number != RECORDS // 2]
    (letter,) = read_topic(cluster_b.bootstrap, f"mm2-dead-letters.{group}.internal")[0]
    assert (letter.key, len(letter.value or b"")) == (b"%d" % (RECORDS // 2), LARGE)


@pytest.mark.long  # two members: test_a_killed_process_is_replaced
def test_two_consumers_in_one_group(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path) -> None:
    """Two files for one source are two members of the group, which share its partitions."""
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 4)
    second = tmp_path / "second.properties"
    second.write_text(
        f"bootstrap.servers={cluster_a.bootstrap}\ngroup.id={group}\nauto.offset.reset=earliest\n", "utf-8"
    )
    write(cluster_a.bootstrap, topic, in_partitions(b"first", 4))
    options = ("--consumer.config", str(second), "--include", topic, *OFTEN)
    with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=EARLIEST) as mirror:
        wait_for(cluster_b, topic, RECORDS)
        write(cluster_a.bootstrap, topic, in_partitions(b"second", 4))
        wait_for(cluster_b, topic, 2 * RECORDS)
        assert mirror.stop() == 0
    assert contents(cluster_b, topic) == contents(cluster_a, topic)
    assert mirror.process.output().count("2 partitions assigned") == 2, "each has half of the partitions"


def test_handler_and_listener(cluster_a: KafkaCluster, cluster_b: KafkaCluster, tmp_path: Path) -> None:
    """The topic that the handler names is created as the source topic is, and none with the source topic's name."""
    topic, group = unique_name("orders"), unique_name("mirror")
    cluster_a.create_topic(topic, 3)
    values = [b"value %d" % number if number % 4 else None for number in range(RECORDS)]
    write(cluster_a.bootstrap, topic, [Outgoing(key=b"k", value=value, partition=2) for value in values])
    journal = tmp_path / "journal"
    options = (
        *("--include", topic, "--message.handler", f"{USER_CLASSES}:UpperCase", "--message.handler.args", "copy-"),
        *("--consumer.rebalance.listener", f"{USER_CLASSES}:Journal", "--rebalance.listener.args", str(journal)),
    )
    env = {"PYTHONPATH": str(ROOT)}
    with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=EARLIEST, env=env) as mirror:
        wait_for(cluster_b, f"copy-{topic}", RECORDS * 3 // 4)
        assert mirror.stop() == 0
    found = read_topic(cluster_b.bootstrap, f"copy-{topic}")
    copies = [record.value for rows in found.values() for record in rows]
    assert copies == [value.upper() for value in values if value is not None]
    assert len(found) == 3
    assert topic not in topics(cluster_b)
    assert f"created topic copy-{topic} on the target with 3 partitions" in mirror.process.output()
    every = " ".join(f"{topic}-{number}" for number in range(3))
    assert journal.read_text() == f"assigned {every}\nrevoked {every}\n"


@pytest.mark.long  # test_topics.py, and tests/integration/consumer_group
def test_topics_that_are_created_later_and_excluded(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    prefix, group = unique_name("orders"), unique_name("mirror")
    first, later, left_out = f"{prefix}-first", f"{prefix}-later", f"{prefix}-left-out"
    for topic in (first, left_out):
        cluster_a.create_topic(topic, 1)
        write(cluster_a.bootstrap, topic, plain(RECORDS))
    options = ("--include", f"{prefix}-first, {prefix}-la.*")
    consumer = {**EARLIEST, "metadata.max.age.ms": "1000"}
    with Mirror1(MM2, cluster_a, cluster_b, *options, group=group, consumer=consumer) as mirror:
        wait_for(cluster_b, first, RECORDS)
        cluster_a.create_topic(later, 2)
        write(cluster_a.bootstrap, later, plain(RECORDS, partitions=2))
        wait_for(cluster_b, later, RECORDS)
        assert mirror.stop() == 0
    assert left_out not in topics(cluster_b)
    assert len(read_topic(cluster_b.bootstrap, later)) == 2


@pytest.mark.long  # tests/integration/consumer_group/test_member_faults.py
def test_a_killed_process_is_replaced(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    """kill -9 under load: another member of the group continues from the committed offsets, at least once."""
    topic, group = unique_name("orders"), unique_name("mirror")
    for cluster in (cluster_a, cluster_b):
        cluster.create_topic(topic, 2)
    consumer = {**EARLIEST, "session.timeout.ms": "6000", "heartbeat.interval.ms": "1000"}
    first, second = (
        Mirror1(
            MM2, cluster_a, cluster_b, "--include", topic, *OFTEN, group=group, consumer=consumer, name=f"mirror-{name}"
        )
        for name in ("first", "second")
    )
    with Load(cluster_a, topic, partitions=2, per_second=500) as load, first, second:
        wait_until(lambda: min(committed(cluster_a, group, topic, 2)) > 0, COPIED, "both have committed")
        wait_for(cluster_b, topic, count(read_topic(cluster_b.bootstrap, topic)) + 500)
        first.process.kill_group()
        second.process.wait_until_output("2 partitions assigned", COPIED, "the other process has all partitions")
        before = count(read_topic(cluster_b.bootstrap, topic))
        wait_for(cluster_b, topic, before + 1_000)
        load.stop()
        every = contents(cluster_a, topic)
        wait_until(lambda: contents(cluster_b, topic).keys() >= every.keys(), COPIED, "every record is copied")
        assert second.stop() == 0
    repeated = contents(cluster_b, topic).total() - every.total()
    assert repeated <= 2_000, "at most what was copied since the last commit, a second before"
    for rows in read_topic(cluster_b.bootstrap, topic).values():
        numbers = [int((record.value or b"").split()[0]) for record in rows]
        last_copies = list(dict.fromkeys(reversed(numbers)))[::-1]
        assert last_copies == sorted(last_copies)
