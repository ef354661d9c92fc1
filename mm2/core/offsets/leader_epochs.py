"""The leader epochs of a partition's records (KIP-101), to detect that the source's log was truncated (KIP-320).

Rules from org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache and kafka.server.AbstractFetcherThread.
"""

from __future__ import annotations

from typing import NamedTuple

UNKNOWN_EPOCH = -1

MAX_EPOCHS = 16
"""Entries kept of a partition. Only the leaders since the truncated records were written matter, of which there are
rarely more than two; with all of them, the record in the exact offsets topic stays below 300 bytes."""


class EpochStart(NamedTuple):
    """The records from ``offset`` up to the next entry have leader epoch ``epoch``."""

    epoch: int
    offset: int


class EpochEnd(NamedTuple):
    """A broker's log contains records of leader epoch ``epoch`` before ``end_offset``, and later epochs from there on.

    It is the last epoch of that log that is not after the one asked for.
    """

    epoch: int
    end_offset: int


EpochStarts = tuple[EpochStart, ...]
"""Entries with increasing epochs and offsets; what is before the first one is unknown."""


def appended(epochs: EpochStarts, epoch: int, offset: int) -> EpochStarts:
    """Return ``epochs`` after a batch of ``epoch`` at ``offset``: the same object if it continues the last entry.

    A lower epoch than before voids the entries that contradict it; an unknown one voids all.
    """
    if epochs and epochs[-1].epoch == epoch:
        return epochs
    if epoch < 0:
        return ()
    earlier = tuple(one for one in epochs if one.epoch < epoch and one.offset < offset)
    return (*earlier, EpochStart(epoch, offset))[-MAX_EPOCHS:]


def before(epochs: EpochStarts, offset: int) -> EpochStarts:
    """Return the entries of the records before ``offset``."""
    if not epochs or epochs[-1].offset < offset:
        return epochs
    return tuple(one for one in epochs if one.offset < offset)


def last_epoch(epochs: EpochStarts) -> int:
    """Return the epoch of the last record; `UNKNOWN_EPOCH` if it is unknown."""
    return epochs[-1].epoch if epochs else UNKNOWN_EPOCH


def replaced_from(epochs: EpochStarts, now: EpochStarts, first: int, end: int) -> int | None:
    """Return the first offset from ``first`` up to, not including, ``end`` whose record was replaced by one of a later
    epoch; None: there is none. ``epochs`` are those of the records that were there, ``now`` those that are there now.

    An earlier epoch than before proves nothing: compaction can have removed the first record of the epoch.
    """
    for offset in sorted({first, *(one.offset for one in now if first < one.offset < end)}):
        old, new = last_epoch(before(epochs, offset + 1)), last_epoch(before(now, offset + 1))
        if UNKNOWN_EPOCH < old < new and offset < end:
            return offset
    return None


def common_end(epochs: EpochStarts, end: EpochEnd) -> int:
    """Return the offset up to which a broker's log can contain the same records.

    ``end`` is the broker's answer for one of ``epochs``. Records of later epochs than ``end.epoch`` are not in its log.
    """
    return min([end.end_offset, *(one.offset for one in epochs if one.epoch > end.epoch)])
