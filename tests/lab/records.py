"""Writing source topics with the independent client: records of every shape, batches of every size, transactions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, Producer

DELIVERED = 60.0  # seconds for all enqueued records to be acknowledged
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outgoing:
    """A record to write. ``timestamp_ms`` 0 means now, ``partition`` -1 lets the client choose by key."""

    key: bytes | None = None
    value: bytes | None = b""
    headers: Headers = ()
    timestamp_ms: int = 0
    partition: int = -1


KEYS = (None, b"", b"k", b"customer-1", "schlüssel-ß".encode(), bytes(range(256)))
HEADERS: tuple[Headers, ...] = (
    (),
    (("trace", b"1"),),
    (("twice", b"a"), ("twice", b"b")),
    (("null", None), ("empty", b""), ("größe", b"\x00\xff")),
)
SHAPES = tuple(itertools.product(KEYS, HEADERS))
SOME = b"some"  # a value that is drawn
VALUES = (None, None, b"", *[SOME] * 17)


def every_shape(
    rng: random.Random, count: int, *, partitions: int = 1, value_bytes: int = 100, now_ms: int | None = None
) -> list[Outgoing]:
    """``count`` records over all ``partitions``: null, empty and binary keys, tombstones, empty values, headers.

    Any 24 records in sequence have each key with each list of headers, and any 20 have two tombstones and one empty
    value, in random order. Other values contain their number, so that duplicates differ from records with equal
    content, and half random, half repeated bytes, so that codecs have work.
    With ``now_ms`` timestamps are explicit and increasing, with an earlier one now and then.
    """
    shapes = rng.sample(SHAPES, len(SHAPES))
    values = rng.sample(VALUES, len(VALUES))
    return [
        Outgoing(
            key=shapes[number % len(shapes)][0],
            value=_some_value(rng, number, value_bytes) if (value := values[number % len(values)]) is SOME else value,
            headers=shapes[number % len(shapes)][1],
            timestamp_ms=0 if now_ms is None else now_ms + number - rng.choice((0, 0, 0, 500)),
            partition=rng.randrange(partitions),
        )
        for number in range(count)
    ]


def plain(count: int, *, partitions: int = 1, value_bytes: int = 100, first: int = 0) -> Iterator[Outgoing]:
    """Numbered records spread evenly over ``partitions``, for volume: the number, then padding."""
    padding = b"." * value_bytes
    for number in range(first, first + count):
        text = b"%d " % number
        yield Outgoing(key=b"%d" % (number % 97), value=(text + padding)[:value_bytes], partition=number % partitions)


def _some_value(rng: random.Random, number: int, size: int) -> bytes:
    noise = rng.randbytes(rng.randrange(size + 1) // 2)
    return b"%d:" % number + noise + b"x" * (size - len(noise))


class Writer:
    """A producer that keeps order, counts what is acknowledged, and remembers the first failure.

    ``records_per_batch`` 1 gives one batch per record, whatever ``settings`` (librdkafka's) contain. ``ledger`` is told
    of every acknowledged record.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        codec: str = "none",
        records_per_batch: int | None = None,
        settings: Mapping[str, str | int | float | bool] | None = None,
        ledger: Callable[[Message], None] | None = None,
    ) -> None:
        batching = {} if records_per_batch is None else {"batch.num.messages": records_per_batch}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "compression.type": codec,
                "enable.idempotence": True,
                "linger.ms": 20,  # enough for full batches when a test writes as fast as it can
                "log_level": 0,
                **batching,
                **(settings or {}),
            }
        )
        self.acknowledged = 0
        self._ledger = ledger
        self._failure: KafkaError | None = None

    def send(self, topic: str, record: Outgoing) -> None:
        """Enqueue a record; waits while the client's queue is full. Raises RuntimeError after a failed delivery."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms,
                    partition=record.partition,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.1)
                continue
            break
        self._producer.poll(0)
        self._check()

    def flush(self) -> None:
        """Wait until everything is acknowledged. Raises RuntimeError if a record is not."""
        left = self._producer.flush(DELIVERED)
        self._check()
        if left:
            raise RuntimeError(f"{left} records are not acknowledged after {DELIVERED:g} s")

    @property
    def transactions(self) -> Producer:
        """The client itself, for its transactional calls."""
        return self._producer

    def _delivered(self, problem: KafkaError | None, message: Message) -> None:
        if problem is None:
            self.acknowledged += 1
            if self._ledger is not None:
                self._ledger(message)
        elif self._failure is None:
            self._failure = problem

    def _check(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"a record was not delivered: {self._failure}")


def write(
    bootstrap: str,
    topic: str,
    records: Iterable[Outgoing],
    *,
    codec: str = "none",
    records_per_batch: int | None = None,
    settings: Mapping[str, str | int | float | bool] | None = None,
) -> int:
    """Write all records, in order, and return how many. Raises RuntimeError if one is not acknowledged."""
    writer = Writer(bootstrap, codec=codec, records_per_batch=records_per_batch, settings=settings)
    for record in records:
        writer.send(topic, record)
    writer.flush()
    return writer.acknowledged


def write_transactions(
    bootstrap: str,
    topic: str,
    transactions: Iterable[tuple[Iterable[Outgoing], bool]],
    *,
    transactional_id: str,
    codec: str = "none",
) -> None:
    """Write transactions in sequence, each with its records and whether it is committed or aborted.

    Aborted records are in the log before the abort, so that a reader has to drop them. The last transaction is
    visible afterwards.
    """
    writer = Writer(bootstrap, codec=codec, settings={"transactional.id": transactional_id})
    producer = writer.transactions
    producer.init_transactions(DELIVERED)
    for records, commit in transactions:
        producer.begin_transaction()
        for record in records:
            writer.send(topic, record)
        writer.flush()
        if commit:
            producer.commit_transaction(DELIVERED)
        else:
            producer.abort_transaction(DELIVERED)
    wait_for_markers(bootstrap, transactional_id)


def wait_for_markers(bootstrap: str, transactional_id: str) -> None:
    """Wait until the last transaction's markers are in the logs: brokers answer a commit before they write them.

    A new producer with the same id is made to wait for them.
    """
    Writer(bootstrap, settings={"transactional.id": transactional_id}).transactions.init_transactions(DELIVERED)
