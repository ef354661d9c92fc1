"""Losses of flows, read from their targets without a node."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from mm2.cli.clusters.cluster_access import ANSWER_MS, connection_error, short_timeout_cluster
from mm2.config.clients.flow_clients import ClientRole
from mm2.config.settings import FlowSettings
from mm2.core.lanes.losses import Loss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import Flow
from mm2.kafka.errors import ClusterError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.node.store.loss_store import read_losses


async def read_flow_losses(flows: Sequence[FlowSettings]) -> dict[Flow, tuple[Loss, ...] | str]:
    """Return the recorded losses of each flow, or why they cannot be read. Without the topic there are none."""
    answers = await asyncio.gather(*map(_read, flows))
    return {settings.flow: answer for settings, answer in zip(flows, answers, strict=True)}


async def _read(settings: FlowSettings) -> tuple[Loss, ...] | str:
    topic = internal_topics.losses(settings.flow).name
    async with short_timeout_cluster(settings.clients.of(ClientRole.SHARED_ADMIN)) as target:
        error = await connection_error(target)
        if error is None:
            try:
                info = (await target.metadata([topic])).topics[topic]
                if info.error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    return ()
                return await read_losses(target, topic, timeout_ms=ANSWER_MS)
            except ClusterError as raised:
                error = raised
    return f"{settings.flow}: cannot read {topic}: {error}"
