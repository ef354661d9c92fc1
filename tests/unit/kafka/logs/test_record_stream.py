"""Reading a partition record by record."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ClientSettings, IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import PartitionLeader
from mm2.kafka.errors import BrokerError
from mm2.kafka.logs.record_stream import records_between
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchAnswer


class Throttling(Cluster):
    """A cluster whose quota the client has exceeded: responses have no partitions (Kafka: getThrottledResponse)."""

    def __init__(self) -> None:
        super().__init__(ClientSettings(bootstrap_servers=("localhost:1",)))

    async def leader(self, partition: TopicPartition) -> PartitionLeader:
        return PartitionLeader(node_id=1, epoch=0)

    async def send(self, node_id: int, request: Any, **_: Any) -> Any:
        return FetchAnswer(throttle_ms=1_000, error=0, session_id=0, partitions=[])


async def test_response_without_the_partition_is_a_retriable_error() -> None:
    records = records_between(
        Throttling(), TopicPartition("t", 0), 0, 5, isolation=IsolationLevel.READ_COMMITTED, purpose="test"
    )
    with pytest.raises(BrokerError, match="read t-0 from offset 0 to 5") as raised:
        await anext(records)
    assert (raised.value.code, raised.value.retriable) == (ErrorCode.OFFSET_NOT_AVAILABLE, True)
