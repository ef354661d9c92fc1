"""The engine: the driver process that keeps a node's lanes running as Spark jobs, ``python -m flows.engine``.

Reads one line of JSON from its standard input (`EngineStart`) and ends when that input closes, so it never outlives its
node. Spark lives in threads of its own: a SparkContext made in a main thread would take over SIGINT.

Non-obvious: PySpark cannot replace a dead JVM within one process, so when the JVM dies this process ends too
(exit code 3) and the node starts a new one.
"""

from __future__ import annotations

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

from flows.task import LaneTask, end_with_parent
from mm2.core.lease import EngineOrders, EngineReport, LaneEnd, LaneStart, LeasePlace

log = logging.getLogger("mm2.engine")

EXIT_STOPPED = 0
EXIT_NODE_LOST = 4
EXIT_JVM_LOST = 3
EXIT_APPLICATION_LOST = 5

POLL_S = 1.0
"""How long the node may hold a report without news."""

STOP_WITHIN_S = 3.0
"""Closing the Spark session takes about a second; the node waits a little longer than this before it kills."""

LANES_END_WITHIN_S = 1.0
"""The node closes our input after the lanes have reported their end; their jobs need only to come back."""

HIDDEN_BY_SPARK = re.compile("secret|password|token|access[.]?key|credential", re.IGNORECASE)
"""Names of settings whose values Spark hides in its own displays (spark.redaction.regex)."""

EMPTY_FOR_S = 30.0
"""A cluster that has taken all executors back, and gives none for this long, may have forgotten this application: a
standalone master that was started again has. A new application is registered then, once: from that on it is waited."""

NODE_SILENCE_S = 15.0
"""The lease time: without its node for this long, the engine has nothing left to run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineStart:
    """First line on standard input. ``spark`` are the settings of the session, ``token`` signs calls to the node at
    ``node_url``. Lanes ask at ``leases``; ``on_cluster``: they wait for executors."""

    node_url: str
    token: str = field(repr=False)
    app_name: str
    spark: dict[str, str]
    leases: LeasePlace
    on_cluster: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """What a cluster gives: executors, and the lanes that none of them runs. ``ended``: why it gives nothing more."""

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
        """Run the job to its end; Spark's reason for a failed one is kept as ``error``."""
        title = f"mm2 lane {self.start_order.lane}: {self.start_order.description}"
        self._spark.setJobGroup(self._group, title, interruptOnCancel=True)
        try:
            self._spark.parallelize([None], numSlices=1).mapPartitions(self._task).collect()
        except PySparkException as error:
            self.error = last_line(str(error))
        except Exception as error:  # noqa: BLE001 py4j raises plain Exceptions of many kinds when the JVM is gone
            self.error = last_line(f"{type(error).__name__}: {error}")

    def cancel(self) -> None:
        """Ask Spark to end the job."""
        self._spark.cancelJobGroup(self._group)

    @property
    def unplaced(self) -> bool:
        """Whether no executor runs its task."""
        status = self._spark.statusTracker()
        jobs = [status.getJobInfo(job) for job in status.getJobIdsForGroup(self._group)]
        stages = [status.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return not any(stage is not None and stage.numActiveTasks for stage in stages)


def last_line(text: str) -> str:
    """The line of a Spark error that says why: the last one naming an exception, of at most 500 characters."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return (telling or lines or ["unknown error"])[-1][:500]


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
        """Let `run` come to its end (from another thread)."""
        self._stopping.set()

    def run(self) -> int:
        """Start Spark and serve until told to stop, the node goes silent or the JVM dies; returns the exit code."""
        spark = open_context(self._start)
        jvm = spark._gateway.proc  # type: ignore[union-attr]  # the only holder of the JVM's process
        ui = ui_url(spark.uiWebUrl)
        log.info("Spark %s is up, its UI at %s", spark.version, ui)
        heard_at = time.monotonic()
        while not self._stopping.is_set():
            if jvm.poll() is not None:
                log.error("the JVM ended with code %s", jvm.returncode)
                return EXIT_JVM_LOST
            try:
                cluster = self._look(spark) if self._start.on_cluster else ClusterView()
            except Exception as error:  # noqa: BLE001 as in LaneJob: the JVM is gone, or Spark stops
                log.error("Spark does not answer: %s", last_line(str(error)))  # noqa: TRY400 the reason is in it
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
                if time.monotonic() - heard_at > NODE_SILENCE_S:
                    log.error("the node does not answer: %s", error)  # noqa: TRY400 the reason is in the sentence
                    return EXIT_NODE_LOST
                time.sleep(0.2)  # a node that is busy for a moment; the limit above ends it
                continue
            heard_at = time.monotonic()
            self._ended.clear()
            orders = _ORDERS.validate_json(response.content)
            self._carry_out(spark, orders)
        deadline = time.monotonic() + LANES_END_WITHIN_S
        for job in self._jobs.values():
            job.join(max(0.0, deadline - time.monotonic()))
        spark.stop()
        return EXIT_STOPPED

    def _look(self, spark: SparkContext) -> ClusterView:
        """What the cluster does for this application."""
        scala = spark._jsc.sc()  # PySpark itself tells neither of what follows
        master = self._start.spark["spark.master"]
        if scala.isStopped():
            return ClusterView(ended=f"Spark master {master} ended the application")
        executors = len(scala.statusTracker().getExecutorInfos()) - 1  # the driver counts as one
        now = time.monotonic()
        if executors or (self._executors_at is not None and not self._jobs):
            self._executors_at = now
        ended = None
        if self._executors_at is not None and now - self._executors_at > EMPTY_FOR_S:
            ended = f"Spark master {master} took back all executors {EMPTY_FOR_S:.0f} s ago: it is asked anew"
        unplaced = tuple(lane for lane, job in self._jobs.items() if job.is_alive() and job.unplaced)
        return ClusterView(executors=executors, unplaced=unplaced, ended=ended)

    def _collect_ended(self) -> list[LaneEnd]:
        for lane, job in list(self._jobs.items()):
            if not job.is_alive():
                del self._jobs[lane]
                self._ended.append(LaneEnd(lane=lane, token=job.start_order.token, error=job.error))
        return self._ended

    def _carry_out(self, spark: SparkContext, orders: EngineOrders) -> None:
        self._version = orders.version
        wanted = {start.lane: start for start in orders.lanes}
        for lane, job in self._jobs.items():
            if lane not in wanted or wanted[lane].token != job.start_order.token:
                job.cancel()
        for lane, start in wanted.items():
            if lane not in self._jobs:
                job = self._jobs[lane] = LaneJob(spark, self._start.leases, start)
                job.start()


def ui_url(told: str | None) -> str | None:
    """Where Spark's UI listens: by SPARK_LOCAL_IP, while Spark tells the host that executors call it by."""
    if told is None or "SPARK_LOCAL_IP" not in os.environ:
        return told
    parts = urlsplit(told)
    return f"{parts.scheme}://{os.environ['SPARK_LOCAL_IP']}:{parts.port}"


def open_context(start: EngineStart) -> SparkContext:
    """The Spark context of this node, with the settings of the file over ours.

    A context without a SQL session: lanes move no rows through Spark, and without Catalyst the JVM needs half the CPU
    to start and two thirds of the memory (docs/adr/0002-lanes-are-rdd-tasks.md).

    Settings that are secret are given to the JVM when it runs: it is started with the others on its command line, which
    every user of the machine may read.
    """
    shown = [(name, value) for name, value in start.spark.items() if not HIDDEN_BY_SPARK.search(name)]
    gateway = launch_gateway(SparkConf().setAll(shown))  # type: ignore[no-untyped-call]  # PySpark leaves it untyped
    conf = SparkConf().setAppName(start.app_name).setAll(list(start.spark.items()))
    return SparkContext(conf=conf, gateway=gateway)


def serve(engine: Engine) -> None:
    """Run the engine in this thread and end the process with its exit code, whatever other threads do."""
    code = 1
    try:
        code = engine.run()
    except Exception as error:
        log.exception("the engine stops: %s", last_line(str(error)))  # noqa: TRY401 the node shows this line alone
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> None:
    """Entry point of the engine process."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    logging.getLogger("mm2").setLevel(logging.INFO)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)  # a lost JVM is said once, by us
    end_with_parent()
    engine = Engine(_START.validate_json(sys.stdin.readline()))
    threading.Thread(target=serve, args=(engine,), name="engine", daemon=True).start()
    sys.stdin.read()  # returns when the node closes the pipe or dies
    engine.stop()
    time.sleep(STOP_WITHIN_S)  # `serve` ends the process before this does
    os._exit(EXIT_STOPPED)


if __name__ == "__main__":
    main()
