"""``mm2 topics --deleted``: remote topics whose source topic is gone, read from the clusters of a file."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.text import Text

from mm2.cli.clusters.cluster_access import (
    ANSWER_MS,
    ask,
    choose_flow,
    connection_error,
    note,
    reason,
    short_timeout_cluster,
)
from mm2.cli.errors import DONE, CommandError
from mm2.cli.terminal.screen import print_json, show_once
from mm2.cli.terminal.tables import counted, number, table
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings, NodeSettings
from mm2.core.naming.names import TopicPartition
from mm2.core.plugins import PluginError
from mm2.core.problems.times_in_words import utc_text
from mm2.core.topics.deleted_topics import Deletion
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.offsets import OffsetSpec, list_offsets
from mm2.kafka.errors import ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.source.remote_copies import tells_source
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRow:
    """A remote topic without a source topic.

    ``is_deleted`` None: it is unknown whether the source topic still is missing. ``deletion``: when the flow's leader
    noticed; None: it has not. ``records``: at most so many are in the remote topic; None: unknown. ``copied``: a source
    offset or the leader tells that this flow copied the topic; False: only the name of the remote topic does.
    """

    topic: str
    remote_topic: str
    is_deleted: bool | None
    deletion: Deletion | None
    records: int | None
    copied: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedInFlow:
    """The rows of one flow, sorted; None: unknown. ``failures``: why not all is known; ``notes``: other remarks."""

    flow: str
    rows: tuple[DeletedRow, ...] | None
    failures: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def deleted_topics(settings: NodeSettings, *, flow: str | None, json: bool) -> int:
    """Print them. Raises CommandError if what is gone is unknown for one of the flows."""
    chosen = [choose_flow(settings, flow)] if flow is not None else [one for one in settings.flows if one.enabled]
    found = ask(read_deleted(chosen), "reading the topics of the clusters")
    if json:
        print_json(deleted_json(found))
    else:
        show_once(lambda: deleted_view(found))
    for text in dict.fromkeys(text for one in found for text in (*one.notes, *one.failures)):
        note(f"mm2 topics: {text}")
    if unknown := [one.flow for one in found if one.failures]:
        raise CommandError(f"it is unknown which source topics of {', '.join(unknown)} are gone now")
    return DONE


def deleted_view(found: Sequence[DeletedInFlow]) -> RenderableType:
    """Return a heading and a table for each flow."""
    parts: list[RenderableType] = []
    for one in found:
        rows = one.rows or ()
        gone = sum(row.is_deleted is True for row in rows)
        words = "unknown" if one.failures else f"{counted(gone, 'remote topic')} without source topic"
        parts.append(Text.assemble((one.flow, "bold"), "  ", words))
        if rows:
            parts.append(_table(rows))
        parts.append(Text())
    return Group(*parts[:-1]) if parts else Text("no enabled flows")


def deleted_json(found: Sequence[DeletedInFlow]) -> dict[str, object]:
    """Return the same for programs: what is unknown is null. Times are in milliseconds since 1970."""
    return {
        "flows": [
            {
                "flow": one.flow,
                "topics": None
                if one.rows is None
                else [
                    {
                        "topic": row.topic,
                        "remote_topic": row.remote_topic,
                        "deleted": row.is_deleted,
                        "since": None if row.deletion is None else row.deletion.since_ms,
                        "noticed": None if row.deletion is None else row.deletion.noticed_ms,
                        "records": row.records,
                        "copied": row.copied,
                    }
                    for row in one.rows
                ],
            }
            for one in found
        ]
    }


def _table(rows: Sequence[DeletedRow]) -> RenderableType:
    shown = table("topic", "remote topic", "deleted since", "#records", "")
    for row in rows:
        remarks = [
            "" if row.is_deleted else "unknown whether it still is",
            "" if row.copied else "by its name only: no source offset tells that the flow copied it",
        ]
        shown.add_row(
            row.topic,
            row.remote_topic,
            _since(row.deletion),
            number(row.records),
            Text("; ".join(filter(None, remarks)), style="dim"),
        )
    return shown


def _since(deletion: Deletion | None) -> str:
    if deletion is None:
        return "unknown"
    if deletion.since_ms is None:
        return f"unknown, before {utc_text(deletion.noticed_ms / 1_000)}"
    return utc_text(deletion.since_ms / 1_000)


async def read_deleted(flows: Iterable[FlowSettings]) -> list[DeletedInFlow]:
    """Return the remote topics of each flow whose source topic is gone; failures are in the result."""
    return list(await asyncio.gather(*map(_read, flows)))


@dataclass(slots=True, kw_only=True)
class _OnTarget:
    """What the target tells. ``topics``: partition counts of all its topics. ``copied``: source topics that the flow
    has copied, and ``named`` those that names of topics tell."""

    topics: Mapping[str, int]
    deletions: Mapping[str, Deletion] = field(default_factory=dict)
    copied: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()


async def _read(settings: FlowSettings) -> DeletedInFlow:
    clients, flow = settings.clients, settings.flow
    async with (
        short_timeout_cluster(clients.of(ClientRole.REPLICATION_SOURCE_ADMIN)) as source,
        short_timeout_cluster(clients.of(ClientRole.SHARED_ADMIN)) as target,
    ):
        away, failure = await asyncio.gather(connection_error(source), connection_error(target))
        failures = [] if away is None else [f"cluster {flow.source} is unreachable: {reason(flow.source, away)}"]
        rows: tuple[DeletedRow, ...] | None = None
        notes: list[str] = []
        if failure is None:
            try:
                there = await _read_target(settings, target, notes)
                rows = await _rows(settings, None if away else source, target, there)
            except ClusterError as error:
                failures.append(f"cannot read the topics of {flow}: {error}")
        else:
            failures.append(f"cluster {flow.target} is unreachable: {reason(flow.target, failure)}")
    return DeletedInFlow(flow=str(flow), rows=rows, failures=tuple(failures), notes=tuple(notes))


async def _read_target(settings: FlowSettings, target: Cluster, notes: list[str]) -> _OnTarget:
    topics = {name: len(info.partitions) for name, info in (await target.metadata(None)).topics.items()}
    configs = ConfigStore(settings, target, on_change=lambda: None, on_command=lambda _: None)
    if configs.topic in topics:
        await configs.read_to_end(timeout_ms=ANSWER_MS)
    offsets = StoredSourceOffsets(
        target, settings.storage.offsets.name, settings.flow, source_alias=settings.aliases.source, partitions=0
    )
    if offsets.topic in topics:
        await offsets.refresh(timeout_ms=ANSWER_MS)
    else:
        notes.append(f"{offsets.topic} does not exist on {settings.flow.target}: no offset tells what was copied")
    listed = {one.topic for record in configs.source_tasks.records.values() for one in record.partitions}
    deletions = configs.deleted_topics.deletions
    if not tells_source(settings, "topic"):
        notes.append(
            f"{settings.flow}: {type(settings.policy).__name__} does not tell by the name of a topic where it comes"
            " from, so only topics with a stored source offset are listed"
        )
    return _OnTarget(
        topics=topics,
        deletions=deletions,
        copied=frozenset(listed.union(deletions, (one.topic for one in offsets.stored))),
        named=_named(settings, topics),
    )


def _named(settings: FlowSettings, topics: Collection[str]) -> frozenset[str]:
    """Return the source topics of which ``topics`` of the target are remote topics, by their names."""
    policy, alias, found = settings.policy, settings.aliases.source, set()
    for name in topics:
        try:
            upstream = policy.upstream_topic(name) if policy.topic_source(name) == alias else None
            if upstream in (None, name) or policy.is_internal_topic(name):
                continue
            if policy.format_remote_topic(alias, upstream) == name:
                found.add(upstream)
        except PluginError:  # its source is not known by its name
            continue
    return frozenset(found)


async def _rows(
    settings: FlowSettings, source: Cluster | None, target: Cluster, there: _OnTarget
) -> tuple[DeletedRow, ...]:
    """Return the rows. ``source`` None: it is away, so that no topic is known to be gone. Raises ClusterError."""
    candidates = {}
    for topic in there.copied | there.named if source is not None else there.deletions.keys():
        try:
            remote = settings.policy.format_remote_topic(settings.aliases.source, topic)
        except PluginError as error:
            raise CommandError(f"{settings.flow}: topic {topic}: {error}") from error
        if there.topics.get(remote):
            candidates[topic] = remote
    gone: Collection[str] = candidates.keys()
    if source is not None:
        answers = (await source.metadata(candidates.keys())).topics if candidates else {}
        gone = [name for name in candidates if answers[name].error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    counts = await _count(target, {candidates[name]: there.topics[candidates[name]] for name in gone})
    return tuple(
        DeletedRow(
            topic=name,
            remote_topic=candidates[name],
            is_deleted=None if source is None else True,
            deletion=there.deletions.get(name),
            records=counts[candidates[name]],
            copied=name in there.copied,
        )
        for name in sorted(gone)
    )


async def _count(target: Cluster, topics: Mapping[str, int]) -> dict[str, int | None]:
    """Return at most how many records each topic of the target has, by its offsets; None: unknown."""
    partitions = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
    if not partitions:
        return {}
    first, end = await asyncio.gather(
        list_offsets(target, partitions, OffsetSpec.EARLIEST, timeout_ms=ANSWER_MS),
        list_offsets(target, partitions, OffsetSpec.LATEST, timeout_ms=ANSWER_MS),
    )
    found: dict[str, int | None] = dict.fromkeys(topics, 0)
    for one in partitions:
        start, stop, so_far = first[one], end[one], found[one.topic]
        if isinstance(start, ClusterError) or isinstance(stop, ClusterError) or so_far is None:
            found[one.topic] = None
        else:
            found[one.topic] = so_far + stop - start
    return found
