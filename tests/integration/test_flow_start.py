"""Where partitions without a stored offset start, and that a node that is killed before their first record keeps it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

SEEN = 90.0  # seconds: Spark starts
BEFORE = 40  # records written before the flow exists


def test_a_killed_node_keeps_the_start_of_partitions_without_records(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    a, b = unique("A"), unique("B")
    empty, old = cluster_a.create_topic(f"{a}-empty"), cluster_a.create_topic(f"{a}-old")
    write(cluster_a.bootstrap, old, plain(BEFORE))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        f"{a}.consumer.auto.offset.reset": "latest",
        f"{b}.offset.flush.interval.ms": "3600000",
        "heartbeats.replication.enabled": "false",
    }

    def copied(topic: str) -> list[bytes | None]:
        return [one.content[1] for one in read_topic(cluster_b.bootstrap, f"{a}.{topic}").get(0, ())]

    with Node(properties, name="start") as node:
        for topic, start in ((empty, 0), (old, BEFORE)):
            value = b'{"offset":%d}' % (start - 1)
            wait_until(lambda t=topic, v=value: stored(cluster_b, a, t) == v, SEEN, f"{topic}'s start is stored")  # type: ignore[misc]
        node.kill()
        for topic in (empty, old):
            write(cluster_a.bootstrap, topic, plain(10, first=BEFORE))
        node.start()
        for topic in (empty, old):
            wait_until(lambda t=topic: len(copied(t)) == 10, SEEN, f"what was written to {topic} meanwhile is copied")  # type: ignore[misc]


def test_mm2_start_at_a_time(cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]) -> None:
    a, b = unique("A"), unique("B")
    topic = cluster_a.create_topic(f"{a}-timed")
    start = datetime.now(timezone(timedelta(hours=1))).replace(microsecond=0) - timedelta(hours=1)
    start_ms = int(start.timestamp() * 1000)
    write(cluster_a.bootstrap, topic, [Outgoing(value=b"%d" % n, timestamp_ms=start_ms + n - 30) for n in range(60)])
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=topic) | {
        f"{a}->{b}.mm2.start": start.isoformat(),
    }
    with Node(properties, name="start-at"):
        wait_until(lambda: stored(cluster_b, a, topic) == b'{"offset":59}', SEEN, "the topic is copied")
        (records,) = read_topic(cluster_b.bootstrap, f"{a}.{topic}").values()
        assert [one.content[1] for one in records] == [b"%d" % n for n in range(30, 60)]


def stored(target: KafkaCluster, alias: str, topic: str) -> bytes | None:
    """Return the newest value stored for partition 0 of a topic; None if there is none."""
    key = f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":0,"topic":"{topic}"}}]'.encode()
    read = read_topic(target.bootstrap, f"mm2-offsets.{alias}.internal").values()
    values = [one.content[1] for records in read for one in records if one.content[0] == key]
    return values[-1] if values else None
