"""Programs the lab starts: output in a log file, ended by pid, killed by the kernel if the test process dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.lab.waiting import GaveUp, wait_until

TETHER = Path(__file__).with_name("tether.py")
GRACE = 20.0  # seconds between SIGTERM and an error: a broker with open connections takes up to a few
REAPED = 10.0  # seconds until a killed process is gone: the kernel frees its memory first
LINE_SHOWN = 300  # characters: Kafka prints whole requests into one line
LAUNCHER_THREAD = "lab-launcher"

# Linux kills a tethered child when the *thread* that started it ends, so one thread that lives as long as this
# process starts them all.
_launcher = ThreadPoolExecutor(max_workers=1, thread_name_prefix=LAUNCHER_THREAD)

# Started processes, newest last, for the report of a failed test; exited ones stay, because of their logs.
started: deque[LabProcess] = deque(maxlen=50)


class LabProcess:
    """One running program, in a session of its own: Ctrl-C at the terminal reaches the tests, not the brokers."""

    def __init__(
        self, name: str, command: Sequence[str], log: Path, *, cwd: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("ab") as output:
            self._process = _launcher.submit(
                subprocess.Popen,
                [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=cwd,
                env=None if env is None else dict(env),
                start_new_session=True,
            ).result()
        started.append(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; negative for the signal that ended it."""
        return self._process.poll()

    @property
    def running(self) -> bool:
        return self.exit_code is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to this process alone. Nothing happens if it has ended."""
        if self.running:
            self._process.send_signal(number)

    def wait(self, timeout: float, sentence: str) -> int:
        """The exit code, once it has ended. Raises GaveUp with the end of the log after ``timeout`` seconds."""
        try:
            return self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise GaveUp(f"not within {timeout:g} s: {sentence}\n{self.report()}") from None

    def stop(self, timeout: float = GRACE) -> int:
        """Send SIGTERM, wait, and return the exit code. Kills it and raises GaveUp if it does not exit in time."""
        self.signal(signal.SIGTERM)
        try:
            return self.wait(timeout, f"{self.name} (pid {self.pid}) ends after SIGTERM")
        except GaveUp:
            self.kill()
            raise

    def kill(self) -> None:
        """Send SIGKILL to this process and wait for its end. Its children continue: see `kill_group`."""
        self.signal(signal.SIGKILL)
        self.wait(REAPED, f"{self.name} (pid {self.pid}) is gone after SIGKILL")

    def kill_group(self) -> None:
        """SIGKILL to this process and to everything it started that is still in its group."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            return
        self.wait(REAPED, f"{self.name} (pid {self.pid}) is gone after SIGKILL")

    def wait_until_output(self, text: str, timeout: float, sentence: str) -> None:
        """Wait until ``text`` is in the log. Raises GaveUp at the deadline or when the process has ended without it."""

        def seen_or_ended() -> bool:
            return text in self.output() or not self.running

        wait_until(seen_or_ended, timeout, f"{sentence} ({self.log})")
        if text not in self.output():
            raise GaveUp(f"{self.name} ended with {self.exit_code} before: {sentence}\n{self.report()}")

    def output(self) -> str:
        """Its whole output, standard output and error combined."""
        return self.log.read_text(errors="replace")

    def report(self, lines: int = 15) -> str:
        """Where the log is, whether it runs, and its last lines without Java's stacks: for messages of failed tests."""
        state = "running" if self.running else f"ended with {self.exit_code}"
        said = [line for line in self.output().splitlines() if not line.startswith("\tat ")]
        tail = "\n".join(f"    {line[:LINE_SHOWN]}" for line in said[-lines:])
        return f"{self.name} (pid {self.pid}, {state}), log {self.log}:\n{tail or '    (empty)'}"
