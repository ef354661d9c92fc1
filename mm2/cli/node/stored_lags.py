"""The lag of flows from their clusters alone: source offsets stored on the target, end offsets of the source."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, reason, short_timeout_cluster
from mm2.cli.node.flow_on_target import FlowOnTarget, read_flow_on_target
from mm2.cli.node.topic_rows import by_rules
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.lanes.task_states import TaskState, worst
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.offsets.start_offset import StoredLag, stored_lag
from mm2.core.settings.client import IsolationLevel, OffsetReset
from mm2.core.topics.topic_recreated import source_topic_recreated
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.node.status.status_model import FlowStatus, PartitionStatus, TopicStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFlow:
    """One flow as its clusters show it: tasks, rates and lags in seconds are unknown.

    States of partitions are PAUSED, FAILED (stopped by a loss), or WAITING, which here means unknown. ``answered``:
    whether both clusters answered; ``notes`` are the reasons why they did not, or why something is missing.
    ``replicated``: all source topics of the flow, also those that were not asked for.
    """

    status: FlowStatus
    answered: bool
    replicated: frozenset[str] = frozenset()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _OnSource:
    """The source's topics: partition counts, names that Kafka marks as internal, and IDs."""

    topics: Mapping[str, int]
    internal: frozenset[str]
    ids: Mapping[str, UUID | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ends:
    """Offsets of source partitions by `list_offsets`. ``started``: what mm2.start chooses for a time."""

    earliest: Mapping[TopicPartition, int | ClusterError]
    latest: Mapping[TopicPartition, int | ClusterError]
    ends: Mapping[TopicPartition, int | ClusterError]
    started: Mapping[TopicPartition, int | ClusterError]


async def read_stored_lags(flows: Iterable[FlowSettings], topics: Collection[str] = ()) -> list[StoredFlow]:
    """Return the lag of each flow, of these source topics only if there are any; failures are in the notes."""
    return list(await asyncio.gather(*(_read(settings, topics) for settings in flows)))


async def _read(settings: FlowSettings, topics: Collection[str]) -> StoredFlow:
    clients, flow = settings.clients, settings.flow
    async with (
        short_timeout_cluster(clients.of(ClientRole.REPLICATION_CONSUMER, 0)) as source,
        short_timeout_cluster(clients.of(ClientRole.SHARED_ADMIN)) as target,
    ):
        failures = await asyncio.gather(connection_error(source), connection_error(target))
        notes = [
            f"cluster {alias} is unreachable: {reason(alias, error)}"
            for alias, error in zip((flow.source, flow.target), failures, strict=True)
            if error is not None
        ]
        if not notes:
            try:
                return await _put_together(settings, topics, source, target)
            except ClusterError as error:
                notes = [f"cannot read the lag of {flow}: {error}"]
    return StoredFlow(status=_flow_status(settings, (), NO_PAUSES), answered=False, notes=tuple(notes))


async def _put_together(
    settings: FlowSettings, wanted: Collection[str], source: Cluster, target: Cluster
) -> StoredFlow:
    notes: list[str] = []
    there, stored = await asyncio.gather(_read_source(source), read_flow_on_target(settings, target, notes))
    replicated = [
        row for row in by_rules(settings, there.topics, there.internal, stored.topics) if row.remote_topic is not None
    ]
    rows = [row for row in replicated if not wanted or row.topic in wanted]
    partitions = [TopicPartition(row.topic, number) for row in rows for number in range(row.partitions)]
    ends = await _read_ends(settings, source, partitions)
    shown = []
    for row in rows:
        own = [TopicPartition(row.topic, number) for number in range(row.partitions)]
        recreated = row.topic in stored.ids and not TopicIds(source=there.ids[row.topic]).may_be(stored.ids[row.topic])
        found = tuple(_partition_status(settings, one, stored, ends, recreated=recreated) for one in own)
        shown.append(
            TopicStatus(
                topic=row.topic,
                remote_topic=row.remote_topic or "",
                state=worst(one.state for one in found),
                error=None,
                partitions=found,
                query=row.query,
            )
        )
    return StoredFlow(
        status=_flow_status(settings, shown, stored.pauses),
        answered=True,
        replicated=frozenset(row.topic for row in replicated),
        notes=tuple(notes),
    )


def _flow_status(settings: FlowSettings, topics: Sequence[TopicStatus], pauses: Pauses) -> FlowStatus:
    return FlowStatus(
        flow=str(settings.flow),
        source=settings.flow.source,
        target=settings.flow.target,
        enabled=settings.enabled,
        state=TaskState.PAUSED if pauses.flow else TaskState.WAITING,
        leader=None,
        epoch=-1,
        reasons=(),
        tasks=(),
        topics=tuple(topics),
        paused=pauses.named,
    )


def _partition_status(
    settings: FlowSettings, partition: TopicPartition, stored: FlowOnTarget, ends: _Ends, *, recreated: bool
) -> PartitionStatus:
    position = 0 if recreated else stored.offsets.position(partition)
    fetch = settings.clients.fetch
    answers = [by[partition] for by in (ends.earliest, ends.latest, ends.ends)]
    start = ends.started.get(partition, fetch.start)
    failure = next((one for one in (*answers, start) if isinstance(one, ClusterError)), None)
    earliest, latest, end = (0 if isinstance(one, ClusterError) else one for one in answers)
    if failure is not None or isinstance(start, ClusterError):
        lag = StoredLag(position=position, lag_records=None, remark=str(failure))
    else:
        lag = stored_lag(
            position,
            earliest=earliest,
            latest=latest,
            end=end,
            policy=OffsetReset.EARLIEST if recreated else fetch.auto_offset_reset,
            start=start,
        )
    remark = source_topic_recreated(partition.topic, settings.flow.source) if recreated else lag.remark
    stop = stored.stopped.get(partition)
    state = TaskState.PAUSED if stored.pauses.covers(partition.topic) else TaskState.WAITING
    return PartitionStatus(
        partition=partition.partition,
        state=state if stop is None else TaskState.FAILED,
        position=lag.position,
        end_offset=None if failure is not None else end,
        lag_records=lag.lag_records,
        lag_seconds=0.0 if lag.lag_records == 0 else None,
        error=remark if stop is None else stop,
        source_task=stored.tasks.get(partition),
        node=stored.owners.get(partition, ""),
    )


# -- the source


async def _read_source(source: Cluster) -> _OnSource:
    topics = {name: info for name, info in (await source.metadata(None)).topics.items() if info.partitions}
    return _OnSource(
        topics={name: len(info.partitions) for name, info in topics.items()},
        internal=frozenset(name for name, info in topics.items() if info.is_internal),
        ids={name: info.topic_id for name, info in topics.items()},
    )


async def _read_ends(settings: FlowSettings, source: Cluster, partitions: Collection[TopicPartition]) -> _Ends:
    fetch = settings.clients.fetch

    async def ask(
        spec: OffsetSpec | int, isolation: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    ) -> Mapping[TopicPartition, int | ClusterError]:
        return await list_offsets(source, partitions, spec, isolation=isolation, timeout_ms=ANSWER_MS)

    earliest, latest = await asyncio.gather(ask(OffsetSpec.EARLIEST), ask(OffsetSpec.LATEST))
    committed = fetch.isolation_level is IsolationLevel.READ_COMMITTED
    return _Ends(
        earliest=earliest,
        latest=latest,
        ends=await ask(OffsetSpec.LATEST, fetch.isolation_level) if committed else latest,
        started=await ask(fetch.start) if isinstance(fetch.start, int) else {},
    )
