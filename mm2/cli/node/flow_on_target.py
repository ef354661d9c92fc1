"""What a flow has stored on its target: source offsets, pauses, stopped partitions, and who copies which partition."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from mm2.cli.clusters.cluster_access import ANSWER_MS
from mm2.config.settings import FlowSettings
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.coordination.pauses import NO_PAUSES, Pauses
from mm2.core.lanes.losses import OnDataLoss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.wire.status_records import ConnectState
from mm2.election.kafka.group_messages import decode_member
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.group_members import describe_group
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.node.source.source_offsets import StoredSourceOffsets
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
