"""The worker that feeds a query, with a lane runner on a real socket."""

from __future__ import annotations

import socket
import time
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from flows.sql import feeder as module
from flows.sql.feeder import Feeder
from flows.sql.frames import lead
from flows.sql.rows import OFFSET, PADDING_ROWS
from mm2.core.settings.row_query import COLUMNS
from tests.lab import old_formats


@pytest.fixture(autouse=True)
def _without_spark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "starting_worker", nullcontext)
    monkeypatch.setattr(module, "TaskContext", SimpleNamespace(get=lambda: SimpleNamespace(taskAttemptId=lambda: 0)))
    monkeypatch.setattr(module, "socket_path", lambda *_: str(tmp_path / "s"))


def test_frames_become_rows_until_the_connection_is_closed(tmp_path: Path) -> None:
    before = int(time.time() * 1_000_000) - 1_000
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen()
        feeder = Feeder(token="token", columns=frozenset(COLUMNS))
        given = iter([pa.RecordBatch.from_pylist([{"id": 0}])])
        message = old_formats.message(7, b"k", b"v", magic=0)
        rows = feeder(given)
        ends: list[socket.socket] = []
        feeder_connects = module.Feeder._connect

        def connected(self: Feeder, path: str) -> socket.socket:
            connection = feeder_connects(self, path)
            ends.append(server.accept()[0])
            assert ends[0].recv(100) == b"token\n"
            ends[0].sendall(lead(0, 0, "t", 1, len(message)) + message)
            return connection

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module.Feeder, "_connect", connected)
            record = next(rows)
            ends[0].close()
            assert list(rows) == []
    assert next(given, None) is None
    assert record.num_rows == 2 + PADDING_ROWS, "nothing follows: padding pushes it through"
    offset = record.column(OFFSET).to_pylist()[0]
    timestamp = record.column("timestamp").cast(pa.int64()).to_pylist()[0]
    assert offset == 7
    assert timestamp >= before, "a message without a timestamp gets the current time, as when it is copied as it is"


def test_a_lane_runner_that_does_not_listen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CONNECT_WITHIN_S", 0.03)
    with pytest.raises(TimeoutError, match="does not listen"):
        next(Feeder(token="token", columns=frozenset(COLUMNS))([]))
