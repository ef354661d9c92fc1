"""How long a record takes through a warm mirror at a steady pace."""

from __future__ import annotations

import time

from tests.bench.copying import check_copy, read_source, watch
from tests.bench.results import Latency, percentile
from tests.bench.screen import Screen
from tests.bench.steady import PER_SECOND, VALUE_BYTES, Route, stream
from tests.bench.tools import RunningTool, Tool
from tests.bench.workloads import PARTITIONS, Backlog, write_backlog
from tests.lab.cluster import KafkaCluster

NAME = "latency"
TITLE = "1,000 records of 1 kB a second, through a warm mirror"
SECONDS = 60.0  # of the measured stream, at scale 1
WARM_SECONDS = 15.0  # of the same stream before it, not measured
FLOOR_SECONDS = 15.0  # of the stream without a mirror
FEWEST_SECONDS = 2.0  # of each, however small the scale
AIM = 0.5  # our median as a share of Java's that we want to stay below

# Copied by each tool first: Java's compiler has then seen every path at full load.
WARMING = Backlog(records=200_000, value_bytes=VALUE_BYTES)


def measure_floor(cluster: KafkaCluster, scale: float, screen: Screen) -> Latency:
    """The stream written to and read from one and the same topic: what clients and a broker take by themselves."""
    topic = cluster.create_topic("steady", PARTITIONS)
    route = Route(source=cluster, topic=topic, target=cluster, remote_topic=topic)
    _run(route, "no mirror, warming up", FEWEST_SECONDS, screen)
    return _summary(None, _run(route, "no mirror", max(FEWEST_SECONDS, FLOOR_SECONDS * scale), screen))


def measure_latency(tool: Tool, source: KafkaCluster, target: KafkaCluster, scale: float, screen: Screen) -> Latency:
    """Let a tool copy a backlog on a topic of its own, warm it with the stream, then measure.

    Raises GaveUp when the tool fails, or when its copy is not exact in the end.
    """
    topic = f"steady-{tool.name}"
    backlog = WARMING.scaled(scale)
    with screen.phase(f"{NAME}: writing what warms {tool.title}", backlog.records) as told:
        write_backlog(source, topic, backlog, told)
    with RunningTool(tool, source, target, topic) as running:
        with screen.phase(f"{NAME}: {tool.title} copies", backlog.records) as told:
            watch(running, backlog.records, told)
        route = Route(source=source, topic=topic, target=target, remote_topic=running.remote_topic)
        _run(route, f"{tool.title}, warming up", max(FEWEST_SECONDS, WARM_SECONDS * scale), screen)
        began, cpu_before = time.monotonic(), running.tree.cpu_seconds()
        latencies = _run(route, tool.title, max(FEWEST_SECONDS, SECONDS * scale), screen)
        cores = (running.tree.cpu_seconds() - cpu_before) / (time.monotonic() - began)
        memory = running.tree.memory_bytes()
        running.stop()
    check_copy(running, read_source(source, topic, f"{NAME}: reading the source", screen), screen)
    return _summary(tool, latencies, cores=cores, memory_bytes=memory)


def _run(route: Route, title: str, seconds: float, screen: Screen) -> list[float]:
    count = round(seconds * PER_SECOND)
    with screen.phase(f"{NAME}: {title}", count) as told:
        return stream(route, count, told)


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
