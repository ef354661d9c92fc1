"""Why source offsets have no copy, as far as topics on the target say so. No answer about a position depends on it."""

from __future__ import annotations

from collections import defaultdict

from mm2.config.settings import FlowSettings
from mm2.core.coordination.query_history import NO_HISTORY
from mm2.core.lanes.losses import Loss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.positions.source_to_target import HoleCauses
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.client.short_timeouts import ANSWER_MS
from mm2.kafka.errors import ClusterError
from mm2.node.store.config_store import ConfigStore
from mm2.node.store.loss_store import read_losses


class HoleCausesReader:
    """Recorded losses, skips, and histories of queries of one flow; what cannot be read is unknown."""

    def __init__(self, settings: FlowSettings, target: Cluster) -> None:
        self._settings = settings
        self._target = target
        self._losses: defaultdict[TopicPartition, list[Loss]] = defaultdict(list)
        self._configs: ConfigStore | None = None

    async def read(self) -> None:
        """Read what is there now."""
        losses, configs = internal_topics.losses(self._settings.flow).name, self._settings.storage.configs.name
        try:
            told = (await self._target.metadata([losses, configs])).topics
        except ClusterError:
            return
        if not told[losses].error:
            await self._read_losses(losses)
        if not told[configs].error:
            await self._read_configs()

    async def _read_losses(self, topic: str) -> None:
        try:
            recorded = await read_losses(self._target, topic, timeout_ms=ANSWER_MS)
        except ClusterError:
            return
        self._losses.clear()
        for loss in recorded:
            self._losses[TopicPartition(loss.topic, loss.partition)].append(loss)

    async def _read_configs(self) -> None:
        configs = ConfigStore(self._settings, self._target, on_change=lambda: None, on_command=lambda _: None)
        try:
            await configs.read_to_end(timeout_ms=ANSWER_MS)
        except ClusterError:
            return
        self._configs = configs

    def of(self, partition: TopicPartition) -> HoleCauses:
        """Return what is known of the source partition."""
        configs = self._configs
        return HoleCauses(
            losses=tuple(self._losses.get(partition, ())),
            queries=NO_HISTORY if configs is None else configs.query_histories.of(partition),
            skipped=None if configs is None else configs.skips.offsets.get(partition),
        )
