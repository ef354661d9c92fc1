"""What a lost owner copied without storing offsets, found by comparing source and remote partitions."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import UNKNOWN_IDS, Segment
from mm2.core.offsets.packed_ranges import PackedRanges
from mm2.kafka.logs.stored_records import MAX_UNCOMPRESSED
from mm2.node.source.uncommitted_copies import StoredEnd, UncommittedCopies, remote_position
from tests.integration.flows.lane import acquired
from tests.integration.flows.test_fencing import abort_on
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.records import wait_for_markers
from tests.unit.config import files

Unique = Callable[[str], str]
Headers = list[tuple[str, str | bytes | None]]
FIRST_MS = time.time_ns() // 1_000_000  # not in the past: brokers delete records by their timestamps, after seven days


def produce(kafka: KafkaCluster, topic: str, numbers: Sequence[int], **changes: bytes) -> None:
    """Write record ``number`` with content that depends only on the number, unless ``changes`` replace its value."""
    config = {"bootstrap.servers": kafka.bootstrap, "log_level": 0, "compression.type": "lz4"}
    producer = Producer(config | {"message.max.bytes": 2 * MAX_UNCOMPRESSED})
    for number in numbers:
        value = changes.get("value", b"v" * (number % 50))
        moment = FIRST_MS + number
        producer.produce(topic, key=str(number), value=value, headers=headers(number), partition=0, timestamp=moment)
    assert producer.flush(30) == 0


def headers(number: int) -> Headers:
    return [("number", str(number).encode()), ("none", None)]


class Pair:
    """A source topic and its remote topic, and where copying had arrived."""

    def __init__(self, a: KafkaCluster, b: KafkaCluster, unique: Unique, directory: Path, extra: str = "") -> None:
        self.a, self.b = a, b
        self.source = TopicPartition(a.create_topic(unique("orders")), 0)
        self.remote = TopicPartition(b.create_topic(f"A.{self.source.topic}"), 0)
        self.settings = files.flow(
            directory, f"A.bootstrap.servers = {a.bootstrap}\nB.bootstrap.servers = {b.bootstrap}\n{extra}"
        )

    async def found(self, position: int, remote_position: int) -> int | None:
        end = StoredEnd(source=self.source, remote=self.remote, position=position, remote_position=remote_position)
        async with connected(self.b) as target:
            return (await UncommittedCopies(self.settings, target).find([end])).get(self.source)


async def test_records_behind_the_stored_offset_are_found(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, tmp_path: Path
) -> None:
    pair = Pair(cluster_a, cluster_b, unique, tmp_path)
    produce(cluster_a, pair.source.topic, range(3_000))
    produce(cluster_b, pair.remote.topic, range(20))
    assert await pair.found(20, 20) is None, "nothing is behind it"
    produce(cluster_b, pair.remote.topic, range(20, 1_000))
    lost = await acquired(cluster_b, unique("id"))
    await abort_on(cluster_b, lost, pair.remote)
    assert await pair.found(20, 20) == 1_000, "the marker of the fence is no record"
    assert await pair.found(400, 400) == 1_000
    produce(cluster_b, pair.remote.topic, range(1_000, 3_000))
    assert await pair.found(20, 20) == 3_000, "up to the end of the source, across the marker"


async def test_batches_that_cannot_be_read_are_not_compared(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, tmp_path: Path
) -> None:
    pair = Pair(cluster_a, cluster_b, unique, tmp_path)
    for kafka, topic, byte in ((cluster_a, pair.source.topic, b"a"), (cluster_b, pair.remote.topic, b"b")):
        produce(kafka, topic, range(20))
        produce(kafka, topic, [20], value=byte * (MAX_UNCOMPRESSED + 1))
    assert await pair.found(20, 20) is None


@pytest.mark.parametrize(
    ("numbers", "changes"),
    [
        ([100, 101], {"value": b"another"}),  # a foreign writer, or a copy that was changed
        ([101, 100], {}),  # another order
        ([101], {}),  # one is missing
        ([99, 100], {}),  # one is repeated
        ([100, 101, 90], {}),  # an owner was lost while it repeated records: the last value of a key would be old
    ],
)
async def test_with_anything_else_behind_it_the_stored_offset_counts(
    cluster_a: KafkaCluster,
    cluster_b: KafkaCluster,
    unique: Unique,
    tmp_path: Path,
    numbers: list[int],
    changes: dict[str, bytes],
) -> None:
    pair = Pair(cluster_a, cluster_b, unique, tmp_path)
    produce(cluster_a, pair.source.topic, range(200))
    produce(cluster_b, pair.remote.topic, range(100))
    produce(cluster_b, pair.remote.topic, numbers, **changes)
    assert await pair.found(20, 20) is None


async def test_records_of_transactions_count_if_they_are_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, tmp_path: Path
) -> None:
    """Java MirrorMaker with exactly-once had the source task in between."""
    pair = Pair(cluster_a, cluster_b, unique, tmp_path)
    produce(cluster_a, pair.source.topic, range(100))
    produce(cluster_b, pair.remote.topic, range(50))
    own = unique("id")
    java = Producer({"bootstrap.servers": cluster_b.bootstrap, "transactional.id": own, "log_level": 0})
    java.init_transactions(30)
    java.begin_transaction()
    java.produce(pair.remote.topic, key="50", value=b"", headers=headers(50), timestamp=FIRST_MS + 50, partition=0)
    java.flush(30)
    assert await pair.found(20, 20) is None, "a transaction is open"
    java.abort_transaction(30)
    wait_for_markers(cluster_b.bootstrap, own)
    assert await pair.found(20, 20) == 50


async def test_aborted_records_of_the_source_are_skipped_under_read_committed(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, tmp_path: Path
) -> None:
    pair = Pair(cluster_a, cluster_b, unique, tmp_path, "A.consumer.isolation.level = read_committed\n")
    produce(cluster_a, pair.source.topic, range(10))
    producer = await acquired(cluster_a, unique("id"))
    await abort_on(cluster_a, producer, pair.source)
    produce(cluster_a, pair.source.topic, range(10, 20))
    produce(cluster_b, pair.remote.topic, range(15))
    assert await pair.found(5, 5) == 16, "the offset of the marker is skipped"


async def test_without_an_answer_the_stored_offset_counts(
    cluster_a: KafkaCluster, cluster_b: KafkaCluster, unique: Unique, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pair = Pair(cluster_a, cluster_b, unique, tmp_path)
    produce(cluster_b, pair.remote.topic, range(20))
    pair.source = TopicPartition(unique("missing"), 0)
    with caplog.at_level("INFO"):
        assert await pair.found(10, 10) is None
    assert "cannot compare" in caplog.text


def test_remote_position_of_a_stored_offset() -> None:
    segment = Segment(
        topic_partition=TopicPartition("orders", 0),
        sequence=0,
        era=0,
        topic_ids=UNKNOWN_IDS,
        before=CopiedUpTo(),
        through=25,
        ranges=(CopiedRange(0, 100, 10), CopiedRange(15, 111, 5, hole=5)),
    )
    assert [remote_position(segment, position) for position in (1, 10, 16, 20, 25)] == [101, 110, 112, 116, 116]
    assert [remote_position(segment, position) for position in (0, 13, 26)] == [None, None, None]
    packed = PackedRanges.of([CopiedRange(0, 50, 10), CopiedRange(12, 61, 5, 2), CopiedRange(20, 67, 10, 3)])
    earlier = replace(segment, packed=packed, ranges=(CopiedRange(30, 78, 5),), through=35)
    assert [remote_position(earlier, position) for position in (1, 10, 13, 30, 35)] == [51, 60, 62, 77, 83]
    assert [remote_position(earlier, position) for position in (0, 11, 12, 20, 36)] == [None] * 5
