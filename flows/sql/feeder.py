"""The worker that feeds a query: decodes frames into rows."""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark import TaskContext

from flows.spark.workers import starting_worker
from flows.sql.frames import read_frame
from flows.sql.rows_socket import socket_path

CONNECT_WITHIN_S = 30.0
"""Time for the other worker of the task, which starts at the same time, to listen."""

_RETRY_S = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeder:
    """The function of the first `mapInArrow`.

    It connects to the lane runner of the same Spark task (`flows.sql.lane_task.SqlLaneTask`) with the ``token`` of the
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
