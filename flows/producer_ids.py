"""Producer ids for idempotent writes, and the fall back to plain ones."""

from __future__ import annotations

import asyncio
import logging

from flows.batch.outgoing import NOT_IDEMPOTENT, ProducerId
from flows.copy import PartitionCopy
from flows.surroundings import Spawn
from mm2.core.client_settings import ProduceSettings
from mm2.core.names import TopicPartition
from mm2.kafka.backoff import Backoff
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError, NotSupported
from mm2.kafka.raw_produce import init_producer_id

log = logging.getLogger("mm2.produce")


class ProducerIds:
    """The slot's present producer id: asked for when first needed, and anew when a partition used it before.

    (A) A remote partition never gets the same id twice, not even when it leaves the slot and comes back: its sequences
        begin at 0, and a broker that knows these from before would take the batch for a repetition and drop it.
    """

    def __init__(self, cluster: Cluster, settings: ProduceSettings, spawn: Spawn) -> None:
        self._cluster = cluster
        self._spawn = spawn
        self._current: ProducerId | None = None if settings.idempotent and settings.acks == -1 else NOT_IDEMPOTENT
        self._used: dict[TopicPartition, ProducerId] = {}
        self._waiting: set[PartitionCopy] = set()
        self._asking = False
        self.warning: str | None = None

    @property
    def idempotent(self) -> bool:
        """Whether the target knows a batch again that is sent twice."""
        return self._current != NOT_IDEMPOTENT

    def supply(self, copy: PartitionCopy) -> None:
        """Let the partition adopt a producer id, at once or when there is one it has not used."""
        if self._give(copy):
            return
        self._waiting.add(copy)
        if not self._asking:
            self._asking = True
            self._spawn(self._ask())

    def deny(self, words: str) -> None:
        """The target does not let us write idempotently: plain writes, one batch of a partition at a time."""
        if self._current != NOT_IDEMPOTENT:
            self._current = NOT_IDEMPOTENT
            self.warning = (
                f"the target denies idempotent writes: {words}; writing without, which can repeat records when a "
                "broker fails; grant IDEMPOTENT_WRITE on the cluster"
            )
            log.warning("%s", self.warning)

    async def _ask(self) -> None:
        settings = self._cluster.settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        try:
            while True:
                try:
                    self._current = ProducerId(*await init_producer_id(self._cluster))
                except ClusterClosed:
                    raise
                except ClusterError as error:
                    if self._denied(error):
                        self.deny(str(error))
                    else:
                        for copy in self._waiting:
                            copy.trouble.target_passing(str(error))
                        await asyncio.sleep(backoff.next())
                        continue
                break
        finally:
            self._asking = False
        waiting, self._waiting = self._waiting, set()
        for copy in waiting:
            self._give(copy)

    def _give(self, copy: PartitionCopy) -> bool:
        current = self._current
        if current is None or (current != NOT_IDEMPOTENT and self._used.get(copy.target) == current):
            return False
        self._used[copy.target] = current
        copy.adopt(current)
        return True

    @staticmethod
    def _denied(error: ClusterError) -> bool:
        if isinstance(error, BrokerError):
            return not error.retriable
        return isinstance(error, NotSupported)
