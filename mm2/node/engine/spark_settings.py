"""The engine's Spark settings: defaults for the configured master, overridden by every ``spark.*`` key of the file."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from mm2.config.checks.spark import AUTHENTICATE, ENCRYPTED
from mm2.config.checks.spark_keys import PORTS
from mm2.core.settings.spark_master import SparkMaster, read_master

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

LOCAL_SQL_LANES = 1024
"""Slots of the engine for queries in local mode. A slot in use costs a thread, an unused one nothing. So many SQL lanes
would need 200 GB; so a new query never restarts the engine for those that run."""

_UI_PORT = "4040"  # Spark's default

INHERITED = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "HOSTNAME", "LANG", "LANGUAGE", "LC_*", "TZ"),
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "MALLOC_ARENA_MAX", "VIRTUAL_ENV", "PYTHON*"),
    *(
        "JAVA_HOME",
        "SPARK_SUBMIT_OPTS",
        "SPARK_LOCAL_IP",
        "SPARK_LOCAL_HOSTNAME",
        "SPARK_PUBLIC_DNS",
        "SPARK_USER",
        "SPARK_DIST_CLASSPATH",
    ),
    *("HADOOP_CONF_DIR", "HADOOP_HOME", "HADOOP_USER_NAME", "YARN_CONF_DIR"),
    *("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"),
    *("KRB5*", "SSL_CERT_FILE", "SSL_CERT_DIR"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
)
"""Variables that the engine, its JVM and its lanes inherit from the node (docs/how-to/security.md): what a program
needs to start, and places of files. Others often hold secrets, for config providers and other programs."""


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

    ``sql_lanes`` lanes pass records through queries, ``lanes`` do not. In local mode an engine has only lanes of one of
    these kinds. ``own_host`` is the address of this machine for remote executors.
    """
    jvm, memory = (_SQL_JVM, "1g") if sql_lanes else (_SMALL_JVM, "512m")
    ours = {
        # N is the number of lanes, not of cores: lanes mostly wait for the network.
        _MASTER: f"local[{lanes + sql_lanes}]",
        "spark.driver.memory": memory,  # of records only those of SQL lanes pass through the JVM
        "spark.python.worker.reuse": "false",  # a lane's process must not run another task afterwards
        "spark.speculation": "false",  # a speculative copy of a lane would not get a lease
        "spark.ui.showConsoleProgress": "false",
        "spark.ui.killEnabled": "false",  # its links have no login
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
    ours |= _protection(master, user)
    if master.is_cluster:
        ours |= _on_cluster(user, lanes=lanes, sql_lanes=sql_lanes, lane_buffer_bytes=lane_buffer_bytes)
        ours |= {"spark.executor.memory": memory, "spark.executor.defaultJavaOptions": jvm}
    else:
        ours |= {"spark.python.daemon.module": "flows.spark.lane_daemon"}  # executors unpack our modules later
    if master.elsewhere:
        ours |= {"spark.driver.host": own_host}
    else:
        ours |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    settings = ours | dict(user) | _without_retries(master)
    return settings | _next_ports(user) if sql_lanes and not master.is_cluster else settings


def _next_ports(user: Mapping[str, str]) -> dict[str, str]:
    """Return the ports of the engine for queries: those after the ports of the main engine, unless any (0) will do."""
    ports = {PORTS[0]: _UI_PORT} | {name: user[name] for name in PORTS if name in user}
    return {name: str(int(port) + 1) for name, port in ports.items() if port.isdecimal() and int(port)}


def _protection(master: SparkMaster, user: Mapping[str, str]) -> dict[str, str]:
    """Return the settings without which anyone who can connect to the driver reads the tokens of lanes from it.

    That is any user of the machine, also if Spark listens on loopback only. In local mode and on YARN and Kubernetes,
    Spark generates the secret itself. A standalone cluster has one, which the file names (`mm2.config.checks.spark`).
    """
    if master.addresses:
        return {}
    encrypted = not master.elsewhere or any(name in user for name in ENCRYPTED)
    return {AUTHENTICATE: "true"} | ({} if encrypted else {ENCRYPTED[0]: "true"})


def _without_retries(master: SparkMaster) -> dict[str, str]:
    """Return settings with which Spark does not run the failed task of a lane again.

    A lane's token grants one session. When the job ends, the node starts the lane with a new one, immediately at first.
    """
    if master.is_cluster:
        return {"spark.task.maxFailures": "1"}
    return {_MASTER: f"local[{master.threads or '*'}]"}  # local[N,F] would make F attempts


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


def engine_environment(spark: Mapping[str, str], temp_dir: Path, inherited: Collection[str] = ()) -> dict[str, str]:
    """Return the engine's environment for these Spark settings.

    Of the node's environment it has the variables `INHERITED` and those with the names ``inherited``, of which a ``*``
    at the end stands for any text. So SPARK_HOME is ignored; ``spark.home`` sets it. Spark's UI listens on loopback
    unless SPARK_LOCAL_IP is set. Lanes run with ``spark.pyspark.python`` of the file, a path on the executors'
    machines, or by default with the Python of the node.
    """
    patterns = (*INHERITED, *inherited)
    environment = {
        name: value for name, value in os.environ.items() if any(fnmatchcase(name, pattern) for pattern in patterns)
    }
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
