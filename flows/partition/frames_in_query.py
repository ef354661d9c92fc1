"""The fetched batches of one partition that are passing through a query."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from flows.batch.target_batch import SourceBatch, WrittenBatch
from flows.partition.rejection import Rejection

FRAME_BYTES = 256 * 1024
"""Batches up to this many stored bytes pass through a query together. What it returns is one batch, which should not
exceed what a broker accepts by default (message.max.bytes, 1 MB), even if values grow."""


@dataclass(frozen=True, slots=True)
class FrameInQuery:
    """Batches that pass through together, in order. ``number`` identifies them within the partition; records before
    source offset ``start`` are not wanted."""

    number: int
    start: int
    batches: list[SourceBatch]

    @property
    def held_bytes(self) -> int:
        return sum(batch.held_bytes for batch in self.batches)

    @property
    def next_offset(self) -> int:
        """The source offset to continue from after the frame."""
        return self.batches[-1].next_offset

    def drop_payload(self) -> int:
        """Drop the batches' bytes, and return how many were held."""
        held = self.held_bytes
        for batch in self.batches:
            batch.data, batch.held_bytes = memoryview(b""), 0
        return held

    def records(self, until: int | None = None) -> int:
        """Return the number of wanted records before source offset ``until``, by default all.

        An upper limit if compaction has removed records of a batch that is only in part between these offsets.
        """
        count = 0
        for batch in self.batches:
            first = max(batch.header.base_offset, self.start)
            end = batch.header.next_offset if until is None else min(batch.header.next_offset, until)
            count += min(batch.header.record_count, max(0, end - first))
        return count


class FrameResult(NamedTuple):
    """What a query returned for a frame.

    ``written``: the records that it has kept; None: it has dropped all. ``failed``: the first record for which it
    failed, or that could not be written; ``written`` ends before it. ``unreadable``: why a batch of the frame could not
    be decoded; nothing is ``written`` then. ``routed``: so many records were written elsewhere (`flows.routing`), all
    or those before the failed one, and none is left to write. ``again_from``: from this source offset on, records have
    to pass through again; those before it are done. ``is_part``: more of the frame follows ``written``.
    """

    written: WrittenBatch | None = None
    failed: Rejection | None = None
    unreadable: str | None = None
    routed: int = 0
    again_from: int | None = None
    is_part: bool = False


class FramesInQuery:
    """In the order of the source. What is cleared is still transformed, but its result is ignored.

    A transform that writes the records itself starts one frame after the other: those before the last one that it
    has started are sent.
    """

    def __init__(self) -> None:
        self._frames: deque[FrameInQuery] = deque()
        self._next = 0
        self._started = -1

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def first(self) -> FrameInQuery | None:
        return self._frames[0] if self._frames else None

    @property
    def last(self) -> SourceBatch | None:
        return self._frames[-1].batches[-1] if self._frames else None

    @property
    def end(self) -> int:
        """The source offset to continue from after the last frame; there is one."""
        return self._frames[-1].next_offset

    def add(self, batches: list[SourceBatch], start: int, frame_bytes: int) -> Iterator[FrameInQuery]:
        """Add fetched batches as frames of up to ``frame_bytes``, or of one batch, and yield them."""
        waiting: list[SourceBatch] = []
        size = 0
        for batch in batches:
            if waiting and size + batch.header.size > frame_bytes:
                yield self._append(waiting, start)
                start, waiting, size = waiting[-1].next_offset, [], 0
            waiting.append(batch)
            size += batch.header.size
        yield self._append(waiting, start)

    def _append(self, batches: list[SourceBatch], start: int) -> FrameInQuery:
        frame = FrameInQuery(self._next, start, batches)
        self._next += 1
        self._frames.append(frame)
        return frame

    @property
    def held_bytes(self) -> int:
        return sum(frame.held_bytes for frame in self._frames)

    def advance(self, number: int, offset: int) -> FrameInQuery | None:
        """The records before source offset ``offset`` of the frame with this number have passed through.

        Return the frame as it was; None if it was cleared.
        """
        if not self._frames or self._frames[0].number != number:
            return None
        frame = self._frames[0]
        self._frames[0] = replace(frame, start=offset)
        return frame

    def has(self, number: int) -> bool:
        """Return whether the result for the frame with this number is awaited."""
        return any(frame.number == number for frame in self._frames)

    def started(self, number: int) -> None:
        """The transform writes the records of the frame with this number from now on."""
        self._started = number

    @property
    def is_started(self) -> bool:
        """Whether a transform writes, or has written, the first frame."""
        return bool(self._frames) and self._frames[0].number <= self._started

    def drop_sent(self) -> int:
        """Drop the batches of frames whose records are sent; only the results are awaited. Return the bytes released.

        Not those of the last frame that was started, which may still have to be decoded.
        """
        released = 0
        for frame in self._frames:
            if frame.number < self._started:
                released += frame.drop_payload()
        return released

    def drop_unsent(self) -> tuple[int, int | None]:
        """Remove the frames that are not started. Return the bytes that they held, and where they start."""
        held, start = 0, None
        while self._frames and self._frames[-1].number > self._started:
            frame = self._frames.pop()
            held, start = held + frame.drop_payload(), frame.start
        return held, start

    def complete(self, number: int) -> FrameInQuery | None:
        """Remove and return a frame that has passed through; None if it was cleared."""
        if self._frames and self._frames[0].number == number:
            return self._frames.popleft()
        return None

    def clear(self) -> int:
        """Remove all frames, and return the bytes that they held."""
        held = self.held_bytes
        self._frames.clear()
        return held
