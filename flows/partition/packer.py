"""Packing for one partition: by the flow's rules, and by what its target rejected."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from operator import is_

from flows.batch.choice import SUPPORTED_CODEC, BatchRules, Reason, for_long_link
from flows.batch.header import BatchTooLargeError, CorruptBatchError
from flows.batch.pack import Packed, cut, is_heavy, pack, repack, split, uncompressed
from flows.batch.record_reader import DecodedRecord, read_record
from flows.batch.steps import IsOver, Steps, run
from flows.batch.target_batch import SourceBatch, TargetBatch
from flows.partition.timeouts import TIMEOUTS
from flows.target.produce_errors import ProduceError

log = logging.getLogger(__name__)


class PackingError(Exception):
    """The batch at source offset ``offset`` cannot be rebuilt.

    ``source`` is the fetched batch; None: it was packed before. ``expected``: the batch is the cause, rather than an
    error of this program.
    """

    def __init__(self, offset: int, error: Exception, source: SourceBatch | None = None) -> None:
        self.expected = isinstance(error, CorruptBatchError | BatchTooLargeError)
        if self.expected:
            super().__init__(str(error))
        else:
            log.error("unexpected error while packing the batch at offset %d", offset, exc_info=error)
            super().__init__(f"unexpected error: {error!r}")
        self.offset = offset
        self.source = source


@dataclass(slots=True)
class _Unfinished:
    """Packing that was interrupted, and what it was started with."""

    steps: Steps[Packed]
    wanted: int
    boundary: int | None
    queue: tuple[SourceBatch, ...]

    def fits(self, queue: deque[SourceBatch], wanted: int, boundary: int | None) -> bool:
        """Return whether it can be continued: since it was started, the queue was at most appended to."""
        is_same = (self.wanted, self.boundary) == (wanted, boundary) and len(self.queue) <= len(queue)
        return is_same and all(map(is_, self.queue, queue))


@dataclass(slots=True)
class Division:
    """Taking apart the first batch in flight, which the target did not accept because of ``error``, in steps."""

    batch: TargetBatch
    error: ProduceError
    begin: Callable[[], Steps[list[TargetBatch]]]
    steps: Steps[list[TargetBatch]] | None = None


class Packer:
    """``now`` is monotonic seconds.

    (A) Any error while packing becomes a `PackingError`, so that it ends the partition and not the source task.
    (B) Packing that is interrupted continues where it was, unless it is to pack something else by then.
    """

    __slots__ = (
        "_counts",
        "_division",
        "_forget_at",
        "_given_rules",
        "_long_link_rules",
        "_memory_s",
        "_rules",
        "_size_limit",
        "_unfinished",
    )

    def __init__(
        self, rules: BatchRules, counts: Counter[Reason], *, rejection_memory_s: float = TIMEOUTS.rejection_memory_s
    ) -> None:
        self._memory_s = rejection_memory_s
        self._given_rules = rules
        self._counts = counts
        self._size_limit: int | None = None
        self._forget_at: float | None = None
        self._unfinished: _Unfinished | None = None
        self._division: Division | None = None
        self._set_rules(rules)

    def _set_rules(self, rules: BatchRules) -> None:
        self._rules, self._long_link_rules = rules, for_long_link(rules)

    @property
    def is_unfinished(self) -> bool:
        """Whether packing was interrupted; what it has made so far is held in memory."""
        return self._unfinished is not None

    def abandon(self) -> None:
        """Drop what interrupted packing has made."""
        self._unfinished = None

    def is_heavy(self, queue: deque[SourceBatch], wanted: int, boundary: int | None) -> bool:
        """Return whether packing the next batch can take longer than a few steps. ``queue`` is not empty."""
        return is_heavy(queue, wanted, boundary, self._rules, self._size_limit)

    def pack(
        self,
        queue: deque[SourceBatch],
        wanted: int,
        boundary: int | None,
        now: float,
        *,
        is_long_link: bool,
        is_over: IsOver,
    ) -> tuple[Packed, int] | None:
        """Pack the next batch from the front of ``queue``, as `flows.batch.pack.pack` does, or up to ``boundary``.

        Returns it and the bytes by which it grew when it was rebuilt; the last of its batches holds them. Returns None
        if the turn is over before that: call it again. Raises PackingError if the first batch cannot be packed, and
        leaves the queue unchanged; batches before one that cannot be packed are packed without it.
        """
        unfinished, self._unfinished = self._unfinished, None
        if unfinished is None or not unfinished.fits(queue, wanted, boundary):
            if self._forget_at is not None and now >= self._forget_at:
                self.forget_rejections()
            rules = self._long_link_rules if is_long_link else self._rules
            if boundary is None:
                steps = self._pack(queue, wanted, rules)
            else:
                steps = repack(queue, wanted, boundary, rules, self._counts)
            unfinished = None
        else:
            steps = unfinished.steps
        first = queue[0]
        try:
            packed = run(steps, is_over)
        except Exception as error:
            raise PackingError(first.header.base_offset, error, first) from error
        if packed is None:
            self._unfinished = unfinished or _Unfinished(steps, wanted, boundary, tuple(queue))
            return None
        grown = max(0, packed.grown)
        if grown:
            packed.batches[-1].held_bytes += grown
        return packed, grown

    def _pack(self, queue: deque[SourceBatch], wanted: int, rules: BatchRules) -> Steps[Packed]:
        try:
            return (yield from pack(queue, wanted, rules, self._size_limit, self._counts))
        except Exception:
            if len(queue) == 1:
                raise
            alone = deque([queue[0]])  # the batch at fault can be a later one that was to be merged
            packed = yield from pack(alone, wanted, rules, self._size_limit, self._counts)
            queue.popleft()
            return packed

    def reject_size(self, batch: TargetBatch) -> bool:
        """The target rejected the batch as too large.

        Returns whether it is above a known limit, so that it can be split; otherwise the limit has to be read again.
        """
        self._counts[Reason.TOO_LARGE] += 1
        return self._size_limit is not None and batch.size > self._size_limit

    def set_size_limit(self, rejected: TargetBatch, limit: int | None, now: float) -> None:
        """Batches may have ``limit`` bytes, as read from the target after it rejected one.

        None: it could not be read, and they may have half the size of the rejected one. The same if it was not above
        the limit, since a broker that compresses batches again (compression.type of the topic) also limits the result.
        """
        self._size_limit = limit if limit is not None and limit < rejected.size else rejected.size // 2
        self._forget_at = now + self._memory_s

    def reject_codec(self, codec: int, now: float) -> bool:
        """The target does not support the codec; returns whether batches can be packed with another one."""
        if codec == self._rules.codec or codec in (SUPPORTED_CODEC, *self._rules.unsupported):
            return False
        self._set_rules(replace(self._rules, unsupported=self._rules.unsupported | {codec}))
        self._forget_at = now + self._memory_s
        return True

    def forget_rejections(self) -> None:
        """Send batches of any size and codec again: the target may accept them now."""
        self._size_limit = self._forget_at = None
        self._set_rules(self._given_rules)

    def split(self, batch: TargetBatch, error: ProduceError) -> None:
        """Split a batch that the target rejected as too large, with `divide`."""
        assert self._size_limit is not None
        self._division = Division(batch, error, partial(split, batch, self._size_limit, self._rules))

    def isolate(self, batch: TargetBatch, error: ProduceError) -> None:
        """Cut a batch with `divide` so that each of the records that ``error`` names is alone; if it names none, in
        halves. The batch has more than one record."""
        ends = {end for index in error.record_indexes for end in (index, index + 1)}
        inside = sorted(end for end in ends if 0 < end < batch.count)
        self._division = Division(batch, error, partial(cut, batch, inside or [batch.count // 2], self._rules))

    def division_of(self, first: TargetBatch | None) -> Division | None:
        """Return the division of the first batch in flight; None: there is none, or the batch was dropped meanwhile."""
        if self._division is not None and self._division.batch is not first:
            self._division = None
        return self._division

    def divide(self, division: Division, is_over: IsOver) -> list[TargetBatch] | None:
        """Continue a division, and return the parts; None if the turn is over before that. Raises PackingError."""
        division.steps = division.steps or division.begin()
        try:
            parts = run(division.steps, is_over)
        except Exception as error:
            self._division = None
            raise PackingError(division.batch.first_offset, error) from error
        if parts is not None:
            self._division = None
        return parts

    def begin_division_again(self) -> None:
        """Drop what an interrupted division has made."""
        if self._division is not None:
            self._division.steps = None

    def read(self, batch: TargetBatch) -> DecodedRecord:
        """Return the first record of a batch. Raises PackingError."""
        try:
            return read_record(uncompressed(batch, self._rules), batch.base_timestamp, batch.first_offset)
        except Exception as error:
            raise PackingError(batch.first_offset, error) from error
