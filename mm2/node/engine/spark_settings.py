"""The engine's Spark settings: defaults for the configured master, overridden by every ``spark.*`` key of the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from mm2.core.settings.spark_master import read_master

LOOPBACK = "127.0.0.1"

_MASTER = "spark.master"
_CORES = "spark.executor.cores"
_PYTHON = "spark.pyspark.python"

_SMALL_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
"""Driver and executors run few tasks, so start-up time and memory matter more than peak performance."""

_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


def spark_settings(
    user: Mapping[str, str], *, lanes: int, temp_dir: Path, lane_buffer_bytes: int, own_host: str = LOOPBACK
) -> dict[str, str]:
    """Return the settings of the Spark context. ``own_host`` is the address of this machine for remote executors."""
    ours = {
        # N is the number of lanes, not of cores: lanes mostly wait for the network. With 4, Spark itself immediately
        # retries a lane whose Python process died; plain local[N] would not.
        _MASTER: f"local[{lanes},4]",
        "spark.driver.memory": "512m",  # the JVM only schedules; no record passes through it
        "spark.python.worker.reuse": "false",  # a lane's process must not run another task afterwards
        "spark.speculation": "false",  # a speculative copy of a lane would not get a lease
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": str(temp_dir),  # removed with the node's temp dir, even after the JVM was killed
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
    """Return the settings for a cluster: one executor per lane, so that its failure affects no other lane."""
    cores = int(user[_CORES]) if user.get(_CORES, "").isdecimal() else 1
    buffers_mb = max(1, cores) * 2 * lane_buffer_bytes // 2**20
    return {
        _CORES: "1",
        "spark.cores.max": str(lanes),  # by default a standalone cluster gives an application all its cores
        "spark.executor.instances": str(-(-lanes // max(1, cores))),  # for YARN and Kubernetes; their default is 2
        "spark.dynamicAllocation.enabled": "false",  # lanes never end, so there is no load to scale by
        "spark.executor.memory": "512m",  # like the driver
        # The memory of Python, which YARN and Kubernetes limit together with that of the JVM: 85 MB per lane, 50 MB
        # for the process that forks lanes, and twice the buffer, as fetched and rewritten batches are in memory.
        "spark.executor.memoryOverhead": f"{256 + 128 * max(1, cores) + buffers_mb}m",
        "spark.executor.defaultJavaOptions": _SMALL_JVM,
    }


def engine_environment(spark: Mapping[str, str], temp_dir: Path) -> dict[str, str]:
    """Return the engine's environment for these Spark settings.

    SPARK_HOME of the environment is ignored; ``spark.home`` sets it. Spark's UI listens on loopback unless
    SPARK_LOCAL_IP is set. Lanes run with ``spark.pyspark.python`` of the file, a path on the executors' machines, or by
    default with the Python of the node.
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
    """Return the host name of this machine in a URL that is served to others."""
    return urlsplit(url).hostname or LOOPBACK
