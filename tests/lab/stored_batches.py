"""Headers of the batches of a topic on a broker's disk: which producers wrote them, and whether in transactions."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from pathlib import Path

from tests.lab.batches import ABORT, CONTROL, HEADER, TRANSACTIONAL

HEADER_BYTES = HEADER.size
LENGTH_END = 12  # a batch's length counts the bytes behind its base offset and itself
# A transaction marker has one record, whose length, attributes, deltas and key length take a byte each. Its key is a
# version and a type: 0 for an abort, 1 for a commit (ControlRecordType).
MARKER_TYPE = struct.Struct(">h")
MARKER_TYPE_AT = HEADER_BYTES + 7


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredBatch:
    """The header of one batch in format 2, with its ``size`` in bytes. ``control``: a transaction marker; ``aborts``:
    that of an abort."""

    partition: int
    base_offset: int
    last_offset: int
    size: int
    transactional: bool
    control: bool
    aborts: bool
    producer_id: int
    producer_epoch: int


def stored_batches(directory: Path, topic: str) -> list[StoredBatch]:
    """Return the headers of all batches of ``topic`` in the data directory of a broker, by partition, in order."""
    return [
        batch
        for segment in sorted(segments(directory, topic))
        for batch, _ in read_batches(partition_of(segment), segment.read_bytes())
    ]


def segments(directory: Path, topic: str) -> Iterator[Path]:
    """Yield the segment files of all partitions of a topic."""
    for segment in directory.glob(f"{topic}-[0-9]*/*.log"):
        if segment.parent.name.removeprefix(f"{topic}-").isdecimal():  # not one that is being deleted
            yield segment


def partition_of(segment: Path) -> int:
    """Return the partition that a segment file belongs to."""
    return int(segment.parent.name.rpartition("-")[2])


def read_batches(partition: int, content: bytes | mmap, start: int = 0) -> Iterator[tuple[StoredBatch, int]]:
    """Yield each batch from position ``start`` on, with the position behind it, up to one that is being written."""
    place = start
    while place + HEADER_BYTES <= len(content):
        fields = HEADER.unpack_from(content, place)
        base_offset, length, attributes, last_delta = fields[0], fields[1], fields[5], fields[6]
        end = place + LENGTH_END + length
        if end > len(content):
            return
        control = bool(attributes & CONTROL)
        batch = StoredBatch(
            partition=partition,
            base_offset=base_offset,
            last_offset=base_offset + last_delta,
            size=LENGTH_END + length,
            transactional=bool(attributes & TRANSACTIONAL),
            control=control,
            aborts=control and MARKER_TYPE.unpack_from(content, place + MARKER_TYPE_AT)[0] == ABORT,
            producer_id=fields[9],
            producer_epoch=fields[10],
        )
        yield batch, end
        place = end
