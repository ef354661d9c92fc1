"""Protocol of the query of a SQL lane, as partitions use it."""

from __future__ import annotations

from typing import Any, Protocol

from flows.batch.choice import BatchRules
from flows.partition.frames_in_query import FrameInQuery
from flows.source.record_limits import RecordLimits
from flows.source_task.spawn import Spawn
from mm2.core.lanes.query_trials import QueryTrial


class FrameTransform(Protocol):
    """Passes batches through a query and calls ``partition.transformed`` with the results, in order.

    ``writes_itself``: it has sent the records by then, so a partition that drains must wait for the results.
    """

    writes_itself: bool

    def submit(self, partition: Any, frame: FrameInQuery) -> None:
        """Transform the records of the frame."""

    async def remove(self, partition: Any) -> None:
        """The partition leaves the source task: wait until nothing is sent for it any more, also of dropped frames."""


class LaneTransforms(Protocol):
    """The query of a SQL lane, shared by its source tasks."""

    def of_source_task(self, query_name: str, rules: BatchRules, limits: RecordLimits, spawn: Spawn) -> FrameTransform:
        """Return the transform of a source task; ``rules`` decide about the codec of the result, and ``limits`` about
        records that are too large."""

    def follow(self, trial: QueryTrial) -> None:
        """Pass frames through the query in this way from now on."""
