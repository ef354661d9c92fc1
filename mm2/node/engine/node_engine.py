"""The Spark engine of a node: its settings, its start, and its restart for more SQL lanes."""

from __future__ import annotations

import asyncio
import logging
import time

from mm2.config.lane_counts import sql_lanes_of
from mm2.config.settings import NodeSettings
from mm2.core.lanes.lease import LeasePlace
from mm2.core.naming.names import Flow
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.engine.spark_settings import host_of, spark_settings
from mm2.node.engine.temp_directory import TempDirectory

log = logging.getLogger("mm2.node")

MORE_SQL_LANES = "more queries need more SQL lanes"
"""Why the Spark engine and all flows of the node restart after a reload: Spark's settings are fixed at its start."""


class NodeEngine:
    """The engine process of a node, which starts when a file enables a flow, and runs until `close`.

    ``settings`` are those with which the node started: Spark's settings of later files are not used.
    """

    def __init__(
        self,
        settings: NodeSettings,
        lease_service: LeaseService,
        temp_dir: TempDirectory,
        *,
        process: type[EngineProcess] = EngineProcess,
    ) -> None:
        """``process`` runs the engine."""
        self._process_class = process
        self._settings = settings
        self._lease_service = lease_service
        self._temp_dir = temp_dir
        self._lane_place: LeasePlace | None = None
        self._process: EngineProcess | None = None
        self._task: asyncio.Task[None] | None = None
        self._spark: dict[str, str] = {}
        self._sql_lanes = 0

    def start(self, settings: NodeSettings, lane_place: LeasePlace | None = None) -> None:
        """Start the engine if any flow is enabled and it does not run yet. ``lane_place``: where lanes get leases."""
        self._lane_place = lane_place or self._lane_place
        enabled = [str(flow) for flow in with_source_tasks(settings)]
        if self._process is not None or self._lane_place is None or not enabled:
            return
        self._sql_lanes = sql_lanes_of(settings.flows, lanes=self._lease_service.capacity)
        self._spark = self._spark_settings(self._lane_place)
        self._process = self._process_class(
            node_url=self._lease_service.url,
            token=self._lease_service.engine_token,
            app_name=f"mm2 {' '.join(enabled)}",
            leases=self._lane_place,
            spark=self._spark,
            hidden_spark=settings.hidden_spark,
            inherited=settings.own.engine_environment,
            temp_dir=self._temp_dir.path,
            on_lost=self._lost,
        )
        self._task = asyncio.create_task(restart_on_error(self._process.run, "engine"), name="engine")
        self._lease_service.board.keep_running(1)

    def use_lane_place(self, place: LeasePlace) -> None:
        """Send lanes to ``place`` after the next start of the engine."""
        self._lane_place = place
        if self._process is not None:
            self._process.use_lane_place(place)

    def _spark_settings(self, lanes: LeasePlace) -> dict[str, str]:
        return spark_settings(
            self._settings.spark,
            lanes=self._lease_service.capacity,
            sql_lanes=self._sql_lanes,
            temp_dir=self._temp_dir.path,
            lane_buffer_bytes=self._settings.own.lane_buffer_bytes,
            own_host=host_of(lanes.url),
        )

    def use_more_sql_lanes(self, settings: NodeSettings) -> bool:
        """Return whether `restart` is needed for the SQL lanes of a new file.

        A larger engine is kept if queries are removed.
        """
        sql_lanes = sql_lanes_of(settings.flows, lanes=self._lease_service.capacity)
        if self._process is None or self._lane_place is None or sql_lanes <= self._sql_lanes:
            return False
        before, self._sql_lanes = self._spark, sql_lanes
        self._spark = self._spark_settings(self._lane_place)
        return self._spark != before

    async def restart(self) -> None:
        """Restart the engine with the SQL lanes of the new file, after the flows have drained."""
        if self._process is not None:
            log.info("restarting the Spark engine: %s", MORE_SQL_LANES)
            await self._process.restart(self._spark)

    @property
    def error(self) -> str | None:
        """Why the engine is not running or not ready, if a flow needs it."""
        process = self._process
        if process is None or process.trouble is not None or self._lease_service.board.engine is not None:
            return None if process is None else process.trouble
        master = self._settings.master
        waiting = f", waiting for Spark master {master.url} to accept the application" if master.is_cluster else ""
        previous = f" (previous attempt: {process.ended})" if process.ended else ""
        return f"the Spark engine is starting{waiting}{previous}"

    def kill(self) -> None:
        """Kill the engine's processes without waiting."""
        if self._process is not None:
            self._process.kill()

    async def close(self) -> None:
        """Stop the engine."""
        if self._process is not None:
            await self._process.close()
        if self._task is not None:
            await cancel_and_wait([self._task])

    def _lost(self, jvm_death: str | None) -> None:
        self._temp_dir.clear()
        for message in self._lease_service.board.engine_lost(time.monotonic(), jvm_death):
            log.warning("%s", message)
        self._lease_service.wake(Wake.ORDERS, Wake.REPORT)


def with_source_tasks(settings: NodeSettings) -> tuple[Flow, ...]:
    """Return the flows that have source tasks on the node."""
    return tuple(flow.flow for flow in settings.flows if flow.enabled)
