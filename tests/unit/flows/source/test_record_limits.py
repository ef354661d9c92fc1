"""Limits of records that depend on the topic's configuration."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from flows.batch.decoded import MAX_RECORD
from flows.source.record_limits import RecordLimits, record_limit
from mm2.core.settings.client import ClientSettings, FetchSettings
from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode


class Source:
    """A cluster whose topics have this max.message.bytes; None: it must not be read. ``asked``: how often it was."""

    def __init__(self, limit: int | None) -> None:
        self.settings = ClientSettings(alias="A", bootstrap_servers=("b:9092",))
        self.asked = 0
        self._limit = limit

    async def any_node(self) -> int:
        return 1

    async def send(self, node: int, request: Any) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        if self._limit is None:
            return {"orders": BrokerError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "describe configuration")}
        entry = ConfigEntry(
            name="max.message.bytes",
            value=str(self._limit),
            read_only=False,
            source=ConfigSource.DYNAMIC_TOPIC_CONFIG,
            sensitive=False,
        )
        return {"orders": {entry.name: entry}}


def limits(source: Source) -> RecordLimits:
    return RecordLimits(cast(Cluster, source), 1_000)


def test_a_record_may_take_as_much_as_a_fetch_of_its_partition() -> None:
    assert record_limit(FetchSettings()) == MAX_RECORD == 16 * 1024 * 1024
    assert record_limit(FetchSettings(max_partition_bytes=MAX_RECORD + 1)) == MAX_RECORD + 1


async def test_a_topic_that_allows_larger_records() -> None:
    tested = limits(source := Source(5_000))
    assert tested.of("orders") == 1_000
    assert await tested.allows_more("orders", 1_000)
    assert tested.of("orders") == 5_000
    assert not await tested.allows_more("orders", 5_000)
    assert source.asked == 2


async def test_a_topic_that_allows_no_larger_records_or_hides_its_configuration() -> None:
    for limit in (900, None):
        tested = limits(Source(limit))
        assert not await tested.allows_more("orders", 1_000)
        assert tested.of("orders") == 1_000


async def test_records_of_several_partitions_that_were_found_too_large_before_the_topic_was_read() -> None:
    """Each was decoded with the earlier limit, so each is decoded again."""
    tested = limits(source := Source(5_000))
    assert await asyncio.gather(*(tested.allows_more("orders", 1_000) for _ in range(2))) == [True, True]
    assert await tested.allows_more("orders", 1_000)
    assert source.asked == 2
