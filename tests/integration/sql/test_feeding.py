"""Frames pass through Spark between real Python workers, as in a lane."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession

from flows.sql.exchange import QueryInput, RowExchange
from flows.sql.lane_query import checked, fed_rows
from flows.sql.lane_workers import socket_path
from flows.sql.rows import ROWS_PER_BATCH
from mm2.core.settings.row_query import COLUMNS
from tests.integration.sql.queries import lane_query
from tests.lab.batches import Batch, Record

FRAMES = 60
FRAME = Batch(records=[Record(at, 0, b"k", b"v" * 100) for at in range(ROWS_PER_BATCH)]).encode()


async def not_announced(_: object) -> None:
    raise AssertionError("no process has died")


def runner(token: str, frame: bytes, frames: int, found: str) -> Any:
    """Return the function of a worker that sends frames, and writes how many were taken when results came."""

    def run(rows: Iterator[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        context = TaskContext.get()
        assert context is not None
        path = socket_path(token, context.taskAttemptId())

        async def all_frames() -> list[int]:
            exchange = RowExchange(QueryInput(rows, path, token), not_announced)
            await exchange.open()
            taken = 0
            results: list[int] = []
            complete = asyncio.Event()

            def is_wanted() -> bool:
                nonlocal taken
                taken += 1
                return True

            def done(_: object) -> None:
                results.append(taken)
                if len(results) == frames:
                    complete.set()

            for _ in range(frames):
                blob = [memoryview(frame)]
                exchange.send(
                    "t",
                    0,
                    blob,
                    wanted=0,
                    codec=0,
                    level=None,
                    is_wanted=is_wanted,
                    takes_more=lambda: True,
                    done=done,
                )
            watching = asyncio.create_task(exchange.run())
            waiting = asyncio.create_task(complete.wait())
            await asyncio.wait([watching, waiting], return_when=asyncio.FIRST_COMPLETED)
            if watching.done():
                watching.result()
            watching.cancel()
            await exchange.close()
            return results

        Path(found).write_text(json.dumps(asyncio.run(all_frames())))
        return iter(())

    return run


def test_results_of_dropped_records_come_while_frames_are_waiting(session: SparkSession, tmp_path: Path) -> None:
    token, found = secrets.token_hex(16), tmp_path / "found"
    query = lane_query("CAST(value AS STRING) = topic")
    rows = checked(fed_rows(session, token, COLUMNS), query)
    rows.mapInArrow(runner(token, FRAME, FRAMES, str(found)), "nothing boolean").collect()
    taken = json.loads(found.read_text())
    assert len(taken) == FRAMES
    assert taken[0] < FRAMES, "the first result came when others were still waiting"
    assert len(set(taken)) > FRAMES // 10, "and the next ones as well, one after the other"
