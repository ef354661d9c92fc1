"""The engine as the node sees it: a child process that is started, watched, and started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import random
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path

from mm2.config.environment import Environment

log = logging.getLogger("mm2.engine")

FIRST_RESTART_S = 1.0
LONGEST_RESTART_S = 30.0
"""A JVM that does not start costs seconds of CPU each time; half a minute is soon enough once the cause is cured."""

HEALTHY_AFTER_S = 60.0

END_WITHIN_S = 5.0
"""Spark needs about a second to close; after this the process group is killed, everything is stored by then."""

KEPT_LINES = 40
"""Lines of the engine's last words that are shown when it dies."""

OLDEST_JAVA = 17  # Spark 4 asks for it


class EngineProcess:
    """Keeps one ``python -m flows.engine`` running until `close`.

    ``trouble`` is a sentence while it is not running, else None. ``on_lost`` is called each time it died.
    """

    def __init__(
        self,
        *,
        node_url: str,
        token: str,
        app_name: str,
        spark: Mapping[str, str],
        temp_dir: Path,
        on_lost: Callable[[], None],
    ) -> None:
        self._start = {"node_url": node_url, "token": token, "app_name": app_name, "spark": dict(spark)}
        self._environment = engine_environment(spark, temp_dir)
        self._on_lost = on_lost
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False
        self.trouble: str | None = "the Spark engine is starting"

    async def run(self) -> None:
        """Start the engine again and again until cancelled."""
        wait = FIRST_RESTART_S
        while not self._closing:
            began = asyncio.get_running_loop().time()
            trouble = await java_trouble(Environment())
            if trouble is None:
                trouble = await self._run_once()
            if self._closing:
                return
            self.trouble = trouble
            self._on_lost()
            if asyncio.get_running_loop().time() - began > HEALTHY_AFTER_S:
                wait = FIRST_RESTART_S
            pause = wait * random.uniform(0.8, 1.2)  # noqa: S311 jitter
            log.error("%s; next start in %.0f s", trouble, pause)
            await asyncio.sleep(pause)
            wait = min(wait * 2, LONGEST_RESTART_S)

    async def _run_once(self) -> str:
        """One life of the engine; returns what ended it, in a sentence."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flows.engine",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # a Ctrl-C in the terminal is the node's to handle
        )
        self._process = process
        last: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(self._start).encode() + b"\n")
            await process.stdin.drain()
            self.trouble = None
            async for raw in process.stdout:
                line = raw.decode(errors="replace").rstrip()
                last.append(line)
                log.log(logging.WARNING if line.startswith("ERROR mm2") else logging.DEBUG, "%s", line)
            code = await process.wait()
        except (BrokenPipeError, ConnectionResetError):
            code = await process.wait()
        finally:
            kill_group(process.pid)  # a JVM or a worker that is left of it
            self._process = None
        telling = [line for line in last if line.startswith("ERROR mm2")]
        telling = telling or [line for line in last if "Exception" in line or "Error" in line]
        for line in last:
            log.debug("engine said: %s", line)
        return f"the Spark engine ended with code {code}" + (f": {telling[-1]}" if telling else "")

    def kill(self) -> None:
        """End the engine and its JVM without waiting."""
        self._closing = True
        if self._process is not None:
            kill_group(self._process.pid)

    async def close(self) -> None:
        """End the engine: close its input, give Spark END_WITHIN_S, then kill what is left of its process group."""
        self._closing = True
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_WITHIN_S):
                await process.wait()
        kill_group(process.pid)


def kill_group(group: int) -> None:
    """Kill what is left of a process group of ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


def engine_environment(spark: Mapping[str, str], temp_dir: Path) -> dict[str, str]:
    """The engine's environment: a SPARK_HOME lying around is ignored unless ``spark.home`` asks for one, and a local
    master keeps its UI and block transfer on loopback."""
    environment = dict(os.environ)
    for name in ("SPARK_HOME", "SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_REMOTE"):
        environment.pop(name, None)
    if "spark.home" in spark:
        environment["SPARK_HOME"] = spark["spark.home"]
    environment["PYSPARK_PYTHON"] = environment["PYSPARK_DRIVER_PYTHON"] = sys.executable
    environment["PYTHONUNBUFFERED"] = "1"
    environment["TMPDIR"] = str(temp_dir)
    if spark.get("spark.master", "local").startswith("local"):
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    return environment


async def java_trouble(environment: Environment) -> str | None:
    """Why Spark's JVM cannot start here, as a sentence with the repair; None when Java is new enough."""
    java = str(environment.java_home / "bin" / "java") if environment.java_home else "java"
    repair = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if shutil.which(java) is None:
        return f"Spark needs Java and there is no {java}: {repair}"
    process = await asyncio.create_subprocess_exec(
        java, "-version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output = (await process.communicate())[0].decode(errors="replace")
    found = re.search(r'version "(\d+)', output)
    if found is not None and int(found.group(1)) < OLDEST_JAVA:
        return f"Spark needs Java {OLDEST_JAVA} and {java} is {found.group(1)}: {repair}"
    return None


def spark_settings(user: Mapping[str, str], *, lanes: int, temp_dir: Path) -> dict[str, str]:
    """Settings of the Spark session: ours, and every ``spark.*`` key of the file over them as it is."""
    ours = {
        # N counts lanes, not cores: a lane waits for the network most of the time. 4: Spark itself retries a lane
        # whose Python process died, at once; plain local[N] would not.
        "spark.master": f"local[{lanes},4]",
        "spark.driver.memory": "512m",  # the JVM only schedules; no record passes through it
        "spark.python.worker.reuse": "false",  # a lane's process must not serve another task after it
        "spark.speculation": "false",  # a second copy of a lane would only be refused its lease
        "spark.ui.showConsoleProgress": "false",
        "spark.scheduler.mode": "FAIR",
        "spark.local.dir": str(temp_dir),  # removed with the node's temp dir, even after a kill of the JVM
        "spark.driver.defaultJavaOptions": f"-Djava.io.tmpdir={temp_dir} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
        " -Xshare:auto",  # the JVM schedules a handful of jobs: start-up and memory matter, peak speed does not
    }
    if user.get("spark.master", "local").startswith("local"):
        ours |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return ours | {key: value for key, value in user.items() if key != "spark.home"}
