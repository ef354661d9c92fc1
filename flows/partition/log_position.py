"""The position of one partition in the source's log, which can lose its end (KIP-320)."""

from __future__ import annotations

from flows.partition.health import PartitionMetrics
from flows.partition.uncommitted_state import UncommittedState
from mm2.core.lanes.lease import PartitionLease
from mm2.core.lanes.losses import LossKind, LossPolicy
from mm2.core.offsets.leader_epochs import EpochEnd, EpochStarts, before, common_end, last_epoch, replaced_from


class LogPosition(UncommittedState):
    """The leader epochs of the fetched records, which tell whether the source's log still contains them.

    (A) ``epochs`` end with the last record before the fetch offset.
    (B) Records that are fetched again, because the target may have them, are those that were sent: if the source has
        others there now, it was truncated. The broker cannot tell, since the fetch offset was before them.
    (C) ``_truncated_at`` is where copying continues once the batches in flight are completed; None: nothing was
        truncated.
    """

    def __init__(
        self, lease: PartitionLease, metrics: PartitionMetrics, now: float, policy: LossPolicy | None = None
    ) -> None:
        super().__init__(lease, metrics, now, policy)
        self._truncated_at: int | None = None
        self._sent_to = self.position  # the target can have the records before it
        self._sent_epochs: EpochStarts = ()
        self._distrusted_epoch: int | None = None  # the source does not know this leader epoch and later ones

    @property
    def is_truncated(self) -> bool:
        """Whether the source's log was truncated at the position, and its offset is not stored yet."""
        return self.needs_initial_commit and self._initial_commit == self.position - 1

    @property
    def last_fetched_epoch(self) -> int:
        """The leader epoch of the record before the fetch offset; -1: unknown."""
        return last_epoch(self.epochs)

    def forget_epochs(self) -> None:
        """The source knows none of the leader epochs of ``epochs``: they cannot tell whether it was truncated.

        These and later epochs are ignored from now on; otherwise the source would reject every fetch.
        """
        if self.epochs:
            self._distrusted_epoch = self.epochs[0].epoch
            self.epochs = ()

    def _set_epochs(self, epochs: EpochStarts, sent_until: int | None) -> None:
        """Set the leader epochs up to the new fetch offset. Records before ``sent_until`` were sent before: (B)."""
        distrusted = self._distrusted_epoch
        self.epochs = () if distrusted is not None and last_epoch(epochs) >= distrusted else epochs
        if sent_until is not None:
            self._truncated_at = replaced_from(self._sent_epochs, self.epochs, max(self.position, 0), sent_until)

    def _keep_sent_epochs(self) -> None:
        """Keep the leader epochs of records that were sent, before they are fetched again."""
        self._sent_epochs = self.epochs

    def _drop_epochs(self, fetch_from: int) -> None:
        """The fetch offset moves back to ``fetch_from``."""
        self.epochs = before(self.epochs, fetch_from)

    def _truncate(self, fetch_offset: int, end: EpochEnd) -> bool:
        """Set where the logs part, if that is before ``fetch_offset``, and return whether it is."""
        offset = common_end(self.epochs, end)
        if offset >= fetch_offset:
            return False
        self._truncated_at = offset
        return True

    def _lose_end(self, offset: int) -> bool:
        """The source lost its records from ``offset`` on: move back to it, and return whether the position changed.

        It does not while the loss waits for acceptance; the truncation is then noticed again.
        """
        if offset < self._sent_to:
            reason = (
                f"the source's log was truncated at offset {offset}: it does not have the records up to offset"
                f" {self._sent_to - 1} any more that were sent to the target"
            )
            if not self.lose(offset, self._sent_to, reason, kind=LossKind.TRUNCATED):
                return False
            self._sent_to = offset
        self._health.truncated(offset)
        if offset >= self.position:
            return False
        self._move_back(offset)
        return True
