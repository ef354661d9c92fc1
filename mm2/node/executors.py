"""How long lanes wait for executors of a Spark cluster, and what is said of those that wait."""

from __future__ import annotations

SAID_AFTER_S = 10.0
"""A standalone cluster with a free core has an executor running in five seconds: who has waited longer has something to
tell."""

MOVED_AFTER_S = 15.0
"""So long after the last lane began, a lane without an executor gives its slots to lanes that have one: executors come
one by one, and slots that have moved stay where they are."""

LOST_AFTER_S = 3.0
"""A lane says something once a second. One that is silent for longer, and that no executor runs any more by Spark's
word, is not waited for until its lease ends."""

STARVED_FOR_S = 300.0
"""New slots keep away so long from a lane that waited in vain."""


def no_executor(master: str | None, given: int) -> str:
    """Why a lane has waited for SAID_AFTER_S, when the cluster has ``given`` so many executors to this node."""
    if given == 0:
        return (
            f"Spark master {master} has given no executor for {SAID_AFTER_S:.0f} s: has it workers with a free core, "
            "and the memory of spark.executor.memory? Its own page tells"
        )
    return (
        f"Spark master {master} has given {given} executor{'s' if given > 1 else ''}, and none for this lane for "
        f"{SAID_AFTER_S:.0f} s: add workers, or lower mm2.lanes"
    )
