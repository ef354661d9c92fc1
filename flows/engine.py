"""The engine: the driver process that keeps lanes of a node running as Spark jobs, ``python -m flows.engine ROLE``.

The role is for those who look at the processes of a machine: the node knows which lanes it has orders for.

Reads one line of JSON from its standard input (`EngineStart`) and ends when that input closes, so it never outlives its
node. Spark runs in its own threads: a SparkContext created in the main thread would take over SIGINT.

PySpark cannot replace a dead JVM within one process, so when the JVM dies this process ends too (exit code 3) and the
node starts a new one.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all is imported: modules are not garbage, and examining them takes a third of the CPU

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field, replace

import httpx
from pydantic import TypeAdapter
from pyspark import SparkContext

from flows import log_lines
from flows.messages import read_message
from flows.process_memory import ProcessMemory
from flows.spark.context import ClusterWatch, open_context, ui_url
from flows.spark.deaths import DRIVER_MEMORY, EXECUTOR_MEMORY, jvm_death
from flows.spark.lane_job import LaneJob, last_line
from flows.spark.record_errors import RecordErrors
from flows.spark.workers import end_with_parent
from flows.sql.session import SqlSession
from mm2.core.lanes.engine_orders import (
    EXIT_JVM_LOST,
    EngineOrders,
    EngineReport,
    FailedRecord,
    LaneEnd,
)
from mm2.core.lanes.lease import LeaseEndpoint

log = logging.getLogger("mm2.engine")

EXIT_STOPPED = 0
EXIT_NODE_LOST = 4
EXIT_APPLICATION_LOST = 5

POLL_S = 1.0
"""Long-poll time: the node answers a report after this long if there are no new orders."""

STOP_WITHIN_S = 3.0
"""Closing the Spark context takes about a second; the node waits a little longer than this, then kills the engine."""

LANES_END_WITHIN_S = 1.0
"""The node closes our input after the lanes have reported their end; their jobs only have to return."""

JVM_ENDS_WITHIN_S = 2.0
"""Time for a JVM that does not answer to end, as its exit code says why."""

NODE_SILENCE_S = 15.0
"""The lease time: without its node for this long, the engine has no lanes left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """The first line on standard input.

    ``spark`` are the settings of the Spark context, ``hidden_spark`` the names of those that are secret, ``token``
    signs calls to the node at ``node_url``. Lanes request their leases at ``leases``. ``on_cluster``: lanes run in
    executors of a cluster.
    """

    node_url: str
    token: str = field(repr=False)
    app_name: str
    spark: dict[str, str]
    leases: LeaseEndpoint
    on_cluster: bool
    hidden_spark: tuple[str, ...] = ()


_START = TypeAdapter(EngineStart)
_ORDERS = TypeAdapter(EngineOrders)
_REPORT = TypeAdapter(EngineReport)


class Engine:
    """Keeps the running lane jobs equal to the node's orders."""

    def __init__(self, start: EngineStart) -> None:
        self._start = start
        self._client = httpx.Client(
            base_url=start.node_url,
            timeout=POLL_S + 5.0,  # the long poll, and time for a busy node
            headers={"Authorization": f"Bearer {start.token}"},
            trust_env=False,
        )
        self._jobs: dict[int, LaneJob] = {}
        self._ended: list[LaneEnd] = []
        self._reported: EngineReport | None = None
        self._version = -1
        self._stopping = threading.Event()
        self._cluster = ClusterWatch(start.spark["spark.master"], on_cluster=start.on_cluster)

    def stop(self) -> None:
        """End `run` (from another thread)."""
        self._stopping.set()

    def run(self) -> int:
        """Start Spark and follow the node's orders until `stop`, or until the node or the JVM is lost.

        Returns the exit code.
        """
        spark = open_context(self._start.app_name, self._start.spark, self._start.hidden_spark)
        sql = SqlSession(spark)
        record_errors = RecordErrors(lambda record: _message_for(sql, record))
        jvm = spark._gateway.proc  # type: ignore[union-attr]  # the only reference to the JVM's process
        ui = ui_url(spark.uiWebUrl)
        log.info("Spark %s started (UI: %s)", spark.version, ui)
        memory = ProcessMemory(lambda: (os.getpid(), jvm.pid))
        answered_at = time.monotonic()
        while not self._stopping.is_set():
            if jvm.poll() is not None or (self._lanes_lost_java and _ends(jvm)):
                return self._jvm_lost(jvm)
            try:
                cluster = self._cluster.view(spark, self._jobs)
            except Exception as error:  # noqa: BLE001 as in LaneJob: the JVM has ended, or Spark is stopping
                log.info("Spark does not answer: %s", last_line(str(error)))
                return self._jvm_lost(jvm)
            if cluster.ended is not None:
                log.error("%s", cluster.ended)
                return EXIT_APPLICATION_LOST
            report = EngineReport(
                version=self._version,
                pid=os.getpid(),
                jvm_pid=jvm.pid,
                spark_ui=ui,
                ended=tuple(self._collect_ended()),
                executors=cluster.executors,
                unplaced=cluster.unplaced,
                record_errors=record_errors.found(),
                memory_bytes=memory.bytes(),
            )
            self._reported = report
            try:
                orders = self._orders(report)
            except httpx.HTTPError as error:
                if time.monotonic() - answered_at > NODE_SILENCE_S:
                    log.error("no answer from the node for %.0f s; stopping: %s", NODE_SILENCE_S, error)  # noqa: TRY400
                    return EXIT_NODE_LOST
                time.sleep(0.2)  # the node may be busy for a moment; the limit above ends the retries
                continue
            answered_at = time.monotonic()
            self._ended.clear()
            log_lines.set_levels(orders.log_levels)
            self._apply(spark, sql, orders)
            record_errors.apply(orders.failed_records)
        deadline = time.monotonic() + LANES_END_WITHIN_S
        for job in self._jobs.values():
            job.join(max(0.0, deadline - time.monotonic()))
        record_errors.close()
        spark.stop()
        return EXIT_STOPPED

    def _jvm_lost(self, jvm: subprocess.Popen[bytes]) -> int:
        """Log why the JVM has ended, as the last error, for the node; return the exit code."""
        if _ends(jvm):
            log.error("%s", jvm_death(jvm.returncode, f"{DRIVER_MEMORY} = {self._start.spark[DRIVER_MEMORY]}"))
        else:
            log.error("Java does not answer")
        return EXIT_JVM_LOST

    @property
    def _memory_of_lanes(self) -> str:
        key = EXECUTOR_MEMORY if self._start.on_cluster else DRIVER_MEMORY
        return f"{key} = {self._start.spark[key]}"

    @property
    def _lanes_lost_java(self) -> bool:
        return any(job.has_ended and job.lost_java for job in self._jobs.values())

    def _orders(self, report: EngineReport, wait: float = POLL_S) -> EngineOrders:
        """Send a report, and return the node's orders. Raises HTTPError."""
        response = self._client.post(
            "/internal/engine",
            content=_REPORT.dump_json(report),
            params={"wait": wait},
            headers={"Content-Type": "application/json"},
        )
        response.raise_for_status()
        return read_message(_ORDERS, response.content, "order")

    def _report_end(self, job: LaneJob) -> None:
        """Report the end of a lane while `run` waits for orders, which the node then sends. Called in its own thread.

        `run` reports it again, so it does not matter if this fails; then the lane starts up to `POLL_S` later.
        """
        if self._reported is None or self._stopping.is_set() or job.lost_java:
            return
        with contextlib.suppress(httpx.HTTPError):
            self._orders(replace(self._reported, ended=(job.end,)), wait=0.0)

    def _collect_ended(self) -> list[LaneEnd]:
        for lane, job in list(self._jobs.items()):
            if job.has_ended:
                del self._jobs[lane]
                self._ended.append(job.end)
        return self._ended

    def _apply(self, spark: SparkContext, sql: SqlSession, orders: EngineOrders) -> None:
        self._version = orders.version
        self._collect_ended()  # those that `_report_end` has reported, in whose place orders have new runs
        wanted = {start.lane: start for start in orders.lanes}
        for lane, job in self._jobs.items():
            if lane not in wanted or wanted[lane].token != job.start_order.token:
                job.cancel()
        for lane, start in wanted.items():
            if lane not in self._jobs:
                job = self._jobs[lane] = LaneJob(
                    spark, sql, self._start.leases, start, self._report_end, memory=self._memory_of_lanes
                )
                job.start()


def _ends(jvm: subprocess.Popen[bytes]) -> bool:
    """Return whether a JVM that does not answer has ended, or ends soon."""
    with contextlib.suppress(subprocess.TimeoutExpired):
        jvm.wait(JVM_ENDS_WITHIN_S)
    return jvm.returncode is not None


def _message_for(sql: SqlSession, record: FailedRecord) -> str | None:
    session = sql.open()
    from flows.sql.record_error import message_for  # noqa: PLC0415 imports pyarrow, which other lanes do not need

    return message_for(session, record)


def serve(engine: Engine) -> None:
    """Run the engine in this thread, then end the process with its exit code even if other threads run."""
    code = 1
    try:
        code = engine.run()
    except Exception as error:
        log.exception("the engine failed: %s", last_line(str(error)))  # noqa: TRY401 the node shows only this line
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Entry point of the engine process."""
    gc.freeze()
    gc.enable()
    log_lines.set_up()
    end_with_parent()
    engine = Engine(read_message(_START, sys.stdin.readline(), "start of the engine"))
    threading.Thread(target=serve, args=(engine,), name="engine", daemon=True).start()
    sys.stdin.read()  # returns when the node closes the pipe or dies
    engine.stop()
    time.sleep(STOP_WITHIN_S)  # `serve` ends the process before this does
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
