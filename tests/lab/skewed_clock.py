"""A node whose wall clock differs from that of the other machines, and that can jump while it runs.

The clock of a process cannot be changed from outside: Linux has no namespace for it. Python runs ``sitecustomize`` of
PYTHONPATH at its start, in the node as in its lanes; the one in skewed_clock_site/ adds an offset to `time.time` and
`time.time_ns`. Monotonic clocks, Spark's JVM and file times stay as they are.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil

from tests.lab import scratch

SITE = Path(__file__).with_name("skewed_clock_site")
VARIABLE = "MM2_LAB_CLOCK_OFFSET"  # the file with the offset in seconds


class SkewedClock:
    """The wall clock of the processes that are started with `env`."""

    def __init__(self, name: str) -> None:
        self._file = scratch.directory(f"clock-{name}") / "offset"
        self.set(0)

    @property
    def env(self) -> Mapping[str, str]:
        """The environment variables of a process with this clock."""
        return {"PYTHONPATH": str(SITE), VARIABLE: str(self._file)}

    def skews(self, process: psutil.Process) -> bool:
        """Whether a process has this clock."""
        environment = process.environ()
        in_path = str(SITE) in environment.get("PYTHONPATH", "").split(os.pathsep)
        return in_path and environment.get(VARIABLE) == str(self._file)

    def set(self, seconds: float) -> None:
        """Let the clock be ahead by ``seconds`` from now on, or behind if negative. It jumps within a tenth of a second
        (``REREAD`` of skewed_clock_site/sitecustomize.py)."""
        new = self._file.with_suffix(".new")
        new.write_text(str(seconds))
        new.rename(self._file)
