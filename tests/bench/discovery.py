"""``python -m tests.bench.discovery``: cost of discovery with many topics.

Measures requests, CPU seconds of the leader, and the longest time that the event loop was blocked, which delays leases
and group heartbeats.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from rich.console import Console
from rich.table import Table

from mm2.core.assignment.partition_assignment import spread
from mm2.core.settings.client import ClientSettings
from mm2.kafka.admin.topics import NewTopic, create_topics
from mm2.kafka.client.cluster import Cluster
from tests.lab import class_data
from tests.lab.cluster import KafkaCluster
from tests.lab.jars import KAFKA_4
from tests.lab.leader import leading
from tests.lab.loop_blocks import loop_blocks
from tests.lab.sent_requests import sent_requests
from tests.lab.settings import one_flow
from tests.lab.waiting import until

TOPICS = 10_000
CHANGED = 100  # topics whose configuration changes between rounds
HEAP = "-Xmx1g"  # a broker with 10,000 partitions needs more than the lab's 256 MB
KNOWN_WITHIN = 300.0  # seconds for a broker to open the logs of 10,000 topics


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Cost of one round: requests by kind, elapsed and CPU seconds, and the longest time the event loop was blocked."""

    round: str
    requests: Counter[str]
    seconds: float
    cpu: float
    block: float


class Meter:
    """Measures rounds one after the other."""

    def __init__(self) -> None:
        self.costs: list[Cost] = []

    @contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        clock, cpu = time.perf_counter(), time.process_time()
        with sent_requests() as requests, loop_blocks() as blocks:
            yield
        self.costs.append(
            Cost(
                round=name,
                requests=Counter(requests),
                seconds=time.perf_counter() - clock,
                cpu=time.process_time() - cpu,
                block=blocks.longest,
            )
        )


async def measure(topics: int) -> list[Cost]:
    """Measure all rounds with ``topics`` single-partition topics."""
    meter = Meter()
    with ExitStack() as ends:
        a, b = (ends.enter_context(_large(name)) for name in ("bench-a", "bench-b"))
        await _create(a, topics)
        async with leading(one_flow(a, b, topics=".*"), at_work=False) as leader:
            with meter.measuring("first round: creates all remote topics"):
                found = await leader.discovery.look()
            with meter.measuring("round without changes"):
                found = await leader.discovery.look()
            with meter.measuring("assignment to 8 source tasks, in a thread"):
                source_tasks = await asyncio.to_thread(spread, found.partitions, tasks_max=8)
            assert sum(map(len, source_tasks)) == len(found.partitions) == topics
            with meter.measuring("configurations, nothing to change"):
                assert await leader.config_sync.round() == []
            _change(a, topics)
            with meter.measuring(f"configurations, {CHANGED} topics to change"):
                assert await leader.config_sync.round() == []
    return meter.costs


def _large(name: str) -> KafkaCluster:
    return KafkaCluster(name, java_options=(*class_data.options(KAFKA_4), HEAP))


async def _create(kafka: KafkaCluster, topics: int) -> None:
    servers = tuple(kafka.bootstrap.split(","))
    async with Cluster(ClientSettings(bootstrap_servers=servers, alias=kafka.name)) as cluster:
        new = [NewTopic(name=_name(number), partitions=1, replication_factor=1) for number in range(topics)]
        await create_topics(cluster, new)

        async def known() -> bool:
            return len((await cluster.metadata(None)).topics) == topics

        condition: Callable[[], bool | Awaitable[bool]] = known
        await until(condition, KNOWN_WITHIN, f"{kafka.name} has metadata of its {topics} topics")


def _name(number: int) -> str:
    return f"orders.{number:05d}.v1"


def _change(kafka: KafkaCluster, topics: int) -> None:
    entry = ConfigEntry("retention.ms", "123456", incremental_operation=AlterConfigOpType.SET)
    changed = [
        ConfigResource(ResourceType.TOPIC, _name(number), incremental_configs=[entry])
        for number in range(0, topics, max(1, topics // CHANGED))
    ]
    for future in kafka.admin.incremental_alter_configs(changed).values():
        future.result(60)


def as_table(costs: list[Cost], topics: int) -> Table:
    """Return the results as a table."""
    table = Table("round", "requests", "s", "CPU s", "longest block, ms", title=f"{topics:,} topics of one partition")
    for cost in costs:
        requests = ", ".join(f"{count} {kind}" for kind, count in sorted(cost.requests.items())) or "none"
        table.add_row(cost.round, requests, f"{cost.seconds:.1f}", f"{cost.cpu:.2f}", f"{cost.block * 1000:.0f}")
    return table


def main() -> int:
    """Run the benchmark and print its results; there are no limits."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.discovery", description=(__doc__ or "").split(": ")[1])
    parser.add_argument("--topics", type=int, default=TOPICS)
    options = parser.parse_args()
    gc.collect()
    gc.freeze()  # as in a node
    Console(width=140).print(as_table(asyncio.run(measure(options.topics)), options.topics))
    return 0


if __name__ == "__main__":
    sys.exit(main())
