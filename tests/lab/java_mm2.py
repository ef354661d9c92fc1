"""The real Java MirrorMaker 2, for comparison."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import javaproperties
import psutil

from tests.lab import jars, jvm, scratch
from tests.lab.processes import LabProcess
from tests.lab.waiting import GaveUp, wait_until

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
STARTED = "Kafka MirrorMaker started"  # printed when all flows' workers are starting
STARTS_WITHIN = 120.0  # seconds: ten alone, a minute beside six brokers and another MirrorMaker on busy cores
STOPS_WITHIN = 60.0  # seconds: it drains each task in turn


class JavaMirrorMaker:
    """``connect-mirror-maker FILE --clusters …`` of Kafka 4.3.1 with a file of ``properties``, and JVM ``options``.

    ``classes`` is a directory of the user's classes.
    """

    def __init__(
        self,
        properties: Mapping[str, str] | str,
        *,
        clusters: tuple[str, ...] = (),
        name: str = "java-mm2",
        version: str = jars.KAFKA_4,
        heap: str = "512m",
        java_options: tuple[str, ...] = (),
        classes: Path | None = None,
    ) -> None:
        self.name = name
        self.directory = scratch.directory(name)
        self.file = self.directory / "mm2.properties"
        self.file.write_text(
            properties if isinstance(properties, str) else javaproperties.dumps(properties, timestamp=False)
        )
        arguments = ("--clusters", *clusters) if clusters else ()
        self._command = (
            jvm.java(),
            f"-Xmx{heap}",
            *jvm.QUICK_START,
            *jvm.log_options("info"),
            *java_options,
            "-cp",
            os.pathsep.join((*map(str, filter(None, [classes])), jars.class_path(version))),
            MAIN,
            str(self.file),
            *arguments,
        )
        self._process: LabProcess | None = None

    @property
    def process(self) -> LabProcess:
        """The running or last process. Raises RuntimeError before the first start."""
        if self._process is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._process

    def start(self) -> Self:
        """Start it and wait until it reports that it has started. Its connectors take a few seconds more."""
        log = self.directory / "java-mm2.log"
        reports = log.read_text(errors="replace").count(STARTED) if log.exists() else 0
        process = LabProcess(self.name, self._command, log, cwd=self.directory)
        self._process = process
        wait_until(
            lambda: not process.running or process.output().count(STARTED) > reports,
            STARTS_WITHIN,
            f"{self.name} says {STARTED!r} ({log})",
        )
        if not process.running:
            raise GaveUp(f"{self.name} ended while starting\n{process.report()}")
        return self

    def stop(self) -> None:
        """SIGTERM: it commits and leaves its groups."""
        self.process.stop(STOPS_WITHIN)

    def kill(self) -> None:
        """kill -9."""
        self.process.kill()

    def family(self) -> list[psutil.Process]:
        """Its process, if it runs."""
        return [psutil.Process(self.process.pid)] if self.process.running else []

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.kill_group()
