"""Checks of what nodes report during a fault: no lag that is too low, no negative rate, no decreasing counter."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from prometheus_client.parser import text_string_to_metric_families
from pydantic import TypeAdapter

from mm2.cli.node.lag import lag_json
from mm2.cli.node.lag_report import LagReport
from mm2.cli.node.progress_rates import ReplicationRate
from mm2.node.status.status_model import FlowStatus
from tests.lab.arrivals import Arrivals
from tests.lab.background_thread import BackgroundThread
from tests.lab.node import Node

EVERY = 0.5  # seconds
REPORTED_WITHIN = 4.0  # seconds: lanes report every second, states of other nodes are 1 s old, and the cores are busy
COUNTERS = ("mm2_source_records_total", "mm2_source_bytes_total")
FLOWS = TypeAdapter(tuple[FlowStatus, ...])


class Observer(BackgroundThread):
    """Polls /flows and /metrics of ``nodes`` from a thread while the block runs, and collects wrong values.

    ``written`` and ``copied`` are the topic's end offsets on the source and on the target.
    """

    def __init__(self, nodes: Sequence[Node], flow: str, written: Arrivals, copied: Arrivals) -> None:
        self.wrong: list[str] = []
        self.unknown_seconds = 0.0  # between two reads, in the later of which the lag of a partition was unknown
        self.reads = 0
        self._nodes = nodes
        self._flow = flow
        self._written = written
        self._copied = copied
        self._ends: list[tuple[float, Mapping[int, int]]] = []
        self._paces = {node.name: ReplicationRate(time.monotonic) for node in nodes}
        self._sums: dict[tuple[str, str], float] = {}
        self._read_at: dict[str, float] = {}  # of each node
        self._began = time.monotonic()
        super().__init__("observer")

    def _run(self) -> None:
        while not self._stopping.wait(EVERY):
            for node in self._nodes:
                self._read(node)

    def _read(self, node: Node) -> None:
        self._ends.append((time.monotonic(), self._written.ends()))
        flows, metrics = node.get("/flows"), node.get("/metrics")
        copied = self._copied.ends()
        if flows is None or metrics is None:  # killed, or not started yet
            return
        self.reads += 1
        run = f"{node.name} {node.process.pid}"  # counters start at 0 with each process
        for family in text_string_to_metric_families(metrics.text):
            for name in COUNTERS:
                found = [one.value for one in family.samples if one.name == name]
                if found:
                    self._check_increases(run, name, sum(found))
        self._check_lags(node, FLOWS.validate_json(flows.content), copied)

    def _check_lags(self, node: Node, flows: Sequence[FlowStatus], copied: Mapping[int, int]) -> None:
        pace = self._paces[node.name]
        pace.take(flows)
        for flow in lag_json(LagReport(flows=flows), pace)["flows"]:  # type: ignore[attr-defined]
            if flow["flow"] != self._flow:
                continue
            rows = [row for row in flow["partitions"] if row["topic"] == self._written.topic]
            missing = self._missing(copied)
            now = time.monotonic()
            if any(row["lag_records"] is None for row in rows):
                self.unknown_seconds += now - self._read_at.get(node.name, now)
            self._read_at[node.name] = now
            for row in rows:
                self._check_lag(node, f"partition {row['partition']}", row["lag_records"], missing[row["partition"]])
            self._check_lag(node, "all partitions", flow["lag_records"], sum(missing.values()))
            for one in (flow, *rows):
                if (one["records_per_second"] or 0) < 0:
                    self._add_error(node, f"negative rate {one}")
        furthest = self._furthest(flows, pace)
        if furthest:  # a node that has just started lists no topics
            self._check_increases(node.name, "positions", sum(position for position, _ in furthest))
            self._check_increases(node.name, "end offsets", sum(end for _, end in furthest))

    def _furthest(self, flows: Sequence[FlowStatus], pace: ReplicationRate) -> list[tuple[int, int]]:
        of_topic = [
            pace.furthest(flow.flow, topic.topic, one)
            for flow in flows
            for topic in flow.topics
            for one in topic.partitions
            if topic.topic == self._written.topic
        ]
        return [one for one in of_topic if one is not None]

    def _missing(self, copied: Mapping[int, int]) -> dict[int, int]:
        """Return the minimum lag that a node must report, by partition. Repeated records count as copied."""
        old = [ends for at, ends in self._ends if at <= time.monotonic() - REPORTED_WITHIN]
        written = old[-1] if old else {}
        return {number: max(0, written.get(number, 0) - end) for number, end in copied.items()}

    def _check_lag(self, node: Node, place: str, lag: int | None, missing: int) -> None:
        if lag is not None and lag < missing:
            self._add_error(node, f"{place}: lag {lag} while at least {missing} records are missing")

    def _check_increases(self, run: str, name: str, value: float) -> None:
        before = self._sums.get((run, name), 0.0)
        if value < before:
            self.wrong.append(f"{time.monotonic() - self._began:.1f} s: {run}: {name} fell from {before} to {value}")
        self._sums[run, name] = value

    def _add_error(self, node: Node, text: Any) -> None:
        self.wrong.append(f"{time.monotonic() - self._began:.1f} s: {node.name}: {text}")
