"""``SQL=1``: the query of the demo, what it should do, computed without Spark, and records before and after it."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace

from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException, TopicPartition

from tests.lab.history import Partitions, Record, record_of

TOPIC = "payments"
NAME = "mask"
TEST_ORDERS = 0.1  # of the payments
CARD_DIGITS = 16
SHOWN_DIGITS = 4  # of a masked card number

PROPERTIES = rf"""
# In payments, card numbers are masked except for their last four digits, and payments of test orders are dropped.
A->B.mm2.sql.{NAME}.topics = {TOPIC}
A->B.mm2.sql.{NAME}.query = \
    SELECT regexp_replace(CAST(value AS STRING), r'"card":"\\d{{12}}', '"card":"************') AS value \
    FROM records \
    WHERE get_json_object(CAST(value AS STRING), '$.test') IS DISTINCT FROM 'true'
"""

SAMPLE_EVERY = 10.0  # seconds between two samples
_AGAIN_AFTER = 2.0  # seconds, if there was none
_READ = 1_000  # records at the end of each topic in which a sample is looked for: seven seconds
_READ_WITHIN = 2.0  # seconds; the table is not refreshed meanwhile


def after_query(value: bytes) -> bytes | None:
    """Return what the query should make of a payment; None if it should drop the payment."""
    payment = json.loads(value)
    if payment["test"]:
        return None
    payment["card"] = "*" * (CARD_DIGITS - SHOWN_DIGITS) + payment["card"][-SHOWN_DIGITS:]
    return as_json(payment)


def as_json(body: object) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def expected_copy(source: Partitions) -> Partitions:
    """Return the records that the target should have of a source topic with the query."""
    return {partition: [one for one in map(_expected, records) if one] for partition, records in source.items()}


def _expected(record: Record) -> Record | None:
    key, value, headers, timestamp = record.content
    assert value is not None
    masked = after_query(value)
    return None if masked is None else replace(record, content=(key, masked, headers, timestamp))


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySample:
    """A value on the source and what is on the target; ``after`` None: the query dropped it."""

    before: bytes
    after: bytes | None

    def lines(self) -> tuple[str, ...]:
        after = "(dropped)" if self.after is None else self.after.decode()
        return f"on A  {self.before.decode()}", f"on B  {after}"


class Samples:
    """Reads now and then a copied and a dropped record from both clusters."""

    def __init__(self, source: str, target: str) -> None:
        self._source = source
        self._target = target
        self._next_at = 0.0
        self._found: tuple[QuerySample, ...] = ()

    def newest(self) -> tuple[QuerySample, ...]:
        """Return the samples, with new ones every `SAMPLE_EVERY` seconds; the old ones if a broker does not answer."""
        if time.monotonic() >= self._next_at:
            try:
                found = samples(_last(self._source, TOPIC), _last(self._target, f"A.{TOPIC}"))
            except KafkaException:
                found = ()
            self._found = found or self._found
            self._next_at = time.monotonic() + (SAMPLE_EVERY if found else _AGAIN_AFTER)
        return self._found


def samples(source: list[Record], target: list[Record]) -> tuple[QuerySample, ...]:
    """Return the last record that both sides have, and the last one before it that only the source has.

    Keys of payments are unique. Both lists have the last records of partition 0.
    """
    on_target = {record.key: record.value for record in target}
    copied = [place for place, record in enumerate(source) if record.key in on_target]
    if not copied:
        return ()
    between = range(copied[0], copied[-1])
    dropped = [place for place in between if source[place].key not in on_target]
    return tuple(
        QuerySample(before=source[place].value or b"", after=on_target.get(source[place].key))
        for place in (copied[-1:] + dropped[-1:])
    )


def _last(bootstrap: str, topic: str) -> list[Record]:
    """Return the last records of partition 0. Raises KafkaException if its broker does not answer in time."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "demo-samples",  # the client requires one; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 50,
            "log_level": 0,
        }
    )
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=_READ_WITHIN)
        if OFFSET_INVALID in (first, end) or end <= first:
            return []
        consumer.assign([TopicPartition(topic, 0, max(first, end - _READ))])
        return _read_to(consumer, end)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, end: int) -> list[Record]:
    found: list[Record] = []
    deadline = time.monotonic() + _READ_WITHIN
    while time.monotonic() < deadline:
        for message in consumer.consume(_READ, timeout=0.1):
            problem = message.error()
            if problem is None:
                found.append(record_of(message))
            elif problem.code() == KafkaError._PARTITION_EOF:
                return found
            else:
                raise KafkaException(problem)
        if found and found[-1].offset >= end - 1:
            break
    return found
