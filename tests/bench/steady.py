"""A steady stream of records into one topic, and the time until each can be read from another.

Both ends run in this process and use the same clock. Latency starts at the call that passes a record to the client, not
at its scheduled time: a pause of this process delays sending, and must not count as the mirror's latency.
"""

from __future__ import annotations

import gc
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from tests.bench.end_offsets import EndOffsets
from tests.bench.payloads import events
from tests.bench.screen import ReportProgress
from tests.bench.workloads import PARTITIONS
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing
from tests.lab.waiting import GaveUp

PER_SECOND = 1_000
VALUE_BYTES = 1_000
HEADER = "number"  # its value identifies the record
NUMBER_BYTES = 4
RECEIVED = 30.0  # seconds without a record while some are missing
REPORT_EVERY = 5_000  # records between two progress reports: drawing holds the GIL
QUICK: dict[str, str | int | float | bool] = {"socket.nagle.disable": True, "log_level": 0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """The topics that the stream is written to and read from. They contain no other records.

    ``payload`` makes the records, as `events` does; those with a header of their own are not expected to arrive.
    """

    source: KafkaCluster
    topic: str
    target: KafkaCluster
    remote_topic: str
    payload: Callable[..., Iterator[Outgoing]] = events


def stream(route: Route, count: int, report_progress: ReportProgress) -> list[float]:
    """Send ``count`` records at a steady pace and return the latency in milliseconds of each that arrives, in order of
    sending.

    Raises GaveUp if a record does not arrive, KafkaException if a client reports a failure.
    """
    ends = EndOffsets(route.target, route.remote_topic)
    ends.refresh()
    consumer = Consumer(
        {
            "bootstrap.servers": route.target.bootstrap,
            "group.id": "bench-latency",  # required by the client; nothing is committed
            "enable.auto.commit": False,
            **QUICK,
        }
    )
    consumer.assign(
        [TopicPartition(route.remote_topic, number, offset) for number, offset in ends.by_partition.items()]
    )
    records = list(route.payload(count, value_bytes=VALUE_BYTES, partitions=PARTITIONS, now_ms=0))
    sent, received = array("q", [0]) * count, array("q", [0]) * count
    try:
        consumer.poll(1.0)  # connect and fetch once before measuring
        with _without_collector(), _sending(route, records, sent) as sending:
            left, heard = sum(not one.headers for one in records), time.monotonic()
            while left:
                message = consumer.poll(0.5)
                now = time.perf_counter_ns()
                if message is None:
                    if sending.done():
                        sending.result()
                    if time.monotonic() - heard > RECEIVED:
                        raise GaveUp(f"{left} of {count} records of the steady stream did not arrive")
                    continue
                if (problem := message.error()) is not None:
                    raise KafkaException(problem)
                heard = time.monotonic()
                number = _number(message)
                if not received[number]:
                    received[number] = now
                    left -= 1
                    if left % REPORT_EVERY == 0:
                        report_progress(count - left)
    finally:
        consumer.close()
    return [(there - here) / 1e6 for here, there in zip(sent, received, strict=True) if there]


@contextmanager
def _sending(route: Route, records: Sequence[Outgoing], sent: array[int]) -> Iterator[Future[None]]:
    """Send in a separate thread during the block; at its end stop and join the thread."""
    stopped = threading.Event()
    with ThreadPoolExecutor(1, thread_name_prefix="bench-sender") as pool:
        try:
            yield pool.submit(_send, route, records, sent, stopped)
        finally:
            stopped.set()


def _send(route: Route, records: Sequence[Outgoing], sent: array[int], stopped: threading.Event) -> None:
    producer = Producer(
        {"bootstrap.servers": route.source.bootstrap, "linger.ms": 0, "enable.idempotence": True, **QUICK}
    )
    producer.list_topics(route.topic)  # connect before measuring
    began = time.perf_counter_ns()
    for number, event in enumerate(records):
        due = began + number * 1_000_000_000 // PER_SECOND
        while (early := due - time.perf_counter_ns()) > 0:
            time.sleep(early / 1e9)
        if stopped.is_set():
            break
        sent[number] = time.perf_counter_ns()
        producer.produce(
            route.topic,
            key=event.key,
            value=event.value,
            partition=event.partition,
            headers=[*event.headers, (HEADER, number.to_bytes(NUMBER_BYTES))],
        )
        producer.poll(0)
    producer.flush(RECEIVED)


def _number(message: Message) -> int:
    """Return the record's number. Raises KeyError for a record that the stream did not send."""
    content = dict(message.headers() or ())[HEADER]
    assert isinstance(content, bytes)
    return int.from_bytes(content)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Disable garbage collection, which would stop both ends for tens of milliseconds."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
