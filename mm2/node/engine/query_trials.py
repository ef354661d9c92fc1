"""Which frames of SQL lanes are in queries whose processes have died, and what is suspected of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from mm2.core.lanes.lease import LaneQuery
from mm2.core.lanes.query_trials import NO_TRIAL, FrameSpan, QuerySuspects, QueryTrial
from mm2.core.naming.names import Flow, TopicPartition
from mm2.node.engine.managed_lane import FlowQuery, ManagedLane

ASKS_WITHIN_S = 5.0
"""A lane that waits for its turn repeats its question every second. If it has not for this long, it does not wait any
more."""


class QueryTrials:
    """The queries of a node, of which lanes have died. It belongs to a `mm2.node.engine.lane_board.LaneBoard`.

    (A) At most one announced frame of all lanes is in a query, since their queries can share a JVM. Lanes take turns.
        Frames that are not announced can be there, too: those of queries without a search, and those that a lane had
        sent before its orders to announce them arrived, as another lane had died alone.
    (B) Another text of a query is another query: nothing is known about it.
    (C) No lane waits for a query without a search, such as one that has expired, nor for a lane that does not ask any
        more.
    """

    def __init__(self) -> None:
        self._suspects: dict[tuple[Flow, str], tuple[LaneQuery, QuerySuspects]] = {}
        self._frames: dict[int, tuple[FlowQuery | None, FrameSpan]] = {}
        self._asking: dict[int, float] = {}  # when each lane asked last; the first one is next

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

    def announce(self, lane: ManagedLane, frame: FrameSpan | None, now: float) -> bool:
        """The lane's last frame has returned, and ``frame`` is next; None: none is. Return whether it may pass now.

        If not, the lane repeats the announcement. A frame always may if its query has no search. ``now`` is in seconds
        of a monotonic clock.
        """
        before = self._frame_of(lane)
        if frame is not None and before == frame:
            return True  # the answer was lost
        self._frames.pop(lane.number, None)
        suspects = self._of(lane.runs)
        if before is not None and suspects is not None:
            suspects.passed(before)
        if frame is None or not self.trial(lane.runs).announced:
            self._asking.pop(lane.number, None)
            return True
        self._asking[lane.number] = now
        self._asking = {number: asked for number, asked in self._asking.items() if now - asked <= ASKS_WITHIN_S}
        if self._frames or next(iter(self._asking)) != lane.number:
            return False
        del self._asking[lane.number]
        self._frames[lane.number] = lane.runs, frame
        return True

    def _frame_of(self, lane: ManagedLane) -> FrameSpan | None:
        _, frame = self._frames.get(lane.number, (None, None))
        return frame

    def ended(self, lane: ManagedLane) -> None:
        """The lane ended for a reason that its records have no part in."""
        self._frames.pop(lane.number, None)
        self._asking.pop(lane.number, None)

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
            if (frame := self._frame_of(lane)) is not None:
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
        self._frames = {
            number: (runs, frame) for number, (runs, frame) in self._frames.items() if self.trial(runs).announced
        }

    def forget(self, runs: FlowQuery | None, partitions: Collection[TopicPartition]) -> None:
        """Let all records of these partitions pass through their query again."""
        suspects = self._of(runs)
        if suspects is not None:
            suspects.forget(partitions)
