"""Brokers that restart, die, hang or slow us down under load: the flow goes on by itself, and nothing is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from tests.faults.load import Load
from tests.faults.quotas import set_quota
from tests.faults.workers import lanes
from tests.lab.broker import Broker
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import wait_until

HEALED = 30.0  # seconds: source offsets are flushed every five, and reports and pictures are a second old each
COPIED = 90.0  # seconds: a killed broker needs ten to come back, on shared cores
PER_SECOND = 2_000
MIB = 1024 * 1024
BUFFER = 16 * MIB  # mm2.lane.buffer.bytes
# What a worker may grow by while the target takes nothing: the buffer, the answer of a fetch beside the pieces it was
# received in, and the allocator's slack. The backlog is several times as much.
GROWTH = 3 * BUFFER
BACKLOG_RECORDS, BACKLOG_BYTES = 2_000, 100_000
# 4 MB take ten seconds under this quota: a broker lets through what it counts in eleven, then so much a second.
QUOTA, SLOWED = 200_000, 5.0
WELL = {"status": "UP", "reasons": []}


@dataclass(frozen=True, slots=True)
class Running:
    """A node between two brokers of its own."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster

    def topic(self, stem: str, partitions: int = 2) -> str:
        """A source topic that is being copied."""
        topic = self.source.create_topic(unique_name(stem), partitions)
        wait_until(lambda: self.node.topic("A->B", topic).get("state") == "RUNNING", 60, f"{topic} is being copied")
        return topic

    def wait_well(self) -> None:
        """Until nothing is complained of; also of what is over nothing may be left."""
        wait_until(lambda: self.node.health() == WELL, HEALED, "the node has nothing to complain of any more")

    def verify(self, topic: str, *, repeats_allowed: bool = False) -> Verdict:
        source, remote = (self.source.bootstrap, topic), (self.target.bootstrap, f"A.{topic}")
        return wait_until_copied(source, remote, COPIED, repeats_allowed=repeats_allowed)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with KafkaCluster("source") as source, KafkaCluster("target") as target:
        properties = one_flow(source, target, topics="t-.*") | {
            "mm2.lanes": "1",
            "mm2.lane.buffer.bytes": str(BUFFER),
            "B.session.timeout.ms": "60000",  # a target that hangs for a while costs nobody the lead
        }
        with Node(properties) as node:
            node.wait_running()
            yield Running(node, source, target)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("how", ["restart", "kill"])
def test_a_broker_goes_and_comes_back(running: Running, side: str, how: str) -> None:
    broker: Broker = (running.source if side == "source" else running.target).broker(1)
    topic = running.topic("t-broker")
    with Load(running.source, topic, partitions=2, per_second=PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        if how == "kill":
            broker.kill()
        broker.restart()
        load.wait_for_more(2 * PER_SECOND)
        load.stop()
    running.verify(topic)
    running.wait_well()


def test_a_target_that_hangs_costs_bounded_memory(running: Running) -> None:
    topic = running.topic("t-stuck")
    (worker,) = lanes(running.node)
    write(running.source.bootstrap, topic, plain(100, partitions=2, value_bytes=BACKLOG_BYTES))
    running.verify(topic)
    before = worker.memory_info().rss

    broker = running.target.broker(1)
    broker.process.signal(signal.SIGSTOP)
    try:
        records = plain(BACKLOG_RECORDS, partitions=2, value_bytes=BACKLOG_BYTES, first=100)
        write(running.source.bootstrap, topic, records)
        highest = highest_memory(worker, seconds=5.0)
    finally:
        broker.process.signal(signal.SIGCONT)
    assert highest - before < GROWTH < BACKLOG_RECORDS * BACKLOG_BYTES / 3
    running.verify(topic)
    assert worker.memory_info().rss - before < GROWTH
    assert worker.is_running()
    running.wait_well()


def highest_memory(process: psutil.Process, seconds: float) -> int:
    """The most resident bytes seen in that time."""
    highest, end = 0, time.monotonic() + seconds

    def passed() -> bool:
        nonlocal highest
        highest = max(highest, process.memory_info().rss)
        return time.monotonic() >= end

    wait_until(passed, seconds + 5, "the time is over")
    return highest


@pytest.mark.parametrize("side", ["source", "target"])
def test_quotas_slow_the_flow_and_nothing_else(running: Running, side: str) -> None:
    """A broker that throttles mutes the connection: what waits there must not be taken for lost."""
    cluster = running.source if side == "source" else running.target
    topic = running.topic("t-quota")
    with set_quota(cluster, "consumer_byte_rate" if side == "source" else "producer_byte_rate", QUOTA):
        began = time.monotonic()
        records = write(running.source.bootstrap, topic, plain(20, partitions=2, value_bytes=100_000))
        records += write(running.source.bootstrap, topic, plain(4_000, partitions=2, value_bytes=500, first=20))
        wait_until(lambda: copied(running.node, topic) == records, COPIED, f"{topic} is copied slowly")
        assert time.monotonic() - began > SLOWED
        running.wait_well()
    running.verify(topic)


def copied(node: Node, topic: str) -> float:
    return node.metric("mm2_source_records_total", topic=f"A.{topic}")
