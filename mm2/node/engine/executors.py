"""Limits for the time that lanes wait for executors of a Spark cluster, and the message about waiting lanes."""

from __future__ import annotations

LOG_AFTER_S = 10.0
"""A lane that waits for an executor for longer than this is logged; a standalone cluster with a free core starts one
within five seconds."""

MOVED_AFTER_S = 15.0
"""Time after the start of the last lane when the source tasks of lanes without an executor move to lanes that have one.
Executors start one after the other, and source tasks that have moved do not move back."""

LOST_AFTER_S = 3.0
"""A lane that has no executor according to Spark, and has not reported for this long, is restarted before its lease
ends. Lanes report once a second."""

STARVED_FOR_S = 300.0
"""Time during which a lane that got no executor receives no new source tasks, if other lanes can take them."""


def no_executor(master: str | None, given: int) -> str:
    """Return why a lane has waited for LOG_AFTER_S, if the cluster has ``given`` that many executors to the node."""
    if given == 0:
        return (
            f"Spark master {master} has started no executor within {LOG_AFTER_S:.0f} s; check the Spark master UI for"
            " free cores and memory (spark.executor.memory)"
        )
    return (
        f"Spark master {master} has started {given} executor{'s' if given > 1 else ''}, but none for this lane within "
        f"{LOG_AFTER_S:.0f} s; add workers or lower mm2.lanes"
    )
