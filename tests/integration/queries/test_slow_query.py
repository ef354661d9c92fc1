"""A query that is slower than both clusters is named as what limits the flow, wherever the pace is shown."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN
from tests.lab.records import plain
from tests.lab.waiting import wait_until

COUNT = 20_000
VALUE_BYTES = 500
LIMITED = "limited by the query"


@pytest.mark.long  # the rule: tests/unit/core/lanes/test_bottlenecks.py; on brokers: tests/integration/flows
def test_a_slow_query_limits_the_flow(queried: Queried) -> None:
    """It takes about five seconds for these records, of which it keeps none."""
    flow, node = queried.flow, queried.node
    topic = flow.create("slow")
    flow.write(topic, plain(COUNT, value_bytes=VALUE_BYTES))

    def limited() -> dict[str, Any] | None:
        shown = node.flow(flow.name)
        seen.append(shown["limited_by"])
        return shown if str(shown["limited_by"]).startswith(LIMITED) else None

    seen: list[str | None] = []
    shown = wait_until(limited, SEEN, f"the query is named; shown: {seen}")
    assert shown is not None
    waited = {one["on"]: one["seconds"] for one in shown["last_minute"]["waits"]}
    assert waited["query"] > 0
    assert node.metric("mm2_flow_waiting_seconds_total", source=flow.a, target=flow.b, on="query") > 0
    flow.wait_passed(node, topic, timeout=SEEN)
