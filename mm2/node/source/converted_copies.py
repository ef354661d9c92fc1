"""Check, before a flow starts, that it does not continue remote topics whose records Java's converters changed."""

from __future__ import annotations

import logging

from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.converted_copies import ComparedRecord, RecordPart, changed_parts
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.logs.record_stream import records_between
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.source.source_offsets import StoredSourceOffsets

log = logging.getLogger(__name__)

TOPICS = 20
"""Topics of which one partition is compared. Java's converters apply to all topics of a flow."""

LAST_OFFSETS = 10
"""Offsets at the end of a remote partition: its last record is there, behind which there can be transaction markers."""

OFFSETS_AROUND = (10, 200)
"""Source offsets before and after the stored one. Java copies records for a minute before it stores an offset."""

_PURPOSE = "converted copies"
_NAMES = {RecordPart.KEY: "bytes of the key", RecordPart.VALUE: "bytes of the value", RecordPart.HEADERS: "headers"}


class CopiesConverted(ClusterError):
    """A remote topic was written with a converter that changes records. Needs operator action."""


async def check_copies(settings: FlowSettings, source: Cluster, target: Cluster, offsets: StoredSourceOffsets) -> None:
    """Compare the last record of remote partitions with the source, if the file has a converter that changes records.

    Raises CopiesConverted if they differ in what a converter of the file changes, and retriable ClusterErrors. Where
    records cannot be compared, nothing is known: the converter can be a line that Java never ran with.
    """
    if not (settings.enabled and settings.converters):
        return
    await offsets.refresh()
    for partition in await _partitions(settings, source, target, offsets):
        remote = TopicPartition(_remote_topic(settings, partition.topic), partition.partition)
        try:
            copy = await _last(target, remote)
            originals, reaches_end = await _originals(settings, source, partition, offsets.position(partition) or 0)
        except ClusterError as error:
            if error.retriable:
                raise
            log.info("%s: cannot compare %s with %s: %s", settings.flow, partition, remote, error)
            continue
        parts = frozenset() if copy is None else changed_parts(_compared(copy), originals, reaches_end=reaches_end)
        for converter in settings.converters:
            if copy is not None and converter.part in parts:
                raise CopiesConverted(
                    f"Java MirrorMaker wrote {remote} with {converter}: the {_NAMES[converter.part]} of offset"
                    f" {copy.offset} differ from those of {partition}, and copies would have the bytes of the source"
                    f" from now on; if that is intended, remove {converter.key} and restart the node, otherwise keep"
                    f" running Java MirrorMaker for {settings.flow}"
                )


async def _partitions(
    settings: FlowSettings, source: Cluster, target: Cluster, offsets: StoredSourceOffsets
) -> list[TopicPartition]:
    """Return a partition of each of the first topics that Java can have copied, and that exist on both clusters."""
    first: dict[str, TopicPartition] = {}
    for partition in sorted(offsets.stored):
        topic = partition.topic
        if topic in first or not offsets.position(partition) or not settings.replication_filter.replicates(topic):
            continue
        if settings.query_of(topic) is None:
            first[topic] = partition
        if len(first) == TOPICS:
            break
    if not first:
        return []
    here = (await source.metadata(first)).topics
    there = (await target.metadata({_remote_topic(settings, topic) for topic in first})).topics
    return [
        partition
        for topic, partition in first.items()
        if not here[topic].error and not there[_remote_topic(settings, topic)].error
    ]


def _remote_topic(settings: FlowSettings, topic: str) -> str:
    return settings.policy.format_remote_topic(settings.aliases.source, topic)


async def _last(target: Cluster, remote: TopicPartition) -> StoredRecord | None:
    """Return the last record that consumers of transactions see; None: there is none, or it is not at the end."""
    first, end = await _bounds(target, remote, IsolationLevel.READ_COMMITTED)
    last = None
    start = max(first, end - LAST_OFFSETS)
    async for record in records_between(
        target, remote, start, end, isolation=IsolationLevel.READ_COMMITTED, purpose=_PURPOSE
    ):
        last = record
    return last


async def _originals(
    settings: FlowSettings, source: Cluster, partition: TopicPartition, position: int
) -> tuple[list[ComparedRecord], bool]:
    """Return the records of the source around ``position``, and whether there is none behind them."""
    isolation = settings.clients.fetch.isolation_level
    first, end = await _bounds(source, partition, isolation)
    start, until = max(first, position - OFFSETS_AROUND[0]), min(end, position + OFFSETS_AROUND[1])
    records = records_between(source, partition, start, until, isolation=isolation, purpose=_PURPOSE)
    return [_compared(record) async for record in records], until == end


async def _bounds(cluster: Cluster, partition: TopicPartition, isolation: IsolationLevel) -> tuple[int, int]:
    """Return the first offset and the end offset. Raises ClusterError."""
    found = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        offset = (await list_offsets(cluster, [partition], spec, isolation=isolation))[partition]
        if isinstance(offset, ClusterError):
            raise offset
        found.append(offset)
    return found[0], found[1]


def _compared(record: StoredRecord) -> ComparedRecord:
    return ComparedRecord(key=record.key, value=record.value, headers=record.headers, timestamp_ms=record.timestamp)
