"""Selection of the batches to copy from one partition's part of a fetch response.

A fetch response lists, for each partition, the aborted transactions that overlap it: (producer id, offset of the
transaction's first record). A producer's transactional batches are aborted from that offset until its abort marker, a
control batch. Rules from org.apache.kafka.clients.consumer.internals.CompletedFetch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from flows.batch.blob import batches
from flows.batch.header import CONTROL, HEADER_BYTES, MAGIC, TRANSACTIONAL, BatchHeader, CorruptBatchError, read_header
from flows.batch.target_batch import SourceBatch
from mm2.core.offsets.leader_epochs import EpochStarts, appended, last_epoch
from mm2.kafka.protocol.fetch_request import FetchedPartition


class UnreadableBatch(NamedTuple):
    """A batch from source offset ``first`` up to, not including, ``until`` (None: unknown), and its bytes."""

    first: int
    until: int | None
    data: bytes


def unreadable_batch(rest: memoryview, wanted: int, high_watermark: int) -> UnreadableBatch:
    """Return the extent of the first batch in ``rest``, which was fetched from source offset ``wanted``.

    The header is trusted if it is of the current format, does not contradict the batch that follows or
    ``high_watermark`` (-1: unknown), and shows no gaps. Otherwise the batch ends where the next one begins, if that one
    is intact: offsets that were never in the batch can then be in the range, but none that was is left out.
    """
    if len(rest) < HEADER_BYTES:
        return UnreadableBatch(wanted, None, bytes(rest))
    header = read_header(rest, 0)
    is_whole = HEADER_BYTES <= header.size <= len(rest)
    following = _next(rest[header.size :], wanted) if is_whole else None
    data = bytes(rest[: header.size] if is_whole else rest)
    end = following.base_offset if following is not None else high_watermark
    is_plausible = (
        is_whole and _agrees(header) and wanted < header.next_offset and (end < 0 or header.next_offset <= end)
    )
    if is_plausible and (following is None or (header.base_offset >= wanted and not header.has_holes)):
        return UnreadableBatch(max(wanted, header.base_offset), header.next_offset, data)
    if following is not None and wanted < following.base_offset:
        return UnreadableBatch(wanted, following.base_offset, data)
    return UnreadableBatch(wanted, None, data)


def _agrees(header: BatchHeader) -> bool:
    return header.magic == MAGIC and header.base_offset >= 0 and 0 < header.record_count <= header.last_offset_delta + 1


def _next(rest: memoryview, wanted: int) -> BatchHeader | None:
    """Return the header of the intact batch at the start of ``rest``."""
    try:
        return next((header for header, _ in batches(rest, check_crcs=True, start=wanted)), None)
    except CorruptBatchError:
        return None


BATCH_OVERHEAD = 700
"""Bytes of Python objects per fetched batch in addition to its data: header 400, view 200, and the rest. For tiny
batches that is most of their memory."""


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


@dataclass(slots=True, kw_only=True)
class CompletedFetch:
    """The batches to copy. ``next_offset`` is where the next fetch continues; ``error`` is what is wrong there.

    ``unreadable`` is the corrupt batch that is there.

    ``skipped_to``: the offset after the batches without records that precede ``batches``; None if there are none.
    ``epochs``: the leader epochs of the source's records up to ``next_offset``.
    """

    next_offset: int
    batches: list[SourceBatch] = field(default_factory=list)
    skipped_to: int | None = None
    error: CorruptBatchError | None = None
    unreadable: UnreadableBatch | None = None
    epochs: EpochStarts = ()


def read_completed_fetch(
    answer: FetchedPartition, fetch_offset: int, epochs: EpochStarts = (), *, check_crcs: bool, arrived: float
) -> CompletedFetch:
    """Read the batches from source offset ``fetch_offset`` on, without markers, aborted and empty batches.

    ``epochs`` are the leader epochs of the records before it.

    ``held_bytes`` of all batches are assigned to the last: they share one buffer, which is freed with it. Our own
    objects are counted too.
    """
    fetch = CompletedFetch(next_offset=fetch_offset)
    epoch = last_epoch(epochs)
    transactions = AbortedTransactions(answer.aborted)
    kept = fetch.batches
    at = 0
    try:
        for header, data in batches(answer.records, check_crcs=check_crcs, start=fetch_offset):
            at += len(data)
            carries_data = transactions.carries_data(header, data)
            next_offset = header.next_offset
            if next_offset <= fetch_offset:
                continue
            fetch.next_offset = next_offset
            if header.leader_epoch != epoch:
                epoch = header.leader_epoch
                epochs = appended(epochs, epoch, header.base_offset)
            if carries_data:
                kept.append(SourceBatch(header, data, next_offset, 0, arrived))
            elif kept:
                kept[-1].next_offset = next_offset
            else:
                fetch.skipped_to = next_offset
    except CorruptBatchError as error:
        fetch.error = error
    fetch.epochs = epochs
    if fetch.error is None and fetch.next_offset == fetch_offset and answer.records:
        # otherwise it would be fetched again at once, and for ever: a broker sends a complete batch or nothing (KIP-74)
        size = len(answer.records)
        fetch.error = CorruptBatchError(
            f"the broker sent {size} bytes without a complete batch from offset {fetch_offset} on"
        )
    if fetch.error is not None and fetch.next_offset == fetch_offset:
        rest = memoryview(answer.records)[at:]
        fetch.unreadable = unreadable_batch(rest, fetch_offset, answer.high_watermark)
    if kept:
        kept[-1].held_bytes = len(answer.records) + BATCH_OVERHEAD * len(kept)
    return fetch
