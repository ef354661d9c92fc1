"""Numbers of a node's lanes, which are the tasks that Spark has to run for it at the same time."""

from __future__ import annotations

import os
from collections.abc import Iterable

from mm2.config.keys.node_keys import OwnSettings
from mm2.config.settings import FlowSettings


def lanes_of(own: OwnSettings) -> int:
    """Return the maximum number of lanes for topics without a query: mm2.lanes, by default one for each core."""
    return own.lanes or os.cpu_count() or 1


def sql_lanes_of(flows: Iterable[FlowSettings], *, lanes: int) -> int:
    """Return the maximum number of SQL lanes of a node with ``lanes`` lanes: as many again for each query of a flow.

    Flows do not share SQL lanes, even if their queries are the same.
    """
    return lanes * sum(len(flow.queries.in_order) for flow in flows if flow.enabled)
