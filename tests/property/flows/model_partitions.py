"""Model of a source partition, and of a target partition with an idempotent broker (KIP-98).

Written from the protocol, without the program's own batch code.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.fetch_request import FetchedPartition
from tests.lab.batches import HEADER, Batch, Record, read

REMEMBERED = 5  # batches that a broker remembers per producer


@dataclass
class Source:
    """The log of one source partition."""

    log: Sequence[Batch]
    markers: dict[int, bytes] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.blobs = [(HEADER.unpack_from(raw), raw) for raw in (batch.encode() for batch in self.log)]
        last = self.blobs[-1][0]
        self.end = last[0] + last[6] + 1
        self.records = [record for batch in self.log for record in read(batch.encode())]

    def fetch(self, offset: int, max_bytes: int) -> FetchedPartition:
        out = b""
        for fields, raw in self.blobs:
            if fields[0] + fields[6] < offset:
                continue
            if out and len(out) + len(raw) > max_bytes:
                break
            out += raw
        return FetchedPartition(
            topic="t",
            partition=0,
            error=0,
            high_watermark=self.end,
            last_stable_offset=self.end,
            log_start_offset=0,
            aborted=(),
            preferred_replica=-1,
            records=out,
        )


@dataclass
class Target:
    """The log of one target partition and the producer state of its broker.

    A ``forgetful`` broker behaves as before KIP-360: it drops producer state and returns UNKNOWN_PRODUCER_ID.
    """

    rng: random.Random
    max_bytes: int
    faulty: bool = True
    forgetful: bool = False
    unsupported: int | None = None  # a codec
    rejects_all: int = 0  # the error code returned during an outage
    refused: frozenset[bytes | None] = (
        frozenset()
    )  # keys of records that it rejects, whatever is in the batch with them
    names_refused: bool = True
    more_faults: bool = False
    records: list[Record] = field(default_factory=list)
    producers: dict[int, deque[tuple[int, int, int]]] = field(default_factory=dict)  # first, last sequence, base offset

    def rejected_indexes(self, raw: bytes) -> list[tuple[int, str | None]]:
        """Return the record errors of the response to this batch (KIP-467)."""
        if not self.names_refused:
            return []
        return [(record.offset, "refused") for record in read(raw) if record.key in self.refused]

    def produce(self, raw: bytes) -> tuple[int, int]:
        """Append a batch and return (error code, base offset)."""
        if self.rejects_all:
            return self.rejects_all, -1
        if self.faulty:
            fault = self.rng.random()
            if fault < 0.1:
                return ErrorCode.NOT_ENOUGH_REPLICAS, -1
            if fault < 0.15:
                self._append(raw)
                return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, -1
            if fault < 0.2 and self.forgetful:
                self.producers.clear()
            if fault < 0.22:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            if fault < 0.3 and self.more_faults:
                return self._fails_otherwise(raw)
        return self._append(raw)

    def _fails_otherwise(self, raw: bytes) -> tuple[int, int]:
        code = self.rng.choice(
            [ErrorCode.REQUEST_TIMED_OUT, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.CORRUPT_MESSAGE]
        )
        if code == ErrorCode.REQUEST_TIMED_OUT and self.rng.random() < 0.5:
            self._append(raw)
        return code, -1

    def _append(self, raw: bytes) -> tuple[int, int]:
        fields = HEADER.unpack_from(raw)
        producer, sequence, count = fields[9], fields[11], fields[12]
        assert (fields[0], fields[6] + 1) == (0, count)
        if fields[5] & 0x07 == self.unsupported:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, -1
        if len(raw) > self.max_bytes:
            return ErrorCode.MESSAGE_TOO_LARGE, -1
        if any(record.key in self.refused for record in read(raw)):
            return ErrorCode.INVALID_RECORD, -1
        if producer >= 0:
            known = self.producers.get(producer)
            if not known and sequence and self.forgetful:
                return ErrorCode.UNKNOWN_PRODUCER_ID, -1
            last = (sequence + count - 1) & 0x7FFFFFFF
            if known:
                for first_known, last_known, base in known:
                    if (first_known, last_known) == (sequence, last):
                        return 0, base
                if sequence != (known[-1][1] + 1) & 0x7FFFFFFF:
                    return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
            self.producers.setdefault(producer, deque(maxlen=REMEMBERED)).append((sequence, last, len(self.records)))
        base = len(self.records)
        self.records += [record._replace(offset=base + record.offset) for record in read(raw)]
        return 0, base
