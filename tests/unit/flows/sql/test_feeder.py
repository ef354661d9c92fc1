"""The worker that feeds a query, with a lane runner on a real socket."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from flows.sql.frames import lead
from flows.sql.lane_workers import Feeder
from flows.sql.rows import OFFSET, PADDING_ROWS
from mm2.core.settings.row_query import COLUMNS
from tests.lab import old_formats


def test_frames_become_rows_until_the_connection_is_closed(tmp_path: Path) -> None:
    before = int(time.time() * 1_000_000) - 1_000
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server, ThreadPoolExecutor(1) as thread:
        server.settimeout(30)
        server.bind(path)
        server.listen()
        feeder = Feeder(token="token", columns=frozenset(COLUMNS))
        given = iter([pa.RecordBatch.from_pylist([{"id": 0}])])
        message = old_formats.message(7, b"k", b"v", magic=0)
        rows = feeder.feed(given, path)

        def serve() -> socket.socket:
            connection, _ = server.accept()
            assert connection.recv(100) == b"token\n"
            connection.sendall(lead(0, 0, "t", 1, len(message)) + message)
            return connection

        serving = thread.submit(serve)
        record = next(rows)
        serving.result(30).close()
        assert list(rows) == []
    assert next(given, None) is None
    assert record.num_rows == 2 + PADDING_ROWS, "nothing follows: padding pushes it through"
    offset = record.column(OFFSET).to_pylist()[0]
    timestamp = record.column("timestamp").cast(pa.int64()).to_pylist()[0]
    assert offset == 7
    assert timestamp >= before, "a message without a timestamp gets the current time, as when it is copied as it is"


def test_a_lane_runner_that_does_not_listen(tmp_path: Path) -> None:
    feeder = Feeder(token="token", columns=frozenset(COLUMNS), connect_within_s=0.03)
    with pytest.raises(TimeoutError, match="does not listen"):
        next(feeder.feed([], str(tmp_path / "s")))
