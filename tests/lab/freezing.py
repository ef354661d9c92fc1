"""A process that hangs: its connections stay open without responses."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import psutil

from tests.lab.processes import LabProcess
from tests.lab.waiting import wait_until

STOPPED = 5.0  # seconds until all threads of a process have stopped


def freeze(process: LabProcess) -> None:
    """Stop a process with SIGSTOP and wait until the kernel reports all of it stopped."""
    process.signal(signal.SIGSTOP)
    watched = psutil.Process(process.pid)
    wait_until(lambda: watched.status() == psutil.STATUS_STOPPED, STOPPED, f"{process.name} is stopped by SIGSTOP")


def thaw(process: LabProcess) -> None:
    """Let a frozen process continue."""
    process.signal(signal.SIGCONT)


@contextmanager
def frozen(process: LabProcess) -> Iterator[None]:
    """Freeze a process while the block runs."""
    freeze(process)
    try:
        yield
    finally:
        thaw(process)


@contextmanager
def suspended(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Stop all these processes with SIGSTOP while the block runs; some may be killed meanwhile."""
    assert processes
    for process in processes:
        process.suspend()
    try:
        yield
    finally:
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
