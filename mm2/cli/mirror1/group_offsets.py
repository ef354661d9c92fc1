"""Committed offsets of MirrorMaker 1's consumer group, stored as source offsets of a flow."""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from mm2.cli.clusters.cluster_access import connection_error, reason, short_timeout_cluster
from mm2.cli.errors import CommandError
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import OffsetReset
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.groups import committed_offsets, group_states
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.node.store.worker_topics import WorkerTopics

WRITTEN_WITHIN_S = 60.0
"""For a few small batches, which are retried while partitions have no leader."""

_WITHOUT_MEMBERS = ("empty", "dead")


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenOffsets:
    """``positions`` are the next source offsets that were stored: those that the group has committed, those of
    ``in_zookeeper`` that it has there only, and the ``ends`` of partitions without one. ``left_out`` partitions are not
    of the flow."""

    flow: str
    group: str
    topic: str
    positions: Mapping[TopicPartition, int]
    ends: Mapping[TopicPartition, int]
    in_zookeeper: frozenset[TopicPartition]
    left_out: tuple[TopicPartition, ...]

    def lines(self) -> Iterator[str]:
        """Return what was done, for people."""
        for one, position in sorted(self.positions.items()):
            if one in self.ends:
                why = "no offset is committed, and auto.offset.reset is latest"
                yield f"{one}: starts at its end, offset {position}: {why}"
            else:
                where = ", which only ZooKeeper has" if one in self.in_zookeeper else ""
                yield f"{one}: continues at offset {position}{where}"
        for one in self.left_out:
            yield f"{one}: left out, because the flow does not replicate the topic, or no offset is committed"
        yield f"{self.flow}: stored {len(self.positions)} offsets of group {self.group} in {self.topic}"
        yield "next: mm2 run with the file that mm2 migrate-mm1 prints without --write-offsets"


async def write_group_offsets(settings: FlowSettings, group: str, old: Mapping[TopicPartition, int]) -> WrittenOffsets:
    """Store the offsets that ``group`` has committed on the source, for the topics of the flow.

    ``old`` are offsets that it has in ZooKeeper, which count where Kafka has none.

    With auto.offset.reset = latest the current ends of partitions without one are stored, too: otherwise the flow would
    start at the ends as of its own start, and what arrives until then would not be copied.

    Raises CommandError if a cluster does not answer, the group has members or no offsets, or source offsets of the
    flow are stored already: then records would be repeated or lost.
    """
    source_name, target_name = settings.flow.source, settings.flow.target
    async with AsyncExitStack() as stack:
        source, target = [
            await stack.enter_async_context(short_timeout_cluster(settings.clients.of(role)))
            for role in (ClientRole.CHECKPOINT_SOURCE_ADMIN, ClientRole.SHARED_ADMIN)
        ]
        for alias, cluster in ((source_name, source), (target_name, target)):
            if (error := await connection_error(cluster)) is not None:
                servers = ",".join(cluster.settings.bootstrap_servers)
                raise CommandError(f"cluster {alias} ({servers}) is unreachable: {reason(alias, error)}")
        try:
            in_kafka = await _committed(source, group, old)
            only_old = frozenset(one for one in old if in_kafka.get(one) is None)
            committed = {**in_kafka, **{one: old[one] for one in only_old}}
            selected = _selected(settings, group, committed)
            ends = await _ends(settings, source, selected)
            positions = {**selected, **ends}
            await _write(settings, target, positions)
        except ClusterError as error:
            raise CommandError(f"failed to store the offsets of group {group}: {error}") from error
    return WrittenOffsets(
        flow=str(settings.flow),
        group=group,
        topic=settings.storage.offsets.name,
        positions=positions,
        ends=ends,
        in_zookeeper=only_old,
        left_out=tuple(sorted(committed.keys() - positions.keys())),
    )


async def _committed(
    source: Cluster, group: str, old: Mapping[TopicPartition, int]
) -> Mapping[TopicPartition, int | None]:
    state = (await group_states(source, [group]))[group]
    if isinstance(state, ClusterError):
        raise state
    if state is not None and state.lower() not in _WITHOUT_MEMBERS:
        raise CommandError(f"group {group} has members (state {state}): stop MirrorMaker 1 first.")
    committed = (await committed_offsets(source, [group]))[group]
    if isinstance(committed, ClusterError):
        raise committed
    if not committed and not old:
        raise CommandError(f"group {group} has no committed offsets on the source: check group.id.")
    return {one: None if offset is None else offset.offset for one, offset in committed.items()}


def _selected(
    settings: FlowSettings, group: str, committed: Mapping[TopicPartition, int | None]
) -> Mapping[TopicPartition, int]:
    """Return the committed offsets of the topics of the flow."""
    selected = settings.replication_filter
    positions = {
        one: offset for one, offset in committed.items() if offset is not None and selected.replicates(one.topic)
    }
    if not positions:
        raise CommandError(
            f"group {group} has no committed offsets for the topics of {settings.flow}: check --include."
        )
    return positions


async def _ends(
    settings: FlowSettings, source: Cluster, committed: Container[TopicPartition]
) -> Mapping[TopicPartition, int]:
    """Return the current ends of the flow's partitions without a committed offset, if they would start there."""
    fetch, selected = settings.clients.fetch, settings.replication_filter
    if fetch.auto_offset_reset is not OffsetReset.LATEST:
        return {}
    partitions = {
        partition
        for name, topic in (await source.metadata(None)).topics.items()
        if not topic.error and selected.replicates(name)
        for one in topic.partitions
        if (partition := TopicPartition(name, one.partition)) not in committed
    }
    ends: dict[TopicPartition, int] = {}
    for one, end in (
        await list_offsets(source, partitions, OffsetSpec.LATEST, isolation=fetch.isolation_level)
    ).items():
        if isinstance(end, ClusterError):
            raise end
        ends[one] = end
    return ends


async def _write(settings: FlowSettings, target: Cluster, positions: Mapping[TopicPartition, int]) -> None:
    """Store positions, unless there are some already."""
    flow, topic = settings.flow, settings.storage.offsets.name
    offsets = (await WorkerTopics.ensure(settings, target)).source_offsets
    await offsets.refresh()
    if offsets.stored:
        example = min(offsets.stored)
        raise CommandError(
            f"{topic} on {flow.target} has offsets of {flow.source} already, such as {example} at offset"
            f" {offsets.position(example)}: {flow} continues at them. To start at those of the group instead, choose"
            " other aliases with --source and --target."
        )
    try:
        async with asyncio.timeout(WRITTEN_WITHIN_S), ControlProducer(target, purpose="source offsets") as producer:
            await offsets.store(producer, positions)
    except TimeoutError:
        raise CommandError(
            f"{topic} on {flow.target} was not written within {WRITTEN_WITHIN_S:.0f} s, so some offsets may be stored:"
            " check the target's brokers, and repeat the command with other aliases (--source, --target)."
        ) from None
