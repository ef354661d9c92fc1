"""The acknowledgements of one source partition, recorded so that offsets can be translated without loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.copied_ranges import CopiedRange, CopiedUpTo
from mm2.core.offsets.exact_offset_records import MAX_PRODUCERS, SEGMENT_RANGES, ProducerEpoch, Segment, TopicIds
from mm2.core.offsets.leader_epochs import EpochStarts, before
from mm2.core.offsets.packed_ranges import LIMITS, PackedRanges, PackingLimits

WAITING_SEGMENTS = 32
"""Full segments that wait until they can be written, of 1.2 KB each."""

_MARKERS = 8  # more are unlikely between a truncation of the target and the next record


class ExactOffsetJournal:
    """The copied ranges of one source partition, collected until they are written as `exact_offset_records`.

    The caller reports everything it has processed, in the order of the source. From time to time, before it stores
    source offsets, it writes the result of `unwritten` in order: the ranges before a stored offset are then recorded.

    Invariants:
    A. Target offsets increase from range to range and from segment to segment of an era; source offsets step back only
       where copying restarted at an earlier offset, or where a segment begins because the source's log was truncated.
    B. A range's hole contains only offsets that the copier has seen to carry no record. Offsets that it did not process
       itself, because it started after them or was not told where a batch went, belong to no range and no hole.
    C. At most ``waiting`` full segments wait to be written; those dropped in favour of newer ones are not covered.
    D. The last range and the reach lag by ``_grown`` records that continue the range on both sides: most batches do,
       and cost one comparison. `_catch_up` brings them up to date before anything else is read.
    E. The ranges of a segment are those of ``_packed``, if there are any, and then ``_ranges``. The last one, which can
       grow, is never packed.
    """

    def __init__(
        self,
        topic_partition: TopicPartition,
        *,
        topic_ids: TopicIds,
        last: Segment | None = None,
        waiting: int = WAITING_SEGMENTS,
        in_transactions: bool = False,
        segment_ranges: int = SEGMENT_RANGES,
        limits: PackingLimits = LIMITS,
    ) -> None:
        """Continue ``last``, the newest record of the partition's highest sequence. ``waiting``: (C).
        ``in_transactions``: the records are written in transactions. ``segment_ranges``: the most unpacked ranges of a
        segment."""
        self._segment_ranges = segment_ranges
        self._limits = limits
        self._in_transactions = in_transactions
        self._topic_partition = topic_partition
        self._topic_ids = topic_ids
        self._waiting = waiting
        self._sequence = self._era = 0
        self._before = self._reach = CopiedUpTo()
        self._empty_from = (
            self._through
        ) = -1  # the source offsets in between carry no record; copying continues after them
        self._packed: PackedRanges | None = None
        self._ranges: list[CopiedRange] = []
        self._next = (-1, -1)  # the source and target offset right after the last range
        self._grown = 0
        self._truncated = -1
        self._epochs: EpochStarts = ()
        self._producers: tuple[ProducerEpoch, ...] = ()
        self._after_gap = False
        self._sealed: dict[int, Segment] = {}
        self._written: Segment | None = last
        self.lost_copies: tuple[int, int] | None = None
        """Source offsets (first, until) whose copies the remote topic no longer has, since it was last set to None."""
        if last is not None:
            self._continue(last)

    def _continue(self, last: Segment) -> None:
        self._sequence, self._era = last.sequence, last.era
        self._truncated, self._epochs = last.truncated, last.epochs
        self._producers, self._after_gap = last.producers, last.after_gap
        self._before = self._reach = last.before
        self._packed = last.packed
        if last.packed is not None:
            self._reach = last.packed.progress_after(self._reach)
        for copied in last.ranges:
            self._reach = self._reach.after(copied)
            self._ranges.append(copied)
            self._next = copied.upstream_end, copied.downstream_end
            self._empty_from = copied.upstream_end
            self._through = max(self._empty_from, last.through)
        ids, self._topic_ids = self._topic_ids, last.topic_ids
        self.identify(ids)

    def start_over(self, topic_ids: TopicIds) -> None:
        """Discard all ranges: the source or the remote topic was recreated or truncated, so they are void."""
        self._topic_ids = topic_ids
        self._sequence += 1
        self._era += 1
        self._before = self._reach = CopiedUpTo()
        self._empty_from = self._through = self._truncated = -1
        self._after_gap = False
        self._forget_ranges()
        self._sealed.clear()

    def truncated(self, upstream: int) -> None:
        """Record that the source lost its records from ``upstream`` on, where copying continues.

        Their copies stay on the target, and the ranges with them end at ``upstream``. Records in doubt are among the
        lost ones.
        """
        self._catch_up()
        self._seal()
        self._truncated = upstream
        self._before = self._reach = CopiedUpTo(upstream, self._reach.downstream)
        self._empty_from = self._through = upstream

    def set_epochs(self, epochs: EpochStarts) -> None:
        """Set the leader epochs of the source's records; those of records that are not copied yet are not written."""
        self._epochs = epochs

    def written_by(self, producer: ProducerEpoch) -> None:
        """Set the producer of the batches that are acknowledged next."""
        if not self._producers or self._producers[-1] != producer:
            others = tuple(one for one in self._producers if one != producer)
            self._producers = (*others, producer)[-MAX_PRODUCERS:]

    @property
    def newest(self) -> Segment:
        """The last segment in its current state, which a later journal of the partition can continue."""
        self._catch_up()
        return self._segment()

    def identify(self, topic_ids: TopicIds) -> None:
        """Set the IDs of the topics being copied. Unknown IDs are filled in; if a known one changed, start over."""
        if self._topic_ids.may_be(topic_ids):
            self._topic_ids = self._topic_ids.completed_by(topic_ids)
        else:
            self.start_over(topic_ids)

    def acked(self, runs: Sequence[tuple[int, int]], downstream: int, *, since: int, until: int) -> None:
        """Record that the target acknowledged a batch, which starts at its offset ``downstream``.

        ``runs`` are (first source offset, records) in order. Source offsets from ``since`` to ``until`` outside all
        runs carry no record; the caller passes only offsets that it has examined.
        """
        if len(runs) == 1:
            upstream, records = runs[0]
            if (upstream, downstream) == self._next and upstream + records == until and since <= self._through:
                self._next = until, downstream + records
                self._grown += records
                self._empty_from = self._through = until
                return
        self._catch_up()
        self._leave_gap(since)
        for upstream, records in runs:
            self._add(upstream, downstream, records, since)
            downstream += records
            since = upstream + records
        self.passed(since, until)

    def acked_somewhere(self, *, until: int) -> None:
        """Record a batch, ending before source offset ``until``, whose target offset was not reported."""
        self._catch_up()
        if self._ranges:
            self._seal()
        self._gone_over(until)

    def passed(self, since: int, until: int) -> None:
        """Record that source offsets from ``since`` up to, not including, ``until`` carry no record."""
        self._catch_up()
        self._leave_gap(since)
        if since > self._through:
            if self._ranges:
                self._seal()
            self._empty_from = since
        self._through = max(self._through, until)
        self._gone_over(until)

    def unwritten(self) -> tuple[Segment, ...]:
        """Return the segments to write, in order. A segment is returned until `written` is called with it."""
        self._catch_up()
        now = self._segment()
        waiting = tuple(self._sealed.values())
        return waiting if now == self._written or (now.sequence == 0 and not now.ranges) else (*waiting, now)

    def written(self, segment: Segment) -> None:
        """Record that ``segment`` was written to the topic."""
        if segment.sequence == self._sequence:
            self._written = segment
        elif self._sealed.get(segment.sequence) == segment:
            del self._sealed[segment.sequence]

    def refused(self) -> None:
        """Record that the topic rejected a write: drop the full segments that wait. `unwritten` keeps the last one."""
        self._sealed.clear()

    def _segment(self) -> Segment:
        segment = Segment(
            topic_partition=self._topic_partition,
            sequence=self._sequence,
            era=self._era,
            topic_ids=self._topic_ids,
            before=self._before,
            through=self._through if self._ranges else -1,
            ranges=tuple(self._ranges),
            truncated=self._truncated,
            epochs=self._epochs,
            packed=self._packed,
            producers=self._producers,
            after_gap=self._after_gap,
        )
        copied = before(self._epochs, segment.end)
        return segment if copied is self._epochs else replace(segment, epochs=copied)

    def _add(self, upstream: int, downstream: int, records: int, since: int) -> None:
        if downstream < self._reach.downstream:  # truncated, or recreated and its new ID is not known yet
            self.lost_copies = self._upstream_of(downstream), self._reach.upstream
            self.start_over(self._topic_ids._replace(remote=None))
        if since <= self._through:
            since = min(since, self._empty_from)
        last = self._ranges[-1] if self._ranges else None
        added = CopiedRange(upstream, downstream, records, upstream - since)
        if last is not None and (upstream, downstream) == (last.upstream_end, last.downstream_end):
            self._ranges[-1] = last._replace(records=last.records + records)
        else:
            if len(self._ranges) >= self._segment_ranges:
                self._make_room()
            self._ranges.append(added)
        self._next = added.upstream_end, added.downstream_end
        self._empty_from = self._through = added.upstream_end
        self._reach = self._reach.after(added)

    def _upstream_of(self, downstream: int) -> int:
        """Return the first source offset whose copy is at ``downstream`` or later: before this segment, an estimate.

        Markers of aborted transactions can precede ``downstream``, where copies were before: also of those that fence a
        source task. With transactions, all records of the first one are lost, since its marker is.
        """
        downstream = max(0, downstream - _MARKERS)
        known: list[CopiedRange] = [] if self._packed is None else list(self._packed.ranges())
        known += self._ranges
        start = 0  # of the transaction
        for index, copied in enumerate(known):
            if copied.downstream != known[index - 1].downstream_end:
                start = index
            if copied.downstream_end > downstream >= known[0].downstream:
                inside = max(0, downstream - copied.downstream)
                return known[start].upstream if self._in_transactions else copied.upstream + inside
        upstream, end = self._reach.upstream, self._reach.downstream
        if known:
            upstream, end = known[0].upstream, known[0].downstream
        return max(0, upstream - (end - downstream))

    def _catch_up(self) -> None:
        if self._grown:
            grown, self._grown = self._grown, 0
            upstream, downstream = self._next
            self._reach = self._reach.after(CopiedRange(upstream - grown, downstream - grown, grown))
            last = self._ranges[-1]
            self._ranges[-1] = last._replace(records=last.records + grown)

    def _make_room(self) -> None:
        """Pack all but the last ranges. If that is impossible or the pack is full, start the next segment."""
        kept, limits = self._limits.journal_kept, self._limits
        earlier = self._ranges[:-kept]
        packed = PackedRanges.of(earlier, limits) if self._packed is None else self._packed.extended(earlier, limits)
        if packed.clean and packed.follows(self._before):
            self._packed = packed
            del self._ranges[:-kept]
        if self._packed is not packed or packed.is_full(limits):
            self._seal()

    def _forget_ranges(self) -> None:
        self._packed = None
        self._ranges = []
        self._next = -1, -1
        self._grown = 0

    def _leave_gap(self, since: int) -> None:
        """After a segment that cannot be read, everything on the target that it may contain is in doubt from here on.

        Otherwise, source offsets that the segment may have would count as copied by others.
        """
        if self._after_gap and not self._ranges:
            self._gone_over(since)

    def _gone_over(self, until: int) -> None:
        self._reach = self._reach._replace(upstream=max(self._reach.upstream, until))
        if not self._ranges:
            self._before = self._reach

    def _seal(self) -> None:
        sealed = self._segment()
        if sealed != self._written:
            self._sealed[sealed.sequence] = sealed
        while len(self._sealed) > self._waiting:
            del self._sealed[min(self._sealed)]
        self._sequence += 1
        self._before = self._reach
        self._truncated = -1
        self._producers = self._producers[-1:]
        self._after_gap = False
        self._forget_ranges()
