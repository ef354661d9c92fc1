"""Comparison of a copy with its source by checksums, using an independent client and keeping no records in memory."""

from __future__ import annotations

import hashlib
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.lab.waiting import GaveUp

STALLED = 60.0  # seconds without a single record or end of partition
AT_ONCE = 10_000  # records consumed in one call

TIMESTAMP = struct.Struct(">q")  # ms
LENGTH = struct.Struct(">i")  # of a key, a value, a header's name or content; -1: null


@dataclass(frozen=True, slots=True)
class Digest:
    """Number of records of a partition, and a checksum of their keys, values, headers and timestamps, in order."""

    records: int
    checksum: str


Digests = Mapping[int, Digest]
Framing = Callable[[Message], bytes | None]
"""Returns what counts of a record; None: nothing, the record is left out."""


def digest_topic(
    bootstrap: str,
    topic: str,
    partitions: int,
    report_progress: Callable[[int], None],
    framing: Framing | None = None,
) -> dict[int, Digest]:
    """Read a topic from beginning to end; ``report_progress`` is called with the number of records counted so far.

    Raises GaveUp if no record arrives for `STALLED` seconds, KafkaException on a broker error.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "bench-reader",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "log_level": 0,
        }
    )
    framing = framing or framed
    counts = dict.fromkeys(range(partitions), 0)
    hashes = {number: hashlib.blake2b(digest_size=16) for number in counts}
    unread = set(counts)
    heard = time.monotonic()
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in counts])
        while unread:
            messages = consumer.consume(AT_ONCE, timeout=0.2)
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > STALLED:
                raise GaveUp(
                    f"no record of {topic} for {STALLED:g} s; partitions not read to the end: {sorted(unread)}"
                )
            for message in messages:
                number, problem = message.partition(), message.error()
                assert number is not None
                if problem is None:
                    if (content := framing(message)) is not None:
                        hashes[number].update(content)
                        counts[number] += 1
                elif problem.code() == KafkaError._PARTITION_EOF:
                    unread.discard(number)
                else:
                    raise KafkaException(problem)
            report_progress(sum(counts.values()))
    finally:
        consumer.close()
    return {number: Digest(counts[number], hashes[number].hexdigest()) for number in counts}


def framed(message: Message) -> bytes:
    """Return a record's fields prefixed by their lengths, so that bytes cannot move between fields undetected."""
    return framed_with(message, message.value())


def framed_with(message: Message, value: object) -> bytes:
    """Return the same for the record with another value."""
    headers = message.headers() or []
    assert isinstance(headers, list)
    fields = [_field(message.key()), _field(value)]
    for name, content in headers:
        fields += _field(name.encode()), _field(content)
    return TIMESTAMP.pack(message.timestamp()[1]) + b"".join(fields)


def _field(content: object) -> bytes:
    if content is None:
        return LENGTH.pack(-1)
    assert isinstance(content, bytes)
    return LENGTH.pack(len(content)) + content


def differences(source: Digests, remote: Digests) -> Sequence[str]:
    """Return a message for each partition that differs from the source; none if the copy is exact."""
    found = []
    for number in sorted({*source, *remote}):
        here, there = source.get(number), remote.get(number)
        if here == there:
            continue
        if here and there and here.records == there.records:
            found.append(f"partition {number}: {here.records} records, but different or in another order")
        else:
            wanted, got = here.records if here else 0, there.records if there else 0
            found.append(f"partition {number}: {got} records instead of {wanted}")
    return found
