"""The Metadata request and its response, byte for byte against aiokafka's field types."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from aiokafka.protocol.abstract import AbstractType
from aiokafka.protocol.types import (
    Array,
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Schema,
    String,
    TaggedFields,
)

from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.metadata import Broker, Metadata, PartitionInfo, PartitionLeader, TopicInfo, leaders
from mm2.kafka.protocol.metadata_request import MetadataRequest
from mm2.kafka.protocol.raw_request import DeferredResponse

TOPIC_ID = UUID("920d882c-bd0f-439f-95ad-06c87ed81c16")


def plain_schema(version: int) -> Schema:
    epoch = [("leader_epoch", Int32)] if version >= 7 else []
    partition = [("error", Int16), ("index", Int32), ("leader", Int32), *epoch]
    nodes = [(name, Array(Int32)) for name in ("replicas", "isr", "offline")]
    name = String("utf-8")
    return Schema(
        ("throttle", Int32),
        ("brokers", Array(("node", Int32), ("host", name), ("port", Int32), ("rack", name))),
        ("cluster_id", name),
        ("controller", Int32),
        ("topics", Array(("error", Int16), ("name", name), ("internal", Boolean), ("p", Array(*partition, *nodes)))),
    )


def flexible_schema() -> Schema:
    name = CompactString("utf-8")
    tags = ("tags", TaggedFields)
    partition = [("error", Int16), ("index", Int32), ("leader", Int32), ("leader_epoch", Int32)]
    nodes = [(one, CompactArray(Int32)) for one in ("replicas", "isr", "offline")]
    topic = [("error", Int16), ("name", name), ("id", Uuid), ("internal", Boolean)]
    return Schema(
        ("throttle", Int32),
        ("brokers", CompactArray(("node", Int32), ("host", name), ("port", Int32), ("rack", name), tags)),
        ("cluster_id", name),
        ("controller", Int32),
        ("topics", CompactArray(*topic, ("p", CompactArray(*partition, *nodes, tags)), ("operations", Int32), tags)),
        tags,
    )


class Uuid(AbstractType):  # type: ignore[misc]
    @classmethod
    def encode(cls, value: UUID | None) -> bytes:
        return value.bytes if value is not None else bytes(16)


def read(version: int, body: bytes) -> Metadata:
    header = bytes(5 if version >= 9 else 4)
    response = MetadataRequest([]).prepare({3: (version, version)}).decode(header + body)
    found: Metadata = response.decode() if isinstance(response, DeferredResponse) else response
    return found


EXPECTED_BROKERS = {1: Broker(node_id=1, host="one", port=9092, rack="r1"), 2: Broker(node_id=2, host="two", port=9093)}


@pytest.mark.parametrize("version", [5, 7])
def test_older_responses(version: int) -> None:
    epoch = [4] if version >= 7 else []
    rows = [(0, 1, 2, *epoch, [1, 2], [2], [1]), (5, 0, -1, *epoch, [1], [], [])]
    brokers = [(1, "one", 9092, "r1"), (2, "two", 9093, None)]
    body = plain_schema(version).encode([0, brokers, "cid", 1, [(0, "orders", False, rows), (3, "nope", False, [])]])
    answer = read(version, body)
    told = 4 if version >= 7 else -1
    assert answer == Metadata(
        cluster_id="cid",
        controller=1,
        brokers=EXPECTED_BROKERS,
        topics={
            "orders": TopicInfo(
                name="orders",
                error=0,
                topic_id=None,
                is_internal=False,
                partitions=(
                    PartitionInfo(partition=0, leader=-1, leader_epoch=told, replicas=(1,), in_sync=(), error=5),
                    PartitionInfo(partition=1, leader=2, leader_epoch=told, replicas=(1, 2), in_sync=(2,)),
                ),
            ),
            "nope": TopicInfo(name="nope", error=3, topic_id=None, is_internal=False, partitions=()),
        },
    )
    assert leaders(answer.topics.values()) == {TopicPartition("orders", 1): PartitionLeader(node_id=2, epoch=told)}


def test_the_newest_response_with_topic_ids() -> None:
    brokers: list[Any] = [(1, "one", 9092, "r1", {}), (2, "two", 9093, None, {})]
    partitions: list[Any] = [(0, 0, 1, 9, [1], [1], [], {})]
    topics: list[Any] = [
        (0, "größe", TOPIC_ID, True, partitions, -(2**31), {}),
        (3, "nope", None, False, [], -(2**31), {}),
    ]
    body = flexible_schema().encode([0, brokers, None, -1, topics, {}])
    answer = read(12, body)
    assert (answer.cluster_id, answer.controller, answer.brokers) == (None, None, EXPECTED_BROKERS)
    assert answer.topics["größe"].topic_id == TOPIC_ID
    assert answer.topics["größe"].is_internal
    assert answer.topics["größe"].partitions[0].leader_epoch == 9
    assert answer.topics["nope"].topic_id is None


def test_tags_of_later_brokers_are_skipped() -> None:
    tagged = b"\x02" + b"\x05\x03abc" + b"\x07\x01x"  # two tags: 5 of three bytes, 7 of one
    name = b"\x04one"
    broker = (1).to_bytes(4) + name + (9092).to_bytes(4) + b"\x00" + tagged
    body = bytes(4) + b"\x02" + broker + b"\x00" + (1).to_bytes(4) + b"\x01" + tagged
    answer = read(12, body)
    assert answer.brokers == {1: Broker(node_id=1, host="one", port=9092)}
    assert answer.topics == {}


@pytest.mark.parametrize(
    ("topics", "plain", "flexible"),
    [
        (None, "ffffffff 00", "00 00 00 00"),
        ([], "00000000 00", "01 00 00 00"),
        (["ab"], "00000001 0002 6162 00", "02 00000000000000000000000000000000 03 6162 00 00 00 00"),
    ],
)
def test_no_request_creates_topics(topics: list[str] | None, plain: str, flexible: str) -> None:
    for highest, raw in ((5, plain), (7, plain), (13, flexible)):
        request = MetadataRequest(topics).prepare({3: (0, highest)})
        assert min(highest, 12) == request.API_VERSION
        assert request.encode() == bytes.fromhex(raw)


@pytest.fixture
def no_old_objects() -> Iterator[None]:
    """Exclude the objects of all other tests from garbage collections, which would take about a second each."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("no_old_objects")
async def test_a_large_response_does_not_block_the_loop() -> None:
    partitions: list[Any] = [(0, index, 1, 0, [1, 2, 3], [1, 2, 3], [], {}) for index in range(10)]
    topics: list[Any] = [(0, f"topic-{number}", TOPIC_ID, False, partitions, 0, {}) for number in range(2_000)]
    body = flexible_schema().encode([0, [(1, "one", 9092, None, {})], "cid", 1, topics, {}])
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0)
            longest = max(longest, time.monotonic() - before)

    watching = asyncio.create_task(watch())
    response = MetadataRequest([]).prepare({3: (12, 12)}).decode(bytes(5) + body)
    assert isinstance(response, DeferredResponse)
    answer = await asyncio.to_thread(response.decode)
    watching.cancel()
    await asyncio.wait([watching])
    assert len(answer.topics) == 2_000
    assert longest < 1.0  # a heartbeat must go out every few seconds; usually this is 20 ms
