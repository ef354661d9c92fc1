"""Limits how long a transaction waits for the acknowledgements of its batches."""

from __future__ import annotations

import asyncio
import time

from flows.partition.replicator import PartitionReplicator
from flows.target.producer import Producer
from flows.transaction.excluded_partitions import ExcludedPartitions
from flows.transaction.transaction import Transaction
from flows.transaction.transactional_producer import CannotCommit, TransactionalProducer
from mm2.core.lanes.lease import TransactionsLease

ANSWERS_S = 1.0
"""How long an aborted transaction waits for answers to requests in flight, before their connections are closed."""


class AckDeadline:
    """Each partition has patience from its last acknowledgement on, and from the end of a broker's throttle time.

    ``grace_s``: the longest time of each step between the interval of a transaction and its timeout, in seconds.
    """

    def __init__(self, lease: TransactionsLease, held: ExcludedPartitions, changed: asyncio.Event) -> None:
        """``changed`` is set when a request was answered, or something failed."""
        self.grace_s = max(1.0, (lease.timeout_ms - lease.interval_ms) / 3000)
        self._interval_s = lease.interval_ms / 1000
        self._held = held
        self._changed = changed

    async def settle(self, transaction: Transaction, sending: Producer, producer: TransactionalProducer) -> None:
        """Wait until it is known of every batch that was sent whether the target has it. Raises CannotCommit."""
        counts_from = time.monotonic()
        last_moment = counts_from + self.grace_s
        while True:
            self._changed.clear()
            producer.check()
            if (lost := transaction.lost) is not None:
                raise CannotCommit(f"the target has lost its state of the producer in {lost.target}")
            uncertain = transaction.uncertain
            if not uncertain:
                return
            now = time.monotonic()
            if throttled := sending.throttled:
                counts_from = max(counts_from, now + throttled)
            until = {one: self._patient_until(one, counts_from, now) for one in uncertain}
            late = list(until) if now >= last_moment else [one for one, moment in until.items() if now >= moment]
            if late:
                names = ", ".join(sorted(str(one.target) for one in late)[:3])
                raise CannotCommit(f"the target has not acknowledged the records of {names} in time", late)
            try:
                async with asyncio.timeout(min(*until.values(), last_moment) - now):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _patient_until(self, partition: PartitionReplicator, counts_from: float, now: float) -> float:
        """Return until when to wait for the partition: its patience after the last acknowledgement."""
        if partition.batches_in_flight:
            counts_from = max(counts_from, now - partition.unanswered_for(now))
        return counts_from + max(self._held.patience(partition), min(self._interval_s, self.grace_s))

    async def all_received(self, transaction: Transaction, sending: Producer) -> None:
        """Wait until no batch of a transaction that is being aborted is in flight."""
        hang_up_at = time.monotonic() + ANSWERS_S
        while any(partition.batches_in_flight for partition in transaction.partitions):
            self._changed.clear()
            try:
                async with asyncio.timeout(ANSWERS_S):
                    await self._changed.wait()
            except TimeoutError:
                pass
            if time.monotonic() >= hang_up_at:
                sending.disconnect()
