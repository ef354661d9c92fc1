"""Which frames of SQL lanes are in queries whose processes have died, and what is suspected of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mm2.core.lanes.lease import LaneQuery
from mm2.core.lanes.query_trials import NO_TRIAL, FrameSpan, QuerySuspects, QueryTrial
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.engine.managed_lane import FlowQuery, ManagedLane


class QueryTrials:
    """The queries of a node, of which lanes have died. It belongs to a `mm2.node.engine.lane_board.LaneBoard`.

    (A) At most one announced frame of all lanes is in a query, since their queries can share a JVM. Lanes take turns.
    (B) Another text of a query is another query: nothing is known about it.
    """

    def __init__(self) -> None:
        self._suspects: dict[tuple[Flow, str], tuple[LaneQuery, QuerySuspects]] = {}
        self._frames: dict[int, FrameSpan] = {}
        self._asking: list[int] = []

    def trial(self, runs: FlowQuery | None) -> QueryTrial:
        """Return how frames pass through a query now."""
        suspects = self._of(runs)
        return NO_TRIAL if suspects is None else suspects.trial

    def reason(self, runs: FlowQuery | None) -> str | None:
        """Return why the frames of a query are announced; None if they are not."""
        suspects = self._of(runs)
        if runs is None or suspects is None or suspects.reason is None:
            return None
        return f"query {runs.query.name}: {suspects.reason}"

    def _of(self, runs: FlowQuery | None) -> QuerySuspects | None:
        if runs is None:
            return None
        query, suspects = self._suspects.get((runs.flow, runs.query.name), (None, None))
        return suspects if query == runs.query else None

    def announce(self, lane: ManagedLane, frame: FrameSpan | None) -> bool:
        """The lane's last frame has returned, and ``frame`` is next; None: none is. Return whether it may pass now.

        If not, the lane repeats the announcement.
        """
        before = self._frames.get(lane.number)
        if frame is not None and before == frame:
            return True  # the answer was lost
        self._frames.pop(lane.number, None)
        suspects = self._of(lane.runs)
        if before is not None and suspects is not None:
            suspects.passed(before)
        if frame is None:
            return True
        if lane.number not in self._asking:
            self._asking.append(lane.number)
        if self._frames or self._asking[0] != lane.number:
            return False
        self._asking.pop(0)
        self._frames[lane.number] = frame
        return True

    def ended(self, lane: ManagedLane) -> None:
        """The lane ended for a reason that its records have no part in."""
        self._frames.pop(lane.number, None)
        if lane.number in self._asking:
            self._asking.remove(lane.number)

    def died(self, lanes: Iterable[ManagedLane], why: str, now: float) -> list[str]:
        """SQL lanes died together because of ``why``. Return what to log about the frames that were in the queries."""
        found: list[str] = []
        is_explained = False
        by_query: dict[tuple[Flow, str], FlowQuery] = {}
        frames: dict[tuple[Flow, str], FrameSpan] = {}
        for lane in lanes:
            if lane.runs is None:
                continue
            key = lane.runs.flow, lane.runs.query.name
            by_query[key] = lane.runs
            if (frame := self._frames.get(lane.number)) is not None:
                frames[key] = frame
            self.ended(lane)
        for key, runs in by_query.items():
            suspects = self._of(runs)
            if suspects is None:
                suspects = QuerySuspects()
                self._suspects[key] = runs.query, suspects
            message = suspects.died(frames.get(key), why, now)
            if message is not None:
                found.append(f"{runs.flow}: query {runs.query.name}: {message}")
            is_explained |= message is not None and not suspects.trial.suspects
        for _, suspects in self._suspects.values() if is_explained else ():
            suspects.explained(now)
        return found

    def expire(self, now: float) -> None:
        """Forget what was long ago."""
        for _, suspects in self._suspects.values():
            suspects.expire(now)

    def forget(self, runs: FlowQuery | None, partitions: Collection[TopicPartition]) -> None:
        """Let all records of these partitions pass through their query again."""
        suspects = self._of(runs)
        if suspects is not None:
            suspects.forget(partitions)
