"""Brokers restart, crash, hang or throttle under load: the flow recovers on its own and loses nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import psutil
import pytest

from tests.lab.broker import Broker
from tests.lab.cluster import KafkaCluster
from tests.lab.fixtures import unique_name
from tests.lab.freezing import frozen
from tests.lab.lanes import lanes
from tests.lab.load import Load
from tests.lab.node import Node
from tests.lab.quotas import set_quota
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.verify import Verdict, wait_until_copied
from tests.lab.waiting import wait_until

HEALED = 30.0  # seconds: source offsets are flushed every 5 s; reports and status are each up to 1 s old
COPIED = 90.0  # seconds: a killed broker takes 10 s to restart, on shared cores
PER_SECOND = 2_000
MIB = 1024 * 1024
BUFFER = 16 * MIB  # mm2.lane.buffer.bytes
# Allowed growth of a worker while the target accepts nothing: the buffer, a fetch response and the chunks it was
# received in, and allocator overhead. The backlog is several times larger.
GROWTH = 3 * BUFFER
BACKLOG_RECORDS, BACKLOG_BYTES = 2_000, 100_000
# 4 MB take 10 s under this quota: a broker lets through its 11 s quota window first, then this much per second.
QUOTA, SLOWED = 200_000, 5.0
WELL = {"status": "UP", "reasons": []}

pytestmark = pytest.mark.long  # the comments name the smaller tests of make test


@dataclass(frozen=True, slots=True)
class Running:
    """A node between two dedicated brokers."""

    node: Node
    source: KafkaCluster
    target: KafkaCluster

    def topic(self, stem: str, partitions: int = 2) -> str:
        """Create a source topic and wait until it is being copied."""
        topic = self.source.create_topic(unique_name(stem), partitions)
        wait_until(lambda: self.node.topic("A->B", topic).get("state") == "RUNNING", 60, f"{topic} is being copied")
        return topic

    def wait_healthy(self) -> None:
        """Wait until /health is UP without any reason, not even that of a resolved problem."""
        wait_until(lambda: self.node.health() == WELL, HEALED, "the node reports no problem any more")

    def verify(self, topic: str, *, repeats_allowed: bool = False) -> Verdict:
        source, remote = (self.source.bootstrap, topic), (self.target.bootstrap, f"A.{topic}")
        return wait_until_copied(source, remote, COPIED, repeats_allowed=repeats_allowed)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with KafkaCluster("source") as source, KafkaCluster("target") as target:
        properties = one_flow(source, target, topics="t-.*") | {
            "mm2.lanes": "1",
            "mm2.lane.buffer.bytes": str(BUFFER),
            "B.session.timeout.ms": "60000",  # a target that hangs for a while must not cost the node its leadership
        }
        with Node(properties) as node:
            node.wait_running()
            yield Running(node, source, target)


# test_each_kind.py kills both brokers under two nodes
@pytest.mark.parametrize("side", ["source", "target"])
def test_broker_killed_and_restarted(running: Running, side: str) -> None:
    """A clean restart is tested in tests/integration/flows/test_faults.py."""
    broker: Broker = (running.source if side == "source" else running.target).broker(1)
    topic = running.topic("t-broker")
    with Load(running.source, topic, partitions=2, per_second=PER_SECOND) as load:
        load.wait_for_more(PER_SECOND)
        broker.kill()
        broker.restart()
        load.wait_for_more(2 * PER_SECOND)
        load.stop()
    running.verify(topic)
    running.wait_healthy()


# tests/integration/flows/test_faults.py: test_stuck_partition_does_not_block_others checks the budget of a lane
def test_memory_is_bounded_while_target_hangs(running: Running) -> None:
    topic = running.topic("t-stuck")
    (worker,) = lanes(running.node)
    write(running.source.bootstrap, topic, plain(100, partitions=2, value_bytes=BACKLOG_BYTES))
    running.verify(topic)
    before = worker.memory_info().rss

    with frozen(running.target.broker(1).process):
        records = plain(BACKLOG_RECORDS, partitions=2, value_bytes=BACKLOG_BYTES, first=100)
        write(running.source.bootstrap, topic, records)
        highest = highest_memory(worker, seconds=5.0)
    assert highest - before < GROWTH < BACKLOG_RECORDS * BACKLOG_BYTES / 3
    running.verify(topic)
    assert worker.memory_info().rss - before < GROWTH
    assert worker.is_running()
    running.wait_healthy()


def highest_memory(process: psutil.Process, seconds: float) -> int:
    """Return the peak resident memory in bytes during ``seconds``."""
    highest, end = 0, time.monotonic() + seconds

    def passed() -> bool:
        nonlocal highest
        highest = max(highest, process.memory_info().rss)
        return time.monotonic() >= end

    wait_until(passed, seconds + 5, "the time has passed")
    return highest


# tests/integration/flows/test_faults.py: test_throttled_by_the_target
def test_source_quota_only_slows_the_flow(running: Running) -> None:
    """A throttling broker mutes the connection; requests waiting there must not be treated as lost.

    tests/integration/flows/test_faults.py tests a quota of the target.
    """
    topic = running.topic("t-quota")
    with set_quota(running.source, "consumer_byte_rate", QUOTA):
        began = time.monotonic()
        records = write(running.source.bootstrap, topic, plain(20, partitions=2, value_bytes=100_000))
        records += write(running.source.bootstrap, topic, plain(4_000, partitions=2, value_bytes=500, first=20))
        wait_until(lambda: copied(running.node, topic) == records, COPIED, f"{topic} is copied slowly")
        assert time.monotonic() - began > SLOWED
        running.wait_healthy()
    running.verify(topic)


def copied(node: Node, topic: str) -> float:
    return node.metric("mm2_source_records_total", topic=f"A.{topic}")
