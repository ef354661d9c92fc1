"""A batch fetched from the source, and one for the target with its origin and the bytes to send.

Only the header is rewritten: base offset 0 (a broker rejects any other with INVALID_RECORD), partition leader epoch -1,
our producer id, epoch and sequence, the transactional bit only for our own transactions (the source's end here), no
delete horizon bit (on the target, the base timestamp is only the base of the records' deltas), and a new CRC. The
records are not touched: they stay a view into the fetched bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from flows.batch.header import CODEC_MASK, HEADER_BYTES, NO_PRODUCER, TRANSACTIONAL, BatchHeader, encode_header


class ProducerId(NamedTuple):
    """Identifies a producer to brokers; ``NOT_IDEMPOTENT`` for plain writes. Its batches may be ``transactional``."""

    id: int
    epoch: int
    transactional: bool = False


NOT_IDEMPOTENT = ProducerId(NO_PRODUCER, -1)
NO_SEQUENCE = -1

Runs = tuple[tuple[int, int], ...]
"""(first source offset, records) in order: where a batch's records came from, contiguous within a run."""


def runs_end(runs: Runs) -> int:
    """Return the source offset after the last record."""
    first, count = runs[-1]
    return first + count


@dataclass(slots=True)
class SourceBatch:
    """One fetched batch that has records to copy. ``data`` is the whole batch.

    ``next_offset`` is the source offset to continue from once it is copied: after its end, and after following batches
    without data. ``held_bytes`` are released to the lane's budget when it is copied. ``arrived`` is epoch
    seconds. ``runs``: where the records of a `WrittenBatch` come from; None: the batch was fetched.
    """

    header: BatchHeader
    data: memoryview
    next_offset: int
    held_bytes: int
    arrived: float
    runs: Runs | None = None


class WrittenBatch(NamedTuple):
    """The records that a query returned for a frame, with offset deltas 0, 1, 2 and so on; ``runs`` is their origin.

    The header describes them with their source offsets; ``data`` begins with `HEADER_BYTES` unused bytes.
    """

    header: BatchHeader
    data: memoryview
    runs: Runs


@dataclass(slots=True, kw_only=True)
class TargetBatch:
    """One batch for the target. ``records`` are in wire format, compressed by the codec in ``attributes``.

    ``next_offset`` and ``held_bytes`` are those of the source batches inside; ``source_bytes`` is their size as stored.
    """

    attributes: int
    base_timestamp: int
    max_timestamp: int
    count: int
    records: bytes | memoryview
    runs: Runs
    next_offset: int
    held_bytes: int
    source_bytes: int
    sequence: int = NO_SEQUENCE
    _stamped: tuple[ProducerId, int] | None = field(default=None, init=False)
    _header: bytes = field(default=b"", init=False)
    _dropped_size: int = field(default=0, init=False)

    @property
    def size(self) -> int:
        """Bytes on the wire."""
        return self._dropped_size or HEADER_BYTES + len(self.records)

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
        return runs_end(self.runs) - 1

    @property
    def producer(self) -> ProducerId | None:
        """The producer in the header; None: it has none yet."""
        return None if self._stamped is None else self._stamped[0]

    def source_offset(self, index: int) -> int:
        """Source offset of the record at ``index`` in the batch."""
        for first, count in self.runs:
            if index < count:
                return first + index
            index -= count
        return self.last_offset

    def stamp(self, producer: ProducerId) -> None:
        """Write the header for this producer and ``sequence``; with the same ones it is byte for byte the same."""
        if self._stamped == (producer, self.sequence):
            return
        self._header = encode_header(
            self.records,
            attributes=self.attributes | (TRANSACTIONAL if producer.transactional else 0),
            base_timestamp=self.base_timestamp,
            max_timestamp=self.max_timestamp,
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self.sequence,
            count=self.count,
        )
        self._stamped = producer, self.sequence

    def drop_payload(self) -> int:
        """Drop the records; only the response to an earlier attempt is awaited. Returns the bytes released."""
        self._dropped_size = self.size
        self.records = b""
        held_bytes, self.held_bytes = self.held_bytes, 0
        return held_bytes

    def wire(self) -> tuple[bytes, bytes | memoryview]:
        """Return the stamped batch in two pieces: header and records."""
        return self._header, self.records


def pass_through(source: SourceBatch) -> TargetBatch:
    """Return a batch for the target with the source batch's records unchanged: a view of fetched ones."""
    header, records = source.header, source.data[HEADER_BYTES:]
    return TargetBatch(
        attributes=header.attributes & CODEC_MASK,
        base_timestamp=header.base_timestamp,
        max_timestamp=header.max_timestamp,
        count=header.record_count,
        records=records if source.runs is None else bytes(records),
        runs=source.runs or ((header.base_offset, header.record_count),),
        next_offset=source.next_offset,
        held_bytes=source.held_bytes,
        source_bytes=header.size,
    )


def next_sequence(sequence: int, count: int) -> int:
    """Return the sequence after ``count`` records; it wraps from 2³¹-1 to 0."""
    return (sequence + count) & 0x7FFFFFFF
