"""The copied data: three shapes of backlog, each expensive for a mirror in a different way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from tests.bench.payloads import events
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing, Writer

PARTITIONS = 4
FEWEST = 1_000  # minimum number of records at any scale: fewer are copied too fast to measure
REPORT_EVERY = 5_000  # records between two progress reports

# As large as Kafka's limit of 1 MB per batch reasonably allows, before compression.
FULL_BATCHES: dict[str, str | int | float | bool] = {
    "linger.ms": 50,
    "batch.size": 500_000,
    "batch.num.messages": 10_000,
}
TINY_BATCHES = (1, 2, 3)  # maximum number of records per batch of three writers that take turns


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Records that are written before a mirror starts. ``payload`` makes them, as `events` does."""

    records: int
    value_bytes: int
    codec: str = "none"
    tiny_batches: bool = False
    payload: Callable[..., Iterator[Outgoing]] = events

    def scaled(self, scale: float) -> Backlog:
        """Return the same backlog with ``scale`` times the number of records."""
        return replace(self, records=max(FEWEST, round(self.records * scale)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A backlog with a name. ``aim`` is the upper limit of mm2's CPU time as a share of Java's for the same bytes."""

    name: str
    title: str
    backlog: Backlog
    aim: float


WORKLOADS = (
    Workload(
        name="large",
        title="1 kB values, lz4, batches of up to 500 kB",
        backlog=Backlog(records=1_000_000, value_bytes=1_000, codec="lz4"),
        aim=0.25,
    ),
    Workload(
        name="small",
        title="100 B values, no codec, batches of up to 500 kB",
        backlog=Backlog(records=3_000_000, value_bytes=100),
        aim=0.25,
    ),
    Workload(
        name="tiny",
        title="100 B values, no codec, batches of 1 to 3 records",
        backlog=Backlog(records=300_000, value_bytes=100, tiny_batches=True),
        aim=0.5,
    ),
)

WARM_UP = Backlog(records=50_000, value_bytes=500)


def write_backlog(cluster: KafkaCluster, topic: str, backlog: Backlog, report_progress: Callable[[int], None]) -> None:
    """Create the topic and fill it; ``report_progress`` is called with the number of records sent so far.

    All records are acknowledged when it returns. Raises RuntimeError if one is not.
    """
    cluster.create_topic(topic, PARTITIONS)
    if backlog.tiny_batches:
        writers = [
            Writer(cluster.bootstrap, codec=backlog.codec, records_per_batch=size, settings={"linger.ms": 0})
            for size in TINY_BATCHES
        ]
    else:
        writers = [Writer(cluster.bootstrap, codec=backlog.codec, settings=FULL_BATCHES)]
    now_ms = time.time_ns() // 1_000_000
    stream = backlog.payload(backlog.records, value_bytes=backlog.value_bytes, partitions=PARTITIONS, now_ms=now_ms)
    for number, event in enumerate(stream):
        writers[number % len(writers)].send(topic, event)
        if number % REPORT_EVERY == 0:
            report_progress(number)
    for writer in writers:
        writer.flush()
    report_progress(backlog.records)
