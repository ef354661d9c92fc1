"""A real Spark standalone cluster: a master and workers, from the jars of PySpark."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

import psutil
import pyspark

from tests.lab import jvm, scratch
from tests.lab.ports import HOST, port_answers, release_port, reserve_port
from tests.lab.processes import LabProcess
from tests.lab.server import Server
from tests.lab.waiting import GaveUp, wait_until

READY = 60.0  # seconds: a start takes three on an idle machine
ENDS = 20.0  # seconds for killed processes and their children to exit
HOME = Path(pyspark.__file__).parent

SECRET = "secret-of-spark"
_PROTECTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": SECRET,
    "spark.network.crypto.enabled": "true",
}
_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"


def address_of_this_machine() -> str | None:
    """Return an address that other machines can use, None if there is only loopback."""
    for interface, addresses in psutil.net_if_addrs().items():
        up = psutil.net_if_stats()[interface].isup
        for one in addresses:
            if up and one.family.name == "AF_INET" and not one.address.startswith("127."):
                return one.address
    return None


class SparkWorker:
    """One worker process, which starts executors. It offers one core and a gigabyte."""

    def __init__(self, name: str, host: str, master: str, options: tuple[str, ...]) -> None:
        self.name = name
        self._options = options
        self.directory = scratch.directory(name)
        self._host = host
        self._master = master
        self._ports = (reserve_port(), reserve_port())
        self._process: LabProcess | None = None
        self._executors: dict[int, psutil.Process] = {}

    @property
    def process(self) -> LabProcess:
        """The running or last process. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def start(self) -> Self:
        """Start it and wait until it is registered with the master."""
        port, ui = self._ports
        before = _registrations(self.directory)
        self._process = _run(
            self.name,
            self.directory,
            _WORKER,
            self._options,
            *("--host", self._host, "--port", str(port), "--webui-port", str(ui)),
            *("--cores", "1", "--memory", "1g", "--work-dir", str(self.directory / scratch.DATA), self._master),
        )
        wait_until(
            lambda: _registrations(self.directory) > before, READY, f"{self.name} is registered with {self._master}"
        )
        return self

    def executors(self) -> list[psutil.Process]:
        """Return the executors' JVMs and their children, including those whose worker has exited."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for one in psutil.Process(self.process.pid).children(recursive=True):
                self._executors.setdefault(one.pid, one)
        self._executors = {pid: one for pid, one in self._executors.items() if _alive(one)}
        return list(self._executors.values())

    def kill(self) -> None:
        """Send kill -9 to the worker and its executors, as in a machine failure."""
        family = self.executors()
        self.process.kill()
        for one in family:
            with contextlib.suppress(psutil.NoSuchProcess):  # gone with the one before it
                one.kill()
        wait_until(lambda: not self.executors(), ENDS, f"everything of {self.name} is gone")

    def close(self) -> None:
        """Stop it permanently and release its ports."""
        if self._process is not None:
            self.kill()
        for port in self._ports:
            release_port(port)


class SparkCluster(Server):
    """A master and ``workers`` workers of one core each; a context manager that stops them all.

    Connections are authenticated and encrypted; `application` contains the settings of an application.
    """

    def __init__(self, *, workers: int = 2, host: str = HOST) -> None:
        self._host = host
        options = self._options = tuple(f"-D{key}={value}" for key, value in _PROTECTED.items())
        self._directory = scratch.directory("spark-master")
        self._port, self._ui = reserve_port(), reserve_port()
        self.url = f"spark://{host}:{self._port}"
        self.application = {"spark.master": self.url, **_PROTECTED}
        self._master: LabProcess | None = None
        self.workers = [SparkWorker(f"spark-worker-{number}", host, self.url, options) for number in range(workers)]

    def start_master(self) -> None:
        """Start the master on its port and wait until it accepts workers."""
        self._master = _run(
            "spark-master",
            self._directory,
            _MASTER,
            self._options,
            *("--host", self._host, "--port", str(self._port), "--webui-port", str(self._ui)),
        )
        wait_until(self._serves, READY, f"the Spark master listens at {self.url}")

    def stop_master(self) -> None:
        """kill -9 to the master; it forgets everything."""
        if self._master is not None:
            self._master.kill()

    def executors(self) -> list[psutil.Process]:
        """Of all workers."""
        return [one for worker in self.workers for one in worker.executors()]

    def logs(self) -> list[Path]:
        """The output of master, workers and executors."""
        directories = [self._directory, *(worker.directory for worker in self.workers)]
        found = (path for directory in directories for path in directory.rglob("*"))
        return [path for path in found if path.suffix == ".log" or path.name in ("stdout", "stderr")]

    def start(self) -> Self:
        """Start master and workers."""
        self.start_master()
        for worker in self.workers:
            worker.start()
        return self

    def _serves(self) -> bool:
        if self._master is None or not self._master.running:
            raise GaveUp("the Spark master ended while starting" + (self._master.report() if self._master else ""))
        return port_answers(self._port, self._host)

    def close(self) -> None:
        """Kill all of it immediately."""
        for worker in self.workers:
            worker.close()
        if self._master is not None:
            self._master.kill_group()
        release_port(self._port)
        release_port(self._ui)


def _run(name: str, directory: Path, program: str, options: tuple[str, ...], *arguments: str) -> LabProcess:
    """A program of Spark's by its own script, which knows what a JVM needs for it and becomes that JVM."""
    settings = {
        "SPARK_HOME": str(HOME),
        "SPARK_CONF_DIR": str(directory),  # none lying around on this machine
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": " ".join((*jvm.QUICK_START, "-Dspark.master.rest.enabled=false", *options)),
    }
    return LabProcess(
        name,
        (str(HOME / "bin" / "spark-class"), program, *arguments),
        directory / f"{name}.log",
        cwd=directory,
        env={**os.environ, **settings},
    )


def _registrations(directory: Path) -> int:
    return sum(log.read_text(errors="replace").count("Successfully registered") for log in directory.glob("*.log"))


def _alive(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
