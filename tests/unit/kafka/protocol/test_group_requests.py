"""Requests about groups: versions, responses of newer brokers, large responses. (Their bytes: tests/golden.)"""

from __future__ import annotations

import asyncio
import gc
import struct
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset
from mm2.kafka.errors import BrokerError, NotSupported
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_offset_requests import OffsetFetchRequest, fetches_many
from mm2.kafka.protocol.group_requests import (
    ConsumerGroupDescribeRequest,
    FindCoordinatorsRequest,
    FoundCoordinator,
    ListGroupsRequest,
)
from mm2.kafka.protocol.raw_request import DeferredResponse, RawRequest
from mm2.kafka.protocol.schema import INT16, INT32, INT64, STRING, Table, encoder

T = TypeVar("T")

LONGEST = (
    0.5  # CPU seconds without a turn of the loop; a heartbeat goes out every few seconds, and usually this is 20 ms
)
TAGGED = b"\x02" + b"\x05\x03abc" + b"\x07\x01x"  # a tag section as later brokers may send it: two tags


def read(request: RawRequest, body: bytes, *, header: bytes = bytes(5)) -> Any:
    return request.decode(header + body)


async def read_large(request: RawRequest, body: bytes) -> Any:
    """As a connection does it."""
    response = read(request, body)
    assert isinstance(response, DeferredResponse)
    return await asyncio.to_thread(response.decode)


def test_each_request_uses_the_newest_common_version() -> None:
    assert ListGroupsRequest().prepare({16: (0, 9)}).API_VERSION == 5
    assert ListGroupsRequest().prepare({16: (0, 2)}).API_VERSION == 2
    assert FindCoordinatorsRequest(["g"]).prepare({10: (0, 6)}).API_VERSION == 4
    assert ConsumerGroupDescribeRequest(["g"]).prepare({69: (0, 1)}).API_VERSION == 0
    assert OffsetFetchRequest(["g", "h"]).prepare({9: (1, 10)}).API_VERSION == 8
    assert OffsetFetchRequest(["g"]).prepare({9: (0, 7)}).API_VERSION == 5


def test_a_broker_that_is_too_old_is_reported() -> None:
    with pytest.raises(NotSupported, match="FindCoordinators versions 0 to 3, but this client needs 4: "):
        FindCoordinatorsRequest(["g"]).prepare({10: (0, 3)})
    with pytest.raises(NotSupported, match="OffsetFetch versions 0 to 1"):
        OffsetFetchRequest(["g"]).prepare({9: (0, 1)})
    with pytest.raises(NotSupported, match="ConsumerGroupDescribe"):
        ConsumerGroupDescribeRequest(["g"]).prepare({})
    assert not fetches_many({9: (0, 7)})
    assert not fetches_many({})
    assert fetches_many({9: (1, 10)})


def test_tags_of_later_brokers_are_skipped() -> None:
    request = FindCoordinatorsRequest(["g"]).prepare({10: (4, 4)})
    row = b"\x02g" + struct.pack(">i", 3) + b"\x04one" + struct.pack(">ih", 9092, 0) + b"\x00" + TAGGED
    body = bytes(4) + b"\x03" + row + row + TAGGED
    assert read(request, body, header=bytes(4) + TAGGED) == [FoundCoordinator("g", 3, 0, None)] * 2


def test_a_name_with_invalid_utf_8_does_not_prevent_listing() -> None:
    body = bytes(4 + 2) + b"\x02" + b"\x03g\xff" + b"\x01" * 3 + bytes(2)
    error, groups = read(ListGroupsRequest().prepare({16: (5, 5)}), body)
    assert (error, [group.group for group in groups]) == (0, ["g\ufffd"])


def test_an_error_of_one_partition_is_the_error_of_the_group() -> None:
    request = OffsetFetchRequest(["g"]).prepare({9: (5, 5)})
    rows = [(0, 5, ErrorCode.NONE), (1, -1, ErrorCode.UNSTABLE_OFFSET_COMMIT), (2, 5, ErrorCode.NONE)]
    partitions = b"".join(struct.pack(">iqihh", number, offset, 0, 0, code) for number, offset, code in rows)
    body = bytes(4) + struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 3) + partitions + bytes(2)
    error = read(request, body, header=bytes(4))["g"]
    assert isinstance(error, BrokerError)
    assert error.code == ErrorCode.UNSTABLE_OFFSET_COMMIT


async def test_a_large_list_does_not_block_the_loop() -> None:
    group = {"group": STRING, "protocol_type": STRING, "state": STRING, "kind": STRING}
    rows = [("some-group", "consumer", "Stable", "classic")] * 50_000
    body = encoded({"throttle_ms": INT32, "error": INT16, "groups": [group]}, (0, 0, rows))
    error, groups = await watched(read_large(ListGroupsRequest().prepare({16: (5, 5)}), body))
    assert (error, len(groups)) == (0, 50_000)


@pytest.mark.parametrize(("groups", "topics", "partitions"), [(100, 10, 20), (1, 100, 200), (20_000, 0, 0)])
async def test_many_offsets_do_not_block_the_loop(groups: int, topics: int, partitions: int) -> None:
    partition: Table = {"partition": INT32, "offset": INT64, "leader_epoch": INT32, "metadata": STRING, "error": INT16}
    topic: Table = {"name": STRING, "partitions": [partition]}
    group: Table = {"group": STRING, "topics": [topic], "error": INT16}
    rows = [(number, 1_000_000_000, 5, "", 0) for number in range(partitions)]
    by_topic = [(f"topic-{number}", rows) for number in range(topics)]
    names = [f"group-{number}" for number in range(groups)]
    body = encoded({"throttle_ms": INT32, "groups": [group]}, (0, [(name, by_topic, 0) for name in names]))
    found = await watched(read_large(OffsetFetchRequest(names).prepare({9: (8, 8)}), body))
    assert len(found) == groups
    last = found[f"group-{groups - 1}"]
    assert isinstance(last, dict)
    assert len(last) == topics * partitions
    if last:
        assert last[TopicPartition("topic-9", 19)] == CommittedOffset(offset=1_000_000_000)


def encoded(table: Table, values: tuple[Any, ...]) -> bytes:
    out = bytearray()
    encoder(table, 0, flexible=True)(out, values)
    return bytes(out)


async def watched(work: Awaitable[T]) -> T:
    """Return the result, after a check of how long the event loop was blocked at most."""
    longest = turns = 0.0

    async def watch() -> None:
        nonlocal longest, turns
        while True:
            before = time.thread_time()  # excludes other programs on the machine
            await asyncio.sleep(0)
            longest = max(longest, time.thread_time() - before)
            turns += 1

    gc.collect()
    gc.freeze()  # excludes objects of other tests from collections during the measurement
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
