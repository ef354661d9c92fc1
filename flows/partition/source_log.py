"""Leader epochs of a partition's records: they tell whether the source's log has lost its end (KIP-320)."""

from __future__ import annotations

from mm2.core.offsets.leader_epochs import EpochEnd, EpochStarts, before, common_end, last_epoch, replaced_from


class SourceLog:
    """The leader epochs of the records that were fetched: they tell whether the source's log still has them.

    Called by `PartitionReplicator` only. Offsets are the source's.

    (A) ``epochs`` end with the last record before the fetch offset, as far as they are known.
    (B) Records that are fetched again, because the target may have them, are those that were sent: if the source has
        others there now, it was truncated. The broker cannot tell, since the fetch offset was before them.
    (C) ``truncated_at`` is where copying continues once the batches in flight are completed; None: nothing was
        truncated.
    (D) The epochs of what is left out are those with which it was fetched. Without them, the broker would not check
        whether its log was truncated meanwhile.
    """

    __slots__ = ("_distrusted", "_of_rejected", "_sent", "epochs", "sent_to", "truncated_at")

    def __init__(self, epochs: EpochStarts, position: int) -> None:
        self.epochs = before(epochs, position)
        self.truncated_at: int | None = None
        self.sent_to = position  # the target can have the records before it
        self._sent: EpochStarts = ()  # of the records that were sent, before they are fetched again: (B)
        self._of_rejected: EpochStarts = ()  # up to the end of what was rejected last: (D); empty: unknown
        self._distrusted: int | None = None  # the source does not know this leader epoch and later ones

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the record before the fetch offset; -1: unknown."""
        return last_epoch(self.epochs)

    def distrust(self) -> None:
        """The source knows none of the epochs: they cannot tell whether it was truncated.

        These and later epochs are ignored from now on; otherwise the source would reject every fetch.
        """
        if self.epochs:
            self._distrusted = self.epochs[0].epoch
            self.epochs = ()

    def forget(self) -> None:
        """The records before the fetch offset have unknown epochs, as after offsets that were not fetched."""
        self.epochs = ()

    def fetched(self, epochs: EpochStarts, position: int, sent_until: int | None) -> None:
        """``epochs`` are those up to the new fetch offset. Records before ``sent_until`` were sent before: (B)."""
        distrusted = self._distrusted
        self.epochs = () if distrusted is not None and last_epoch(epochs) >= distrusted else epochs
        if sent_until is not None:
            self.truncated_at = replaced_from(self._sent, self.epochs, max(position, 0), sent_until)

    def keep_sent(self) -> None:
        """Records that were sent are fetched again: (B)."""
        self._sent = self.epochs

    def fetch_from(self, offset: int) -> None:
        """The fetch offset moves back to ``offset``."""
        self.epochs = before(self.epochs, offset)

    def rejected(self, until: int, fetched_to: int) -> None:
        """The records before ``until`` may be left out later: (D). Those before ``fetched_to`` are fetched."""
        self._of_rejected = before(self.epochs, until) if fetched_to >= until else ()

    def left_out(self, fetched_to: int) -> None:
        """Continue behind what was rejected last, though less is fetched: up to ``fetched_to``."""
        known = self._of_rejected
        self.epochs = known if before(known, fetched_to) == before(self.epochs, fetched_to) else ()

    def diverged(self, fetch_offset: int, end: EpochEnd) -> bool:
        """Set where the logs part, if that is before ``fetch_offset``, and return whether it is.

        ``end`` is the broker's answer for one of ``epochs``.
        """
        offset = common_end(self.epochs, end)
        if offset >= fetch_offset:
            return False
        self.truncated_at = offset
        return True
