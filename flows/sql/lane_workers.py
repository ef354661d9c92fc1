"""The two Python workers of a SQL lane: one feeds the query with decoded frames, the other runs the lane.

Each starts with every lane, so this module imports nothing that only the engine needs to build the query.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from flows.spark.workers import reject_retry, starting_worker
from flows.sql.frames import read_frame
from mm2.core.lanes.lease import LeaseEndpoint

LONGEST_PATH = 107
"""Bytes of `sockaddr_un.sun_path` without its final zero byte."""

_SHORT = "/tmp"  # noqa: S108 the names in it cannot be guessed


def socket_path(token: str, attempt: int) -> str:
    """Return the path for one attempt of a Spark task, by `TaskContext.taskAttemptId`.

    It is in the temporary directory of the executor, or in /tmp if its path would be too long for a socket. The name is
    derived from the ``token`` of the job, so that no other user of the machine can know it before it exists.
    """
    name = f"mm2-{hashlib.sha256(f'{attempt} {token}'.encode()).hexdigest()[:16]}.sock"
    path = os.path.join(tempfile.gettempdir(), name)
    return path if len(os.fsencode(path)) <= LONGEST_PATH else f"{_SHORT}/{name}"


CONNECT_WITHIN_S = 30.0
"""Time for the other worker of the task, which starts at the same time, to listen."""

_RETRY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeder:
    """The function of the first `mapInArrow`.

    It connects to the lane runner of the same Spark task (`SqlLaneTask`) with the ``token`` of the
    job. Its rows have the ``columns`` of `flows.sql.rows.spark_schema`. ``connect_within_s``: seconds for the lane
    runner to listen.
    """

    token: str = field(repr=False)
    columns: frozenset[str]
    connect_within_s: float = CONNECT_WITHIN_S

    def __call__(self, rows: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield rows until the lane runner closes the connection; consumes ``rows``."""
        with starting_worker():
            import flows.sql.rows  # noqa: F401, PLC0415 the engine does not need it
        context = TaskContext.get()
        assert context is not None, "only Spark calls it"
        yield from self.feed(rows, socket_path(self.token, context.taskAttemptId()))

    def feed(self, rows: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
        """Consume ``rows``, and yield those of the lane runner that listens on the Unix socket ``path``."""
        from flows.sql.rows import RowBuilder  # noqa: PLC0415 the engine does not need it

        for _ in rows:
            continue
        with self._connect(path) as connection:
            collected = RowBuilder(self.columns)
            while (frame := read_frame(connection)) is not None:
                yield from collected.add(frame, arrived_ms=int(time.time() * 1_000))
                is_last = not select.select([connection], [], [], 0)[0]
                if is_last:
                    collected.pad()
                    yield from collected.take()

    def _connect(self, path: str) -> socket.socket:
        """Connect to the lane runner. Raises TimeoutError."""
        until = time.monotonic() + self.connect_within_s
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(path)
            except OSError as error:
                connection.close()
                if time.monotonic() > until:
                    raise TimeoutError(f"the lane runner does not listen on {path}: {error}") from error
                time.sleep(_RETRY_S)
            else:
                connection.sendall(self.token.encode() + b"\n")
                return connection


NO_ROWS = "nothing boolean"
"""The schema of what the task returns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlLaneTask:
    """The function of the last `mapInArrow`, as `flows.spark.lane_task.LaneTask`.

    ``feeder_token`` authenticates the `Feeder` of the same job.
    """

    lane: int
    place: LeaseEndpoint
    token: str = field(repr=False)
    feeder_token: str = field(repr=False)

    def __call__(self, rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the lane until its orders end it; returns no rows. ``rows`` has the columns `flows.sql.rows.RESULT`."""
        reject_retry(self.lane)
        with starting_worker():
            from flows.lane import loop_load  # noqa: PLC0415 the engine does not need it
            from flows.lane.lane_runner import run_lane  # noqa: PLC0415
            from flows.sql.exchange import QueryInput  # noqa: PLC0415
        context = TaskContext.get()
        assert context is not None, "only Spark calls it"
        query = QueryInput(rows, socket_path(self.feeder_token, context.taskAttemptId()), self.feeder_token)
        loop_load.run(run_lane(self.place, lane=self.lane, token=self.token, query=query))
        return iter(())
