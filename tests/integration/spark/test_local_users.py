"""Other users of the node's machine can connect to Spark, and learn nothing there. No broker is needed."""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import PIPE

import psutil
import pytest

from mm2.core.lanes.lease import LeaseRefusedError, LeaseRequest
from mm2.mirror1.engine import MirrorEngine
from mm2.node.engine.lane_board import LaneBoard
from tests.lab.commands import ROOT
from tests.lab.waiting import until

STARTS = 120.0  # seconds until a lane runs: seven on an idle machine
READS = 60.0  # seconds: the reader asks some ports for some blocks


def token_of(board: LaneBoard) -> str:
    (start,) = board.engine_orders(0.0).lanes
    return start.token


async def read_as_nobody(board: LaneBoard) -> list[bytes]:
    """Return the blocks that another user reads from the ports of Spark's JVM while lane 0 runs."""
    await until(lambda: board.alive, STARTS, "lane 0 runs")
    assert board.engine is not None
    connections = psutil.Process(board.engine.jvm_pid).net_connections("tcp")
    ports = [str(one.laddr.port) for one in connections if one.status == psutil.CONN_LISTEN]
    assert len(ports) >= 2, "at least the driver and its block manager listen"
    command = (sys.executable, "-m", "tests.lab.spark_blocks", *ports)
    reader = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=PIPE)
    async with asyncio.timeout(READS):
        found, _ = await reader.communicate()
    assert reader.returncode == 0
    return [bytes.fromhex(line) for line in found.decode().split()]


@pytest.mark.needs("root")
async def test_another_user_reads_no_task_of_a_lane() -> None:
    async with MirrorEngine(lanes=1, buffer_bytes=1 << 20, spark={}, name="guarded") as engine:
        board = engine.leases.board
        assert await read_as_nobody(board) == []
        assert board.alive, "its lane was not disturbed"


@pytest.mark.needs("root")
async def test_a_token_that_another_user_has_read_is_worth_nothing() -> None:
    """Without Spark's authentication, which a file cannot switch off, the task of the lane is readable. It also shows
    that the reader of the test above can read."""
    spark = {"spark.authenticate": "false", "spark.broadcast.compress": "false"}
    async with MirrorEngine(lanes=1, buffer_bytes=1 << 20, spark=spark, name="open") as engine:
        board = engine.leases.board
        found = await read_as_nobody(board)
        token = token_of(board)
        assert any(token.encode() in block for block in found), "the reader finds what is not protected"
        with pytest.raises(LeaseRefusedError):
            board.grant(0, LeaseRequest(token=token, nonce="mine"), 0.0)
        assert board.alive
