"""The router of a source task with routing, with its own producer."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from flows.batch.choice import rules_from
from flows.batch.codecs import compress
from flows.batch.header import HEADER_BYTES, encode_header, read_header
from flows.partition.row_transform import RowTransform
from flows.partition.timeouts import Timeouts
from flows.routing.handlers import load_handler
from flows.routing.new_topics import NewTopics
from flows.routing.retry_limit import RoutedRetryLimit
from flows.routing.router import RecordRouter
from flows.source.record_limits import RecordLimits, record_limit
from flows.source_task.spawn import Spawn
from mm2.core.lanes.lease import RecordRouting, SourceTaskLease
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.logs.control_producer import ControlProducer

BUFFER_BYTES = 64 * 1024 * 1024
"""Records that are decoded and not acknowledged. The fetched batches are limited by the lane's budget."""


async def open_router(
    lease: SourceTaskLease,
    routing: RecordRouting,
    source: Cluster,
    target: Cluster,
    stack: AsyncExitStack,
    *,
    timeouts: Timeouts,
) -> Callable[[Spawn], RowTransform]:
    """Return how to create the router. Only topics that a message handler names are created: it makes up the names.

    Raises UserClassError.
    """
    handle = load_handler(routing.handler)
    rules = rules_from(lease.produce, lease.fetch)
    finish = partial(compressed, rules.codec, rules.level) if rules.codec else None
    producer = await stack.enter_async_context(
        ControlProducer(
            target,
            purpose="routed records",
            idempotent=lease.produce.idempotent,
            buffer_bytes=BUFFER_BYTES,
            finish=finish,
            retry_limit=partial(RoutedRetryLimit, timeouts),
        )
    )
    new_topics = NewTopics(source, target) if routing.handler is not None else None
    limits = RecordLimits(source, record_limit(lease.fetch))
    return partial(RecordRouter, target, producer, handle, new_topics, limits=limits, timeouts=timeouts)


def compressed(codec: int, level: int | None, batch: bytes) -> bytes:
    """Return an uncompressed batch in format v2 with its records compressed."""
    header = read_header(memoryview(batch), 0)
    records = bytes(compress(codec, level, batch[HEADER_BYTES:]))
    return (
        encode_header(
            records,
            attributes=header.attributes | codec,
            base_timestamp=header.base_timestamp,
            max_timestamp=header.max_timestamp,
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            count=header.record_count,
        )
        + records
    )
