"""The query that the records of a partition pass through, between fetching and packing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from flows.batch.target_batch import SourceBatch, TargetBatch, WrittenBatch, runs_end
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.rejection import Rejection, of_source_batch
from flows.partition.rejection_state import RejectionState
from flows.partition.row_transform import RowTransform
from flows.partition.state import OffsetRange

PARTS_HELD_BYTES = 16 * 1024 * 1024
"""While a partition holds so many bytes that have passed through the query, it takes no more parts of a frame: half of
what a lane may hold by default (mm2.lane.buffer.bytes), which can be in the query, too."""


class QueryState(RejectionState):
    """Sends fetched batches through a query, in frames, and continues with what it returns. Without one, they are ready
    to be packed at once.

    (A) Results are applied in the order of the source; those of frames that were dropped meanwhile are ignored.
    (B) A frame that is fetched again gives the same records (queries are deterministic), so that batches which the
        target may have are repeated with the same sequences.
    (C) The position moves over dropped records like over copied ones; a dropped tail does not open a transaction.
    (D) Records after one for which the query failed wait until that is decided (`RejectionState`).
    (E) A frame can return in parts, each with records that follow those of the one before. What is after the last part
        is fetched again if the rest of the frame cannot be decoded.
    """

    def __init__(self, *arguments: Any, transform: RowTransform | None, frame_bytes: int, **options: Any) -> None:
        """``transform`` None: records are copied as they are. ``frame_bytes``: at which a frame ends. Other arguments:
        see `RejectionState`."""
        super().__init__(*arguments, **options)
        self._transform = transform
        self._frame_bytes = frame_bytes
        self._one_by_one_until = -1  # a frame with several batches up to this offset could not be decoded
        self._unanswered_since = 0.0  # the first frame that the transform has started to write

    @property
    def _is_routed(self) -> bool:
        """Whether the transform writes the records itself."""
        return self._transform is not None and self._transform.writes_itself

    def drain(self) -> None:
        if not self._is_routed:
            super().drain()
            return
        self.is_draining = True  # what is in the transform is being written
        self._listener.fetch_changed(self)

    def _take(self, batches: list[SourceBatch], start: int) -> None:
        """Take batches fetched from ``start``: they are ready, or pass through the query first."""
        if self._transform is None:
            self._fetched.extend(batches)
            return
        size = self._frame_bytes if start >= self._one_by_one_until else 0
        for frame in list(self._in_query.add(batches, start, size)):
            self._transform.submit(self, frame)

    def awaits(self, number: int) -> bool:
        """Return whether the result for the frame with this number is awaited; otherwise it was dropped meanwhile."""
        return self._in_query.has(number)

    def takes_more(self) -> bool:
        """Return whether the next part of a frame may arrive."""
        return not self._can_pack or self.held_bytes - self._in_query.held_bytes < PARTS_HELD_BYTES

    def writing(self, frame: FrameInQuery, now: float) -> bool:
        """The transform writes the records of this frame from now on. Return False if its result is not awaited."""
        if not self._in_query.has(frame.number):
            return False
        if not self._in_query.is_started:
            self._unanswered_since = now
        self._in_query.started(frame.number)
        self._sent_to = max(self._sent_to, frame.next_offset)
        return True

    def unanswered_for(self, now: float) -> float:
        """Return for how many seconds batches have been in flight, or a frame is being written, without an answer."""
        return now - self._unanswered_since if self._in_query.is_started else super().unanswered_for(now)

    def release_memory(self) -> None:
        """Release the bytes of what is sent, without sending it again, and fetch what is not sent yet again."""
        if not self._in_query.is_started:
            super().release_memory()
            return
        held, start = self._in_query.drop_unsent()
        self._release(held + self._in_query.drop_sent())
        if start is not None:
            self._fetched_to = start
            self._drop_epochs(start)
        self._memory_released, self.is_full = True, False
        self._listener.fetch_changed(self)

    def transformed(self, number: int, result: FrameResult, now: float) -> None:
        """The frame with this number has passed through the query."""
        if result.is_part:
            self._add_part(number, result.written, now)
            return
        frame = self._in_query.complete(number)
        if frame is None:
            return
        self._unanswered_since = now
        failed, written = result.failed, result.written
        if result.routed:
            until = frame.next_offset if failed is None else failed.first
            until = until if result.again_from is None else result.again_from
            whole = [batch for batch in frame.batches if batch.header.next_offset <= until]  # others come again
            self._metrics.routed(whole, result.routed)
        if result.unreadable is not None:
            if result.again_from is not None:
                self._pass_over(result.again_from)
                frame = replace(frame, start=result.again_from)
            self._undecodable(frame, result.unreadable, now)
        elif failed is None:
            until = frame.next_offset if result.again_from is None else result.again_from
            self._add_written(frame, written, until)
            self._count_rows(frame.records(until), written)
            if result.again_from is not None:
                self._fetch_again_from(until)
                self._listener.fetch_changed(self)
        else:
            self._add_written(frame, written, failed.first)
            self._count_rows(frame.records(failed.first), written)
            self._fetch_again_from(failed.until)  # if it is left out; the leader epochs before that are known
            self._found_unreadable(failed, now)
        self._update_caught_up(now)
        self._fetch_if_room()
        self._reach_unreadable(now)
        self._listener.send_changed(self)
        if self.is_draining and self.is_idle:
            self._listener.drained(self)

    def _add_part(self, number: int, written: WrittenBatch | None, now: float) -> None:
        self._unanswered_since = now
        if written is None:
            return  # a transform that writes itself
        until = runs_end(written.runs)
        frame = self._in_query.advance(number, until)
        if frame is None:
            return
        size = len(written.data)
        self._release(-size)
        arrived = frame.batches[-1].arrived
        self._fetched.append(SourceBatch(written.header, written.data, until, size, arrived, written.runs))
        self._count_rows(frame.records(until), written)
        self._update_caught_up(now)
        self._listener.send_changed(self)

    def _add_written(self, frame: FrameInQuery, written: WrittenBatch | None, until: int) -> None:
        """Continue with what the query returned for the records of the frame before source offset ``until``."""
        if written is None:
            self._release(frame.held_bytes)
            self._pass_over(until)
            return
        grown = max(0, len(written.data) - sum(len(batch.data) for batch in frame.batches))
        self._release(-grown)
        self._fetched.append(
            SourceBatch(
                written.header,
                written.data,
                until,
                frame.held_bytes + grown,
                frame.batches[-1].arrived,
                written.runs,
            )
        )

    def _copied(self, batch: TargetBatch) -> OffsetRange:
        checked = super()._copied(batch)
        if self._transform is not None:
            self._last_copied = batch.next_offset - 1  # the records after its last one were dropped
        return checked

    def _pass_over(self, until: int) -> None:
        """The query has dropped all records from the last one that it kept up to ``until``."""
        if self._fetched:
            self._fetched[-1].next_offset = until
        elif (last := self._in_flight.last) is not None:
            last.next_offset = until
        elif until > self.position:
            self._listener.passed_over(self, self._passed_over(until))
            self._health.copied_to(self.position)

    def _count_rows(self, records: int, written: WrittenBatch | None) -> None:
        if self._is_routed:
            return
        kept = written.header.record_count if written is not None else 0
        self._metrics.rows_in += records
        self._metrics.rows_dropped += max(0, records - kept)

    def _fetch_again_from(self, offset: int) -> None:
        """Drop everything that has not passed through the query, from ``offset`` on."""
        self._release(self._in_query.clear())
        self._fetched_to = offset
        self._drop_epochs(offset)

    def _undecodable(self, frame: FrameInQuery, error: str, now: float) -> None:
        """A batch of the frame cannot be decoded: find out which, then stop at it."""
        self._release(frame.held_bytes)
        self._fetch_again_from(frame.start)
        if len(frame.batches) > 1:
            self._one_by_one_until = frame.next_offset
            self._listener.fetch_changed(self)
            return
        rejection: Rejection = of_source_batch(
            self.source, self.target, frame.batches[0], frame.start, error, expected=True
        )
        self._found_unreadable(rejection, now)
