"""Losses of flows, read from their targets without a node."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, short_timeout_cluster
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.lanes.losses import Loss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import Flow
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
