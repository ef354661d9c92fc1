"""Reports of lanes about a stream: positions, losses and failures."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from mm2.core.lanes.progress_reports import PartitionProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.mirror1.stream_leases import COPIED, ROUTED
from mm2.node.engine.lane_board import LaneBoard

log = logging.getLogger("mm2.mirror1")


class StreamReports:
    """The reports about the current assignment: before it, other members may have copied a partition."""

    def __init__(self, flow: Flow, board: LaneBoard) -> None:
        self._flow = flow
        self._board = board
        self._epoch = 0
        self._known: dict[TopicPartition, int] = {}
        self._losses: set[tuple[object, ...]] = set()  # those that are logged

    def begin(self, epoch: int) -> None:
        """Forget the positions: the assignment with this epoch begins."""
        self._epoch = epoch
        self._known = {}

    def forget(self) -> None:
        """Forget the positions: they are not to be committed."""
        self._known = {}

    def partitions(self) -> Iterator[tuple[TopicPartition, PartitionProgress]]:
        for number in (COPIED, ROUTED):
            state = self._board.progress((self._flow, number))
            if state is not None and state.source_task.epoch == self._epoch:
                for one in state.source_task.partitions:
                    yield TopicPartition(one.topic, one.partition), one

    def positions(self) -> dict[TopicPartition, int]:
        """Return the next offset of each partition that a lane has reported, everything before which is copied.

        They are kept: a lane that starts again does not report those of the one before it.
        """
        for one, reported in self.partitions():
            if reported.position >= 0:
                self._known[one] = reported.position
        return dict(self._known)

    def log_losses(self) -> None:
        """Log each range of offsets that was lost, once."""
        for number in (COPIED, ROUTED):
            state = self._board.progress((self._flow, number))
            for loss in state.source_task.losses if state is not None else ():
                known = (loss.topic, loss.partition, loss.first, loss.until)
                if known not in self._losses:
                    self._losses.add(known)
                    log.warning(
                        "%s: offsets %d to %d of %s-%d are lost: %s",
                        *(self._flow, loss.first, loss.until - 1, loss.topic, loss.partition, loss.reason),
                    )

    def is_running(self, number: int) -> bool:
        """Return whether a lane is possibly writing partitions of a source task."""
        state = self._board.progress((self._flow, number))
        if state is None:
            return self._board.runs((self._flow, number))
        if state.source_task.state is TaskState.FAILED:
            return False  # its connections are closed
        return bool(state.running) or not state.current

    def unfinished(self) -> set[TopicPartition]:
        """Return the partitions that lanes have not completed."""
        states = (self._board.progress((self._flow, number)) for number in (COPIED, ROUTED))
        return {one for state in states if state is not None for one in state.running}

    def error(self) -> str | None:
        """Return the first error of a partition, also of one that is tried again."""
        return next((one.error for _, one in self.partitions() if one.error is not None), None)

    def failure(self) -> str | None:
        """Return why a source task has ended, with all of its partitions."""
        for number in (COPIED, ROUTED):
            state = self._board.progress((self._flow, number))
            if state is not None and state.source_task.state is TaskState.FAILED:
                return state.source_task.error or "a source task has failed"
        return None

    def stopped_by(self) -> str | None:
        """Return why a partition has stopped: a record that cannot be written, or an error that is not retried."""
        failed = (one for _, one in self.partitions() if one.state is TaskState.FAILED)
        return next((one.error or f"{one.topic}-{one.partition} has failed" for one in failed), None)
