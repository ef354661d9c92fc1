"""Cost and latency of exactly-once: mm2's beside its at-least-once, and beside Java's exactly-once.

All runs share two brokers and one backlog. Runs of mm2 take turns, since the ratio of its two kinds of runs is much
closer to 1 than that of two programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace

from tests.bench.copying import copy_backlog, read_source
from tests.bench.latency import measure_latency
from tests.bench.results import Copy, ExactlyOnce, Latency
from tests.bench.screen import Screen
from tests.bench.tools import JAVA_EXACTLY_ONCE, OURS, OURS_EXACTLY_ONCE, Tool
from tests.bench.workloads import WORKLOADS, write_backlog
from tests.lab.cluster import KafkaCluster

NAME = "exactly-once"
WORKLOAD = replace(next(one for one in WORKLOADS if one.name == "large"), name=NAME)
TOOLS = (OURS, OURS_EXACTLY_ONCE, JAVA_EXACTLY_ONCE)
ROUNDS = 3  # of both kinds of mm2; a round takes a few seconds, in which other programs can disturb it
CPU_AIM = 1.3  # upper limit of the CPU time with exactly-once as a share of that without
P50_AIM_MS = 250  # upper limit of the median with exactly-once, for a read_committed consumer

NoteFailure = Callable[[str, Tool], AbstractContextManager[None]]


def measure(
    source: KafkaCluster, target: KafkaCluster, scale: float, screen: Screen, note_failure: NoteFailure
) -> ExactlyOnce:
    """Copy the backlog with each tool, then measure the latency of each. A tool that fails is left out."""
    backlog = WORKLOAD.backlog.scaled(scale)
    with screen.phase(f"{NAME}: writing the backlog", backlog.records) as report_progress:
        write_backlog(source, NAME, backlog, report_progress)
    wanted = read_source(source, NAME, f"{NAME}: reading the backlog", screen)
    copies: list[Copy] = []
    latencies: list[Latency] = []
    for tool, number in _turns():
        with note_failure(NAME, tool):
            run = replace(tool, name=f"{tool.name}-{number}")  # aliases, and so topics, of its own
            copies.append(replace(copy_backlog(run, WORKLOAD, source, target, wanted, screen), tool=tool.name))
    for tool in TOOLS:
        with note_failure(NAME, tool):
            latencies.append(measure_latency(tool, source, target, scale, screen))
    return ExactlyOnce(copies=tuple(copies), latencies=tuple(latencies))


def _turns() -> Iterator[tuple[Tool, int]]:
    """Yield Java once and then both kinds of mm2 in alternating order, each with the number of its run."""
    yield JAVA_EXACTLY_ONCE, 1
    for number in range(1, ROUNDS + 1):
        pair = (OURS, OURS_EXACTLY_ONCE)
        for tool in pair if number % 2 else pair[::-1]:
            yield tool, number
