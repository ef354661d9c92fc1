"""Check, before a flow starts, that it does not continue remote topics whose records Java's converters changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.converted_copies import ComparedRecord, RecordPart, changed_parts
from mm2.core.plugins import PluginError
from mm2.core.problems.grouped_problems import PlacedProblem, grouped
from mm2.core.settings.client import IsolationLevel
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.metadata import leaders
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.record_stream import records_between
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.source.uncommitted_copies import not_compared

log = logging.getLogger(__name__)

TOPICS = 20
"""Topics of which one partition is compared. Java's converters apply to all topics of a flow."""

LAST_OFFSETS = 10
"""Offsets at the end of a remote partition: its last record is there, behind which there can be transaction markers."""

OFFSETS_AROUND = (10, 200)
"""Source offsets before and after the stored one. Java copies records for a minute before it stores an offset."""

ANSWER_MS = 5_000
"""How long the offsets of a partition are asked for: there are others."""

_JUDGED_AT_ONCE = 500  # topics per turn of the event loop

_PURPOSE = "converted copies"
_NAMES = {RecordPart.KEY: "bytes of the key", RecordPart.VALUE: "bytes of the value", RecordPart.HEADERS: "headers"}


class CopiesConverted(ClusterError):
    """A remote topic was written with a converter that changes records. Needs operator action."""


async def check_copies(settings: FlowSettings, source: Cluster, target: Cluster, offsets: StoredSourceOffsets) -> None:
    """Compare the last record of remote partitions with the source, if the file has a converter that changes records.

    Raises CopiesConverted if they differ in what a converter of the file changes, and retriable ClusterErrors if a
    cluster is unavailable. Where records cannot be compared, nothing is known: the converter can be a line that Java
    never ran with.
    """
    if not (settings.enabled and settings.converters):
        return
    await offsets.refresh()
    unavailable: ClusterError | None = None
    compared = 0
    failed: list[PlacedProblem] = []
    for partition, remote in await _partitions(settings, source, target, offsets):
        try:
            copy = await _last(target, remote)
            parts = await _changed(settings, source, partition, offsets.position(partition) or 0, copy)
        except ClusterError as error:
            failed.append(not_compared(partition, remote, str(error)))
            if error.retriable and not isinstance(error, BrokerError):  # that one is about this partition only
                unavailable = error
            continue
        compared += 1
        for converter in settings.converters:
            if copy is not None and converter.part in parts:
                raise CopiesConverted(
                    f"Java MirrorMaker wrote {remote} with {converter}: the {_NAMES[converter.part]} of offset"
                    f" {copy.offset} differ from those of {partition}, and copies would have the bytes of the source"
                    f" from now on; if that is intended, remove {converter.key} and restart the node, otherwise keep"
                    f" running Java MirrorMaker for {settings.flow}"
                )
    for cause in grouped(failed):
        log.info("%s: cannot compare %s with the copies: %s", settings.flow, cause.place, cause.reason)
    if unavailable is not None and not compared:
        raise unavailable


async def _partitions(
    settings: FlowSettings, source: Cluster, target: Cluster, offsets: StoredSourceOffsets
) -> list[tuple[TopicPartition, TopicPartition]]:
    """Return a partition of each of the first topics that Java can have copied, with its remote partition.

    Both have a leader: one partition without a leader must not keep the others from being copied.
    """
    copied = await copied_partitions(settings, (one for one in offsets.stored if offsets.position(one)))
    if not copied:
        return []
    here = leaders((await source.metadata({one.topic for pairs in copied for one, _ in pairs})).topics.values())
    there = leaders((await target.metadata({remote.topic for pairs in copied for _, remote in pairs})).topics.values())
    led = (next((pair for pair in pairs if pair[0] in here and pair[1] in there), None) for pairs in copied)
    return [pair for pair in led if pair is not None]


async def copied_partitions(
    settings: FlowSettings, stored: Iterable[TopicPartition]
) -> list[list[tuple[TopicPartition, TopicPartition]]]:
    """Return the partitions among ``stored`` of the first `TOPICS` topics that the flow copies as they are, by topic,
    each with its remote partition. A topic for which a custom class fails is left out: discovery reports it."""
    remote_topics: dict[str, str | None] = {}
    found: dict[str, list[tuple[TopicPartition, TopicPartition]]] = {}
    for partition in sorted(stored):
        topic = partition.topic
        if topic not in remote_topics:
            if len(found) == TOPICS:
                break
            remote_topics[topic] = _remote_topic(settings, topic)
            if len(remote_topics) % _JUDGED_AT_ONCE == 0:
                await asyncio.sleep(0)
        if (remote := remote_topics[topic]) is not None:
            found.setdefault(topic, []).append((partition, TopicPartition(remote, partition.partition)))
    return list(found.values())


def _remote_topic(settings: FlowSettings, topic: str) -> str | None:
    try:
        if settings.query_of(topic) is None and settings.replication_filter.replicates(topic):
            return settings.policy.format_remote_topic(settings.aliases.source, topic)
    except PluginError as error:
        log.info("%s: cannot compare copies of %s: %s", settings.flow, topic, error)
    return None


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


async def _changed(
    settings: FlowSettings, source: Cluster, partition: TopicPartition, position: int, copy: StoredRecord | None
) -> frozenset[RecordPart]:
    """Compare ``copy`` with the records of the source around ``position``, of which those with another timestamp are
    not kept: 200 can be large."""
    if copy is None:
        return frozenset()
    isolation = settings.clients.fetch.isolation_level
    first, end = await _bounds(source, partition, isolation)
    start, until = max(first, position - OFFSETS_AROUND[0]), min(end, position + OFFSETS_AROUND[1])
    originals = [
        _compared(record)
        if record.timestamp == copy.timestamp
        else ComparedRecord(key=None, value=None, headers=(), timestamp_ms=record.timestamp)
        async for record in records_between(source, partition, start, until, isolation=isolation, purpose=_PURPOSE)
    ]
    return changed_parts(_compared(copy), originals, reaches_end=until == end)


async def _bounds(cluster: Cluster, partition: TopicPartition, isolation: IsolationLevel) -> tuple[int, int]:
    """Return the first offset and the end offset. Raises ClusterError."""
    found = []
    for spec in (OffsetSpec.EARLIEST, OffsetSpec.LATEST):
        offset = (await list_offsets(cluster, [partition], spec, isolation=isolation, timeout_ms=ANSWER_MS))[partition]
        if isinstance(offset, ClusterError):
            raise offset
        found.append(offset)
    return found[0], found[1]


def _compared(record: StoredRecord) -> ComparedRecord:
    return ComparedRecord(key=record.key, value=record.value, headers=record.headers, timestamp_ms=record.timestamp)
