"""The leases of the source tasks of a stream: what a lane copies, and how."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mm2.core.lanes.lease import DeadLettersLease, PartitionLease, RecordRouting, SourceTaskLease
from mm2.core.mirror1.settings import ConsumerSettings, MirrorSettings
from mm2.core.naming.names import Flow, TopicPartition

COPIED, ROUTED = 0, 1
"""Numbers of the stream's source tasks: one copies batches, the other writes record by record."""

_NOT_IN_TOPICS = re.compile("[^a-zA-Z0-9._-]")


def stream_lease(
    settings: MirrorSettings,
    consumer: ConsumerSettings,
    flow: Flow,
    starts: Mapping[TopicPartition, int | None],
    *,
    source_task: int,
    epoch: int,
) -> SourceTaskLease:
    """Return the lease of source task `COPIED` or `ROUTED` with the partitions of ``starts``.

    ``starts`` are source offsets; None where none is known, for which auto.offset.reset decides.
    """
    dead_letters = None
    if not settings.abort_on_send_failure:
        dead_letters = DeadLettersLease(topic=dead_letter_topic(consumer.group.group_id))
    return SourceTaskLease(
        flow=flow,
        source_task=source_task,
        epoch=epoch,
        source=consumer.client,
        fetch=consumer.fetch,
        target=settings.target,
        produce=settings.produce,
        offsets=None,
        offset_syncs=None,
        partitions=tuple(
            PartitionLease(topic=one.topic, partition=one.partition, remote_topic=one.topic, start_offset=start)
            for one, start in starts.items()
        ),
        dead_letters=dead_letters,
        routing=RecordRouting(handler=settings.handler) if source_task == ROUTED else None,
    )


def dead_letter_topic(group_id: str) -> str:
    """Return the topic on the target for records that cannot be written."""
    return f"mm2-dead-letters.{_NOT_IN_TOPICS.sub('_', group_id)}.internal"
