"""The engine: the driver process that keeps a node's lanes running as Spark jobs, ``python -m flows.engine``.

Reads one line of JSON from its standard input (`EngineStart`) and ends when that input closes, so it never outlives its
node. Spark runs in its own threads: a SparkContext created in the main thread would take over SIGINT.

PySpark cannot replace a dead JVM within one process, so when the JVM dies this process ends too (exit code 3) and the
node starts a new one.
"""

from __future__ import annotations

import gc

if __name__ == "__main__":
    gc.disable()  # until all is imported: modules are not garbage, and examining them takes a third of the CPU

import logging
import os
import re
import sys
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httpx
from pydantic import TypeAdapter
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from flows.spark.lane_task import LaneTask, end_with_parent
from mm2.core.lanes.lease import EngineOrders, EngineReport, LaneEnd, LaneStart, LeasePlace

log = logging.getLogger("mm2.engine")

EXIT_STOPPED = 0
EXIT_NODE_LOST = 4
EXIT_JVM_LOST = 3
EXIT_APPLICATION_LOST = 5

POLL_S = 1.0
"""Long-poll time: the node answers a report after this long if there are no new orders."""

STOP_WITHIN_S = 3.0
"""Closing the Spark context takes about a second; the node waits a little longer than this, then kills the engine."""

LANES_END_WITHIN_S = 1.0
"""The node closes our input after the lanes have reported their end; their jobs only have to return."""

HIDDEN_BY_SPARK = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Names of settings whose values Spark hides in its own displays (spark.redaction.regex)."""

EMPTY_FOR_S = 30.0
"""A cluster that removed all executors and has provided none for this long may have lost this application, as a
restarted standalone master does. The application is then registered again, once; after that the engine waits."""

NODE_SILENCE_S = 15.0
"""The lease time: without its node for this long, the engine has no lanes left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """The first line on standard input.

    ``spark`` are the settings of the Spark context, ``token`` signs calls to the node at ``node_url``. Lanes request
    their leases at ``leases``. ``on_cluster``: lanes run in executors of a cluster.
    """

    node_url: str
    token: str = field(repr=False)
    app_name: str
    spark: dict[str, str]
    leases: LeasePlace
    on_cluster: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClusterView:
    """The executors that a cluster provides, and the lanes without one. ``ended``: why the cluster provides no more."""

    executors: int = 0
    unplaced: tuple[int, ...] = ()
    ended: str | None = None


_START = TypeAdapter(EngineStart)
_ORDERS = TypeAdapter(EngineOrders)
_REPORT = TypeAdapter(EngineReport)


class LaneJob(threading.Thread):
    """One run of one lane: a Spark job of one partition, submitted from its own thread under its own job group."""

    def __init__(self, spark: SparkContext, place: LeasePlace, start: LaneStart) -> None:
        super().__init__(name=f"lane-{start.lane}", daemon=True)
        self.start_order = start
        self.error: str | None = None
        self._spark = spark
        self._task = LaneTask(lane=start.lane, place=place, token=start.token)
        self._group = f"mm2-lane-{start.lane}-{start.token[:8]}"

    def run(self) -> None:
        """Run the job to its end; if it fails, ``error`` is Spark's reason."""
        self._spark.setJobGroup(self._group, job_title(self.start_order), interruptOnCancel=True)
        try:
            self._spark.parallelize([None], numSlices=1).mapPartitions(self._task).collect()
        except PySparkException as error:
            self.error = last_line(str(error))
        except Exception as error:  # noqa: BLE001 py4j raises many kinds of Exception when the JVM has ended
            self.error = last_line(f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """Ask Spark to cancel the job."""
        self._spark.cancelJobGroup(self._group)

    @property
    def unplaced(self) -> bool:
        """Whether no executor runs its task."""
        status = self._spark.statusTracker()
        jobs = [status.getJobInfo(job) for job in status.getJobIdsForGroup(self._group)]
        stages = [status.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return not any(stage is not None and stage.numActiveTasks for stage in stages)


def job_title(start: LaneStart) -> str:
    """Return the title of a lane's job in Spark's UI.

    Spark cannot change it while the job runs, and a lane that starts without source tasks gets some later. So the title
    refers to `mm2 status` for the current ones.
    """
    if start.description:
        return f"mm2 lane {start.lane} (started with {start.description}; mm2 status lists the current source tasks)"
    return f"mm2 lane {start.lane} (mm2 status lists the source tasks of this node)"


def last_line(text: str) -> str:
    """Return the last line of a Spark error that names an exception, truncated to 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    named = [line for line in lines if "Error" in line or "Exception" in line]
    return (named or lines or ["unknown error"])[-1][:500]


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
        self._version = -1
        self._stopping = threading.Event()
        self._executors_at: float | None = None  # None: there has never been one

    def stop(self) -> None:
        """End `run` (from another thread)."""
        self._stopping.set()

    def run(self) -> int:
        """Start Spark and follow the node's orders until `stop`, or until the node or the JVM is lost.

        Returns the exit code.
        """
        spark = open_context(self._start)
        jvm = spark._gateway.proc  # type: ignore[union-attr]  # the only reference to the JVM's process
        ui = ui_url(spark.uiWebUrl)
        log.info("Spark %s started (UI: %s)", spark.version, ui)
        answered_at = time.monotonic()
        while not self._stopping.is_set():
            if jvm.poll() is not None:
                log.error("the JVM exited with code %s", jvm.returncode)
                return EXIT_JVM_LOST
            try:
                cluster = self._cluster_view(spark) if self._start.on_cluster else SparkClusterView()
            except Exception as error:  # noqa: BLE001 as in LaneJob: the JVM has ended, or Spark is stopping
                log.error("Spark does not answer: %s", last_line(str(error)))  # noqa: TRY400 it contains the reason
                return EXIT_JVM_LOST
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
            )
            try:
                response = self._client.post(
                    "/internal/engine",
                    content=_REPORT.dump_json(report),
                    params={"wait": POLL_S},
                    headers={"Content-Type": "application/json"},
                )
                response.raise_for_status()
            except httpx.HTTPError as error:
                if time.monotonic() - answered_at > NODE_SILENCE_S:
                    log.error("no answer from the node for %.0f s; stopping: %s", NODE_SILENCE_S, error)  # noqa: TRY400
                    return EXIT_NODE_LOST
                time.sleep(0.2)  # the node may be busy for a moment; the limit above ends the retries
                continue
            answered_at = time.monotonic()
            self._ended.clear()
            orders = _ORDERS.validate_json(response.content)
            self._apply(spark, orders)
        deadline = time.monotonic() + LANES_END_WITHIN_S
        for job in self._jobs.values():
            job.join(max(0.0, deadline - time.monotonic()))
        spark.stop()
        return EXIT_STOPPED

    def _cluster_view(self, spark: SparkContext) -> SparkClusterView:
        """Return what the cluster provides for this application."""
        scala = spark._jsc.sc()  # PySpark itself provides none of what follows
        master = self._start.spark["spark.master"]
        if scala.isStopped():
            return SparkClusterView(ended=f"Spark master {master} ended the application")
        executors = len(scala.statusTracker().getExecutorInfos()) - 1  # the driver counts as one
        now = time.monotonic()
        if executors or (self._executors_at is not None and not self._jobs):
            self._executors_at = now
        ended = None
        if self._executors_at is not None and now - self._executors_at > EMPTY_FOR_S:
            ended = f"Spark master {master} has provided no executors for {EMPTY_FOR_S:.0f} s; registering again"
        unplaced = tuple(lane for lane, job in self._jobs.items() if job.is_alive() and job.unplaced)
        return SparkClusterView(executors=executors, unplaced=unplaced, ended=ended)

    def _collect_ended(self) -> list[LaneEnd]:
        for lane, job in list(self._jobs.items()):
            if not job.is_alive():
                del self._jobs[lane]
                self._ended.append(LaneEnd(lane=lane, token=job.start_order.token, error=job.error))
        return self._ended

    def _apply(self, spark: SparkContext, orders: EngineOrders) -> None:
        self._version = orders.version
        wanted = {start.lane: start for start in orders.lanes}
        for lane, job in self._jobs.items():
            if lane not in wanted or wanted[lane].token != job.start_order.token:
                job.cancel()
        for lane, start in wanted.items():
            if lane not in self._jobs:
                job = self._jobs[lane] = LaneJob(spark, self._start.leases, start)
                job.start()


def ui_url(reported: str | None) -> str | None:
    """Return the URL of Spark's UI with SPARK_LOCAL_IP, where it listens; Spark reports its name for executors."""
    if reported is None or "SPARK_LOCAL_IP" not in os.environ:
        return reported
    parts = urlsplit(reported)
    return f"{parts.scheme}://{os.environ['SPARK_LOCAL_IP']}:{parts.port}"


def open_context(start: EngineStart) -> SparkContext:
    """Create the Spark context of this node; settings of the file take precedence over ours.

    There is no SQL session: lanes move no rows through Spark, and without Catalyst the JVM needs half the CPU to start
    and two thirds of the memory (docs/adr/0002-lanes-are-rdd-tasks.md).

    Secret settings are set in the running JVM, not on its command line, which every user of the machine can read.
    """
    shown = [(name, value) for name, value in start.spark.items() if not HIDDEN_BY_SPARK.search(name)]
    gateway = launch_gateway(SparkConf().setAll(shown))  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
    conf = SparkConf().setAppName(start.app_name).setAll(list(start.spark.items()))
    return SparkContext(conf=conf, gateway=gateway)


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
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("mm2").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a lost JVM is logged once, by us
    end_with_parent()
    engine = Engine(_START.validate_json(sys.stdin.readline()))
    threading.Thread(target=serve, args=(engine,), name="engine", daemon=True).start()
    sys.stdin.read()  # returns when the node closes the pipe or dies
    engine.stop()
    time.sleep(STOP_WITHIN_S)  # `serve` ends the process before this does
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
