"""/health and /metrics of kafka-mirror-maker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mm2.core.lanes.counters import PartitionCounters
from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.problems.problem_times import LIMIT_S
from mm2.mirror1.monitoring import Problems, StreamState, monitoring_app, problems_of

STARTED = 1_790_000_000.0  # 2026-09-21T14:13:20Z
COUNTERS = PartitionCounters(records=90, bytes=9_000, latency_sum=1.5, latency_count=3, dead_letters=2)
ORDERS = PartitionProgress(
    topic="orders",
    partition=1,
    remote_topic="orders",
    state=TaskState.RUNNING,
    position=90,
    end_offset=100,
    counters=COUNTERS,
)
LABELS = {"stream": "g-0", "topic": "orders", "partition": "1"}


@dataclass
class Mirror:
    """Streams with these states, and a clock."""

    partition: PartitionProgress = ORDERS
    problem: str | None = None
    engine: str | None = None
    now: float = 100.0
    problems: Problems = field(default_factory=Problems)

    def states(self) -> Sequence[StreamState]:
        return [StreamState(name="g-0", problem=self.problem, partitions=(self.partition,))]

    def engine_problem(self) -> str | None:
        return self.engine

    def passes(self, seconds: float) -> None:
        """Let this time pass, in which the mirror looks once a second."""
        for _ in range(round(seconds)):
            self.now += 1.0
            self.problems.observe(problems_of(self), now=self.now, time=STARTED + self.now)

    def get(self, path: str, *, method: str = "GET", host: str = "mirror") -> httpx.Response:
        app = monitoring_app(self, self.problems, {"mirror"}, started_at=STARTED)

        async def response() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://mirror") as client:
                return await client.request(method, path, headers={"Host": host})

        return asyncio.run(response())

    def metrics(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        families = text_string_to_metric_families(self.get("/metrics").text)
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in families
            for sample in family.samples
        }


def of(name: str, **labels: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def test_metrics_of_a_partition() -> None:
    found = Mirror().metrics()
    assert found[of("mm2_mirror_records_total", **LABELS)] == COUNTERS.records
    assert found[of("mm2_mirror_bytes_total", **LABELS)] == COUNTERS.bytes
    assert found[of("mm2_mirror_dead_letters_total", **LABELS)] == COUNTERS.dead_letters
    assert found[of("mm2_mirror_replication_latency_seconds_sum", **LABELS)] == COUNTERS.latency_sum
    assert found[of("mm2_mirror_replication_latency_seconds_count", **LABELS)] == COUNTERS.latency_count
    assert found[of("mm2_mirror_lag_records", **LABELS)] == 10
    assert found[of("mm2_mirror_stream_has_problem", stream="g-0")] == 0
    assert found[of("mm2_mirror_engine_running")] == 1
    assert found[of("mm2_mirror_start_time_seconds")] == 1_790_000_000.0


@pytest.mark.parametrize(
    "partition",
    [
        pytest.param(replace(ORDERS, position=-1), id="no position"),
        pytest.param(replace(ORDERS, end_offset=-1), id="no end offset"),
        pytest.param(replace(ORDERS, end_observed=1_790_000_000.0), id="an old end offset"),
    ],
)
def test_an_unknown_lag_has_no_sample(partition: PartitionProgress) -> None:
    assert of("mm2_mirror_lag_records", **LABELS) not in Mirror(partition).metrics()


def test_a_problem_makes_it_down_when_it_has_lasted() -> None:
    mirror = Mirror()
    mirror.passes(1)
    assert mirror.get("/health").json() == {"status": "UP", "reasons": []}
    mirror.problem = "cluster A: connection refused"
    mirror.passes(LIMIT_S)
    answer = mirror.get("/health")
    assert answer.status_code == 200
    reason = "g-0 since 2026-09-21T14:15:02Z: cluster A: connection refused"
    assert answer.json() == {"status": "UP", "reasons": [reason]}
    mirror.passes(1)
    answer = mirror.get("/health")
    assert (answer.status_code, answer.json()["status"]) == (503, "DOWN")
    assert mirror.metrics()[of("mm2_mirror_stream_has_problem", stream="g-0")] == 1

    mirror.problem = None
    mirror.passes(LIMIT_S + 1)
    assert mirror.get("/health").json() == {"status": "UP", "reasons": []}


def test_a_problem_that_comes_and_goes_is_one() -> None:
    mirror = Mirror()
    mirror.passes(1)
    for _ in range(8):
        mirror.problem = None
        mirror.passes(5)
        mirror.problem = "cluster A: connection refused"
        mirror.passes(5)
    assert mirror.get("/health").status_code == 503


def test_what_has_never_run_is_not_up() -> None:
    mirror = Mirror(engine="waiting for Spark and its lanes")
    assert mirror.get("/health").json() == {"status": "DOWN", "reasons": ["kafka-mirror-maker: not observed yet"]}
    mirror.passes(1)
    reason = "Spark since 2026-09-21T14:15:01Z: waiting for Spark and its lanes"
    assert mirror.get("/health").json() == {"status": "DOWN", "reasons": [reason]}


def test_ready_while_the_engine_runs_and_live_always() -> None:
    mirror = Mirror(problem="cluster A: connection refused")
    mirror.passes(2 * LIMIT_S)
    assert mirror.get("/health/ready").status_code == 200
    mirror.engine = "the JVM exited with code 3"
    answer = mirror.get("/health/ready")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["Spark: the JVM exited with code 3"])
    assert mirror.metrics()[of("mm2_mirror_engine_running")] == 0
    assert mirror.get("/health/live").status_code == 200
    assert mirror.get("/health/live", method="HEAD").status_code == 200


def test_other_names_are_rejected() -> None:
    assert Mirror().get("/metrics", host="rebound.example.net").status_code == 421
