"""Source offsets: start offsets of partitions, and offsets stored for the next node or a Java MirrorMaker."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka import TopicPartition as Place

from tests.integration.shared_node import OLD_RECORDS, SEEN, Mirror, SharedNode
from tests.lab.history import Content, read_topic
from tests.lab.records import plain, write
from tests.lab.waiting import wait_until

FLUSHED = 15.0  # seconds until offsets are stored: every half second, on shared cores
PARTITIONS = 25  # of the offsets topic, as in Java
KEY = '["MirrorSourceConnector",{{"cluster":"{cluster}","partition":{partition},"topic":"{topic}"}}]'


def key(flow: Mirror, topic: str, partition: int) -> bytes:
    """Return the key by which Java looks up offsets."""
    return KEY.format(cluster=flow.alias_in_names, partition=partition, topic=topic).encode()


def stored(flow: Mirror) -> dict[bytes, tuple[int, bytes | None]]:
    """Return partition and value of the newest record of every key in the offsets topic."""
    found: dict[bytes, tuple[int, bytes | None]] = {}
    for partition, records in read_topic(flow.target.bootstrap, flow.offsets_topic).items():
        for record in records:
            record_key, value, _, _ = record.content
            assert record_key is not None
            found[record_key] = (partition, value)
    return found


def store(flow: Mirror, topic: str, partition: int, value: bytes | None) -> None:
    """Store an offset as a Java MirrorMaker does; its default partitioner is librdkafka's murmur2."""
    producer = Producer({"bootstrap.servers": flow.target.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    producer.produce(flow.offsets_topic, key=key(flow, topic, partition), value=value)
    assert producer.flush(30) == 0


def java_partition(flow: Mirror, keys: list[bytes]) -> dict[bytes, int]:
    """Return the partitions that Java's partitioner chooses for these keys, using an independent client."""
    topic = flow.target.create_topic(flow.named("murmur2").replace(flow.source_alias, "scratch"), PARTITIONS)
    producer = Producer({"bootstrap.servers": flow.target.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for one in keys:
        producer.produce(topic, key=one)
    assert producer.flush(30) == 0
    read = read_topic(flow.target.bootstrap, topic)
    return {record.content[0] or b"": number for number, records in read.items() for record in records}


def test_offsets_are_stored_in_javas_format(shared: SharedNode) -> None:
    flow = shared.plain
    topic = flow.create("stored", 3)
    write(flow.source.bootstrap, topic, plain(30, partitions=3))
    flow.wait_copied(topic)

    keys = [key(flow, topic, partition) for partition in range(3)]

    def all_there() -> bool:
        now = stored(flow)
        return all(now.get(one, (0, None))[1] == b'{"offset":9}' for one in keys)

    wait_until(all_there, FLUSHED, f"the offsets of {topic} are stored")
    where = java_partition(flow, keys)
    assert {one: stored(flow)[one][0] for one in keys} == {one: where[one] for one in keys}
    topics = flow.target.admin.list_topics(timeout=10).topics
    assert len(topics[flow.offsets_topic].partitions) == PARTITIONS


def test_replication_resumes_where_java_stopped(shared: SharedNode) -> None:
    flow = shared.greedy  # copies nothing of the topic until the test creates the remote topic
    topic = flow.create("seeded", 2)
    store(flow, topic, 0, b'{"offset":5}')
    store(flow, topic, 1, b'{"offset":7}')
    store(flow, topic, 1, None)  # deleted, so it starts from the beginning
    write(flow.source.bootstrap, topic, plain(20, partitions=2))
    flow.target.create_topic(flow.remote(topic), 2)

    def lengths() -> list[int]:
        read = read_topic(flow.target.bootstrap, flow.remote(topic))
        return [len(read.get(number, ())) for number in (0, 1)]

    wait_until(lambda: sum(lengths()) >= 14, SEEN, f"{topic} is copied from the stored offsets")
    assert lengths() == [4, 10]
    source = read_topic(flow.source.bootstrap, topic)
    remote = read_topic(flow.target.bootstrap, flow.remote(topic))
    assert [one.content for one in remote[0]] == [one.content for one in source[0][6:]]
    assert [one.content for one in remote[1]] == [one.content for one in source[1]]


@pytest.mark.parametrize("reset", ["earliest", "latest"])
def test_auto_offset_reset_applies_without_a_stored_offset(shared: SharedNode, reset: str) -> None:
    flow = shared.plain if reset == "earliest" else shared.unusual
    topic = flow.old_topic

    def positions() -> list[int]:
        return [one["position"] for one in flow.status(topic).get("partitions", ())]

    wait_until(lambda: positions() == [OLD_RECORDS], SEEN, f"{topic} is replicated from its end")
    write(flow.source.bootstrap, topic, plain(10, first=OLD_RECORDS))
    written = [one.content for one in read_topic(flow.source.bootstrap, topic)[0]]
    wanted = written if reset == "earliest" else written[OLD_RECORDS:]

    def copied() -> list[Content]:
        return [one.content for one in read_topic(flow.target.bootstrap, flow.remote(topic)).get(0, ())]

    wait_until(lambda: len(copied()) >= len(wanted), SEEN, f"{topic} is copied")
    assert copied() == wanted


def test_records_deleted_by_retention_are_reported_as_lost(shared: SharedNode) -> None:
    """As after a long outage: the source has deleted records after the stored position."""
    flow = shared.greedy  # copies nothing of the topic until the test creates the remote topic
    topic = flow.create("outlived")
    flow.wait_state(topic, "FAILED")
    write(flow.source.bootstrap, topic, plain(20))
    store(flow, topic, 0, b'{"offset":4}')
    for future in flow.source.admin.delete_records([Place(topic, 0, 12)]).values():
        future.result(30)
    flow.target.create_topic(flow.remote(topic))

    verdict = flow.wait_copied(topic)
    assert (verdict.records, verdict.exact) == (8, True)

    def losses() -> list[dict[str, Any]]:
        return [loss for loss in shared.node.flow(flow.name)["losses"] if loss["topic"] == topic]

    (loss,) = wait_until(losses, SEEN, f"/flows reports the lost records of {topic}")
    assert (loss["partition"], loss["first"], loss["until"]) == (0, 5, 12)
    assert "now starts at 12" in loss["reason"]
    assert flow.wait_state(topic, "RUNNING")
