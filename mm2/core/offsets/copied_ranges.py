"""Ranges of records that were copied to the target, and the progress of copying that they amount to."""

from __future__ import annotations

from typing import NamedTuple


class CopiedRange(NamedTuple):
    """``records`` contiguous source records from ``upstream`` on were copied to the target from ``downstream`` on.

    ``hole``: the number of source offsets directly before ``upstream`` that carry no record to copy (compacted,
    transaction markers, aborted, dropped, deleted before they were copied). The range says nothing about earlier
    offsets.
    """

    upstream: int
    downstream: int
    records: int
    hole: int = 0

    @property
    def upstream_end(self) -> int:
        return self.upstream + self.records

    @property
    def downstream_end(self) -> int:
        return self.downstream + self.records


class CopiedUpTo(NamedTuple):
    """An upper bound of copying progress at some time; -1: nothing copied yet.

    ``upstream``: the end of the processed source offsets. ``downstream``: the end of the recorded target offsets.
    ``doubt``: the maximum number of records from ``upstream`` on that the target may contain although no range records
    them, because a copier ended before it received or recorded the acknowledgement.
    """

    upstream: int = -1
    downstream: int = -1
    doubt: int = 0

    def after(self, copied: CopiedRange) -> CopiedUpTo:
        """Return the progress after ``copied``.

        Target offsets skipped in between are in doubt, except one for each source offset that others may have copied.
        """
        doubt = self.doubt
        if self.downstream >= 0:
            by_others = max(0, copied.upstream - copied.hole - self.upstream)
            doubt = max(doubt, copied.downstream - self.downstream - by_others)
        onward = copied.upstream_end - max(copied.upstream, self.upstream)
        return CopiedUpTo(
            max(self.upstream, copied.upstream_end), copied.downstream_end, max(0, doubt - max(0, onward))
        )


NO_PROGRESS = CopiedUpTo()
"""Nothing is copied yet: one object for all partitions."""
