"""The queue of one partition in a `ControlProducer`: its records, and the batch that is being written."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from mm2.kafka.backoff import Backoff
from mm2.kafka.errors import ClusterError
from mm2.kafka.protocol.transaction_requests import NO_PRODUCER, ProducerIdAndEpoch

_BATCH_BYTES = 512 * 1024  # below any sensible max.message.bytes (Kafka's default is 1 MiB)
_RECORD_OVERHEAD = 200  # upper bound for our bookkeeping and the batch's framing
_HEADER_OVERHEAD = 10  # two lengths
_HIGHEST_SEQUENCE = 0x7FFFFFFF  # the next one is 0


Headers = Sequence[tuple[str, bytes | None]]

Finish = Callable[[bytes], bytes]


class RetryLimit(Protocol):
    """Decides how long the retriable errors of one partition are retried."""

    def is_exceeded(self, error: ClusterError, now: float) -> bool:
        """Count a retriable error at ``now`` monotonic seconds, and return whether it is not retried any more."""

    def reset(self) -> None:
        """A batch was stored."""


@dataclass(slots=True, kw_only=True)
class PendingRecord:
    """A record that is not stored yet."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    stored: asyncio.Future[int]
    headers: Headers = ()

    @property
    def size(self) -> int:
        """Its share of the buffer in bytes."""
        headers = sum(len(name) + len(value or b"") + _HEADER_OVERHEAD for name, value in self.headers)
        return len(self.key or b"") + len(self.value or b"") + headers + _RECORD_OVERHEAD


class ProducerQueue:
    """Records of one partition in order. ``busy``: some are in flight, or a backoff is not over.

    Invariants, from KIP-98: (A) a batch is repeated with the same records, producer ID and sequence until its outcome
    is known, so that the broker drops the copies. (B) A sequence is used for one batch only: if the records of a batch
    are given up, the partition continues with another producer ID.

    ``producer`` is the partition's producer ID; None: it needs another one; `NO_PRODUCER`: write without idempotence.
    ``trouble`` is its last error, until a batch is stored.
    """

    def __init__(self, backoff: Backoff, finish: Finish | None = None, limit: RetryLimit | None = None) -> None:
        """``finish``: makes the batch to write of an uncompressed one. ``limit``: without it retries never end."""
        self.backoff = backoff
        self.trouble: ClusterError | None = None
        self._limit = limit
        self._finish = finish
        self.records: deque[PendingRecord] = deque()
        self.busy = False
        self.producer: ProducerIdAndEpoch | None = None
        self._sequence = 0
        self._batch: bytes | None = None
        self._in_batch = 0

    def failed(self, error: ClusterError, now: float) -> bool:
        """A batch was not stored; return whether to retry it."""
        self.trouble = error
        return error.retriable and not (self._limit is not None and self._limit.is_exceeded(error, now))

    def succeeded(self) -> None:
        """A batch was stored."""
        self.trouble = None
        self.backoff.reset()
        if self._limit is not None:
            self._limit.reset()

    def use(self, producer: ProducerIdAndEpoch) -> None:
        """Number batches from 0 with a producer ID that this partition has not used."""
        self.producer, self._sequence = producer, 0

    def abandon_producer(self) -> None:
        """Give up the producer ID and the batch; its records stay in the queue."""
        self.producer = self._batch = None
        self._in_batch = 0

    def batch(self) -> bytes:
        """Return the batch to write now, with as many records as fit; they stay in the queue until `take_batch`."""
        if self._batch is None:
            producer = self.producer or NO_PRODUCER
            sequence = -1 if producer == NO_PRODUCER else self._sequence
            builder = DefaultRecordBatchBuilder(2, 0, 0, *producer, sequence, _BATCH_BYTES)
            for one in self.records:
                if builder.append(self._in_batch, one.timestamp_ms, one.key, one.value, list(one.headers)) is None:
                    break
                self._in_batch += 1
            batch = bytes(builder.build())
            self._batch = batch if self._finish is None else self._finish(batch)
        return self._batch

    def take_batch(self) -> list[PendingRecord]:
        """Remove and return the records of the batch, because it is stored."""
        taken = [self.records.popleft() for _ in range(self._in_batch)]
        self._sequence = (self._sequence + len(taken)) & _HIGHEST_SEQUENCE
        self._batch, self._in_batch = None, 0
        return taken

    def give_up(self, *, everything: bool) -> list[PendingRecord]:
        """Remove and return the records of the batch, because they cannot be stored.

        These are all records if ``everything``, or if there is no batch.
        """
        count = len(self.records) if everything or self._batch is None else self._in_batch
        given_up = [self.records.popleft() for _ in range(count)]
        self.abandon_producer()
        return given_up
