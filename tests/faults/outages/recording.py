"""Everything that a node shows at one moment: commands, REST, metrics."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from tests.lab.commands import Outcome, run_here
from tests.lab.node import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """The response to a GET request; ``code`` 0: the node did not answer."""

    code: int
    body: str


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What ``node`` has shown, ``seconds`` after the fault (negative: before it), at ``at`` (seconds since 1970)."""

    node: str
    at: float
    seconds: float
    status: Outcome
    lag: Outcome
    health: Response
    ready: Response
    flows: Response
    metrics: Response

    @cached_property
    def flow(self) -> Mapping[str, Any]:
        """The first flow that is enabled; empty if the node did not answer."""
        flows = json.loads(self.flows.body) if self.flows.code else []
        return next((one for one in flows if one["enabled"]), {})

    @cached_property
    def samples(self) -> tuple[tuple[str, tuple[tuple[str, str], ...], float], ...]:
        """Name, sorted labels and value of each sample of /metrics."""
        families = text_string_to_metric_families(self.metrics.body)
        return tuple(
            (sample.name, tuple(sorted(sample.labels.items())), sample.value)
            for family in families
            for sample in family.samples
        )

    def values(self, name: str, **labels: str) -> list[float]:
        """Return the values of the samples with this name and these labels."""
        wanted = labels.items()
        return [value for one, given, value in self.samples if one == name and wanted <= dict(given).items()]

    def partitions(self, *topics: str) -> list[Mapping[str, Any]]:
        """Return the partitions of these topics (by default of all), with their topic, as in GET /flows."""
        return [
            {"topic": topic["topic"], **partition}
            for topic in self.flow.get("topics", ())
            for partition in topic["partitions"]
            if not topics or topic["topic"] in topics
        ]

    @property
    def reasons(self) -> list[str]:
        """The reasons of /health."""
        return list(json.loads(self.health.body)["reasons"]) if self.health.code else []


_NOT_ASKED = Outcome(code=0, stdout="", stderr="")


def scrape(node: Node) -> Observation:
    """Ask a node for its metrics only."""
    found = node.get("/metrics")
    metrics = Response(code=0, body="") if found is None else Response(code=found.status_code, body=found.text)
    other = Response(code=0, body="")
    return Observation(
        node=node.name,
        at=time.time(),
        seconds=-1.0,
        status=_NOT_ASKED,
        lag=_NOT_ASKED,
        health=other,
        ready=other,
        flows=other,
        metrics=metrics,
    )


def observe(node: Node, seconds: float) -> Observation:
    """Ask a node for everything, at the same time."""

    def get(path: str) -> Callable[[], Response]:
        def response() -> Response:
            found = node.get(path)
            return Response(code=0, body="") if found is None else Response(code=found.status_code, body=found.text)

        return response

    at = time.time()
    with ThreadPoolExecutor() as pool:
        health, ready, flows, metrics = (
            pool.submit(get(path)) for path in ("/health", "/health/ready", "/flows", "/metrics")
        )
        status, lag = (run_here(command, str(node.file)) for command in ("status", "lag"))
        return Observation(
            node=node.name,
            at=at,
            seconds=seconds,
            status=status,
            lag=lag,
            health=health.result(),
            ready=ready.result(),
            flows=flows.result(),
            metrics=metrics.result(),
        )
