"""One fetch of decoded records from one broker, for the small topics that the control plane reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.core.topics.acls import Operation
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, RequestTimedOut, check
from mm2.kafka.logs.stored_records import Ended, StoredRecord, Written, decode, read_batches
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchedPartition, FetchFrom, FetchRequest


class OpenTransactions:
    """The open transactions of one partition, by producer ID.

    A fetch with read_committed returns nothing behind the first open transaction: the producer of one hides what others
    have committed after it. Here, a transaction becomes visible with its own commit, and so do records outside
    transactions.
    """

    def __init__(self) -> None:
        self._records: dict[int, list[StoredRecord]] = {}

    def visible(self, batches: Iterable[Written | Ended]) -> list[StoredRecord]:
        """Return the records that the next batches of the partition make visible."""
        found: list[StoredRecord] = []
        for one in batches:
            if isinstance(one, Ended):
                records = self._records.pop(one.transaction_of, [])
                if one.committed:
                    found += records
            elif one.transaction_of is None:
                found += one.records
            else:
                self._records.setdefault(one.transaction_of, []).extend(one.records)
        return found


FETCH_BYTES = 1 << 20  # decoded without interruption, about 10 ms in the event loop
_ROOM_MS = 5_000  # in addition to the wait for records, for the response to arrive

Fetched = tuple[list[StoredRecord], int]
"""Records, and the offset to continue from."""


async def fetch_records(
    cluster: Cluster,
    node_id: int,
    positions: Mapping[TopicPartition, int],
    *,
    isolation: IsolationLevel,
    purpose: str,
    partition_bytes: int = FETCH_BYTES,
    wait_ms: int = 0,
    transactions: Mapping[TopicPartition, OpenTransactions] | None = None,
) -> dict[TopicPartition, Fetched | ClusterError]:
    """Fetch once from the leader of these partitions, from the offset of each.

    ``partition_bytes`` limits the bytes of each, except that its first batch is always complete. With ``transactions``,
    for ``isolation`` read_uncommitted, records in transactions are returned when their commit is read. Partitions that
    the broker leaves out of its response are left out here. Raises ClusterError if the request fails.
    """
    request = FetchRequest(
        partitions={partition: FetchFrom(position, partition_bytes) for partition, position in positions.items()},
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        isolation=isolation,
    )
    timeout_ms = max(cluster.settings.request_timeout_ms, wait_ms + _ROOM_MS)
    answer = await cluster.send(node_id, request, purpose=purpose, timeout_ms=timeout_ms)
    check(answer.error, f"fetch from broker {node_id}")
    found: dict[TopicPartition, Fetched | ClusterError] = {}
    for fetched in answer.partitions:
        partition = TopicPartition(fetched.topic, fetched.partition)
        try:
            _check(cluster, fetched, partition)
            position = positions[partition]
            if transactions is None:
                committed_only = isolation is IsolationLevel.READ_COMMITTED
                found[partition] = decode(
                    fetched.records, partition, position, aborted=fetched.aborted, committed_only=committed_only
                )
            else:
                batches, position = read_batches(fetched.records, partition, position)
                found[partition] = transactions[partition].visible(batches), position
        except ClusterError as error:
            found[partition] = error
    return found


async def fetch_record(
    cluster: Cluster, partition: TopicPartition, offset: int, *, purpose: str
) -> StoredRecord | None:
    """Return the record at an offset, also one of a transaction; None if it is not there any more, or not readable.

    Raises ClusterError.
    """
    by_leader, unknown = await cluster.by_leader([partition])
    if unknown:
        raise unknown[partition]
    (leader,) = by_leader
    answer = await fetch_records(
        cluster,
        leader,
        {partition: offset},
        isolation=IsolationLevel.READ_UNCOMMITTED,
        purpose=purpose,
        partition_bytes=1,
    )
    fetched = answer.get(partition)
    if fetched is None:
        raise RequestTimedOut(f"broker {leader} did not return offset {offset} of {partition}")
    if isinstance(fetched, ClusterError):
        if isinstance(fetched, BrokerError) and fetched.code == ErrorCode.OFFSET_OUT_OF_RANGE:
            return None
        raise fetched
    records, _ = fetched
    return next((one for one in records if one.offset == offset and one.problem is None), None)


def _check(cluster: Cluster, fetched: FetchedPartition, partition: TopicPartition) -> None:
    if fetched.error:
        if fetched.error != ErrorCode.OFFSET_OUT_OF_RANGE:
            cluster.forget(partition)
        right = on_topic(Operation.READ, partition.topic, cluster.settings.alias)
        raise BrokerError(fetched.error, f"read {partition}", right=right)
