"""What the engine's Spark is told: ours for the master of the file, and every ``spark.*`` key of the file over that."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mm2.core.spark_master import read_master

LOOPBACK = "127.0.0.1"

_MASTER = "spark.master"
_CORES = "spark.executor.cores"
_PYTHON = "spark.pyspark.python"

_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""Driver and executors handle a handful of tasks: start-up and memory matter, peak speed does not."""

_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


def spark_settings(
    user: Mapping[str, str], *, lanes: int, temp_dir: Path, lane_buffer_bytes: int, own_host: str = LOOPBACK
) -> dict[str, str]:
    """Settings of the Spark context. ``own_host``: what executors on other machines call this one."""
    ours = {
        # N counts lanes, not cores: a lane waits for the network most of the time. 4: Spark itself retries a lane
        # whose Python process died, at once; plain local[N] would not.
        _MASTER: f"local[{lanes},4]",
        "spark.driver.memory": "512m",  # the JVM only schedules; no record passes through it
        "spark.python.worker.reuse": "false",  # a lane's process must not serve another task after it
        "spark.speculation": "false",  # a second copy of a lane would only be refused its lease
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": str(temp_dir),  # removed with the node's temp dir, even after a kill of the JVM
        "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={temp_dir} {_SMALL_JVM}",
    }
    master = read_master(user.get(_MASTER, ours[_MASTER]))
    if master.is_cluster:
        ours |= _on_cluster(user, lanes=lanes, lane_buffer_bytes=lane_buffer_bytes)
    if master.elsewhere:
        ours |= {"spark.driver.host": own_host, "spark.ui.killEnabled": "false"}
    else:
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return ours | dict(user)


def _on_cluster(user: Mapping[str, str], *, lanes: int, lane_buffer_bytes: int) -> dict[str, str]:
    """One executor a lane: one that dies takes no other lane with it."""
    cores = int(user[_CORES]) if user.get(_CORES, "").isdecimal() else 1
    buffers_mb = max(1, cores) * 2 * lane_buffer_bytes // 2**20
    return {
        _CORES: "1",
        "spark.cores.max": str(lanes),  # a standalone cluster gives one application all it has
        "spark.executor.instances": str(-(-lanes // max(1, cores))),  # YARN and Kubernetes, which give two without it
        "spark.dynamicAllocation.enabled": "false",  # a lane never ends: there is nothing to scale by
        "spark.executor.memory": "512m",  # as the driver's
        # What Python needs beside the JVM (YARN and Kubernetes end a container that has more): 85 MB a lane and
        # 50 MB for what forks them, and twice its buffer, since batches are held as they came and as they go.
        "spark.executor.memoryOverhead": f"{256 + 128 * max(1, cores) + buffers_mb}m",
        "spark.executor.defaultJavaOptions": _SMALL_JVM,
    }


def engine_environment(spark: Mapping[str, str], temp_dir: Path) -> dict[str, str]:
    """The engine's environment, for the settings its Spark gets: a SPARK_HOME lying around is ignored unless
    ``spark.home`` asks for one, and Spark's UI is on loopback unless SPARK_LOCAL_IP says otherwise.

    Lanes run by ``spark.pyspark.python`` of the file, which is a path on the executors' machines, else by the Python
    that runs the node.
    """
    environment = dict(os.environ)
    for name in _FOREIGN:
        environment.pop(name, None)
    if "spark.home" in spark:
        environment["SPARK_HOME"] = spark["spark.home"]
    environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environment["PYSPARK_PYTHON"] = spark.get(_PYTHON, sys.executable)
    environment["PYTHONUNBUFFERED"] = "1"
    environment["TMPDIR"] = str(temp_dir)
    if read_master(spark[_MASTER]).elsewhere:
        environment.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    else:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment


def host_of(url: str) -> str:
    """What others call this machine, by the URL they come to."""
    return urlsplit(url).hostname or LOOPBACK
