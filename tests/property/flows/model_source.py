"""Model of a source partition that changes while it is copied.

Written from Kafka's log (UnifiedLog, LogCleaner, ProducerStateManager), without the program's own batch code.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass, replace

from mm2.core.offsets.leader_epochs import EpochEnd
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.lab.batches import ABORT, COMMIT, HEADER, LOG_APPEND_TIME, TRANSACTIONAL, Batch, Record, marker, read

NOW = 1_700_000_000_000


@dataclass
class Stored:
    """A batch in the log. ``records`` are what a consumer gets of it, also if it ``is_damaged``."""

    batch: Batch
    raw: bytes
    records: list[Record]
    producer: int = -1
    is_marker: bool = False
    is_damaged: bool = False

    @property
    def first(self) -> int:
        return int(HEADER.unpack_from(self.raw)[0])

    @property
    def next(self) -> int:
        fields = HEADER.unpack_from(self.raw)
        return int(fields[0] + fields[6] + 1)


class ChangingSource:
    """It grows, also by transactions; its start is deleted, records are compacted away or damaged on disk, and another
    leader may lack its end."""

    def __init__(self, rng: random.Random, *, read_committed: bool, epoch: int, start: int = 0) -> None:
        """``epoch``: the leader epoch; -1: the source does not know any (before Kafka 0.11)."""
        self._rng = rng
        self._read_committed = read_committed
        self._epoch = epoch
        self._epochs = [(epoch, start)]
        self._log: list[Stored] = []
        self._aborted: dict[int, int] = {}  # the first offsets of aborted transactions, by producer
        self._producers = 0
        self._written = 0
        self._visible: list[Record] | None = None
        self.start = self.end = start
        self.ever: dict[bytes | None, Record] = {}  # all records that could be read once
        self.deleted: list[Record] = []  # by retention
        self.damaged: set[bytes | None] = set()

    # -- what a consumer sees

    @property
    def records(self) -> list[Record]:
        """The records that a consumer gets, with those of damaged batches."""
        if self._visible is None:
            self._visible = [record for one in self._log for record in one.records if record.offset >= self.start]
        return self._visible

    def fetch(self, offset: int, max_bytes: int) -> FetchedPartition:
        """Answer a fetch from an offset that is not out of range."""
        out, until = b"", offset
        for one in self._log:
            if one.next <= offset:
                continue
            if out and len(out) + len(one.raw) > max_bytes:
                break
            out += one.raw
            until = one.next
        aborted = [
            (one.producer, self._aborted[one.producer])
            for one in self._log
            if self._read_committed
            and one.is_marker
            and one.producer in self._aborted
            and one.first >= offset
            and self._aborted[one.producer] < until
        ]
        return FetchedPartition("t", 0, 0, self.end, self.end, self.start, aborted, -1, out)

    def end_of(self, epoch: int) -> EpochEnd:
        """Answer OffsetsForLeaderEpoch (LeaderEpochFileCache.endOffsetFor)."""
        if epoch == self._epoch:
            return EpochEnd(epoch, self.end)
        following = next(start for one, start in self._epochs if one > epoch)
        return EpochEnd(max([one for one, _ in self._epochs if one <= epoch], default=epoch), following)

    # -- changes

    def append(self, batches: int) -> None:
        for _ in range(batches):
            kind = self._rng.random()
            if kind < 0.15:
                self._append_transaction()
                continue
            if kind < 0.2:
                self.end += self._rng.randint(1, 5)  # compacted before it was copied
            self._append(self._batch())

    def _batch(self, producer: int = -1) -> Batch:
        rng, first = self._rng, self.end
        count, size = rng.choice(
            [(1, 10), (1, 300), (2, 10), (5, 300), (30, 10), (120, 400) if rng.random() < 0.1 else (3, 0)]
        )
        offset, records = first, []
        has_holes = rng.random() < 0.2
        for _ in range(count):
            offset += rng.randint(0, 2) if has_holes else 0
            self._written += 1
            records.append(Record(offset, NOW + self._written, b"k%d" % self._written, rng.randbytes(size)))
            offset += 1
        attributes = rng.choice([0, 0, 0, LOG_APPEND_TIME])
        return Batch(
            records=records,
            codec=rng.choice([0, 0, 3]),
            base_offset=first,
            next_offset=offset,
            attributes=attributes | (TRANSACTIONAL if producer >= 0 else 0),
            producer=(producer, 0, 0) if producer >= 0 else (-1, -1, -1),
            max_timestamp=NOW + 7 if attributes else None,
        )

    def _append(self, batch: Batch, *, producer: int = -1, is_aborted: bool = False) -> None:
        raw = bytearray(batch.encode())
        struct.pack_into(">i", raw, 12, self._epoch)
        records = [] if is_aborted and self._read_committed else read(bytes(raw))
        self._log.append(Stored(batch, bytes(raw), records, producer))
        self._changed(batch.next_offset)
        self.ever |= {record.key: record for record in records}

    def _append_transaction(self) -> None:
        self._producers += 1
        producer, is_aborted = self._producers, self._rng.random() < 0.5
        if is_aborted:
            self._aborted[producer] = self.end
        for _ in range(self._rng.randint(1, 3)):
            self._append(self._batch(producer), producer=producer, is_aborted=is_aborted)
            if self._rng.random() < 0.3:
                self._append(self._batch())  # another producer's
        raw = bytearray(marker(self.end, producer, ABORT if is_aborted else COMMIT))
        struct.pack_into(">i", raw, 12, self._epoch)
        self._log.append(Stored(Batch(records=[]), bytes(raw), [], producer, is_marker=True))
        self._changed(self.end + 1)

    def delete(self) -> None:
        """Delete records, as retention or DeleteRecords does."""
        start = self._rng.randint(self.start, self.end)
        self.deleted += [record for record in self.records if record.offset < start]
        self.start = start
        self._log = [one for one in self._log if one.next > self.start]
        self._changed(self.end)

    def compact(self) -> None:
        """Remove records from any batch but the last, or whole batches; empty ones may stay."""
        kept: list[Stored] = []
        for one in self._log:
            is_fixed = one.is_marker or one.is_damaged or one is self._log[-1] or not one.batch.records
            if is_fixed or self._rng.random() < 0.6:
                kept.append(one)
                continue
            survivors = [record for record in one.batch.records if self._rng.random() < 0.5]
            if not survivors and self._rng.random() < 0.5:
                continue
            batch = replace(one.batch, records=survivors)
            raw = bytearray(batch.encode())
            raw[12:16] = one.raw[12:16]
            seen = {record.offset for record in survivors}
            kept.append(replace(one, batch=batch, raw=bytes(raw), records=[r for r in one.records if r.offset in seen]))
        self._log = kept
        self._changed(self.end)

    def damage(self) -> None:
        """Damage a batch on disk: it never fits its checksum again."""
        one = self._rng.choice([*self._log[-5:], None])
        if one is None or one.is_marker or one.is_damaged or not one.records:
            return
        raw = bytearray(one.raw)
        raw[self._rng.randrange(HEADER.size, len(raw))] ^= 0x55
        one.raw, one.is_damaged = bytes(raw), True
        self.damaged |= {record.key for record in one.records}

    def elect(self) -> None:
        """Elect a leader with the next epoch, which may lack the last batches."""
        if lost := min(self._rng.choice([0, 1, 3, 10]), len(self._log)):
            del self._log[-lost:]
            self.end = self._log[-1].next if self._log else self.start
            # a transaction without its marker would never end
            open_ones = (
                {one.producer for one in self._log} - {one.producer for one in self._log if one.is_marker} - {-1}
            )
            while any(one.producer in open_ones for one in self._log):
                self._log.pop()
            self.end = self._log[-1].next if self._log else self.start
        self._epoch += 1
        self._epochs = [(one, start) for one, start in self._epochs if start < self.end]
        self._epochs.append((self._epoch, self.end))
        self._changed(self.end)

    def _changed(self, end: int | None) -> None:
        assert end is not None
        self.end = end
        self._visible = None
