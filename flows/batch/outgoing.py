"""A batch on its way to the target: what it holds, where it came from, and the bytes to send.

Restamping is header work: base offset 0 (a broker refuses any other with INVALID_RECORD), partition leader epoch -1,
our producer id, epoch and sequence, no transactional bit (the source's transactions end here), no delete horizon bit
(the base timestamp stays the base of the records' deltas, which is all it means on the target), and the CRC anew. The
records are not touched: they stay a view into the fetched bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from flows.batch.header import (
    CODEC_MASK,
    HEADER_BYTES,
    NO_PRODUCER,
    BatchHeader,
    covered,
    lead,
)


class ProducerId(NamedTuple):
    """What a broker knows a producer by; ``NOT_IDEMPOTENT`` for plain writes."""

    id: int
    epoch: int


NOT_IDEMPOTENT = ProducerId(NO_PRODUCER, -1)
NO_SEQUENCE = -1

Runs = tuple[tuple[int, int], ...]
"""(first source offset, records) in order: where a batch's records came from, contiguous within a run."""


@dataclass(slots=True)
class SourceBatch:
    """One fetched batch that has records to copy. ``data`` is the whole batch.

    ``until`` is the source offset to go on from once it is copied: after its end, and after whatever follows that
    carries no data. ``held`` bytes go back to the lane's budget when it is done with. ``arrived`` is epoch seconds.
    """

    header: BatchHeader
    data: memoryview
    until: int
    held: int
    arrived: float


@dataclass(slots=True, kw_only=True)
class Outgoing:
    """One batch for the target. ``records`` are as they go over the wire, compressed by the codec in ``attributes``.

    ``until`` and ``held`` are those of the source batches inside; ``source_bytes`` is their size as stored.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    count: int
    records: bytes | memoryview
    runs: Runs
    until: int
    held: int
    source_bytes: int
    sequence: int = NO_SEQUENCE
    _stamped: tuple[ProducerId, int] | None = field(default=None, init=False)
    _head: bytes = field(default=b"", init=False)
    _hollow_size: int = field(default=0, init=False)

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self._hollow_size or HEADER_BYTES + len(self.records)

    @property
    def codec(self) -> int:
        return self.attributes & CODEC_MASK

    @property
    def first_offset(self) -> int:
        """Source offset of the first record."""
        return self.runs[0][0]

    @property
    def last_offset(self) -> int:
        """Source offset of the last record."""
        first, count = self.runs[-1]
        return first + count - 1

    def source_offset(self, index: int) -> int:
        """Source offset of the record at ``index`` in the batch."""
        for first, count in self.runs:
            if index < count:
                return first + index
            index -= count
        return self.last_offset

    def stamp(self, producer: ProducerId) -> None:
        """Say who sends it, with the batch's ``sequence``; sent again by the same, it is byte for byte the same."""
        if self._stamped == (producer, self.sequence):
            return
        self._stamped = producer, self.sequence
        fields = covered(
            attributes=self.attributes,
            last_offset_delta=self.count - 1,
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.sequence,
            count=self.count,
        )
        self._head = lead(0, fields, self.records)

    def hollow(self) -> int:
        """Let go of the records, of which only the answer to an earlier sending is wanted; the bytes held until now."""
        self._hollow_size = self.size
        self.records = b""
        held, self.held = self.held, 0
        return held

    def wire(self) -> tuple[bytes, bytes | memoryview]:
        """The stamped batch in two pieces: header and records."""
        return self._head, self.records


def pass_through(source: SourceBatch) -> Outgoing:
    """A batch whose records go on as they are."""
    header = source.header
    return Outgoing(
        attributes=header.attributes & CODEC_MASK,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        count=header.record_count,
        records=source.data[HEADER_BYTES:],
        runs=((header.base_offset, header.record_count),),
        until=source.until,
        held=source.held,
        source_bytes=header.size,
    )


def next_sequence(sequence: int, count: int) -> int:
    """The sequence after ``count`` records; they wrap from 2³¹-1 to 0."""
    return (sequence + count) & 0x7FFFFFFF
