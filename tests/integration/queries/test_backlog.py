"""A query that drops all of a backlog advances while records are still waiting."""

from __future__ import annotations

import pytest

from tests.integration.queries.conftest import Queried
from tests.integration.queries.queried_flow import SEEN
from tests.lab.records import plain
from tests.lab.waiting import wait_until

COUNT = 20_000
VALUE_BYTES = 500
SEEN_WITHIN = 2 * SEEN
AT_LEAST = 5  # positions between the first and the last


@pytest.mark.long  # test_dropped.py, and tests/integration/sql/test_feeding.py
def test_a_backlog_of_which_a_slow_query_drops_everything(queried: Queried) -> None:
    """10 MB, which fit into the lane's buffer. On busy cores this takes longer than `QueryTimes.stuck_after_s`."""
    flow, node = queried.flow, queried.node
    topic = flow.create("slow")
    flow.write(topic, plain(COUNT, value_bytes=VALUE_BYTES))
    positions: set[int] = set()

    def done() -> bool:
        (shown,) = node.topic(flow.name, topic).get("partitions") or [{"position": 0, "lag_records": COUNT}]
        positions.add(shown["position"] or 0)
        return bool(shown["position"] == COUNT and not shown["lag_records"])

    wait_until(done, SEEN_WITHIN, "all records are dropped")
    assert len(positions - {0, COUNT}) >= AT_LEAST, positions
    failed = [one for one in node.flow(flow.name)["reasons"] if "failed" in one]
    assert failed == [], "no lane was restarted"
    assert flow.copied(topic)[0] == []
    labels = {"source": flow.a, "target": flow.b, "topic": flow.remote(topic)}
    assert node.metric("mm2_source_query_rows_in_total", **labels) == COUNT
    assert node.metric("mm2_source_query_rows_dropped_total", **labels) == COUNT
