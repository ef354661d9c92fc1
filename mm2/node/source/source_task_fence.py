"""Fencing of the previous owners of source tasks by the target's brokers."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from mm2.config.settings import FlowSettings
from mm2.core.assignment.source_task_releases import SourceTaskRelease
from mm2.core.assignment.tasks import TaskId, TaskKind
from mm2.core.lanes.lease import TaskProducer
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError
from mm2.kafka.logs.transaction_coordinator import Fenced, TransactionCoordinator
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch
from mm2.kafka.retrying import retried_until
from mm2.node.common.fencing_errors import FencingFailedError, permanent_fix

log = logging.getLogger(__name__)


PARTITIONS_AT_ONCE = 1_000
"""Partitions of one transaction: its record in __transaction_state has at most about 1 MiB."""


_TRANSACTION_TIMEOUT_MS = 60_000  # Java's default, for producers that write outside transactions
_FIRST_PAUSE_MS = 20  # as in Java: the time a coordinator needs to write the markers of a transaction
_ACKS_ALL = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceTimes:
    """Limits of fencing."""

    no_coordinator_s: float = 30.0
    """Seconds for which source tasks wait for a transaction coordinator: longer than it takes another broker to take
    over its partition of __transaction_state. Then they start without fencing."""
    attempt_ms: int = 5_000
    """Limit for one call; the caller repeats it."""
    check_ms: int = 2_000
    """Limit for finding out whether the target fences again. A restart of the source task waits meanwhile."""


_TIMES = FenceTimes()


class Acquired(NamedTuple):
    """A source task's ``producer``; None: the target cannot fence, or fencing is disabled.

    ``after_loss``: an earlier owner had not released the source task, and was fenced.
    """

    producer: TaskProducer | None
    after_loss: bool


_UNFENCED = Acquired(None, after_loss=False)


class SourceTaskFence:
    """Acquires the producers with which source tasks write, and fences those of previous owners.

    (A) After `acquire`, the target rejects everything that earlier producers of the source task still send to these
        partitions. A broker does that only from the first write with the new epoch on, so an aborted transaction of
        the task's transactional id writes a marker to every partition, at the cost of one offset each.
    (B) No marker is needed if the previous owner has released the source task in order, or if there was none.
    (C) If the target cannot fence, source tasks run without: ``warning`` is why, and how to fix it. With
        exactly.once.source.support = enabled they do not run: `acquire` raises FencingFailedError.
    """

    def __init__(
        self,
        settings: FlowSettings,
        target: Cluster,
        released: Callable[[int], Awaitable[SourceTaskRelease | None]],
        *,
        times: FenceTimes = _TIMES,
    ) -> None:
        """``target`` has the settings of the producers of records. ``released`` returns the last release of a source
        task, if it is known."""
        self._settings = settings
        self._times = times
        self._target = target
        self._released = released
        self._retries = replace(target.settings, retry_backoff_ms=_FIRST_PAUSE_MS)
        transactions = settings.transactions
        self._timeout_ms = _TRANSACTION_TIMEOUT_MS if transactions is None else transactions.timeout_ms
        self._failing_since: dict[str, float] = {}
        self.warning: str | None = None

    @property
    def is_enabled(self) -> bool:
        """Whether the producers of records are idempotent, which fencing requires."""
        produce = self._settings.clients.produce
        return produce.idempotent and produce.acks == _ACKS_ALL

    async def acquire(self, source_task: int, remote: Collection[TopicPartition]) -> Acquired:
        """Return the source task's producer for a new owner, or for a new run of the same owner.

        All earlier ones are fenced on the partitions ``remote``, and their transactions are complete: what they have
        committed can be read. Raises ClusterErrors, after which the call can be repeated.
        """
        if not self.is_enabled:
            return _UNFENCED
        transactional_id = self._transactional_id(source_task)
        try:
            acquired = await self._fenced(transactional_id, source_task, remote)
        except ClusterError as error:
            self._take(error, transactional_id)
            return _UNFENCED
        self._failing_since.pop(transactional_id, None)
        if self.warning is not None:
            log.info("%s: the target fences source tasks again", self._settings.flow)
            self.warning = None
        return acquired

    async def fences_again(self, source_task: int) -> bool:
        """Return whether the target allows now what it did not allow when a source task of this node was started."""
        transactional_id = self._transactional_id(source_task)
        coordinator = TransactionCoordinator(
            self._target, transactional_id, timeout_ms=self._timeout_ms, purpose="fencing"
        )
        try:
            await retried_until(coordinator.init, self._retries, time.monotonic() + self._times.check_ms / 1000)
        except ClusterError:
            return False
        return True

    def _transactional_id(self, source_task: int) -> str:
        """Return the ID that Java's task uses for exactly-once (Worker.taskTransactionalId)."""
        return f"{self._settings.worker.group_id}-{TaskId(TaskKind.SOURCE, source_task)}"

    async def _fenced(self, transactional_id: str, source_task: int, remote: Collection[TopicPartition]) -> Acquired:
        coordinator = TransactionCoordinator(
            self._target, transactional_id, timeout_ms=self._timeout_ms, purpose="fencing"
        )
        deadline = time.monotonic() + self._times.attempt_ms / 1000
        acquired = await retried_until(coordinator.init, self._retries, deadline)
        producer = TaskProducer(transactional_id, acquired.producer_id, acquired.epoch)
        if acquired.epoch > 0 and remote:
            released = await self._released(source_task)
            if released is None or not released.precedes(producer):
                await self._write_markers(coordinator, acquired, remote, deadline)
                return Acquired(producer, after_loss=True)
        return Acquired(producer, after_loss=False)

    async def _write_markers(
        self,
        coordinator: TransactionCoordinator,
        producer: ProducerIdAndEpoch,
        remote: Collection[TopicPartition],
        deadline: float,
    ) -> None:
        log.info(
            "%s: fencing the previous producer %d of %d remote partitions",
            self._settings.flow,
            producer.producer_id,
            len(remote),
        )
        # a partition without a leader gets its marker when it has one, for which the coordinator waits, or never
        leaders = await self._target.leaders(sorted(remote))
        led = [one for one, leader in leaders.items() if not isinstance(leader, BrokerError)]
        for first in range(0, len(led), PARTITIONS_AT_ONCE):
            add = partial(coordinator.add_writable, producer, led[first : first + PARTITIONS_AT_ONCE])
            if await retried_until(add, self._retries, deadline):
                abort = partial(coordinator.abort, producer)
                await retried_until(abort, self._retries, deadline)
                await retried_until(abort, self._retries, deadline)  # fails until every partition has its marker

    def _take(self, error: ClusterError, transactional_id: str) -> None:
        """Warn if source tasks have to run without fencing; otherwise raise an error."""
        code = error.code if isinstance(error, BrokerError) else None
        if (fix := permanent_fix(error, transactional_id)) is not None:
            self._warn(error, fix)
        elif code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            advice = f"set transaction.max.timeout.ms of the brokers to at least {self._timeout_ms}"
            lower = f"{self._settings.flow.target}.producer.transaction.timeout.ms"
            self._warn(error, f"{advice}, or lower {lower}" if self._settings.worker.exactly_once else advice)
        elif isinstance(error, Fenced) or self._has_time(transactional_id):
            raise error
        elif code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            self._warn(
                error,
                "check that the cluster has at least as many brokers as transaction.state.log.replication.factor",
            )
        else:
            self._warn(error, f"see the logs of the brokers about transactional ID {transactional_id}")

    def _has_time(self, transactional_id: str) -> bool:
        """Return whether the first of these failures was less than `FenceTimes.no_coordinator_s` ago."""
        now = time.monotonic()
        return now - self._failing_since.setdefault(transactional_id, now) < self._times.no_coordinator_s

    def _warn(self, error: ClusterError, advice: str) -> None:
        if self._settings.worker.exactly_once:
            key = f"{self._settings.flow.target}.exactly.once.source.support"
            raise FencingFailedError(f"{error}; nothing is copied without it, since {key} is enabled; {advice}")
        warning = (
            f"cannot fence earlier owners of source tasks: {error}; writing without fencing, so records that a replaced"
            f" node has already sent can still arrive behind newer ones; {advice}"
        )
        if warning != self.warning:
            log.warning("%s: %s", self._settings.flow, warning)
            self.warning = warning
