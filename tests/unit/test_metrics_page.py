"""docs/reference/metrics.md names each cause of a slow flow, and each metric of Connect that Java MirrorMaker 2 has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mm2.core.lanes.bottlenecks import CAUGHT_UP, KEEPS_PACE, LAG_UNKNOWN, MEANINGS, NO_DATA
from mm2.core.lanes.counters import BUCKETS

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "metrics.md").read_text("utf-8")

CONNECT: dict[str, str] = {
    "source-task-metrics": (
        "source-record-poll-rate source-record-poll-total source-record-write-rate source-record-write-total"
        " source-record-active-count source-record-active-count-avg source-record-active-count-max"
        " poll-batch-avg-time-ms poll-batch-max-time-ms transaction-size-min transaction-size-max transaction-size-avg"
    ),
    "connector-task-metrics": (
        "status running-ratio pause-ratio batch-size-avg batch-size-max offset-commit-avg-time-ms"
        " offset-commit-max-time-ms offset-commit-success-percentage offset-commit-failure-percentage"
    ),
    "task-error-metrics": (
        "total-record-failures total-record-errors total-records-skipped total-retries total-errors-logged"
        " deadletterqueue-produce-requests deadletterqueue-produce-failures last-error-timestamp"
    ),
    "connector-metrics": "status connector-class connector-type connector-version",
    "connect-worker-metrics": (
        "connector-count task-count connector-startup-attempts-total connector-startup-success-total"
        " connector-startup-success-percentage connector-startup-failure-total connector-startup-failure-percentage"
        " task-startup-attempts-total task-startup-success-total task-startup-success-percentage"
        " task-startup-failure-total task-startup-failure-percentage connector-total-task-count"
        " connector-running-task-count connector-paused-task-count connector-failed-task-count"
        " connector-unassigned-task-count connector-destroyed-task-count connector-restarting-task-count"
    ),
    "connect-worker-rebalance-metrics": (
        "leader-name epoch completed-rebalances-total rebalancing rebalance-max-time-ms rebalance-avg-time-ms"
        " time-since-last-rebalance-ms connect-protocol"
    ),
}
"""The metrics of Kafka's ConnectMetricsRegistry by MBean, without those of sink tasks."""

CLIENTS = (
    "fetch-throttle-time-avg fetch-throttle-time-max produce-throttle-time-avg produce-throttle-time-max"
    " records-consumed-rate bytes-consumed-rate records-lag records-lag-max fetch-latency-avg request-latency-avg"
    " record-send-rate record-error-rate record-retry-rate batch-size-avg"
)


@pytest.mark.parametrize("mbean", CONNECT)
def test_metrics_of_connect(mbean: str) -> None:
    assert f"type={mbean}" in PAGE
    missing = [name for name in CONNECT[mbean].split() if f"`{name}`" not in PAGE]
    assert missing == []


def test_metrics_of_its_clients() -> None:
    assert [name for name in CLIENTS.split() if f"`{name}`" not in PAGE] == []


@pytest.mark.parametrize("cause", MEANINGS)
def test_what_limits_a_flow(cause: str) -> None:
    message = MEANINGS[cause].partition(" (")[0]  # type: ignore[index]  # the values of an enum of strings
    assert f"| `{cause}` | {message} |" in PAGE


@pytest.mark.parametrize("message", [CAUGHT_UP, KEEPS_PACE, NO_DATA, LAG_UNKNOWN])
def test_sentences_without_a_cause(message: str) -> None:
    assert re.search(rf"\| `{re.escape(re.split('[:,]', message)[0])}(`|: …`|, …`) \|", PAGE)


def test_the_bounds_of_histograms() -> None:
    bounds = "5, 10, 25, 50, 100 and 250 ms, 1, 5 and 30 s, 2 and 10 min"
    assert bounds in PAGE.replace("\n", " ")
    assert BUCKETS == (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 30.0, 120.0, 600.0)
