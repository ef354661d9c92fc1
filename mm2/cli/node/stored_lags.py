"""The lag of flows from their clusters alone: source offsets stored on the target, end offsets of the source."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, reason, short_timeout_cluster
from mm2.cli.node.topic_rows import by_rules
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.lanes.losses import OnDataLoss
from mm2.core.lanes.task_states import TaskState, worst
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.offsets.start_offset import StoredLag, stored_lag
from mm2.core.settings.client import IsolationLevel, OffsetReset
from mm2.core.topics.topic_recreated import source_topic_recreated
from mm2.core.wire.status_records import ConnectState
from mm2.election.kafka.group_messages import decode_member
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.group_members import describe_group
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.status.status_model import FlowStatus, PartitionStatus, TopicStatus
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import read_losses
from mm2.node.store.status_store import StatusStore

_WITH_OWNER = (ConnectState.RUNNING, ConnectState.PAUSED, ConnectState.FAILED)


@dataclass(slots=True, kw_only=True)
class FlowOnTarget:
    """What the internal topics on the target contain. ``topics``: the partition count of every topic of the target.

    By source partition: ``tasks`` has the number of the source task, ``owners`` the ID of the node that runs it,
    ``stopped`` the loss that stops it. ``ids``: the topic IDs for which the leader assigned the partitions.
    """

    offsets: StoredSourceOffsets
    pauses: Pauses = NO_PAUSES
    owners: Mapping[TopicPartition, str] = field(default_factory=dict)
    tasks: Mapping[TopicPartition, int] = field(default_factory=dict)
    ids: Mapping[str, TopicIds] = field(default_factory=dict)
    stopped: Mapping[TopicPartition, str] = field(default_factory=dict)
    topics: Mapping[str, int] = field(default_factory=dict)


async def read_flow_on_target(settings: FlowSettings, target: Cluster, notes: list[str]) -> FlowOnTarget:
    """Read the internal topics; those that do not exist are empty. Raises ClusterError if the offsets are unreadable,
    and adds a note if only the owners, pauses or losses are."""
    topics = {name: len(info.partitions) for name, info in (await target.metadata(None)).topics.items()}
    found = FlowOnTarget(
        offsets=StoredSourceOffsets(
            target, settings.storage.offsets.name, settings.flow, source_alias=settings.aliases.source, partitions=0
        ),
        topics=topics,
    )
    if settings.storage.offsets.name in topics:
        await found.offsets.refresh(timeout_ms=ANSWER_MS)
    else:
        notes.append(
            f"{settings.storage.offsets.name} does not exist on {settings.flow.target}: {settings.flow} has not stored"
            " any offset yet"
        )
    for read in (_read_configs, _read_losses):
        try:
            await read(settings, target, found)
        except ClusterError as error:
            notes.append(f"cannot read pauses, owners or losses of {settings.flow}: {error}")
    return found


async def _read_configs(settings: FlowSettings, target: Cluster, found: FlowOnTarget) -> None:
    """Read pauses, and the partitions of source tasks with the nodes that run them."""
    configs = ConfigStore(settings, target, on_change=lambda: None, on_command=lambda _: None)
    if configs.topic not in found.topics:
        return
    await configs.read_to_end(timeout_ms=ANSWER_MS)
    lists = list(configs.source_tasks.records.values())
    found.pauses = configs.pauses
    found.tasks = {partition: one.source_task for one in lists for partition in one.partitions}
    found.ids = {topic: ids for one in lists for topic, ids in one.topic_ids.items()}
    nodes = await _task_nodes(settings, target, found.topics)
    found.owners = {partition: nodes[task] for partition, task in found.tasks.items() if task in nodes}


async def _task_nodes(settings: FlowSettings, target: Cluster, topics: Collection[str]) -> dict[int, str]:
    """Return the node of each source task: the last one that reported that it runs it, while it is a member."""
    members = await _members(settings, target)
    statuses = StatusStore(settings.flow, settings.storage.statuses.name)
    if not members or statuses.topic not in topics:
        return {}
    async for record in CompactedLog(target, statuses.topic, purpose="statuses").read_to_end(timeout_ms=ANSWER_MS):
        statuses.take(record)
    nodes: dict[int, str] = {}
    for name, status in statuses.tasks().items():
        try:
            task = TaskId.parse(name)
        except ValueError:
            continue  # the task of another program
        node = status.worker_id.rpartition("/")[2]
        if task.kind == TaskKind.SOURCE and status.state in _WITH_OWNER and node in members:
            nodes[task.number] = node
    return nodes


async def _members(settings: FlowSettings, target: Cluster) -> frozenset[str]:
    """Return the IDs of the nodes in the flow's group, which they join with any election."""
    group = await describe_group(target, settings.clients.group_id, timeout_ms=ANSWER_MS)
    if isinstance(group, ClusterError):
        raise group
    infos = (decode_member(member.metadata) for member in group.members)
    return frozenset(info.node_id for info in infos if info is not None)


async def _read_losses(settings: FlowSettings, target: Cluster, found: FlowOnTarget) -> None:
    """Read which losses stop partitions until they are accepted."""
    topic = internal_topics.losses(settings.flow).name
    if OnDataLoss(settings.own.on_data_loss) is OnDataLoss.CONTINUE or topic not in found.topics:
        return
    losses = await read_losses(target, topic, timeout_ms=ANSWER_MS)
    found.stopped = {
        TopicPartition(one.topic, one.partition): f"stopped by a loss: {one.reason}"
        for one in losses
        if one.awaits_acceptance
    }


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
