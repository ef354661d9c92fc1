"""The lanes of a node: which of them a source task is assigned to, and which get no executor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

from mm2.core.lanes.lease import LeaseRefusedError
from mm2.node.engine.managed_lane import FlowQuery, ManagedLane, SourceTaskKey

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


class LanePlacement:
    """The lanes of a `mm2.node.engine.lane_board.LaneBoard`, by number. It has the arguments and their meaning."""

    def __init__(self, *, lanes: int, new_secret: Callable[[], str], cluster: str | None) -> None:
        self._most = lanes
        self._lanes = {number: ManagedLane(number=number, token=new_secret()) for number in range(lanes)}
        self._new_secret = new_secret
        self._cluster = cluster

    def __iter__(self) -> Iterator[ManagedLane]:
        return iter(self._lanes.values())

    def get(self, number: int) -> ManagedLane | None:
        """Return this lane; None if there is none, such as a SQL lane that was forgotten."""
        return self._lanes.get(number)

    def lane(self, number: int) -> ManagedLane:
        """Return this lane. Raises LeaseRefusedError if there is none."""
        lane = self._lanes.get(number)
        if lane is None:
            raise LeaseRefusedError(f"there is no lane {number}")
        return lane

    def lane_of(self, key: SourceTaskKey) -> ManagedLane | None:
        """Return the lane that has this source task in its orders."""
        return next((lane for lane in self if key in lane.source_tasks), None)

    def alike(self, runs: FlowQuery | None) -> list[ManagedLane]:
        """Return the lanes that can run the same source tasks."""
        return [lane for lane in self if lane.runs == runs]

    def lane_for(self, runs: FlowQuery | None) -> ManagedLane:
        """Return the lane for a new source task."""
        alike = self.alike(runs)
        refused = next((lane for lane in alike if lane.refused is not None), None)
        if refused is not None:
            return refused
        lane = min(alike, key=lambda lane: lane.preference, default=None)
        if lane is not None and (not lane.source_tasks or len(alike) >= self._most):
            return lane
        number = next(one for one in itertools.count(self._most) if one not in self._lanes)
        self._lanes[number] = ManagedLane(number=number, token=self._new_secret(), runs=runs)
        return self._lanes[number]

    def forget_ended(self) -> None:
        """Forget SQL lanes without source tasks and lease. A lane with the same number gets another token.

        A lane that got no executor is kept for STARVED_FOR_S: a new one in its place would get none either.
        """
        idle = [lane for lane in self if lane.runs and not lane.source_tasks]
        for lane in idle:
            if lane.session is None and lane.starved_until is None:
                del self._lanes[lane.number]

    # -- executors

    def is_unplaced(self, lane: ManagedLane) -> bool:
        """Return whether the lane waits for an executor."""
        return self._cluster is not None and lane.session is None and lane.unplaced

    def waits_longer(self, lane: ManagedLane, now: float, *, executors: int) -> str | None:
        """Return why a lane, which is unplaced, has waited for LOG_AFTER_S; None if it has not, or has this error.

        ``executors`` is the number of executors that the cluster has given to the node.
        """
        if lane.ordered_at is None or now - lane.ordered_at <= LOG_AFTER_S:
            return None
        message = f"lane {lane.number}: {no_executor(self._cluster, executors)}"
        if lane.error == message:
            return None
        lane.error = message
        return message

    def has_waited_too_long(self, lane: ManagedLane, now: float) -> bool:
        """Return whether the source tasks of the lane should move, as it waits while other lanes have an executor."""
        if not self.is_unplaced(lane) or lane.ordered_at is None:
            return False
        began = [one.granted_at for one in self.alike(lane.runs) if one.granted_at is not None]
        return bool(began) and now - max(lane.ordered_at, *began) > MOVED_AFTER_S

    def with_executor(self, lane: ManagedLane) -> ManagedLane:
        """Return the lane to which a source task of this one moves: there is one, as this one `has_waited_too_long`."""
        others = (one for one in self.alike(lane.runs) if one.session is not None)
        return min(others, key=lambda lane: lane.preference)
