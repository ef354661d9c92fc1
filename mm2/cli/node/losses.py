"""``mm2 losses``: every recorded loss, read from the clusters of a file, or through a node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import RenderableType
from rich.text import Text

from mm2.cli.clusters.cluster_access import ANSWER_MS, ask, connection_error, note, read_settings, short_timeout_cluster
from mm2.cli.errors import DONE, CommandError, UsageError
from mm2.cli.node.lag_report import no_such_topic, require_topics
from mm2.cli.node.node_address import node_context, node_url
from mm2.cli.node.node_client import fetch_flows, fetch_losses, read_flows
from mm2.cli.terminal.screen import print_json, show_once
from mm2.cli.terminal.tables import number, table
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.lanes.losses import Loss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import Flow
from mm2.core.problems.times_in_words import utc_text
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.source.source_offsets import StoredSourceOffsets
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import read_losses


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedLosses:
    """The recorded losses of a flow. ``topics``: further source topics that the flow replicates, or has replicated."""

    losses: tuple[Loss, ...] = ()
    topics: frozenset[str] = frozenset()


async def read_flow_losses(
    flows: Sequence[FlowSettings], topics: Collection[str] = ()
) -> dict[Flow, RecordedLosses | str]:
    """Return the recorded losses of each flow, or why they cannot be read. Without the topic there are none.

    Other source topics of the flow are read only if it has no loss of one of ``topics``.
    """
    answers = await asyncio.gather(*(_read(settings, topics) for settings in flows))
    return {settings.flow: answer for settings, answer in zip(flows, answers, strict=True)}


async def _read(settings: FlowSettings, topics: Collection[str]) -> RecordedLosses | str:
    topic = internal_topics.losses(settings.flow).name
    async with short_timeout_cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target:
        error = await connection_error(target)
        if error is None:
            try:
                exists = await _exists(target, topic)
                losses = await read_losses(target, topic, timeout_ms=ANSWER_MS) if exists else ()
                known = {one.topic for one in losses}
                others = frozenset() if known.issuperset(topics) else await _source_topics(settings, target)
                return RecordedLosses(losses=losses, topics=others)
            except ClusterError as raised:
                error = raised
    return f"{settings.flow}: cannot read {topic}: {error}"


async def _exists(target: Cluster, topic: str) -> bool:
    info = (await target.metadata([topic])).topics[topic]
    return info.error != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _source_topics(settings: FlowSettings, target: Cluster) -> frozenset[str]:
    """Return the source topics in the lists of source tasks, and those with a stored offset."""
    offsets = StoredSourceOffsets(
        target, settings.storage.offsets.name, settings.flow, source_alias=settings.aliases.source, partitions=0
    )
    if await _exists(target, settings.storage.offsets.name):
        await offsets.refresh(timeout_ms=ANSWER_MS)
    configs = ConfigStore(settings, target, on_change=lambda: None, on_command=lambda _: None)
    if await _exists(target, configs.topic):
        await configs.read_to_end(timeout_ms=ANSWER_MS)
    listed = {one.topic for record in configs.source_tasks.records.values() for one in record.partitions}
    return frozenset(listed | {one.topic for one in offsets.stored})


FlowLosses = Mapping[str, tuple[Loss, ...]]


@dataclass(slots=True, kw_only=True)
class _Answers:
    """Recorded losses by flow, and why those of other flows cannot be read. ``topics``: all known source topics."""

    losses: dict[str, tuple[Loss, ...]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    topics: set[str] = field(default_factory=set)


def losses(node: str, *, flow: str | None = None, topic: Sequence[str] = (), json: bool = False) -> int:
    """Print every recorded loss. Raises CommandError if the losses of a flow cannot be read, UsageError for a flow or
    topic that does not exist."""
    found = _of_node(node, flow, topic) if "://" in node else _of_clusters(Path(node), flow, topic)
    shown = {
        name: tuple(one for one in some if not topic or one.topic in topic)
        for name, some in sorted(found.losses.items())
    }
    if not found.failed:
        known = found.topics | _topics_of(found.losses)
        for name in topic:
            if name not in known:
                raise no_such_topic(name, known)
    if found.failed and not shown:
        pass  # nothing was read, so that nothing can be said about losses
    elif json:
        print_json(losses_json(shown))
    else:
        show_once(lambda: losses_view(shown))
    for text in found.failed.values():
        note(f"mm2 losses: {text}")
    if found.failed:
        raise CommandError(f"cannot read the losses of {', '.join(sorted(found.failed))}: there can be more")
    return DONE


def losses_view(found: FlowLosses) -> RenderableType:
    """Return a table for humans."""
    total = sum(map(len, found.values()))
    if not total:
        return Text(f"no losses recorded ({', '.join(found) or 'no flows'})")
    shown = table("flow", "topic", "#partition", "#first", "#last", "#offsets", "time", "kind", "state", "reason")
    for flow, some in found.items():
        for one in some:
            shown.add_row(
                flow,
                one.topic,
                str(one.partition),
                number(one.first),
                "unknown" if one.last < one.first else number(one.last),
                "unknown" if one.last < one.first else number(one.offsets),
                _time(one.time) or "-",
                one.kind,
                _state(one),
                one.reason,
            )
    return shown


def losses_json(found: FlowLosses) -> list[dict[str, object]]:
    """Return the same for programs. ``last`` below ``first``: the extent is unknown."""
    return [
        {
            "flow": flow,
            "topic": one.topic,
            "partition": one.partition,
            "first": one.first,
            "last": one.last,
            "time": one.time,
            "reason": one.reason,
            "kind": one.kind,
            "offsets": None if one.last < one.first else one.offsets,
            "count": one.count,
            "stops": one.stops,
            "accepted": one.accepted,
            "accepted_at": one.accepted_at,
            "accepted_by": one.accepted_by,
            "accept_reason": one.accept_reason,
            "remote_topic": one.remote_topic,
        }
        for flow, some in found.items()
        for one in some
    ]


def _of_node(url: str, flow: str | None, topics: Sequence[str]) -> _Answers:
    url, context = node_url(url), node_context(url)
    flows = {one.flow: one for one in read_flows(fetch_flows(url, context), url)}
    names = [name for name, one in flows.items() if one.enabled] if flow is None else [flow.replace(" ", "")]
    if unknown := [name for name in names if name not in flows]:
        raise UsageError(f"no flow {unknown[0]} on the node; its flows: {', '.join(flows) or 'none'}")
    answers = _Answers(topics={topic.topic for name in names for topic in flows[name].topics})
    for name in names:
        try:
            answers.losses[name] = fetch_losses(url, context, flows[name].source, flows[name].target)
        except CommandError as error:
            answers.failed[name] = f"{name}: {error}"
    if not answers.failed:
        lost = _topics_of(answers.losses)
        require_topics([topic for topic in topics if topic not in lost], [flows[name] for name in names])
    return answers


def _of_clusters(file: Path, flow: str | None, topics: Sequence[str]) -> _Answers:
    settings = read_settings(file)
    wanted = [one for one in settings.flows if one.enabled]
    if flow is not None:
        wanted = [one for one in settings.flows if str(one.flow) == flow.replace(" ", "")]
    if not wanted:
        there_are = ", ".join(str(one.flow) for one in settings.flows if one.enabled) or "none"
        raise UsageError(f"no flow {flow!r} in the file. Enabled flows: {there_are}.")
    found = ask(read_flow_losses(wanted, topics), "reading losses")
    answers = _Answers()
    for one, answer in found.items():
        if isinstance(answer, RecordedLosses):
            answers.losses[str(one)] = answer.losses
            answers.topics |= answer.topics
        else:
            answers.failed[str(one)] = answer
    return answers


def _topics_of(losses: FlowLosses) -> set[str]:
    return {one.topic for some in losses.values() for one in some}


def _time(time: int | None) -> str:
    if time is None:
        return ""
    try:
        return utc_text(time / 1000)
    except (ValueError, OverflowError, OSError):
        return ""


def _state(loss: Loss) -> str | Text:
    if loss.awaits_acceptance:
        return Text(f"{loss.stops} stopped", style="bold red")
    if loss.accepted:
        by = f" by {loss.accepted_by}" if loss.accepted_by else ""
        reason = f": {loss.accept_reason}" if loss.accept_reason else ""
        return " ".join(filter(None, ("accepted", _time(loss.accepted_at)))) + f"{by}{reason}"
    return Text("not accepted", style="red") if loss.is_unaccepted else "intended"
