"""Offset syncs in Java's format, each referring to the same record on source and target."""

from __future__ import annotations

import struct

import pytest

from tests.integration.shared_node import Mirror, SharedNode
from tests.lab.cluster import KafkaCluster
from tests.lab.history import Record, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

FLUSHED = 15.0  # seconds until a quiet partition's last record is synced: every half second, on shared cores
FOREIGN = 7  # records written to the target in advance, so that its offsets differ by this number


def home(flow: Mirror) -> tuple[KafkaCluster, str]:
    """Return the cluster and name of the flow's offset syncs topic, as in Java."""
    if flow.separator == "_":
        return flow.target, f"mm2-offset-syncs_{flow.alias_in_names}_internal"
    return flow.source, f"mm2-offset-syncs.{flow.target_alias}.internal"


def syncs(flow: Mirror, topic: str) -> list[tuple[int, int, int]]:
    """Return (partition, upstream, downstream) of every sync of the topic, in the order they were written."""
    cluster, name = home(flow)
    found = []
    for record in read_topic(cluster.bootstrap, name).get(0, ()):
        key, value, headers, _ = record.content
        assert key is not None
        assert value is not None
        (length,) = struct.unpack_from(">h", key)
        (partition,) = struct.unpack_from(">i", key, 2 + length)
        assert len(key) == 2 + length + 4
        assert len(value) == 16
        assert not headers
        if key[2 : 2 + length].decode() == topic:
            found.append((partition, *struct.unpack(">qq", value)))
    return found


@pytest.mark.parametrize("location", ["source", "target"])
def test_syncs_refer_to_equal_records(shared: SharedNode, location: str) -> None:
    flow = shared.plain if location == "source" else shared.unusual
    topic = flow.named("synced")
    flow.target.create_topic(flow.remote(topic), 2)
    flow.source.create_topic(topic, 2)
    flow.wait_state(topic, "RUNNING")  # with records in its remote topic, it would wait for a decision
    write(flow.target.bootstrap, flow.remote(topic), plain(2 * FOREIGN, partitions=2, value_bytes=3))
    write(flow.source.bootstrap, topic, plain(120, partitions=2))

    def lasts() -> set[tuple[int, int, int]]:
        return {one for one in syncs(flow, topic) if one[1] == 59}

    wait_until(lambda: len(lasts()) == 2, FLUSHED, f"the last record of each partition of {topic} is synced")
    assert lasts() == {(number, 59, 59 + FOREIGN) for number in (0, 1)}

    upstream = places(read_topic(flow.source.bootstrap, topic))
    downstream = places(read_topic(flow.target.bootstrap, flow.remote(topic)))
    for partition, up, down in syncs(flow, topic):
        assert upstream[partition, up].content == downstream[partition, down].content
    first = next(one for one in syncs(flow, topic) if one[0] == 0)
    assert first == (0, 0, FOREIGN), "the first record of a task is always synced"


def places(partitions: dict[int, list[Record]]) -> dict[tuple[int, int], Record]:
    return {(number, record.offset): record for number, records in partitions.items() for record in records}


def test_topic_is_created_as_in_java(shared: SharedNode) -> None:
    for flow in (shared.plain, shared.unusual):
        cluster, name = home(flow)
        assert len(cluster.admin.list_topics(timeout=10).topics[name].partitions) == 1
