"""The losses topic of a flow: what was lost, what waits for an operator's acceptance, and what was accepted."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace

from mm2.config.settings import FlowSettings
from mm2.core.lanes.losses import Loss, LossKey, OnDataLoss
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.loss_records import PARTITION, decode_loss, encode_loss, encode_loss_key
from mm2.core.wire.formats import FormatError
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import RequestTimedOut
from mm2.kafka.logs.compacted_log import CompactedLog
from mm2.kafka.logs.control_producer import ControlProducer
from mm2.kafka.logs.stored_records import StoredRecord
from mm2.kafka.retrying import API_TIMEOUT_MS
from mm2.node.common.current_error import CurrentError
from mm2.node.common.keep_trying import keep_trying
from mm2.node.store.skipped_records import SkippedRecords

log = logging.getLogger(__name__)

STEP_RECORDS = 250
"""Records processed before yielding to the event loop: about 5 ms."""

PATIENCE_S = 5.0
"""How long a lease waits until the topic was read; the lease is then tried again."""

ACCEPT_S = 10.0
"""How long an acceptance may take to be written and read."""


class LossStore:
    """Creates the topic, and follows it if losses stop something: mm2.on.data.loss is not ``continue``.

    (A) Under ``stop-partition`` and ``stop-flow``, a lease is granted only after `refresh` has read what earlier owners
        recorded. If the topic cannot be read, nothing is granted: it could say that copying must not continue.
    (B) Only losses that wait for acceptance are kept, and the last accepted one of each partition.

    ``acceptances`` counts the losses whose acceptance was read.
    """

    def __init__(
        self, settings: FlowSettings, target: Cluster, producer: ControlProducer, on_change: Callable[[], None]
    ) -> None:
        """``on_change`` is called when something was stopped or accepted."""
        self._settings = settings
        self._admin = settings.admin_class(target)
        self._target = target
        self._producer = producer
        self._on_change = on_change
        self._internal_topic = internal_topics.losses(settings.flow)
        self.topic = self._internal_topic.name
        self.on_data_loss = OnDataLoss(settings.own.on_data_loss)
        self.skipped = SkippedRecords(settings.flow, self.topic)
        self.error = CurrentError(log, settings.flow)
        self.acceptances = 0
        self._log = CompactedLog(target, self.topic, purpose="losses")
        self._read = asyncio.Event()
        self._waiting: dict[LossKey, Loss] = {}
        self._waiting_of: defaultdict[TopicPartition, dict[LossKey, Loss]] = defaultdict(dict)  # the same
        self._accepted: dict[TopicPartition, Loss] = {}

    @property
    def stops(self) -> bool:
        """Whether a loss stops something."""
        return self.on_data_loss is not OnDataLoss.CONTINUE

    @property
    def waiting(self) -> tuple[Loss, ...]:
        """The losses that wait for acceptance, the oldest first."""
        return tuple(self._waiting.values()) if self.stops else ()

    @property
    def flow_stopped_by(self) -> Loss | None:
        """The first loss that stops the whole flow, if any."""
        return next((loss for loss in self.waiting if loss.stops == "flow"), None)

    def stopped_by(self, partition: TopicPartition) -> Loss | None:
        """Return the last loss of the partition that waits for acceptance, if any.

        All of them are accepted together, in their order, so that `accepted` is this one then.
        """
        if not self.stops or partition not in self._waiting_of:
            return None
        return next(reversed(self._waiting_of[partition].values()))

    def accepted(self, partition: TopicPartition) -> Loss | None:
        """Return the loss of the partition that was accepted last, if any."""
        return self._accepted.get(partition) if self.stops else None

    # -- reading

    async def follow(self) -> None:
        """Create the topic, and apply its records until cancelled; return immediately if losses stop nothing."""

        async def attempt() -> None:
            await ensure_internal_topic(
                self._admin,
                self._internal_topic,
                replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
            )
            if self.stops:
                await self.skipped.apply(self._log.read_to_end(), self._take, step=STEP_RECORDS)
                self._read.set()
                self.error.hide()
                await self.skipped.apply(self._log.follow(), self._take, step=STEP_RECORDS)

        def text(error: BaseException) -> str:
            consequence = "copying continues" if not self.stops else "source tasks do not start, as they may be stopped"
            return f"losses cannot be recorded in {self.topic}: {error}; {consequence}"

        await keep_trying(attempt, self.error, text)

    async def refresh(self) -> None:
        """Wait until everything in the topic is applied, if losses stop something. Raises ClusterError."""
        if not self.stops:
            return
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._read.wait()
        except TimeoutError:
            raise RequestTimedOut(self.error.text or f"cannot read {self.topic} within {PATIENCE_S:.0f} s") from None
        await self._log.catch_up(timeout_ms=int(PATIENCE_S * 1000))

    async def read_all(self) -> tuple[Loss, ...]:
        """Return every recorded loss, in the order of their last records. Raises ClusterError."""
        return await read_losses(self._target, self.topic)

    # -- acceptance

    async def accept(self, partition: TopicPartition) -> tuple[Loss, ...]:
        """Record that an operator accepts the losses of a partition that stop anything; return them.

        Raises ClusterError.
        """
        recorded = await self.read_all()
        found = [
            loss
            for loss in recorded
            if loss.awaits_acceptance and TopicPartition(loss.topic, loss.partition) == partition
        ]
        for loss in found:
            accepted = replace(loss, accepted=True)
            written = self._producer.send(self.topic, PARTITION, encode_loss_key(loss), encode_loss(accepted))
            try:
                async with asyncio.timeout(ACCEPT_S):
                    await written
            except TimeoutError:
                reason = self._producer.trouble or f"no answer within {ACCEPT_S:.0f} s"
                raise RequestTimedOut(f"cannot write to {self.topic}: {reason}") from None
        return tuple(found)

    def _take(self, record: StoredRecord) -> None:
        loss = decode_loss(record.key, record.value)
        if loss is None:
            return
        partition = TopicPartition(loss.topic, loss.partition)
        before, waiting = self._waiting.pop(loss.key, None), self._waiting_of[partition]
        waiting.pop(loss.key, None)
        if loss.awaits_acceptance:
            self._waiting[loss.key] = waiting[loss.key] = loss
        elif loss.accepted:
            self._accepted[partition] = loss
            self.acceptances += before is not None
        if not waiting:
            del self._waiting_of[partition]
        if before is not None or loss.awaits_acceptance:
            self._on_change()


async def read_losses(cluster: Cluster, topic: str, *, timeout_ms: int = API_TIMEOUT_MS) -> tuple[Loss, ...]:
    """Return every loss recorded in ``topic``, in the order of their last records.

    Raises ClusterError if there is no progress for ``timeout_ms``.

    Records that cannot be decoded are ignored.
    """
    found: dict[bytes | None, Loss] = {}
    async for record in CompactedLog(cluster, topic, purpose="losses").read_to_end(timeout_ms=timeout_ms):
        found.pop(record.key, None)
        try:
            loss = decode_loss(record.key, record.value)
        except FormatError:
            continue
        if loss is not None:
            found[record.key] = loss
    return tuple(found.values())
