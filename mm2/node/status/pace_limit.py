"""What limits the pace of a flow, as a message about its topics and what its partitions wait for."""

from __future__ import annotations

from collections.abc import Iterable

from mm2.core.lanes.bottlenecks import limited_by
from mm2.core.lanes.partition_steps import RecentWaits
from mm2.node.status.status_model import FlowStatus, TopicStatus

SLOW = "limited by "
"""How the message begins if there is a cause."""


def known_lag(topics: Iterable[TopicStatus]) -> int | None:
    """Return the source offsets that are not copied; None: unknown, and none of a partition whose lag is known."""
    lags = [one.lag_records for topic in topics for one in topic.partitions]
    known = sum(lag for lag in lags if lag is not None)
    return known if known or (lags and None not in lags) else None


def pace_limit(topics: Iterable[TopicStatus], last_minute: RecentWaits | None, *, enabled: bool) -> str | None:
    """Return the message about a flow; None: it copies no topics."""
    return limited_by(last_minute, lag=known_lag(topics)) if enabled else None


def shown_limit(flow: FlowStatus) -> str | None:
    """Return the message if it tells an operator something: there is a cause, or a lag without one."""
    text = flow.limited_by
    if text is None or not (text.startswith(SLOW) or known_lag(flow.topics)):
        return None
    return text
