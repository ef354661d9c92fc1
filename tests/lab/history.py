"""Reads the content of a topic with the independent client, for later comparison."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.lab import scratch
from tests.lab.waiting import GaveUp, wait_until

T = TypeVar("T")

ANSWERS = 60.0  # seconds for a cluster whose brokers are restarting
READ = 120.0  # seconds to read a topic: a million small records take ten
AT_ONCE = 10_000  # records taken from the client in one call
_SETTLING = (  # a broker has just started, or a new leader does not know yet where the partition ends
    KafkaError._NOENT,  # no leader found
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._RESOLVE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
SHOWN_BYTES = 40  # of a key or value in a message

# key, value, headers and timestamp (ms): what a copy must preserve besides the partition and the order
Content = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]


@dataclass(frozen=True, slots=True)
class Record:
    """A consumed record."""

    partition: int
    offset: int
    content: Content

    @property
    def key(self) -> bytes | None:
        return self.content[0]

    @property
    def value(self) -> bytes | None:
        return self.content[1]

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        return self.content[2]

    @property
    def timestamp_ms(self) -> int:
        return self.content[3]

    def __str__(self) -> str:
        key, value, headers, timestamp = self.content
        return (
            f"{self.partition}@{self.offset} key={_short(key)} value={_short(value)} {len(headers)} headers {timestamp}"
        )


Partitions = Mapping[int, Sequence[Record]]


def read_topic(
    bootstrap: str,
    topic: str,
    *,
    isolation: str = "read_committed",
    settings: Mapping[str, str | int | float | bool] | None = None,
    timeout: float = READ,
) -> dict[int, list[Record]]:
    """All records of a topic, from each partition's beginning to its end as of now; empty for an unknown topic.

    Raises KafkaException, and GaveUp after ``timeout`` seconds.
    """
    deadline = time.monotonic() + timeout
    return _settled(lambda: _read_once(bootstrap, topic, isolation, settings or {}, deadline), timeout)


def _read_once(
    bootstrap: str,
    topic: str,
    isolation: str,
    settings: Mapping[str, str | int | float | bool],
    deadline: float,
) -> dict[int, list[Record]]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "lab-reader",  # the client wants one; nothing is committed
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "check.crcs": True,
            "fetch.wait.max.ms": 50,
            "receive.message.max.bytes": 400_000_000,  # limits what a batch decompresses to, for which it tries sizes
            "log_level": 0,
            **settings,
        }
    )
    try:
        return _read(consumer, topic, deadline)
    finally:
        consumer.close()


def _read(consumer: Consumer, topic: str, deadline: float) -> dict[int, list[Record]]:
    numbers = _partition_numbers(consumer, topic)
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in numbers])
    found: dict[int, list[Record]] = {number: [] for number in numbers}
    unread = set(numbers)
    while unread:
        if time.monotonic() > deadline:
            raise GaveUp(f"too late: {topic} is read, but partitions {sorted(unread)} have no end yet")
        for message in consumer.consume(AT_ONCE, timeout=0.05):  # seconds: it waits for as many as asked for
            problem = message.error()
            if problem is None:
                record = record_of(message)
                found[record.partition].append(record)
            elif problem.code() == KafkaError._PARTITION_EOF:
                unread.discard(_number(message.partition()))
            else:
                raise KafkaException(problem)
    return found


def end_offset_client(bootstrap: str) -> AdminClient:
    """Return a client for repeated calls of `end_offset_sum`: a new one costs three threads and two connections."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def end_offset_sum(bootstrap: str, topic: str, client: AdminClient | None = None) -> int:
    """Return the sum of the end offsets of all partitions, which grows as records arrive.

    0 for an unknown topic, and for one that is being created or changing its leader. Raises KafkaException, and GaveUp
    if no broker answers within `ANSWERS`.
    """
    admin = client or end_offset_client(bootstrap)
    numbers = _settled(lambda: _partition_numbers(admin, topic), ANSWERS)
    if not numbers:
        return 0
    wanted = {TopicPartition(topic, number): OffsetSpec.latest() for number in numbers}
    try:
        ends = [future.result().offset for future in admin.list_offsets(wanted, request_timeout=ANSWERS).values()]
    except KafkaException as problem:
        if problem.args[0].code() in _SETTLING:
            return 0
        raise
    return sum(ends) if min(ends) >= 0 else 0  # -1001 without an error: the leader did not answer


def _settled(attempt: Callable[[], T], timeout: float) -> T:
    """Return the first result from a settled cluster. Raises GaveUp after ``timeout`` seconds."""

    def answer() -> T | KafkaException:
        try:
            return attempt()
        except KafkaException as problem:
            if problem.args[0].code() not in _SETTLING:
                raise
            return problem

    found = wait_until(answer, timeout, "the cluster answers", accept=lambda one: not isinstance(one, KafkaException))
    assert not isinstance(found, KafkaException)
    return found


def count(partitions: Partitions) -> int:
    """Return the number of records in a history."""
    return sum(len(records) for records in partitions.values())


def save_histories(name: str, source: Partitions, remote: Partitions) -> Path:
    """Write both sides to files, one record per line, and return the directory."""
    directory = scratch.directory(f"history-{name}")
    for side, partitions in (("source", source), ("remote", remote)):
        with (directory / f"{side}.log").open("w") as file:
            for records in partitions.values():
                for one in records:
                    key, value, headers, timestamp = one.content
                    shown = [one.partition, one.offset, timestamp, repr(key), repr(value), repr(headers)]
                    file.write(json.dumps(shown) + "\n")
    return directory


def _partition_numbers(client: AdminClient | Consumer, topic: str) -> list[int]:
    """Asked without creating the topic: a request for all topics names none. The client learns the leaders by it."""
    known = client.list_topics(timeout=10).topics
    return sorted(known[topic].partitions) if topic in known else []


def record_of(message: Message) -> Record:
    """Return a message that was consumed, or acknowledged after it was produced."""
    named = message.headers() or []
    assert isinstance(named, list)
    headers = tuple((name, _bytes(value)) for name, value in named)
    content = (_bytes(message.key()), _bytes(message.value()), headers, message.timestamp()[1])
    return Record(_number(message.partition()), _number(message.offset()), content)


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value


def _number(value: int | None) -> int:
    assert value is not None
    return value


def _short(value: bytes | None) -> str:
    return repr(value if value is None or len(value) <= SHOWN_BYTES else value[:SHOWN_BYTES] + b"...")
