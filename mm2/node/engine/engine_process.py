"""The engine as a child process of the node, restarted when it exits."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import shutil
import signal
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

from mm2.config.grammar.environment import Environment
from mm2.core.lanes.engine_orders import EXIT_JVM_LOST, EngineRole
from mm2.core.lanes.lease import LeaseEndpoint
from mm2.core.log_records import ATTRIBUTE, RelayedLine
from mm2.core.masking import masked
from mm2.core.settings.spark_master import SparkMaster, read_master
from mm2.kafka.backoff import Backoff
from mm2.node.engine.spark_settings import engine_environment

log = logging.getLogger("mm2.engine")

RESTART_MIN_MS = 1_000
RESTART_MAX_MS = 30_000
"""Each failed start of a JVM costs seconds of CPU, so the backoff grows to half a minute."""

HEALTHY_AFTER_S = 60.0
"""An engine that ran for this long resets the backoff."""

END_WITHIN_S = 5.0
"""Time for Spark to close, which takes about a second; then the process group is killed. All offsets are stored before
that."""

_ERROR = "ERROR mm2.engine "

_PREFIXES = {EngineRole.MAIN: "", EngineRole.QUERIES: "queries: "}
"""Starts of what the node logs of an engine's output."""

KEPT_LINES = 40
"""Number of the engine's last output lines that are logged when it exits."""

OLDEST_JAVA = 17  # required by Spark 4

MASTER_WITHIN_S = 5.0
"""Timeout for a connection to the Spark master; even over long distances it takes less than a second."""


class EngineProcess:
    """Keeps one ``python -m flows.engine`` running until `close`.

    ``role`` names it in messages. ``last_error`` is why it is not running, or None. ``ended`` is how its last process
    ended, if there was one. ``on_lost`` is called each time it has exited, with the reason if its JVM has ended,
    otherwise with None. ``hidden_spark``: names among ``spark`` whose values no other user of the machine may see.
    ``inherited``: mm2.engine.environment.
    """

    def __init__(
        self,
        *,
        node_url: str,
        token: str,
        app_name: str,
        leases: LeaseEndpoint,
        spark: Mapping[str, str],
        temp_dir: Path,
        on_lost: Callable[[str | None], None],
        hidden_spark: Collection[str] = (),
        inherited: Collection[str] = (),
        role: EngineRole = EngineRole.MAIN,
    ) -> None:
        self._master = read_master(spark["spark.master"])
        self._start = {
            "node_url": node_url,
            "token": token,
            "app_name": app_name,
            "spark": dict(spark),
            "hidden_spark": sorted(hidden_spark),
            "leases": asdict(leases),
            "on_cluster": self._master.is_cluster,
        }
        self._temp_dir = temp_dir
        self._inherited = tuple(inherited)
        self._environment = engine_environment(spark, temp_dir, self._inherited)
        self._on_lost = on_lost
        self._restarting = False
        self._process: asyncio.subprocess.Process | None = None
        self._closing = False
        self.role = role
        self.last_error: str | None = f"{role} is starting"
        self.ended: str | None = None
        self._jvm_death: str | None = None

    def use_lane_place(self, place: LeaseEndpoint) -> None:
        """Send lanes to ``place`` after the next start."""
        self._start["leases"] = asdict(place)

    async def run(self) -> None:
        """Keep the engine running until cancelled."""
        backoff = Backoff(RESTART_MIN_MS, RESTART_MAX_MS)
        while not self._closing:
            began = asyncio.get_running_loop().time()
            self._jvm_death = None
            try:
                last_error = await java_error(Environment(), self._environment) or await master_error(self._master)
                if last_error is None:
                    last_error = await self._run_once()
            except OSError as error:  # no memory, process or file descriptor left, possibly temporarily
                last_error = self.ended = f"cannot start {self.role}: {error}"
            if self._closing:
                return
            self.last_error = last_error
            self._on_lost(self._jvm_death)
            if self._restarting:
                self._restarting, self.last_error = False, f"{self.role} is starting"
                continue
            if asyncio.get_running_loop().time() - began > HEALTHY_AFTER_S:
                backoff.reset()
            pause = backoff.next()
            log.error("%s; retrying in %.0f s", last_error, pause)
            await asyncio.sleep(pause)

    async def _run_once(self) -> str:
        """Run one engine process; return why it ended."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "flows.engine",
            self.role.name.lower(),  # for operators, who see it in the list of processes
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=self._environment,
            start_new_session=True,  # Ctrl-C in the terminal must reach only the node
        )
        self._process = process
        last: deque[str] = deque(maxlen=KEPT_LINES)
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(self._start).encode() + b"\n")
            await process.stdin.drain()
            self.last_error = None
            while raw := await next_line(process.stdout):
                line = raw.decode(errors="replace").rstrip()
                last.append(line)
                log_line(line, self.role)
            code = await process.wait()
        except (BrokenPipeError, ConnectionResetError):
            code = await process.wait()
        finally:
            kill_group(process.pid)  # its JVM and workers may still be running
            self._process = None
        for line in last:
            log.debug("engine output: %s", line)
        if code == EXIT_JVM_LOST:
            self._jvm_death = masked(last_error(last) or "Java ended")
        self.ended = f"{self.role} exited with code {code}{masked(failure_line(last))}"
        return self.ended

    def kill(self) -> None:
        """Kill the engine and its JVM without waiting."""
        self._closing = True
        if self._process is not None:
            kill_group(self._process.pid)

    async def close(self) -> None:
        """Stop the engine: close its input, wait up to END_WITHIN_S, then kill its process group."""
        self._closing = True
        await self._end()

    async def restart(self, spark: Mapping[str, str]) -> None:
        """Stop the engine like `close`; `run` starts it with these settings."""
        self._start["spark"] = dict(spark)
        self._environment = engine_environment(spark, self._temp_dir, self._inherited)
        self._restarting = self._process is not None
        await self._end()

    async def _end(self) -> None:
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(END_WITHIN_S):
                await process.wait()
        kill_group(process.pid)


def log_line(line: str, role: EngineRole) -> None:
    """Log a line of an engine, its JVM or one of its lanes.

    Our own lines keep their logger and level, but errors are warnings, because the node logs what they have stopped.
    All others are DEBUG lines of ``mm2.engine``.
    """
    ours = RelayedLine.read(line)
    if ours is None:
        log.debug("%s%s", _PREFIXES[role], line)
        return
    level = min(logging.getLevelNamesMapping()[ours.level], logging.WARNING)
    extra = {ATTRIBUTE: ours.fields}
    logging.getLogger(ours.logger).log(level, "%s%s", _PREFIXES[role], ours.message, extra=extra)


async def next_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line with its line end; b"" at the end of the stream.

    Of a line that is too long for the reader (64 KiB), such as a Spark plan, only the rest is returned.
    """
    while True:
        with contextlib.suppress(ValueError):
            return await stream.readline()


FAILURE_SIGNS = ('Exception in thread "main"', "ERROR mm2", "Exception", "Error")
"""Texts that mark the line with the cause of an exit, the most specific first: Java did not start, an error of the
engine, any error."""


def failure_line(lines: Iterable[str]) -> str:
    """Return ``: LINE`` with the line that explains why an engine exited, or an empty string."""
    newest_first = list(lines)[::-1]
    found = (line for sign in FAILURE_SIGNS for line in newest_first if sign in line)
    return next((f": {line.strip().removeprefix(': ')}" for line in found), "")


def last_error(lines: Iterable[str]) -> str | None:
    """Return the last error that the engine itself has logged; None if there is none.

    Other threads, and the JVM, can have started the line.
    """
    errors = [line.partition(_ERROR)[2] for line in lines if _ERROR in line]
    return errors[-1] if errors else None


def kill_group(group: int) -> None:
    """Kill the remaining processes of a process group that this node started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, signal.SIGKILL)


async def java_error(environment: Environment, of_engine: Mapping[str, str] | None = None) -> str | None:
    """Return why Spark's JVM cannot start here, with the fix; None if Java is new enough.

    ``of_engine``: the environment for Java; None: that of this process.
    """
    java = str(environment.java_home / "bin" / "java") if environment.java_home else "java"
    repair = f"install Java {OLDEST_JAVA} or newer (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
    if shutil.which(java) is None:
        return f"Spark requires Java, but {java} was not found; {repair}"
    process = await asyncio.create_subprocess_exec(
        java, "-version", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=of_engine
    )
    output = (await process.communicate())[0].decode(errors="replace")
    found = re.search(r'version "(\d+)', output)
    if found is not None and int(found.group(1)) < OLDEST_JAVA:
        return f"Spark requires Java {OLDEST_JAVA}, but {java} is version {found.group(1)}; {repair}"
    return None


async def master_error(master: SparkMaster) -> str | None:
    """Return why no standalone master of the cluster is reachable; None if one accepts connections.

    Returns None for other kinds of masters. Spark itself fails only after a minute, without a useful message.
    """
    errors = []
    for host, port in master.addresses:
        try:
            async with asyncio.timeout(MASTER_WITHIN_S):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            errors.append(f"{host}:{port} did not answer within {MASTER_WITHIN_S:.0f} s")
        except OSError as error:
            number = error.errno or 0  # negative if the host name cannot be resolved
            errors.append(f"{host}:{port}: {os.strerror(number) if number > 0 else error.strerror or error}")
        else:
            writer.close()
            return None
    if not errors:
        return None
    return (
        f"cannot reach Spark master {master.url} ({'; '.join(errors)}); check that it is running and that"
        " spark.master is correct"
    )
