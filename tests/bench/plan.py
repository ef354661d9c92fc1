"""Workloads of a benchmark run, their order and their brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaException
from rich.text import Text

from tests.bench import exactly_once, latency, sql, translation
from tests.bench.copying import copy_backlog, read_source
from tests.bench.latency import measure_floor, measure_latency
from tests.bench.results import Copy, ExactlyOnce, Failure, Latency, Results, Transformed
from tests.bench.screen import Screen
from tests.bench.tools import TOOLS, Tool
from tests.bench.workloads import WARM_UP, WORKLOADS, Workload, write_backlog
from tests.lab import scratch
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import GaveUp

NAMES = (*(workload.name for workload in WORKLOADS), latency.NAME, exactly_once.NAME, sql.NAME, translation.NAME)

# Requests must not create topics: the tool creates the remote topic. More threads than brokers of tests have.
BROKER = {"auto.create.topics.enable": "false", "num.network.threads": "2", "num.io.threads": "4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Selection of `NAMES`, and the scale of each; 1 is the full size."""

    names: tuple[str, ...] = NAMES
    scale: float = 1.0


class Benchmark:
    """Runs a plan. If a tool fails, the failure is recorded and the others continue."""

    def __init__(self, plan: Plan, screen: Screen) -> None:
        self._plan = plan
        self._screen = screen
        self._copies: list[Copy] = []
        self._latencies: list[Latency] = []
        self._failures: list[Failure] = []
        self._turns = 0

    def run(self, facts: tuple[tuple[str, str], ...]) -> Results:
        """Run the plan in order. Each workload gets two new brokers, which the tools share."""
        for workload in WORKLOADS:
            if workload.name in self._plan.names:
                self._copy(workload)
        if latency.NAME in self._plan.names:
            self._measure_latency()
        exact = self._measure_exactly_once() if exactly_once.NAME in self._plan.names else None
        transformed = self._measure_sql() if sql.NAME in self._plan.names else None
        translated = translation.NAME in self._plan.names
        return Results(
            facts=facts,
            copies=tuple(self._copies),
            latencies=tuple(self._latencies),
            exactly_once=exact,
            transformed=transformed,
            translation=translation.measure(self._plan.scale, self._screen) if translated else None,
            failures=tuple(self._failures),
        )

    def _copy(self, workload: Workload) -> None:
        backlog = workload.backlog.scaled(self._plan.scale)
        with two_brokers() as (source, target):
            with self._screen.phase(f"{workload.name}: writing the backlog", backlog.records) as report_progress:
                write_backlog(source, workload.name, backlog, report_progress)
            self._warm(target, workload.name)
            wanted = read_source(source, workload.name, f"{workload.name}: reading the backlog", self._screen)
            for tool in self._in_turn():
                with self._noting_failure(workload.name, tool):
                    self._copies.append(copy_backlog(tool, workload, source, target, wanted, self._screen))

    def _measure_latency(self) -> None:
        with two_brokers() as (source, target):
            self._warm(target, latency.NAME)
            self._latencies.append(measure_floor(source, self._plan.scale, self._screen))
            for tool in self._in_turn():
                with self._noting_failure(latency.NAME, tool):
                    self._latencies.append(measure_latency(tool, source, target, self._plan.scale, self._screen))

    def _measure_exactly_once(self) -> ExactlyOnce:
        with two_brokers() as (source, target):
            self._warm(target, exactly_once.NAME)
            return exactly_once.measure(source, target, self._plan.scale, self._screen, self._noting_failure)

    def _measure_sql(self) -> Transformed:
        with two_brokers() as (source, target):
            self._warm(target, sql.NAME)
            return sql.measure(source, target, self._plan.scale, self._screen, self._noting_failure)

    def _warm(self, target: KafkaCluster, name: str) -> None:
        """Write some load to a new target, so that it is equally warm for both tools."""
        with self._screen.phase(f"{name}: warming the target", WARM_UP.records) as report_progress:
            write_backlog(target, "warm-up", WARM_UP, report_progress)

    def _in_turn(self) -> tuple[Tool, ...]:
        """Return the tools in alternating order, so that the effect of running second does not always favour one."""
        self._turns += 1
        return TOOLS if self._turns % 2 else TOOLS[::-1]

    @contextmanager
    def _noting_failure(self, workload: str, tool: Tool) -> Iterator[None]:
        try:
            yield
        except (GaveUp, KafkaException) as problem:
            scratch.keep_logs()
            self._failures.append(Failure(workload=workload, tool=tool.name, reason=str(problem)))
            self._screen.say(Text(f"{workload}: {tool.title} failed: {problem}", style="red"))


@contextmanager
def two_brokers() -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Start source and target during the block."""
    with ExitStack() as ends:
        source = ends.enter_context(KafkaCluster("bench-source", properties=BROKER))
        target = ends.enter_context(KafkaCluster("bench-target", properties=BROKER))
        yield source, target
