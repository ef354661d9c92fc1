"""The Spark task of a SQL lane: the second Python worker, which runs the lane and receives the rows of its query."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from flows.spark.workers import reject_retry, starting_worker
from flows.sql.rows_socket import socket_path
from mm2.core.lanes.lease import LeasePlace

NO_ROWS = "nothing boolean"
"""The schema of what the task returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLaneTask:
    """The function of the last `mapInArrow`, as `flows.spark.lane_task.LaneTask`.

    ``feeder_token`` authenticates the `flows.sql.feeder.Feeder` of the same job.
    """

    lane: int
    place: LeasePlace
    token: str = field(repr=False)
    feeder_token: str = field(repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the lane until its orders end it; returns no rows. ``rows`` has the columns `flows.sql.rows.RESULT`."""
        reject_retry(self.lane)
        with starting_worker():
            from flows.lane.lane_runner import run_lane  # noqa: PLC0415 the engine does not need it
            from flows.sql.exchange import QueryInput  # noqa: PLC0415
        context = TaskContext.get()
        assert context is not None, "only Spark calls it"
        query = QueryInput(rows, socket_path(self.feeder_token, context.taskAttemptId()), self.feeder_token)
        asyncio.run(run_lane(self.place, lane=self.lane, token=self.token, query=query))
        return iter(())
