"""One transaction: its partitions, and the decision when it is committed."""

from __future__ import annotations

from flows.partition.replicator import PartitionReplicator
from mm2.core.lanes.lease import TransactionsLease
from mm2.core.naming.names import TopicPartition


class Transaction:
    """A state machine without I/O and clock: open until it is due, then closing. ``now`` is monotonic seconds.

    (A) A partition sends only after its remote partition was added to the transaction.
    (B) While the transaction is closing, only batches are sent that the target may have already: whether it has them
        must be known before the commit.
    """

    def __init__(self, lease: TransactionsLease) -> None:
        self._interval = lease.interval_ms / 1000
        self._max_bytes = lease.max_bytes
        self._size = 0
        self._started: float | None = None
        self.added: set[TopicPartition] = set()  # on the target, internal topics too
        self.partitions: dict[PartitionReplicator, None] = {}
        self.pending_partitions: dict[PartitionReplicator, None] = {}  # to be added
        self.is_closing = False

    def admits(self, partition: PartitionReplicator) -> bool:
        """Return whether the partition may send its next batch now; while the transaction is open it is added."""
        if self.is_closing:
            return partition in self.partitions and partition.repeats_next
        if self.is_full:
            return False
        if partition in self.partitions:
            return True
        self.pending_partitions[partition] = None
        return False

    def sent(self, size: int) -> None:
        """A batch of ``size`` bytes is being sent."""
        self._size += size

    @property
    def is_full(self) -> bool:
        return self._size >= self._max_bytes

    def partitions_added(self, partitions: list[PartitionReplicator], now: float) -> None:
        """These partitions may send from now on: the coordinator has added them to the transaction."""
        for partition in partitions:
            self.pending_partitions.pop(partition, None)
            self.partitions[partition] = None
        if self._started is None:
            self._started = now

    def due_in(self, now: float) -> float | None:
        """Return the seconds until the transaction is committed, 0 if it is due; None: it has not started."""
        if self._started is None:
            return None
        return 0.0 if self.is_full else max(0.0, self._started + self._interval - now)

    def close(self) -> None:
        """Send nothing new."""
        self.is_closing = True
        self.pending_partitions.clear()

    @property
    def uncertain(self) -> list[PartitionReplicator]:
        """The partitions of which the target may have records that it has not acknowledged."""
        return [partition for partition in self.partitions if partition.is_uncertain]

    @property
    def lost(self) -> PartitionReplicator | None:
        """A partition of which the target has lost records, or can no longer recognize repetitions."""
        return next((partition for partition in self.partitions if partition.needs_producer_id), None)
