"""Observes the executors that a Spark cluster provides for a node."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import SparkContext

from flows.spark.lane_job import LaneJob

EMPTY_FOR_S = 30.0
"""A cluster that removed all executors and has provided none for this long may have lost this application, as a
restarted standalone master does. The application is then registered again, once; after that the engine waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkClusterView:
    """The executors that a cluster provides, and the lanes without one. ``ended``: why the cluster provides no more."""

    executors: int = 0
    unplaced: tuple[int, ...] = ()
    ended: str | None = None


class ClusterWatch:
    """Observes the executors of an application. Without a cluster, lanes run in the engine's own JVM."""

    def __init__(self, master: str, *, on_cluster: bool) -> None:
        self._master = master
        self._on_cluster = on_cluster
        self._executors_at: float | None = None  # None: there has never been one

    def view(self, spark: SparkContext, jobs: Mapping[int, LaneJob]) -> SparkClusterView:
        """Return what the cluster provides for the jobs, by lane."""
        if not self._on_cluster:
            return SparkClusterView()
        scala = spark._jsc.sc()  # PySpark itself provides none of what follows
        if scala.isStopped():
            return SparkClusterView(ended=f"Spark master {self._master} ended the application")
        executors = len(scala.statusTracker().getExecutorInfos()) - 1  # the driver counts as one
        now = time.monotonic()
        if executors or (self._executors_at is not None and not jobs):
            self._executors_at = now
        ended = None
        if self._executors_at is not None and now - self._executors_at > EMPTY_FOR_S:
            ended = f"Spark master {self._master} has provided no executors for {EMPTY_FOR_S:.0f} s; registering again"
        unplaced = tuple(lane for lane, job in jobs.items() if not job.has_ended and job.unplaced)
        return SparkClusterView(executors=executors, unplaced=unplaced, ended=ended)
