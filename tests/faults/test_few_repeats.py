"""After kill -9, records that were copied and whose offsets were not stored are found on the target, not repeated."""

from __future__ import annotations

import itertools
from functools import partial

import pytest

from mm2.core.offsets.connect_offsets import decode_offset
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.history import end_offset_sum, read_topic
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

PARTITIONS = 3
PER_SECOND = 2_000
FLUSH_S = 6
FIRST = 300  # records before the first flush
COPIED = 90.0  # seconds


def are_stored(target: KafkaCluster, alias: str) -> bool:
    """Return whether the newest offset of each source partition is that of its last record."""
    records = itertools.chain.from_iterable(read_topic(target.bootstrap, f"mm2-offsets.{alias}.internal").values())
    newest = {record.key: decode_offset(record.value) for record in records}
    return list(newest.values()) == [FIRST // PARTITIONS - 1] * PARTITIONS


@pytest.mark.long  # test_each_kind.py: test_killed_node_is_replaced counts repeated records, too
def test_records_copied_since_the_last_flush_are_not_repeated(cluster_a: KafkaCluster, cluster_b: KafkaCluster) -> None:
    a, b = unique_name("A"), unique_name("B")
    topic = cluster_a.create_topic(unique_name(f"{a}-t"), PARTITIONS)
    remote = f"{a}.{topic}"
    write(cluster_a.bootstrap, topic, plain(FIRST, partitions=PARTITIONS))
    properties = one_flow(cluster_a, cluster_b, aliases=(a, b), topics=f"{a}-.*") | {
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        "tasks.max": "2",
        f"{b}.session.timeout.ms": "6000",
        f"{b}.offset.flush.interval.ms": str(FLUSH_S * 1000),
    }
    with Node(properties) as node:
        node.wait_running()
        wait_until(lambda: end_offset_sum(cluster_b.bootstrap, remote) >= FIRST, COPIED, "the first records arrive")
        wait_until(partial(are_stored, cluster_b, a), COPIED, "their offsets are stored")
        with Load(cluster_a, topic, partitions=PARTITIONS, per_second=PER_SECOND) as load:
            load.wait_for_more(2 * PER_SECOND)
            node.kill()
            node.start()
            load.wait_for_more(PER_SECOND)
            load.stop()
        verdict = wait_until_copied(
            (cluster_a.bootstrap, topic), (cluster_b.bootstrap, remote), COPIED, repeats_allowed=True
        )
        print(f"repeated after kill -9: {len(verdict.duplicated)}")
        assert len(verdict.duplicated) < PER_SECOND / 10, "without looking at the target thousands are repeated"
