"""The losses topic of a flow: what was lost, what waits for an operator's acceptance, and what was accepted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Callable
from uuid import UUID

from mm2.config.settings import FlowSettings
from mm2.core.lanes.loss_book import LossBook, newer_state
from mm2.core.lanes.losses import (
    PARTITION,
    Loss,
    LossKey,
    OnDataLoss,
    decode_loss,
    decode_loss_key,
    encode_loss,
    encode_loss_key,
)
from mm2.core.naming import internal_topics
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.formats import FormatError
from mm2.kafka.admin.internal_topics import ensure_internal_topic
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError, RequestTimedOut
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

FRESH_S = 1.0
"""How long `LossReader` answers from memory: however many clients ask, the target is asked once a second."""

ACCEPT_S = 10.0
"""How long an acceptance may take to be written and read."""


class LossStore:
    """Creates the topic and follows it.

    (A) Under ``stop-partition`` and ``stop-flow``, a lease is granted only after `refresh` has read what earlier owners
        recorded. If the topic cannot be read, nothing is granted: it could say that copying must not continue.
    (B) Under ``continue``, nothing waits for what is followed: a topic that cannot be read stops nothing.
    (C) `recorded` reads every loss again, from the first call on; later calls read only what was added since.

    ``acceptances`` counts the losses that stopped something and whose acceptance was read. ``book`` has all losses.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        producer: ControlProducer,
        on_change: Callable[[], None],
        *,
        on_read: Callable[[LossBook], None] | None = None,
    ) -> None:
        """``on_change`` is called when something was stopped or accepted, ``on_read`` when the topic was read."""
        self._settings = settings
        self._admin = settings.admin_class(target)
        self._target = target
        self._producer = producer
        self._on_change = on_change
        self._on_read = on_read
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
        self.book = LossBook()
        self._recorded = LossReader(target, self.topic)

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
        return self._accepted.get(partition)

    # -- reading

    async def follow(self) -> None:
        """Create the topic, and apply its records until cancelled, unless the flow only sends heartbeats."""

        async def attempt() -> None:
            await ensure_internal_topic(
                self._admin,
                self._internal_topic,
                replication_factor=self._settings.checkpoint.checkpoints_topic_replication_factor,
            )
            if not (self._settings.enabled or self.stops):
                return  # a flow that only sends heartbeats loses nothing, and needs no READ
            await self.skipped.apply(self._log.read_to_end(), self._take, step=STEP_RECORDS)
            self._read.set()
            if self._on_read is not None:
                self._on_read(self.book)
            self.error.hide()
            await self.skipped.apply(self._log.follow(), self._take, step=STEP_RECORDS)

        def text(error: BaseException) -> str:
            consequence = "copying continues" if not self.stops else "source tasks do not start, as they may be stopped"
            return f"losses cannot be recorded in {self.topic}, or read from it: {error}; {consequence}"

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

    async def recorded(self) -> tuple[Loss, ...]:
        """Return every loss that was recorded until `FRESH_S` ago, in the order of their last records.

        Raises ClusterError.
        """
        return await self._recorded.read()

    # -- acceptance

    async def accept(
        self, covers: Callable[[TopicPartition], bool], *, by: str | None, reason: str | None
    ) -> tuple[Loss, ...]:
        """Record that an operator accepts the unaccepted losses, where ``covers`` is true for their partition.

        ``by`` and ``reason``: who accepts them, and why. Returns them.

        Raises ClusterError.
        """
        recorded = await read_losses(self._target, self.topic)
        found = [loss for loss in recorded if loss.is_unaccepted and covers(TopicPartition(loss.topic, loss.partition))]
        now = time.time_ns() // 1_000_000
        accepted = [encode_loss(loss.accept(at=now, by=by, reason=reason)) for loss in found]
        written = [
            self._producer.send(self.topic, PARTITION, encode_loss_key(loss), value)
            for loss, value in zip(found, accepted, strict=True)
        ]
        try:
            async with asyncio.timeout(ACCEPT_S):
                await asyncio.gather(*written)
        except TimeoutError:
            why = self._producer.last_error or f"no answer within {ACCEPT_S:.0f} s"
            raise RequestTimedOut(f"cannot write to {self.topic}: {why}") from None
        return tuple(found)

    def _take(self, record: StoredRecord) -> None:
        found = decode_loss(record.key, record.value)
        if found is None:
            self.book.remove(decode_loss_key(record.key))
            return
        loss = self.book.take(found)
        partition = TopicPartition(loss.topic, loss.partition)
        before, waiting = self._waiting.pop(loss.key, None), self._waiting_of[partition]
        waiting.pop(loss.key, None)
        if loss.awaits_acceptance:
            self._waiting[loss.key] = waiting[loss.key] = loss
        elif loss.accepted:
            self._accepted[partition] = loss
            self.acceptances += before is not None  # only what has stopped something waits
        if not waiting:
            del self._waiting_of[partition]
        if before is not None or loss.awaits_acceptance:
            self._on_change()


class LossReader:
    """Reads every loss in a topic, for clients without authentication: at most once a second, and only what is new.

    Used on one event loop, by any number of tasks. ``clock`` returns monotonic seconds. Records that cannot be decoded
    are ignored.
    """

    def __init__(
        self,
        cluster: Cluster,
        topic: str,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._topic = topic
        self._clock = clock
        self._reading = asyncio.Lock()
        self._read_at: float | None = None
        self._failure: ClusterError | None = None
        self._log: CompactedLog | None = None
        self._topic_id: UUID | None = None
        self._found: dict[bytes | None, Loss] = {}

    async def read(self) -> tuple[Loss, ...]:
        """Return them, from memory if they were read less than `FRESH_S` ago. Raises ClusterError."""
        async with self._reading:  # those that wait here get the answer, or the error, of the first one
            if self._read_at is None or self._clock() - self._read_at >= FRESH_S:
                self._failure = None
                try:
                    await self._catch_up()
                except ClusterError as error:
                    self._failure = error
                self._read_at = self._clock()
            if self._failure is not None:
                raise self._failure
            return tuple(self._found.values())

    async def _catch_up(self) -> None:
        log, self._log = self._log, None  # a read that fails or is cancelled can have skipped records
        if log is not None:
            await _read(log, self._found, timeout_ms=API_TIMEOUT_MS)
            if self._current_id() == self._topic_id:
                self._log = log
                return
        log, self._found = CompactedLog(self._cluster, self._topic, purpose="losses"), {}
        await _read(log, self._found, timeout_ms=API_TIMEOUT_MS)
        self._log, self._topic_id = log, self._current_id()

    def _current_id(self) -> UUID | None:
        info = self._cluster.cached_topic(self._topic)
        return None if info is None else info.topic_id


async def read_losses(cluster: Cluster, topic: str, *, timeout_ms: int = API_TIMEOUT_MS) -> tuple[Loss, ...]:
    """Return every loss recorded in ``topic``, in the order of their last records.

    Raises ClusterError if there is no progress for ``timeout_ms``.

    Records that cannot be decoded are ignored.
    """
    found: dict[bytes | None, Loss] = {}
    await _read(CompactedLog(cluster, topic, purpose="losses"), found, timeout_ms=timeout_ms)
    return tuple(found.values())


async def _read(log: CompactedLog, found: dict[bytes | None, Loss], *, timeout_ms: int) -> None:
    """Add the losses up to the topic's end to ``found``, and remove those that were deleted."""
    async for record in log.read_to_end(timeout_ms=timeout_ms):
        before = found.pop(record.key, None)
        try:
            loss = decode_loss(record.key, record.value)
        except FormatError:
            continue
        if loss is not None:
            found[record.key] = loss if before is None else newer_state(before, loss)
