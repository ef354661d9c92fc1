"""Detection of fetched batches to skip: transaction markers and, under read_committed, aborted records.

A fetch response lists, for each partition, the aborted transactions that overlap it: (producer id, offset of the
transaction's first record). A producer's transactional batches are aborted from that offset until its abort marker, a
control batch. Rules from org.apache.kafka.clients.consumer.internals.CompletedFetch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from flows.batch.header import CONTROL, HEADER_BYTES, TRANSACTIONAL, BatchHeader, CorruptBatchError

_MARKER_KEY = struct.Struct(">hh")  # version, type
_ABORT = 0


class AbortedTransactions:
    """Checks the batches of one partition in one fetch response, in order."""

    __slots__ = ("_active", "_ahead")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._ahead = sorted(((first, producer) for producer, first in aborted), reverse=True)
        self._active: set[int] = set()

    def carries_data(self, header: BatchHeader, batch: memoryview) -> bool:
        """Return whether the batch's records are to be copied. Must be called for all batches, in offset order."""
        while self._ahead and self._ahead[-1][0] < header.next_offset:
            self._active.add(self._ahead.pop()[1])
        if header.attributes & CONTROL:
            if self._active and header.producer_id in self._active and _is_abort(header, batch):
                self._active.discard(header.producer_id)
            return False
        if header.attributes & TRANSACTIONAL and header.producer_id in self._active:
            return False
        return header.record_count > 0


def _is_abort(header: BatchHeader, batch: memoryview) -> bool:
    """Return whether a control batch is an abort marker, by the key of its only record. Markers are uncompressed."""
    if not header.record_count:
        return False  # compaction emptied it
    try:
        at = HEADER_BYTES
        for _ in range(4):  # length, attributes (one byte, like a short varint), timestamp delta, offset delta
            while batch[at] > 0x7F:
                at += 1
            at += 1
        while batch[at] > 0x7F:  # length of the key
            at += 1
        _, kind = _MARKER_KEY.unpack_from(batch, at + 1)
    except (IndexError, struct.error):
        raise CorruptBatchError(f"transaction marker at offset {header.base_offset} cannot be read") from None
    return bool(kind == _ABORT)
