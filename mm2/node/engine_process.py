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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from mm2.config.environment import Environment
from mm2.core.lease import LeasePlace
from mm2.core.spark_master import SparkMaster, read_master
from mm2.node.spark_settings import engine_environment

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

MASTER_WITHIN_S = 5.0
"""A master on any continent accepts a connection within a second."""


class EngineProcess:
    """Keeps one ``python -m flows.engine`` running until `close`.

    ``trouble`` is a sentence while it is not running, else None; ``ended`` says how its last life ended, if it had one.
    ``on_lost`` is called each time it died.
    """

    def __init__(
        self,
        *,
        node_url: str,
        token: str,
        app_name: str,
        leases: LeasePlace,
        spark: Mapping[str, str],
        temp_dir: Path,
        on_lost: Callable[[], None],
    ) -> None:
        self._master = read_master(spark["spark.master"])
        self._start = {
            "node_url": node_url,
            "token": token,
            "app_name": app_name,
            "spark": dict(spark),
            "leases": asdict(leases),
            "on_cluster": self._master.is_cluster,
        }
        self._environment = engine_environment(spark, temp_dir)
        self._on_lost = on_lost
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False
        self.trouble: str | None = "the Spark engine is starting"
        self.ended: str | None = None

    async def run(self) -> None:
        """Start the engine again and again until cancelled."""
        wait = FIRST_RESTART_S
        while not self._closing:
            began = asyncio.get_running_loop().time()
            try:
                trouble = await java_trouble(Environment()) or await master_trouble(self._master)
                if trouble is None:
                    trouble = await self._run_once()
            except OSError as error:  # no memory, no process or no file left for it: another time there may be
                trouble = self.ended = f"the Spark engine cannot be started: {error}"
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
            while raw := await next_line(process.stdout):
                line = raw.decode(errors="replace").rstrip()
                last.append(line)
                log.log(logging.WARNING if line.startswith("ERROR mm2") else logging.DEBUG, "%s", line)
            code = await process.wait()
        except (BrokenPipeError, ConnectionResetError):
            code = await process.wait()
        finally:
            kill_group(process.pid)  # a JVM or a worker that is left of it
            self._process = None
        for line in last:
            log.debug("engine said: %s", line)
        self.ended = f"the Spark engine ended with code {code}{last_word(last)}"
        return self.ended

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


async def next_line(stream: asyncio.StreamReader) -> bytes:
    """The next line with its end, or what is left of one that is too long for the reader (64 KiB): a plan or an error
    of Spark's may be. Nothing at the end of the stream."""
    while True:
        with contextlib.suppress(ValueError):
            return await stream.readline()


TELLING = ('Exception in thread "main"', "ERROR mm2", "Exception", "Error")
"""What a line says that tells why an engine ended, the best sign first: Java did not start, the engine itself says so,
somebody does."""


def last_word(lines: Iterable[str]) -> str:
    """``: the line`` of an engine's last ones that says why it ended, or nothing."""
    newest_first = list(lines)[::-1]
    found = (line for sign in TELLING for line in newest_first if sign in line)
    return next((f": {line.strip()}" for line in found), "")


def kill_group(group: int) -> None:
    """Kill what is left of a process group of ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


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


async def master_trouble(master: SparkMaster) -> str | None:
    """Why no standalone master of a cluster can be asked, as a sentence; None when one accepts connections, or for a
    master of another kind. Spark itself gives up after a minute, and does not say on what."""
    troubles = []
    for host, port in master.addresses:
        try:
            async with asyncio.timeout(MASTER_WITHIN_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            troubles.append(f"{host}:{port} does not answer within {MASTER_WITHIN_S:.0f} s")
        except OSError as error:
            number = error.errno or 0  # below 0 the name is not known to this machine
            troubles.append(f"{host}:{port}: {os.strerror(number) if number > 0 else error.strerror or error}")
        else:
            writer.close()
            return None
    if not troubles:
        return None
    return f"Spark master {master.url} cannot be reached ({'; '.join(troubles)}): is it up, and is spark.master right?"
