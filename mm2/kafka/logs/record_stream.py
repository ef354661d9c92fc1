"""Reading of one partition record by record, up to an offset."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.record_fetch import fetch_records
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.protocol.error_codes import ErrorCode


async def records_between(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, *, isolation: IsolationLevel, purpose: str
) -> AsyncIterator[StoredRecord]:
    """Yield the records from ``start`` up to ``end``, which the partition must have reached.

    Raises ClusterError, also if some of them are no longer there.
    """
    position = start
    while position < end:
        leader = await cluster.leader(partition)
        answers = await fetch_records(
            cluster, leader.node_id, {partition: position}, isolation=isolation, purpose=purpose
        )
        fetched = answers.get(partition, ([], position))  # brokers leave it out while a quota throttles the client
        if isinstance(fetched, ClusterError):
            raise fetched
        records, after = fetched
        for record in records:
            if record.offset < end:
                yield record
        if after == position:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, f"read {partition} from offset {position} to {end}")
        position = after
