"""When the records at offsets were written, from the headers of their batches: nothing is decompressed."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import check
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchFrom, FetchRequest

BATCH_BYTES = 16 * 1024
"""Asked for of each partition: a producer's batch has at most as much by default (batch.size). A broker answers with
complete batches, and leaves out partitions whose first one is larger, except the first that has any."""

ANSWER_BYTES = 1 << 20

_LENGTH_AT, _BODY_AT, _MAGIC_AT = 8, 12, 16
_LAST_DELTA_AT, _MAX_TIMESTAMP_AT = 23, 35  # of format 2
_MESSAGE_TIMESTAMP_AT = 18  # of format 1
_HEADER_BYTES = 61
_LONG, _INT = struct.Struct(">q"), struct.Struct(">i")
_NEWEST_MAGIC = 2


def timestamp_at(records: bytes, offset: int) -> int | None:
    """Return the largest timestamp, in epoch ms, of the first batch that ends behind ``offset``.

    ``records`` are those of a fetch response. None: there is no such batch, or it has no timestamp (message format 0).
    The grammar is that of org.apache.kafka.common.record.DefaultRecordBatch and LegacyRecord.
    """
    at = 0
    while at + _HEADER_BYTES <= len(records) or at + _MESSAGE_TIMESTAMP_AT + _LONG.size <= len(records):
        (base,) = _LONG.unpack_from(records, at)
        (length,) = _INT.unpack_from(records, at + _LENGTH_AT)
        magic = records[at + _MAGIC_AT]
        if magic > _NEWEST_MAGIC or length <= 0:
            return None
        last = base  # of formats 0 and 1, whose compressed messages have the offset of the last record in them
        place = _MESSAGE_TIMESTAMP_AT
        if magic == _NEWEST_MAGIC:
            if at + _HEADER_BYTES > len(records):
                return None
            last, place = base + _INT.unpack_from(records, at + _LAST_DELTA_AT)[0], _MAX_TIMESTAMP_AT
        if last >= offset:
            timestamp = -1 if magic == 0 else int(_LONG.unpack_from(records, at + place)[0])
            return None if timestamp < 0 else timestamp
        at += _BODY_AT + length
    return None


async def first_timestamps(
    cluster: Cluster, node_id: int, offsets: Mapping[TopicPartition, int], *, isolation: IsolationLevel, purpose: str
) -> dict[TopicPartition, int | None]:
    """Return the timestamps at these offsets, by one fetch from the leader of the partitions.

    Partitions that the broker leaves out, or has no record of there, are left out here; None: there is a batch, and it
    has no timestamp. A caller that asks again begins with another partition, so that each gets an answer.
    Raises ClusterError if the request fails.
    """
    request = FetchRequest(
        partitions={one: FetchFrom(offset, BATCH_BYTES) for one, offset in offsets.items()},
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=ANSWER_BYTES,
        isolation=isolation,
    )
    answer = await cluster.send(node_id, request, purpose=purpose)
    check(answer.error, f"fetch from broker {node_id}")
    found: dict[TopicPartition, int | None] = {}
    for fetched in answer.partitions:
        one = TopicPartition(fetched.topic, fetched.partition)
        if fetched.error:
            if fetched.error != ErrorCode.OFFSET_OUT_OF_RANGE:
                cluster.forget(one)
        elif fetched.records:
            found[one] = timestamp_at(fetched.records, offsets[one])
    return found
