"""The source topics of a flow and their remote topics: from its node, and from its clusters and its file."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from mm2.cli.clusters.cluster_access import connection_error, reason, short_timeout_cluster
from mm2.cli.terminal.tables import counted
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.lanes.task_states import TaskState
from mm2.core.topics.replication_filter import TopicVerdict
from mm2.core.topics.topic_plan import ReturnedCopy, plan_topics, returned_copies, returned_from
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.node.status.status_model import FlowStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """One topic of the source. ``remote_topic`` None: it is not replicated, for ``reason``; otherwise ``reason`` is its
    problem. ``state`` comes from the node, ``remote_partitions`` from the target; None: unknown. ``query``: the name of
    the query that transforms its records; None: there is none, or it is not replicated."""

    topic: str
    remote_topic: str | None
    partitions: int
    remote_partitions: int | None = None
    state: TaskState | None = None
    reason: str | None = None
    query: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowTopics:
    """One flow, its topics sorted; ``state`` None: its node did not respond. ``notes``: unreachable clusters."""

    flow: str
    enabled: bool
    state: TaskState | None
    topics: tuple[TopicRow, ...]
    notes: tuple[str, ...] = ()


def of_node(flow: FlowStatus) -> FlowTopics:
    """Return the replicated topics as reported by the flow's node."""
    rows = [
        TopicRow(
            topic=topic.topic,
            remote_topic=topic.remote_topic,
            partitions=len(topic.partitions),
            state=topic.state,
            reason=topic.error or next((one.error for one in topic.partitions if one.error is not None), None),
            query=topic.query,
        )
        for topic in flow.topics
    ]
    rows.sort(key=lambda row: row.topic)
    return FlowTopics(flow=flow.flow, enabled=flow.enabled, state=flow.state, topics=tuple(rows))


def by_rules(
    settings: FlowSettings, source: Mapping[str, int], internal: Collection[str], target: Mapping[str, int] | None
) -> tuple[TopicRow, ...]:
    """Apply the flow's rules to every topic of the source. ``source`` and ``target`` map names to partition counts;
    ``target`` None: it is unreachable. ``internal``: topics that Kafka marks as internal."""
    rules = settings.replication_filter
    verdicts = {topic: TopicVerdict.INTERNAL if topic in internal else rules.verdict(topic) for topic in sorted(source)}
    chosen = {topic: count for topic, count in source.items() if verdicts[topic] is TopicVerdict.REPLICATED}
    returned = _returned(settings, chosen, target)
    chosen = {topic: count for topic, count in chosen.items() if topic not in returned}
    plan = plan_topics(chosen, target or {}, policy=settings.policy, source_alias=settings.aliases.source)
    clashes = {topic: str(clash) for clash in plan.clashes for topic in clash.topics}
    rows = []
    for topic, verdict in verdicts.items():
        remote = settings.policy.format_remote_topic(settings.aliases.source, topic)
        row = TopicRow(topic=topic, remote_topic=remote, partitions=source[topic])
        if verdict is not TopicVerdict.REPLICATED:
            refusal = settings.topic_filter.refusal(topic, "topics") if verdict is TopicVerdict.NOT_SELECTED else None
            row = replace(row, remote_topic=None, reason=refusal or verdict.value)
        elif topic in returned:
            row = replace(row, remote_topic=None, reason=str(returned[topic]))
        elif topic in clashes:
            row = replace(row, remote_topic=None, reason=clashes[topic])
        elif target is not None:
            present = target.get(remote)
            row = replace(row, remote_partitions=present or 0, reason=_wanting(remote, present, source[topic]))
        if row.remote_topic is not None and (query := settings.query_of(topic)) is not None:
            row = replace(row, query=query.name)
        rows.append(row)
    return tuple(rows)


def _returned(
    settings: FlowSettings, chosen: Iterable[str], target: Mapping[str, int] | None
) -> dict[str, ReturnedCopy]:
    if settings.own.copy_returned_topics:
        return {}
    policy, alias = settings.policy, settings.aliases.source
    candidates = {topic: returned_from(topic, policy=policy, source_alias=alias) for topic in chosen}
    written = {policy.format_remote_topic(alias, topic) for topic in chosen}
    return returned_copies(candidates, written.union(target or ()), settings.flow)


def merged(shown: FlowTopics, told: FlowTopics) -> FlowTopics:
    """Add to the topics of the node those it does not replicate, and partition counts of the target."""
    states = {row.topic: row for row in shown.topics}
    rows = []
    for row in told.topics:
        seen = states.pop(row.topic, None)
        if seen is None:
            rows.append(row)
        else:
            rows.append(replace(seen, remote_partitions=row.remote_partitions, reason=seen.reason or row.reason))
    rows += states.values()  # deleted on the source since the node read the topics
    rows.sort(key=lambda row: row.topic)
    return replace(shown, topics=tuple(rows), notes=told.notes)


async def ask_flows(flows: Iterable[FlowSettings]) -> list[FlowTopics]:
    """Return every topic of the source of each flow, from the clusters and the file; failures are in the notes."""
    return list(await asyncio.gather(*map(_ask, flows)))


async def _ask(settings: FlowSettings) -> FlowTopics:
    clients, flow = settings.clients, settings.flow
    notes: list[str] = []
    rows: tuple[TopicRow, ...] = ()
    async with (
        short_timeout_cluster(clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)) as source,
        short_timeout_cluster(clients.of(ClientRole.REPLICATION_TARGET_ADMIN)) as target,
    ):
        on_source, on_target = await asyncio.gather(_topics(source), _topics(target))
    for alias, answer in ((flow.source, on_source), (flow.target, on_target)):
        if isinstance(answer, ClusterError):
            notes.append(f"cluster {alias} is unreachable: {reason(alias, answer)}")
    if not isinstance(on_source, ClusterError):
        counts, internal = on_source
        rows = by_rules(settings, counts, internal, None if isinstance(on_target, ClusterError) else on_target[0])
    return FlowTopics(flow=str(flow), enabled=settings.enabled, state=None, topics=rows, notes=tuple(notes))


async def _topics(cluster: Cluster) -> tuple[dict[str, int], frozenset[str]] | ClusterError:
    """Return partition counts of all topics, and Kafka's internal topics."""
    failure = await connection_error(cluster)
    if failure is not None:
        return failure
    try:
        topics = (await cluster.metadata(None)).topics
    except ClusterError as error:
        return error
    there = {name: len(info.partitions) for name, info in topics.items() if info.partitions}
    return there, frozenset(name for name in there if topics[name].is_internal)


def _wanting(remote: str, present: int | None, partitions: int) -> str | None:
    if present is None:
        return f"remote topic {remote} does not exist yet"
    if present < partitions:
        return f"remote topic {remote} has {counted(present, 'partition')}, fewer than the source"
    return None
