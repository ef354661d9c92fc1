"""Reading of one partition record by record, up to an offset."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, check
from mm2.kafka.logs.stored_records import StoredRecord, decode
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchFrom, FetchRequest

_FETCH_BYTES = 1 << 20  # decoded without interruption, about 10 ms in the event loop


async def records_between(
    cluster: Cluster, partition: TopicPartition, start: int, end: int, *, isolation: IsolationLevel, purpose: str
) -> AsyncIterator[StoredRecord]:
    """Yield the records from ``start`` up to ``end``, which the partition must have reached.

    Raises ClusterError, also if some of them are no longer there.
    """
    position = start
    committed_only = isolation is IsolationLevel.READ_COMMITTED
    while position < end:
        leader = await cluster.leader(partition)
        request = FetchRequest(
            partitions={partition: FetchFrom(position, _FETCH_BYTES)},
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=_FETCH_BYTES,
            isolation=isolation,
        )
        timeout_ms = cluster.settings.request_timeout_ms
        answer = await cluster.send(leader.node_id, request, purpose=purpose, timeout_ms=timeout_ms)
        check(answer.error, f"fetch from {partition}")
        (fetched,) = answer.partitions
        if fetched.error:
            cluster.forget(partition)
            raise BrokerError(fetched.error, f"read {partition}")
        records, after = decode(
            fetched.records, partition, position, aborted=fetched.aborted, committed_only=committed_only
        )
        for record in records:
            if record.offset < end:
                yield record
        if after == position:
            raise BrokerError(ErrorCode.OFFSET_NOT_AVAILABLE, f"read {partition} from offset {position} to {end}")
        position = after
