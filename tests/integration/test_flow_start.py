"""Where partitions without a stored offset start, and that a node that is killed before their first record keeps it. A
topic that is created meanwhile starts at its beginning."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from functools import partial

import pytest

from tests.lab.cluster import KafkaCluster
from tests.lab.history import read_topic
from tests.lab.node import Node
from tests.lab.records import Outgoing, plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

SEEN = 90.0  # seconds: Spark starts
BEFORE = 40  # records written before the flow exists


# two starts of Spark; in the gate: an empty partition of a killed node, and a start at a time, in
# test_flow_exact_offsets.py
@pytest.mark.long
def test_partitions_start_as_configured_and_keep_that_start_when_the_node_is_killed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Callable[[str], str]
) -> None:
    """One flow starts at the end (auto.offset.reset = latest), the other one at a time (mm2.start)."""
    a, c, b = unique("A"), unique("C"), unique("B")
    empty, old = cluster_a.create_topic(f"{a}-empty"), cluster_a.create_topic(f"{a}-old")
    write(cluster_a.bootstrap, old, plain(BEFORE))
    timed = cluster_a.create_topic(f"{c}-timed")
    start = datetime.now(timezone(timedelta(hours=1))).replace(microsecond=0) - timedelta(hours=1)
    start_ms = int(start.timestamp() * 1000)
    write(cluster_a.bootstrap, timed, [Outgoing(value=b"%d" % n, timestamp_ms=start_ms + n - 30) for n in range(60)])
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "clusters": f"{a}, {c}, {b}",
        f"{a}.consumer.auto.offset.reset": "latest",
        f"{c}.bootstrap.servers": cluster_a.bootstrap,
        f"{c}->{b}.enabled": "true",
        f"{c}->{b}.topics": timed,
        f"{c}->{b}.mm2.start": start.isoformat(),
        f"{b}.offset.flush.interval.ms": "3600000",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
    }

    def copied(alias: str, topic: str) -> list[bytes | None]:
        return [one.content[1] for one in read_topic(cluster_b.bootstrap, f"{alias}.{topic}").get(0, ())]

    def is_stored(topic: str, value: bytes) -> bool:
        return stored(cluster_b, a, topic) == value

    def all_copied(topic: str) -> bool:
        return len(copied(a, topic)) == 10

    with Node(properties, name="start") as node:
        for topic, start_offset in ((empty, 0), (old, BEFORE)):
            value = b'{"offset":%d}' % (start_offset - 1)
            wait_until(partial(is_stored, topic, value), SEEN, f"{topic}'s start is stored")
        wait_until(lambda: len(copied(c, timed)) >= 30, SEEN, "what was written from that time on is copied")
        assert copied(c, timed) == [b"%d" % n for n in range(30, 60)]
        node.kill()
        later = cluster_a.create_topic(f"{a}-later")
        for topic in (empty, old, later):
            write(cluster_a.bootstrap, topic, plain(10, first=BEFORE))
        node.start()
        for topic in (empty, old, later):
            wait_until(partial(all_copied, topic), SEEN, f"what was written to {topic} meanwhile is copied")


def stored(target: KafkaCluster, alias: str, topic: str) -> bytes | None:
    """Return the newest value stored for partition 0 of a topic; None if there is none."""
    key = f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":0,"topic":"{topic}"}}]'.encode()
    read = read_topic(target.bootstrap, f"mm2-offsets.{alias}.internal").values()
    values = [one.content[1] for records in read for one in records if one.content[0] == key]
    return values[-1] if values else None
