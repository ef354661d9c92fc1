"""Latency of records through a warm mirror at a steady rate."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.bench.copying import check_copy, read_source, watch
from tests.bench.payloads import events
from tests.bench.results import Latency, percentile
from tests.bench.screen import Screen
from tests.bench.steady import PER_SECOND, VALUE_BYTES, Route, stream
from tests.bench.tools import RunningTool, Tool
from tests.bench.workloads import PARTITIONS, Backlog, write_backlog
from tests.lab.cluster import KafkaCluster
from tests.lab.records import Outgoing

NAME = "latency"
TITLE = "1,000 records of 1 kB a second, through a warm mirror"
SECONDS = 60.0  # duration of the measured stream, at scale 1
WARM_SECONDS = 15.0  # duration of the same stream before that, not measured
FLOOR_SECONDS = 15.0  # duration of the stream without a mirror
FEWEST_SECONDS = 2.0  # minimum duration of each, at any scale
AIM = 0.5  # upper limit of mm2's median as a share of Java's

# Copied by each tool first, so that Java's JIT compiler has seen every path at full load.
WARMING = Backlog(records=200_000, value_bytes=VALUE_BYTES)


def measure_floor(cluster: KafkaCluster, scale: float, screen: Screen) -> Latency:
    """Measure the stream written to and read from the same topic: the latency of clients and broker alone."""
    topic = cluster.create_topic("steady", PARTITIONS)
    route = Route(source=cluster, topic=topic, target=cluster, remote_topic=topic)
    _run(route, "no mirror, warming up", FEWEST_SECONDS, screen)
    return _summary(None, _run(route, "no mirror", max(FEWEST_SECONDS, FLOOR_SECONDS * scale), screen))


def measure_latency(
    tool: Tool,
    source: KafkaCluster,
    target: KafkaCluster,
    scale: float,
    screen: Screen,
    *,
    payload: Callable[..., Iterator[Outgoing]] = events,
) -> Latency:
    """Let a tool copy a backlog of a dedicated topic, warm it with the stream, then measure.

    Raises GaveUp if the tool fails or its copy is not exact at the end.
    """
    topic = f"steady-{tool.name}"
    backlog = replace(WARMING.scaled(scale), payload=payload)
    with screen.phase(f"{NAME}: writing the warm-up backlog of {tool.title}", backlog.records) as report_progress:
        write_backlog(source, topic, backlog, report_progress)
    wanted = read_source(source, topic, f"{NAME}: reading the warm-up backlog", screen, tool.expected)
    copied = sum(one.records for one in wanted.values())
    with RunningTool(tool, source, target, topic) as running:
        with screen.phase(f"{NAME}: {tool.title} copies", copied) as report_progress:
            watch(running, copied, report_progress)
        route = Route(source=source, topic=topic, target=target, remote_topic=running.remote_topic, payload=payload)
        _run(route, f"{tool.title}, warming up", max(FEWEST_SECONDS, WARM_SECONDS * scale), screen)
        began, cpu_before = time.monotonic(), running.tree.cpu_seconds()
        latencies = _run(route, tool.title, max(FEWEST_SECONDS, SECONDS * scale), screen)
        cores = (running.tree.cpu_seconds() - cpu_before) / (time.monotonic() - began)
        memory = running.tree.memory_bytes()
        running.stop()
    wanted = read_source(source, topic, f"{NAME}: reading the source", screen, tool.expected)
    check_copy(running, wanted, screen)
    return _summary(tool, latencies, cores=cores, memory_bytes=memory)


def _run(route: Route, title: str, seconds: float, screen: Screen) -> list[float]:
    count = round(seconds * PER_SECOND)
    with screen.phase(f"{NAME}: {title}", count) as report_progress:
        return stream(route, count, report_progress)


def _summary(tool: Tool | None, latencies: list[float], *, cores: float = 0.0, memory_bytes: int = 0) -> Latency:
    ordered = sorted(latencies)
    return Latency(
        tool=tool.name if tool else None,
        records=len(ordered),
        p50_ms=percentile(ordered, 0.5),
        p99_ms=percentile(ordered, 0.99),
        max_ms=ordered[-1],
        cores=cores,
        memory_bytes=memory_bytes,
    )
