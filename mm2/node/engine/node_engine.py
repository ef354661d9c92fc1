"""The Spark engines of a node: their settings, their starts, and the restart for more SQL lanes on a cluster."""

from __future__ import annotations

import asyncio
import logging
import time
from dataclasses import dataclass
from functools import partial

from mm2.config.lane_counts import sql_lanes_of
from mm2.config.settings import NodeSettings
from mm2.core.lanes.engine_orders import EngineReport, EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.naming.names import Flow
from mm2.node.common.cancelling import cancel_and_wait
from mm2.node.common.restarting import restart_on_error
from mm2.node.engine.engine_process import EngineProcess
from mm2.node.engine.lease_service import LeaseService, Wake
from mm2.node.engine.spark_settings import LOCAL_SQL_LANES, host_of, spark_settings
from mm2.node.engine.temp_directory import TempDirectory
from mm2.node.status.status_model import EngineStatus

log = logging.getLogger("mm2.node")

MORE_SQL_LANES = "more queries need more SQL lanes"
"""Why the Spark engine and all flows of the node restart after a reload: Spark's settings are fixed at its start."""


@dataclass(slots=True, kw_only=True)
class _RunningEngine:
    """``spark`` are the settings for its next start; ``task`` keeps ``process`` running."""

    process: EngineProcess
    task: asyncio.Task[None]
    temp_dir: TempDirectory
    spark: dict[str, str]


class NodeEngine:
    """The engine processes of a node.

    The main engine starts when a file enables a flow, and runs until `close`. In local mode another one, with a JVM of
    its own, runs the SQL lanes while an enabled flow of the file has a query. On a Spark cluster the main engine runs
    them, too, and restarts if a new file needs more.

    ``settings`` are those with which the node started: Spark's settings of later files are not used.
    """

    def __init__(
        self,
        settings: NodeSettings,
        lease_service: LeaseService,
        *,
        process: type[EngineProcess] = EngineProcess,
    ) -> None:
        """``process`` runs an engine."""
        self._process_class = process
        self._settings = settings
        self._lease_service = lease_service
        self._lane_place: LeaseEndpoint | None = None
        self._engines: dict[EngineRole, _RunningEngine] = {}
        self._sql_lanes = 0  # of the main engine

    def start(self, settings: NodeSettings, lane_place: LeaseEndpoint | None = None) -> None:
        """Start the engines that the file needs and that do not run yet. ``lane_place``: where lanes get leases."""
        self._lane_place = lane_place or self._lane_place
        for role in EngineRole:
            flows = self._flows_of(role, settings)
            if role in self._engines or self._lane_place is None or not flows:
                continue
            if role is EngineRole.MAIN:
                self._sql_lanes = self._sql_lanes_of(settings)
            self._engines[role] = self._started(role, flows, self._lane_place)
            if role is EngineRole.MAIN:
                self._lease_service.board.keep_running(1)

    def _started(self, role: EngineRole, flows: tuple[Flow, ...], lane_place: LeaseEndpoint) -> _RunningEngine:
        temp_dir = TempDirectory("node")
        spark = self._spark_settings(role, temp_dir, lane_place)
        process = self._process_class(
            node_url=self._lease_service.url,
            token=self._lease_service.engine_tokens[role],
            app_name=" ".join(("mm2", *map(str, flows), *(() if role is EngineRole.MAIN else ("queries",)))),
            leases=lane_place,
            spark=spark,
            hidden_spark=self._settings.hidden_spark,
            inherited=self._settings.own.engine_environment,
            temp_dir=temp_dir.path,
            on_lost=partial(self._lost, role),
            role=role,
        )
        task = asyncio.create_task(restart_on_error(process.run, str(role)), name=str(role))
        return _RunningEngine(process=process, task=task, temp_dir=temp_dir, spark=spark)

    def _flows_of(self, role: EngineRole, settings: NodeSettings) -> tuple[Flow, ...]:
        """Return the flows of the file that need this engine."""
        if role is EngineRole.MAIN:
            return with_source_tasks(settings)
        if self._lease_service.board.query_engine is not role:
            return ()
        return tuple(flow.flow for flow in settings.flows if flow.enabled and flow.queries.in_order)

    def _sql_lanes_of(self, settings: NodeSettings) -> int:
        """Return the number of SQL lanes of the main engine for this file."""
        if self._lease_service.board.query_engine is not EngineRole.MAIN:
            return 0
        return sql_lanes_of(settings.flows, lanes=self._lease_service.capacity)

    def use_lane_place(self, place: LeaseEndpoint) -> None:
        """Send lanes to ``place`` after the next start of an engine."""
        self._lane_place = place
        for engine in self._engines.values():
            engine.process.use_lane_place(place)

    def _spark_settings(self, role: EngineRole, temp_dir: TempDirectory, lane_place: LeaseEndpoint) -> dict[str, str]:
        is_main = role is EngineRole.MAIN
        return spark_settings(
            self._settings.spark,
            lanes=self._lease_service.capacity if is_main else 0,
            sql_lanes=self._sql_lanes if is_main else LOCAL_SQL_LANES,
            temp_dir=temp_dir.path,
            lane_buffer_bytes=self._settings.own.lane_buffer_bytes,
            own_host=host_of(lane_place.url),
        )

    def use_more_sql_lanes(self, settings: NodeSettings) -> bool:
        """Return whether `restart` is needed for the SQL lanes of a new file: on a cluster only.

        A larger engine is kept if queries are removed.
        """
        main, sql_lanes = self._engines.get(EngineRole.MAIN), self._sql_lanes_of(settings)
        if main is None or self._lane_place is None or sql_lanes <= self._sql_lanes:
            return False
        before, self._sql_lanes = main.spark, sql_lanes
        main.spark = self._spark_settings(EngineRole.MAIN, main.temp_dir, self._lane_place)
        return main.spark != before

    async def restart(self) -> None:
        """Restart the main engine with the SQL lanes of the new file, after the flows have drained."""
        log.info("restarting the Spark engine: %s", MORE_SQL_LANES)
        main = self._engines[EngineRole.MAIN]
        await main.process.restart(main.spark)

    async def stop_without_queries(self, settings: NodeSettings) -> None:
        """Stop the engine for queries if no flow of the file has one any more, and all that had have drained."""
        role = EngineRole.QUERIES
        if role in self._engines and not self._flows_of(role, settings):
            log.info("stopping %s: the file has no more queries", role)
            await self._close(role)
            self._lease_service.board.engine_lost(time.monotonic(), engine=role)
            self._lease_service.wake(Wake.ORDERS, Wake.REPORT)

    def error(self, role: EngineRole) -> str | None:
        """Why this engine is not running or not ready, if a flow needs it."""
        engine = self._engines.get(role)
        if engine is None or engine.process.last_error is not None or role in self._lease_service.board.engines:
            return None if engine is None else engine.process.last_error
        master = self._settings.master
        waiting = f", waiting for Spark master {master.url} to accept the application" if master.is_cluster else ""
        previous = f" (previous attempt: {engine.process.ended})" if engine.process.ended else ""
        return f"{role} is starting{waiting}{previous}"

    @property
    def statuses(self) -> tuple[EngineStatus, ...]:
        """The engines of the node."""
        reports = self._lease_service.board.engines
        return tuple(_status(role, self.error(role), reports.get(role)) for role in EngineRole if role in self._engines)

    def kill(self) -> None:
        """Kill the processes of all engines without waiting."""
        for engine in self._engines.values():
            engine.process.kill()
            engine.temp_dir.remove()

    async def close(self) -> None:
        """Stop all engines."""
        await asyncio.gather(*(self._close(role) for role in tuple(self._engines)))

    async def _close(self, role: EngineRole) -> None:
        engine = self._engines[role]
        await engine.process.close()
        await cancel_and_wait([engine.task])
        engine.temp_dir.remove()
        self._engines.pop(role, None)  # None: closed twice, as the node has ended during a reload

    def _lost(self, role: EngineRole, jvm_death: str | None) -> None:
        self._engines[role].temp_dir.clear()
        for message in self._lease_service.board.engine_lost(time.monotonic(), jvm_death, role):
            log.warning("%s", message)
        self._lease_service.wake(Wake.ORDERS, Wake.REPORT)


def _status(role: EngineRole, error: str | None, report: EngineReport | None) -> EngineStatus:
    return EngineStatus(
        engine=role.name.lower(),
        error=error,
        spark_ui=None if report is None else report.spark_ui,
        pid=None if report is None else report.pid,
        jvm_pid=None if report is None else report.jvm_pid,
        memory_bytes=None if report is None else report.memory_bytes,
    )


def with_source_tasks(settings: NodeSettings) -> tuple[Flow, ...]:
    """Return the flows that have source tasks on the node."""
    return tuple(flow.flow for flow in settings.flows if flow.enabled)
