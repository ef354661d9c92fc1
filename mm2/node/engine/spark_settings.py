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

_SQL_JVM = "-XX:+UseSerialGC -Xshare:auto -Xss16m -XX:+ExitOnOutOfMemoryError"
"""Queries are evaluated in the JVM: their generated code needs the optimizing compiler, and regular expressions the
stack, as java.util.regex recurses for each character of some texts. Without memory the JVM ends, as Spark itself would
end it if a StackOverflowError did not count as well (spark.executor.killOnFatalError.depth)."""

_LANE_MB = 128
"""Memory of the Python process of a lane: 85 MB, and room."""

_SQL_LANE_MB = 384
"""Memory of a SQL lane: two processes, which import pyarrow and have rows in memory."""

_FOREIGN = ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE")


def spark_settings(
    user: Mapping[str, str],
    *,
    lanes: int,
    sql_lanes: int = 0,
    temp_dir: Path,
    lane_buffer_bytes: int,
    own_host: str = LOOPBACK,
) -> dict[str, str]:
    """Return the settings of the Spark context.

    ``sql_lanes`` lanes pass records through queries, ``lanes`` do not. ``own_host`` is the address of this machine for
    remote executors.
    """
    jvm, memory = (_SQL_JVM, "1g") if sql_lanes else (_SMALL_JVM, "512m")
    ours = {
        # N is the number of lanes, not of cores: lanes mostly wait for the network. With 4, Spark itself immediately
        # retries a lane whose Python process died; plain local[N] would not.
        _MASTER: f"local[{lanes + sql_lanes},4]",
        "spark.driver.memory": memory,  # of records only those of SQL lanes pass through the JVM
        "spark.python.worker.reuse": "false",  # a lane's process must not run another task afterwards
        "spark.speculation": "false",  # a speculative copy of a lane would not get a lease
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": str(temp_dir),  # removed with the node's temp dir, even after the JVM was killed
        "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={temp_dir} {jvm}",
    }
    if sql_lanes:
        ours |= {
            "spark.executor.killOnFatalError.depth": "0",  # a regular expression without stack ends only its lane
            "spark.executor.heartbeatInterval": "2s",  # the age of the row counts in Spark's UI; the default is 10 s
            "spark.sql.warehouse.dir": str(temp_dir / "warehouse"),  # Spark creates it; by default where it is started
        }
    master = read_master(user.get(_MASTER, ours[_MASTER]))
    if master.is_cluster:
        ours |= _on_cluster(user, lanes=lanes, sql_lanes=sql_lanes, lane_buffer_bytes=lane_buffer_bytes)
        ours |= {"spark.executor.memory": memory, "spark.executor.defaultJavaOptions": jvm}
    if master.elsewhere:
        ours |= {"spark.driver.host": own_host, "spark.ui.killEnabled": "false"}
    else:
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    return ours | dict(user)


def _on_cluster(user: Mapping[str, str], *, lanes: int, sql_lanes: int, lane_buffer_bytes: int) -> dict[str, str]:
    """Return the settings for a cluster: one executor per lane, so that its failure affects no other lane."""
    cores = int(user[_CORES]) if user.get(_CORES, "").isdecimal() else 1
    buffers_mb = max(1, cores) * 2 * lane_buffer_bytes // 2**20
    all_lanes = lanes + sql_lanes
    lane_mb = _SQL_LANE_MB if sql_lanes else _LANE_MB
    return {
        _CORES: "1",
        "spark.cores.max": str(all_lanes),  # by default a standalone cluster gives an application all its cores
        "spark.executor.instances": str(-(-all_lanes // max(1, cores))),  # for YARN and Kubernetes; their default is 2
        "spark.dynamicAllocation.enabled": "false",  # lanes never end, so there is no load to scale by
        # The memory of Python, which YARN and Kubernetes limit together with that of the JVM: that of the lanes, 50 MB
        # for the process that forks lanes, and twice the buffer, as fetched and rewritten batches are in memory.
        "spark.executor.memoryOverhead": f"{256 + lane_mb * max(1, cores) + buffers_mb}m",
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
    environment["PYTHONSAFEPATH"] = "1"  # python -m would import from the directory that the node was started in
    environment["TMPDIR"] = str(temp_dir)
    if read_master(spark[_MASTER]).elsewhere:
        environment.setdefault("SPARK_LOCAL_IP", LOOPBACK)
    else:
        environment["SPARK_LOCAL_IP"] = LOOPBACK
    return environment


def host_of(url: str) -> str:
    """Return the host name of this machine in a URL that is served to others."""
    return urlsplit(url).hostname or LOOPBACK
