"""/health and /metrics of ``kafka-mirror-maker``, on the listeners of --listeners."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from fastapi import FastAPI, Response
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily
from prometheus_client.registry import Collector

from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.problems.problem_times import ProblemTimes
from mm2.core.problems.times_in_words import utc_text
from mm2.rest.public.health import DOWN, UP, HealthResponse, health_answer
from mm2.rest.public.responses import HeadAsGet
from mm2.rest.server.allowed_hosts import AllowedHosts

_MIRROR = "mirror"
_STARTING = "kafka-mirror-maker"

PARTITION = ("stream", "topic", "partition")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """One member of the consumer group: why it does not copy all of its partitions, if so, and its partitions."""

    name: str
    problem: str | None
    partitions: tuple[PartitionProgress, ...]


class Streams(Protocol):
    """What is monitored: called in the event loop of the mirror."""

    def states(self) -> Sequence[StreamState]: ...

    def engine_problem(self) -> str | None:
        """Why Spark does not run its lanes; None: it runs them."""


class Problems:
    """The problems of the mirror, which is one flow to `ProblemTimes`, and since when each has lasted.

    `observe` is called once a second, in the event loop.
    """

    def __init__(self) -> None:
        self._times = ProblemTimes()
        self._current: dict[str, str] = {_STARTING: "not observed yet"}

    def observe(self, problems: Iterable[tuple[str, str]], *, now: float, time: float) -> None:
        """Take the problems as they are ``now``, in seconds of a monotonic clock: what has each, and its text.

        ``time``: seconds since 1970.
        """
        self._current = dict(problems)
        self._times = self._times.observed({_MIRROR: self._current.keys()}, now=now, time=time)

    @property
    def health(self) -> HealthResponse:
        """The answer of /health."""
        is_down = bool(self._current) and self._times.is_down(_MIRROR)
        reasons = tuple(self._message(place, text) for place, text in sorted(self._current.items()))
        return HealthResponse(status=DOWN if is_down else UP, reasons=reasons)

    def _message(self, place: str, text: str) -> str:
        since = self._times.since(_MIRROR, (place,))
        return f"{place}{'' if since is None else f' since {utc_text(since)}'}: {text}"


def problems_of(streams: Streams) -> Iterator[tuple[str, str]]:
    """Yield what does not copy, and why."""
    if (problem := streams.engine_problem()) is not None:
        yield "Spark", problem
    for stream in streams.states():
        if stream.problem is not None:
            yield stream.name, stream.problem


def monitoring_app(streams: Streams, problems: Problems, names: Collection[str], started_at: float) -> FastAPI:
    """Return the application. ``names``: of this machine, by which it may be addressed. ``started_at`` is in seconds
    since 1970."""
    app = FastAPI(openapi_url=None)
    registry = CollectorRegistry()
    registry.register(MirrorCollector(streams, started_at))

    @app.get("/health/live")
    async def live() -> HealthResponse:
        return HealthResponse(status=UP)

    @app.get("/health/ready")
    async def ready() -> Response:
        problem = streams.engine_problem()
        if problem is None:
            return health_answer(HealthResponse(status=UP))
        return health_answer(HealthResponse(status=DOWN, reasons=(f"Spark: {problem}",)))

    @app.get("/health")
    async def health() -> Response:
        return health_answer(problems.health)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_PLAIN_0_0_4)

    app.add_middleware(HeadAsGet)
    app.add_middleware(AllowedHosts, names=names)
    return app


class MirrorCollector(Collector):
    """The partitions of the current assignment. A counter starts at 0 again with each assignment and lane, which
    Prometheus' ``rate`` and ``increase`` handle. What is unknown has no sample."""

    def __init__(self, streams: Streams, started_at: float) -> None:
        self._streams = streams
        self._started_at = started_at

    def collect(self) -> Iterator[Metric]:
        records = CounterMetricFamily("mm2_mirror_records", "Records that the target acknowledged.", labels=PARTITION)
        size = CounterMetricFamily("mm2_mirror_bytes", "Bytes of acknowledged batches as stored.", labels=PARTITION)
        letters = CounterMetricFamily(
            "mm2_mirror_dead_letters", "Records that were written to the dead-letter topic.", labels=PARTITION
        )
        latency = SummaryMetricFamily(
            "mm2_mirror_replication_latency_seconds",
            "Seconds from the largest timestamp of a batch until the target acknowledges it.",
            labels=PARTITION,
        )
        lag = GaugeMetricFamily(
            "mm2_mirror_lag_records", "Source offsets still to copy; no sample while it is unknown.", labels=PARTITION
        )
        failed = GaugeMetricFamily(
            "mm2_mirror_stream_has_problem", "1 if the stream does not copy all of its partitions.", labels=("stream",)
        )
        for stream in self._streams.states():
            failed.add_metric((stream.name,), stream.problem is not None)
            for one in stream.partitions:
                labels = (stream.name, one.topic, str(one.partition))
                records.add_metric(labels, one.counters.records)
                size.add_metric(labels, one.counters.bytes)
                letters.add_metric(labels, one.counters.dead_letters)
                latency.add_metric(labels, one.counters.latency_count, one.counters.latency_sum)
                if one.lag_records is not None:
                    lag.add_metric(labels, one.lag_records)
        yield from (records, size, letters, latency, lag, failed)
        yield GaugeMetricFamily(
            "mm2_mirror_engine_running",
            "1 while Spark runs all lanes.",
            value=self._streams.engine_problem() is None,
        )
        yield GaugeMetricFamily(
            "mm2_mirror_start_time_seconds", "When the process started, seconds since 1970.", value=self._started_at
        )

    def describe(self) -> Iterable[Metric]:
        """Return no metrics: registration must not read a state that does not exist yet."""
        return ()
