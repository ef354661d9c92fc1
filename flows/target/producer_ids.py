"""Producer ids for idempotent writes, which also fence the source task, and the fallback without idempotence."""

from __future__ import annotations

import asyncio
import logging

from flows.batch.target_batch import NOT_IDEMPOTENT, ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.source_task.spawn import Spawn
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import TopicPartition
from mm2.core.settings.client import ProduceSettings
from mm2.kafka.backoff import Backoff
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterClosed, ClusterError, NotSupported
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.produce_request import init_producer_id
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch

log = logging.getLogger(__name__)


RENEW_EVERY_S = 86_400.0
"""Brokers forget a transactional id that was not used for transactional.id.expiration.ms, a week: the next owner would
then get another producer id, which fences nothing. A day leaves room for shorter settings, and epochs for decades."""

_TRANSACTION_TIMEOUT_MS = 60_000


class ProducerIds:
    """The source task's current producer id, requested when first needed, and again for a partition that has used it.

    (A) A remote partition never gets the same id twice, not even if it leaves the source task and returns: its
        sequences start at 0 again, and a broker that has seen these would treat the batch as a duplicate and drop it.
    (B) With a `TaskProducer` the ids have its producer id and increasing epochs. If another owner has acquired its
        transactional id, the request raises Fenced, and the source task ends: it never takes the id back. It also ends
        if the coordinator rejects the request for good: only a node decides to write without fencing.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: ProduceSettings,
        spawn: Spawn,
        producer: TaskProducer | None = None,
        *,
        renew_every_s: float = RENEW_EVERY_S,
    ) -> None:
        """``producer``: the producer to continue; None: ids without a transactional id."""
        self._cluster = cluster
        self._spawn = spawn
        self._current: ProducerId | None = None if settings.idempotent and settings.acks == -1 else NOT_IDEMPOTENT
        self._coordinator: TransactionCoordinator | None = None
        if producer is not None and self.is_idempotent:
            self._current = ProducerId(producer.producer_id, producer.epoch)
            self._coordinator = TransactionCoordinator(
                cluster, producer.transactional_id, timeout_ms=_TRANSACTION_TIMEOUT_MS, purpose="fencing"
            )
        self._renew_every_s = renew_every_s
        self._used: dict[TopicPartition, ProducerId] = {}
        self._waiting: set[PartitionReplicator] = set()
        self._requesting = False
        self.warning: str | None = None

    @property
    def is_idempotent(self) -> bool:
        """Whether the target recognizes a batch that is sent twice."""
        return self._current != NOT_IDEMPOTENT

    def assign(self, partition: PartitionReplicator) -> None:
        """Assign the partition a producer id that it has not used, now or as soon as there is one."""
        if self._give(partition):
            return
        self._waiting.add(partition)
        if not self._requesting:
            self._requesting = True
            self._spawn(self._request())

    async def keep_renewed(self) -> None:
        """Use the transactional id regularly, so that brokers do not forget it. Raises Fenced."""
        while self._coordinator is not None and self.is_idempotent:
            await asyncio.sleep(self._renew_every_s)
            if not self._requesting:
                self._requesting = True
                await self._request()

    def disable_idempotence(self, reason: str) -> None:
        """Switch to writes without idempotence, one batch of a partition at a time."""
        if self.is_idempotent:
            self._current = NOT_IDEMPOTENT
            self.warning = (
                f"the target does not allow idempotent writes: {reason}; writing without idempotence, which can "
                "duplicate records when a broker fails; grant IDEMPOTENT_WRITE on the cluster"
            )
            log.debug("%s", self.warning)  # the node logs it, as a warning

    async def _request(self) -> None:
        settings = self._cluster.settings
        backoff = Backoff(settings.retry_backoff_ms, settings.retry_backoff_max_ms)
        try:
            while self.is_idempotent:  # it may be disabled meanwhile
                try:
                    received = await self._next()
                    if self.is_idempotent:
                        self._current = received
                except (ClusterClosed, Fenced):
                    raise
                except ClusterError as error:
                    denied = isinstance(error, NotSupported) or (isinstance(error, BrokerError) and not error.retriable)
                    if denied and self._coordinator is not None:
                        raise
                    if not denied:
                        for partition in self._waiting:
                            partition.target_unavailable(str(error))
                        await asyncio.sleep(backoff.next())
                        continue
                    self.disable_idempotence(str(error))
                break
        finally:
            self._requesting = False
        waiting, self._waiting = self._waiting, set()
        for partition in waiting:
            if partition.needs_producer_id:  # otherwise idempotence was disabled, and it may have batches in flight
                self._give(partition)

    async def _next(self) -> ProducerId:
        if self._coordinator is None or self._current is None:
            return ProducerId(*await init_producer_id(self._cluster))
        return ProducerId(*await self._coordinator.init(ProducerIdAndEpoch(self._current.id, self._current.epoch)))

    def _give(self, partition: PartitionReplicator) -> bool:
        current = self._current
        if current is None or (self.is_idempotent and self._used.get(partition.target) == current):
            return False
        self._used[partition.target] = current
        partition.set_producer_id(current)
        return True
