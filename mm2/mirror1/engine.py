"""The Spark engine and the lanes of a mirror."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Self

from fastapi import FastAPI

from mm2.core.lanes.engine_orders import EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.engine.lane_board import LaneBoard
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.engine.spark_settings import spark_settings
from mm2.node.engine.temp_directory import TempDirectory, remove_abandoned
from mm2.node.engine.tokens import new_token
from mm2.rest.internal.lease_api import engine_router, lane_router
from mm2.rest.server.server import RestServer

log = logging.getLogger("mm2.mirror1")

WATCH_EVERY_S = 1.0
"""How often leases are checked for expiry: a fifteenth of the lease time."""

LEAVE_WITHIN_S = 1.0
"""Time for the last requests of lanes when the mirror ends."""


class MirrorEngine:
    """An async context manager: inside, lanes run what is put into ``leases``. Lanes run on this machine."""

    def __init__(
        self,
        *,
        lanes: int,
        buffer_bytes: int,
        spark: Mapping[str, str],
        name: str,
        hidden_spark: Collection[str] = (),
        inherited: Collection[str] = (),
    ) -> None:
        """``hidden_spark`` and ``inherited`` as for `EngineProcess`."""
        board = LaneBoard(lanes=lanes, buffer_bytes=buffer_bytes, new_secret=new_token)
        self.leases = LeaseService(board, capacity=lanes)
        remove_abandoned("mirror")
        self._temp_dir = TempDirectory("mirror")
        self._spark = spark_settings(spark, lanes=lanes, temp_dir=self._temp_dir.path, lane_buffer_bytes=buffer_bytes)
        self._hidden_spark = hidden_spark
        self._inherited = inherited
        self._name = name
        self._process: EngineProcess | None = None
        self._tasks: list[asyncio.Task[None]] = []
        app = FastAPI(openapi_url=None)
        app.include_router(engine_router(self.leases))
        app.include_router(lane_router(self.leases))
        self._server = RestServer(app)

    async def __aenter__(self) -> Self:
        await self._server.start()
        self.leases.url = self._server.url
        self._process = EngineProcess(
            node_url=self.leases.url,
            token=self.leases.engine_tokens[EngineRole.MAIN],
            app_name=self._name,
            leases=LeaseEndpoint(url=self._server.url),
            spark=self._spark,
            hidden_spark=self._hidden_spark,
            inherited=self._inherited,
            temp_dir=self._temp_dir.path,
            on_lost=self._lost,
        )
        self.leases.keep_all_lanes_running()
        for work, name in ((self._process.run, "engine"), (self._watch_leases, "watch leases")):
            self._tasks.append(asyncio.create_task(restart_on_error(work, name), name=name))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        self.leases.board.end()
        self.leases.wake(Wake.ORDERS, Wake.REPORT)
        await self._process.close()
        await cancel_and_wait(self._tasks)
        await self._server.stop(within=LEAVE_WITHIN_S)
        self._temp_dir.remove()

    async def until_lanes_run(self) -> None:
        """Wait until all lanes run, without a limit (``last_error`` is why): what is put then is copied at once."""
        while not self.leases.board.kept_lanes_run:
            await self.leases.wait_for_change(WATCH_EVERY_S, {Wake.REPORT})

    @property
    def last_error(self) -> str | None:
        """Why the engine is not running."""
        return self._process.last_error if self._process is not None else None

    def kill(self) -> None:
        """Kill the engine's processes, because this process is about to exit."""
        if self._process is not None:
            self._process.kill()
        self._temp_dir.remove()

    def _lost(self, _jvm_death: str | None) -> None:
        self._temp_dir.clear()
        self.leases.board.engine_lost(time.monotonic())
        self.leases.wake(Wake.ORDERS, Wake.REPORT)

    async def _watch_leases(self) -> None:
        while True:
            self.leases.observe_lanes()
            for message in self.leases.board.expire(time.monotonic()):
                log.warning("%s", message)
                self.leases.wake(Wake.ORDERS, Wake.REPORT)
            await asyncio.sleep(WATCH_EVERY_S)
