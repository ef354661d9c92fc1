"""A node as users run it: ``mm2 run FILE`` in a separate process, observed from outside."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import javaproperties
import psutil
from prometheus_client.parser import text_string_to_metric_families

from tests.lab import scratch
from tests.lab.commands import ROOT, command_path
from tests.lab.ports import HOST, release_port, reserve_port
from tests.lab.processes import LabProcess
from tests.lab.waiting import GaveUp, wait_until

ANSWERS_WITHIN = 60.0  # seconds until the REST interface serves: two for Python and its imports, more on busy cores
RUNS_WITHIN = 150.0  # seconds until all flows run: Spark takes seven on an idle machine
DRAINS_WITHIN = 30.0  # seconds: task.shutdown.graceful.timeout.ms is 10 by default, and Spark has to go down
REST_TIMEOUT = 10.0  # seconds for one request: the node's loop may wait for a core

# Without bytecode node, engine and every lane would compile their 500 modules at each start. Not inherited.
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"

# A reason of /health that counts. Those of flows that only send heartbeats, warnings and pauses do not.
_COUNTS = re.compile(r" (?:is|are) (?:WAITING|FAILED|DRAINING|STOPPED)(?: since \S+)?: .*(?<!not affect health\))$")

# Role of a process by a word in its command line; the first match counts.
ROLES = {"worker": "pyspark.worker", "jvm": "org.apache.spark", "engine": "flows.engine", "node": "run"}


class Node:
    """``mm2 run`` with a file of ``properties``, with a REST listener on its own port unless they set one.

    ``trusted`` is a file with the CA certificates of an https listener. ``tree`` is the directory of the source code
    that its processes run; another one applies from the next start.

    `start`, then `wait_running`. The same file, port and directory serve all restarts.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | str,
        *,
        name: str = "node",
        arguments: tuple[str, ...] = (),
        env: Mapping[str, str] | None = None,
        trusted: Path | None = None,
    ) -> None:
        self.name = name
        self.tree = ROOT
        self._verify = _system_certificates() if trusted is None else ssl.create_default_context(cafile=trusted)
        self.directory = scratch.directory(name)
        self.file = self.directory / "mm2.properties"
        self._port: int | None = None
        text = properties if isinstance(properties, str) else javaproperties.dumps(properties, timestamp=False)
        listeners = javaproperties.loads(text).get("listeners")
        if listeners is None:
            self._port = reserve_port()
            listeners = f"http://{HOST}:{self._port}"
        self.url = listeners.split(",")[0].strip()
        self.rewrite(text)
        self._command = (command_path("mm2"), "run", str(self.file), *arguments)
        temporary = self.directory / scratch.DATA  # what a killed node leaves goes with the test run
        temporary.mkdir()
        inherited = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        self._env = {**inherited, "TMPDIR": str(temporary), **(env or {})}
        self._process: LabProcess | None = None
        self._family: dict[int, psutil.Process] = {}

    @property
    def process(self) -> LabProcess:
        """The running or last process of the node itself. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def rewrite(self, properties: Mapping[str, str] | str) -> None:
        """Replace the file as editors do. The port stays the same."""
        text = properties if isinstance(properties, str) else javaproperties.dumps(properties, timestamp=False)
        if self._port is not None:
            text += f"\nlisteners={self.url}\n"
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.rename(self.file)

    def start(self) -> Self:
        """Start the process without waiting for the node."""
        env = self._env
        if self.tree != ROOT:
            env = {**env, "PYTHONPATH": os.pathsep.join(filter(None, (str(self.tree), env.get("PYTHONPATH"))))}
        self._process = LabProcess(self.name, self._command, self.directory / "node.log", cwd=self.tree, env=env)
        return self

    def wait_answering(self) -> None:
        """Wait until /health/live responds. Raises GaveUp with the end of the log."""
        self._wait(lambda: self.get("/health/live") is not None, ANSWERS_WITHIN, "answers on /health/live")

    def wait_running(self, timeout: float = RUNS_WITHIN) -> None:
        """Wait until /health reports that every enabled flow runs. Raises GaveUp with the last response and log."""
        self._wait(lambda: self.healthy, timeout, "is healthy")

    def stop(self, timeout: float = DRAINS_WITHIN) -> int:
        """Send SIGTERM, so that it drains, and return the exit code."""
        self.family()
        return self.process.stop(timeout)

    def kill(self) -> None:
        """Send kill -9 to the node's own process, not to its children."""
        self.family()
        self.process.kill()

    def get(self, path: str) -> httpx.Response | None:
        """Return a REST response, whatever its status; None if there is none."""
        try:
            return httpx.get(self.url + path, timeout=REST_TIMEOUT, verify=self._verify, trust_env=False)
        except httpx.TransportError:
            return None

    @property
    def healthy(self) -> bool:
        """Whether /health has no problem that would make it 503 after 30 s, or before the first run of a flow."""
        answer = self.get("/health")
        if answer is None or answer.status_code != httpx.codes.OK:
            return False
        return not any(_COUNTS.search(reason) for reason in answer.json()["reasons"])

    def health(self) -> dict[str, Any]:
        """``{"status", "reasons"}``; empty if there is no response."""
        answer = self.get("/health")
        return {} if answer is None else dict(answer.json())

    def flows(self) -> list[dict[str, Any]]:
        """The response of /flows; empty if there is none."""
        answer = self.get("/flows")
        return [] if answer is None else list(answer.json())

    def flow(self, name: str) -> dict[str, Any]:
        """One flow of /flows by its name, ``A->B``; empty when it is not there."""
        return next((one for one in self.flows() if one["flow"] == name), {})

    def topic(self, flow: str, topic: str) -> dict[str, Any]:
        """One topic of a flow by its source name; empty when it is not there."""
        return next((one for one in self.flow(flow).get("topics", ()) if one["topic"] == topic), {})

    def metric(self, name: str, **labels: str) -> float:
        """Return the sum of all samples with that name and these labels; 0 if there is none."""
        answer = self.get("/metrics")
        samples = (
            sample
            for family in text_string_to_metric_families("" if answer is None else answer.text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )
        return sum(sample.value for sample in samples)

    def family(self) -> list[psutil.Process]:
        """The node's process and everything it started that still runs, orphans of earlier calls included."""
        if self._process is not None and self._process.running:
            root = psutil.Process(self._process.pid)
            for one in (root, *root.children(recursive=True)):
                self._family.setdefault(one.pid, one)
        self._family = {pid: one for pid, one in self._family.items() if _alive(one)}
        return list(self._family.values())

    def members(self, role: str) -> list[psutil.Process]:
        """The family's processes of one role: node, engine, jvm, or worker (including their daemon)."""
        return [one for one in self.family() if _role(one) == role]

    def spark_ui(self, engine: str = "main") -> str:
        """Return the URL of the Spark UI of an engine (main, queries), or nothing. The banner does not name it if Spark
        was up only after that."""
        (jvm,) = (one for one in self.members("jvm") if engine in psutil.Process(one.ppid()).cmdline())
        for connection in jvm.net_connections("tcp"):
            url = f"http://127.0.0.1:{connection.laddr.port}"
            if connection.status == psutil.CONN_LISTEN:
                with contextlib.suppress(httpx.HTTPError):  # the JVM's other ports do not speak HTTP
                    if httpx.get(
                        f"{url}/api/v1/applications", timeout=REST_TIMEOUT, verify=_system_certificates()
                    ).is_success:
                        return url
        return ""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for one in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):  # ended with the one before it
                one.kill()
        if self._process is not None:
            self._process.kill_group()
        if self._port is not None:
            release_port(self._port)

    def _wait(self, condition: Callable[[], bool], timeout: float, sentence: str) -> None:
        try:
            wait_until(lambda: not self.process.running or condition(), timeout, f"{self.name} {sentence}")
        except GaveUp as problem:
            raise GaveUp(f"{problem}\n/health: {self.health()}\n{self.process.report()}") from None
        if not self.process.running:
            raise GaveUp(f"{self.name} ended before it {sentence}\n{self.process.report()}")


@functools.cache
def _system_certificates() -> ssl.SSLContext:
    """Return one context for all requests: httpx loads a file of CA certificates for each request that brings none,
    also for http, which takes 27 ms of CPU; tests that wait for something ask four times a second."""
    return ssl.create_default_context()


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _role(process: psutil.Process) -> str:
    try:
        line = " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return "gone"
    return next((role for role, word in ROLES.items() if word in line), "other")
