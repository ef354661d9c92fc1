"""Requests about groups: versions, answers of newer brokers, large answers. (Their bytes: tests/golden.)"""

from __future__ import annotations

import asyncio
import gc
import struct
import time
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from mm2.core.checkpoints import CommittedOffset
from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError, NotSupported
from mm2.kafka.group_offset_requests import OffsetFetchRequest, fetched_offsets, fetches_many
from mm2.kafka.group_requests import (
    DescribeConsumerGroupsRequest,
    FindCoordinatorsRequest,
    FoundCoordinator,
    ListGroupsRequest,
    listed_groups,
)
from mm2.kafka.raw_request import RawRequest, put_compact_string, put_varint

T = TypeVar("T")

LONGEST = (
    0.5  # CPU seconds without a turn of the loop; a heartbeat goes out every few seconds, and usually this is 20 ms
)
TAGGED = b"\x02" + b"\x05\x03abc" + b"\x07\x01x"  # a tag section as later brokers may send it: two tags


def read(request: RawRequest, body: bytes, *, header: bytes = bytes(5)) -> object:
    result: object = request.decode(header + body)
    return result


def test_each_request_takes_the_newest_version_of_both() -> None:
    assert ListGroupsRequest().prepare({16: (0, 9)}).API_VERSION == 5
    assert ListGroupsRequest().prepare({16: (0, 2)}).API_VERSION == 2
    assert FindCoordinatorsRequest(["g"]).prepare({10: (0, 6)}).API_VERSION == 4
    assert DescribeConsumerGroupsRequest(["g"]).prepare({69: (0, 1)}).API_VERSION == 0
    assert OffsetFetchRequest(["g", "h"]).prepare({9: (1, 10)}).API_VERSION == 8
    assert OffsetFetchRequest(["g"]).prepare({9: (0, 7)}).API_VERSION == 5


def test_what_a_broker_is_too_old_for_is_said() -> None:
    with pytest.raises(NotSupported, match="FindCoordinator 0 to 3, needed is one of 4 to 4"):
        FindCoordinatorsRequest(["g"]).prepare({10: (0, 3)})
    with pytest.raises(NotSupported, match="OffsetFetch 0 to 1"):
        OffsetFetchRequest(["g"]).prepare({9: (0, 1)})
    with pytest.raises(NotSupported, match="ConsumerGroupDescribe"):
        DescribeConsumerGroupsRequest(["g"]).prepare({})
    assert not fetches_many({9: (0, 7)})
    assert not fetches_many({})
    assert fetches_many({9: (1, 10)})


def test_tags_of_later_brokers_are_skipped() -> None:
    request = FindCoordinatorsRequest(["g"]).prepare({10: (4, 4)})
    row = b"\x02g" + struct.pack(">i", 3) + b"\x04one" + struct.pack(">ih", 9092, 0) + b"\x00" + TAGGED
    body = bytes(4) + b"\x03" + row + row + TAGGED
    assert read(request, body, header=bytes(4) + TAGGED) == [FoundCoordinator("g", 3, 0, None)] * 2


async def test_a_name_that_is_no_utf_8_keeps_no_group_from_being_listed() -> None:
    body = bytes(4 + 2) + b"\x02" + b"\x03g\xff" + b"\x01" * 3 + bytes(2)
    error, groups = await listed_groups(read(ListGroupsRequest().prepare({16: (5, 5)}), body))  # type: ignore[arg-type]
    assert (error, [group.group for group in groups]) == (0, ["g\ufffd"])


async def test_an_error_of_one_partition_is_the_groups() -> None:
    request = OffsetFetchRequest(["g"]).prepare({9: (5, 5)})
    rows = [(0, 5, ErrorCode.NONE), (1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (2, 5, ErrorCode.NONE)]
    partitions = b"".join(struct.pack(">iqihh", number, offset, 0, 0, code) for number, offset, code in rows)
    body = bytes(4) + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 3) + partitions + bytes(2)
    found = await fetched_offsets(read(request, body, header=bytes(4)))  # type: ignore[arg-type]
    error = found["g"]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNSTABLE_OFFSET_COMMIT


async def test_a_large_list_lets_the_loop_turn() -> None:
    row = bytearray()
    for text in ("some-group", "consumer", "Stable", "classic"):
        put_compact_string(row, text)
    body = bytearray(6)
    put_varint(body, 50_001)
    body += bytes(row + b"\x00") * 50_000 + b"\x00"
    answer = read(ListGroupsRequest().prepare({16: (5, 5)}), bytes(body))
    error, groups = await watched(listed_groups(answer))  # type: ignore[arg-type]
    assert (error, len(groups)) == (0, 50_000)


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(100, 10, 20), (1, 100, 200), (20_000, 0, 0)])
async def test_many_offsets_let_the_loop_turn(groups: int, topics: int, partitions: int) -> None:
    rows = bytearray()
    put_varint(rows, partitions + 1)
    for number in range(partitions):
        rows += struct.pack(">iqi", number, 1_000_000_000, 5) + b"\x01" + bytes(3)
    by_topic = bytearray()
    put_varint(by_topic, topics + 1)
    for number in range(topics):
        put_compact_string(by_topic, f"topic-{number}")
        by_topic += rows + b"\x00"
    body = bytearray(4)
    put_varint(body, groups + 1)
    for number in range(groups):
        put_compact_string(body, f"group-{number}")
        body += by_topic + bytes(3)
    request = OffsetFetchRequest([f"group-{number}" for number in range(groups)]).prepare({9: (8, 8)})
    found = await watched(fetched_offsets(read(request, bytes(body) + b"\x00")))  # type: ignore[arg-type]
    assert len(found) == groups
    last = found[f"group-{groups - 1}"]
    assert isinstance(last, dict)
    assert len(last) == topics * partitions
    if last:
        assert last[TopicPartition("topic-9", 19)] == CommittedOffset(offset=1_000_000_000)


async def watched(work: Awaitable[T]) -> T:
    """The result, after checking how long the event loop stood still at most."""
    longest = turns = 0.0

    async def watch() -> None:
        nonlocal longest, turns
        while True:
            before = time.thread_time()  # what else runs on the machine does not count
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)
            turns += 1

    gc.collect()
    gc.freeze()  # what other tests of this process left is not gone through again while we measure
    try:
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0)
        result = await work
        watching.cancel()
        await asyncio.wait([watching])
    finally:
        gc.unfreeze()
    assert turns > 3
    assert longest < LONGEST
    return result
