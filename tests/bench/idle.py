"""``python -m tests.bench.idle``: cost of idle partitions.

Measures CPU of each part of a node as a share of one core, and the latency of the node's event loop, which also delays
leases and group heartbeats. Rounds of discovery are counted separately.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

import httpx
import psutil
from rich.console import Console
from rich.table import Table

from tests.bench.process_tree import busy_seconds
from tests.lab import class_data
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_4
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

TOPICS, PARTITIONS = 50, 100
SECONDS = 60.0
HEAP = "-Xmx1g"  # a broker with 5,000 partitions needs more than the lab's 256 MB
CAUGHT_UP_WITHIN = 600.0  # seconds for two brokers to open the logs of 5,000 partitions, and for Spark to start
SETTLED_WITHIN = 120.0  # seconds for work that follows a start: source offsets, offset syncs, JIT compilation
SAMPLE_EVERY = (
    5.0  # seconds between samples: the kernel counts CPU in 10 ms, so a sample is accurate to 0.2 % of a core
)
REQUEST_EVERY = 0.05  # seconds between two requests that measure the latency of the event loop
ROUND_EVERY = 20  # seconds between rounds of discovery, so that a window has three; ten minutes by default
PARTS = {
    "worker": "lanes (fetch path)",
    "node": "node (control plane)",
    "engine": "engine, Python",
    "jvm": "engine, JVM",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """CPU of one part in percent of a core, without and with the samples in which discovery ran."""

    part: str
    quiet: float
    all: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """Results. ``machine``: CPU use of the whole machine, in percent of its cores.

    ``waits``: sorted seconds that requests to the node took, of those sent while it served no other request.
    """

    shares: tuple[Share, ...]
    machine: float
    waits: tuple[float, ...]


def measure(topics: int, partitions: int, seconds: float, lanes: int) -> Idle:
    """Measure ``topics`` of ``partitions`` each, with one copied record in every partition and no further writes."""
    options = (*class_data.options(KAFKA_4), HEAP)
    with KafkaCluster("bench-a", java_options=options) as a, KafkaCluster("bench-b", java_options=options) as b:
        for number in range(topics):
            topic = a.create_topic(f"idle.{number:03d}", partitions)
            write(a.bootstrap, topic, plain(partitions, partitions=partitions))
        properties = one_flow(a, b, topics="idle.*") | {
            "mm2.lanes": str(lanes),
            "tasks.max": str(lanes),
            "refresh.topics.interval.seconds": str(ROUND_EVERY),
        }
        with Node(properties, name="bench-idle") as node:
            wait_until(lambda: caught_up(node, topics * partitions), CAUGHT_UP_WITHIN, "all partitions are caught up")
            wait_until(lambda: settled(node), SETTLED_WITHIN, "the work that follows the start is done")
            shares, machine = watch(node, seconds)
            return Idle(shares=shares, machine=machine, waits=tuple(measure_latency(node.url, seconds)))


def caught_up(node: Node, partitions: int) -> bool:
    """Return whether every partition is RUNNING and has its one record on the target."""
    shown = [one for flow in node.flows() for topic in flow["topics"] for one in topic["partitions"]]
    idle = [one for one in shown if (one["state"], one["position"], one["lag_records"]) == ("RUNNING", 1, 0)]
    time.sleep(1.0)  # a response with 5,000 partitions is expensive
    return len(idle) == partitions


def settled(node: Node) -> bool:
    """Return whether the CPU use of the node process has settled: two samples agree."""
    first, second = (cpu_share(node, SAMPLE_EVERY)["node"] for _ in range(2))
    return abs(first - second) < max(1.0, first / 4)


def watch(node: Node, seconds: float) -> tuple[tuple[Share, ...], float]:
    """Sample repeatedly. Rounds of discovery affect fewer than half of the samples, so the median excludes them."""
    began, busy = time.monotonic(), busy_seconds()
    looks = [cpu_share(node, SAMPLE_EVERY) for _ in range(max(3, round(seconds / SAMPLE_EVERY)))]
    machine = 100 * (busy_seconds() - busy) / (time.monotonic() - began) / (psutil.cpu_count() or 1)
    return (
        tuple(
            Share(
                part=words,
                quiet=statistics.median(look[role] for look in looks),
                all=statistics.mean(look[role] for look in looks),
            )
            for role, words in PARTS.items()
        ),
        machine,
    )


def cpu_share(node: Node, seconds: float) -> Mapping[str, float]:
    """Return the percentage of a core that each role uses during the next ``seconds``."""
    members = {role: node.members(role) for role in PARTS}
    before, began = {role: _cpu(found) for role, found in members.items()}, time.monotonic()
    time.sleep(seconds)
    took = time.monotonic() - began
    return {role: 100 * (_cpu(found) - before[role]) / took for role, found in members.items()}


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(one.cpu_times()[:2]) for one in processes)


def measure_latency(url: str, seconds: float) -> list[float]:
    """Send trivial requests to the node repeatedly on one connection, and return their latencies in seconds."""
    waits = []
    with httpx.Client(base_url=url, timeout=30.0) as client:
        end = time.monotonic() + seconds
        while (began := time.monotonic()) < end:
            client.get("/health/live").raise_for_status()
            waits.append(time.monotonic() - began)
            time.sleep(REQUEST_EVERY)
    return waits


def as_table(idle: Idle, title: str) -> Table:
    """Return the results as a table."""
    table = Table("part", "% of a core", "with discovery, %", title=title)
    for share in idle.shares:
        table.add_row(share.part, f"{share.quiet:.1f}", f"{share.all:.1f}")
    waits = sorted(idle.waits)
    table.caption = (
        f"CPU use of the machine: {idle.machine:.0f} %; latency of requests to the node:"
        f" p50 {_ms(waits, 0.5)} ms, p99 {_ms(waits, 0.99)} ms, max {_ms(waits, 1.0)} ms"
    )
    return table


def _ms(waits: list[float], share: float) -> str:
    """Return a percentile of the sorted seconds, in milliseconds."""
    return f"{waits[min(len(waits) - 1, int(len(waits) * share))] * 1000:.0f}"


def main() -> int:
    """Run the benchmark and print its results; there are no limits."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.idle", description=(__doc__ or "").split(": ")[1])
    parser.add_argument("--topics", type=int, default=TOPICS)
    parser.add_argument("--partitions", type=int, default=PARTITIONS, help="partitions of each topic")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="duration of each of the two measurements")
    parser.add_argument("--lanes", type=int, default=2)
    options = parser.parse_args()
    idle = measure(options.topics, options.partitions, options.seconds, options.lanes)
    title = f"{options.topics * options.partitions:,} idle partitions, {options.lanes} lanes"
    Console(width=140).print(as_table(idle, title))
    return 0


if __name__ == "__main__":
    sys.exit(main())
