"""Tests of the skewed clock: wall time jumps, in a process started with it and in its children; others do not."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil

from tests.lab.skewed_clock import SkewedClock

NEAR = 600.0  # seconds: a busy machine may be late, an hour is more
SHOW = "import time; print(time.time(), time.time_ns() / 1e9, time.monotonic())"
IN_CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SHOW!r}], check=True)"


def clocks(clock: SkewedClock, code: str) -> list[float]:
    """Return by how many seconds the process's clocks differ from those of this one."""
    env = {**os.environ, **clock.env}
    shown = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True).stdout
    here = (time.time(), time.time(), time.monotonic())
    return [float(text) - true for text, true in zip(shown.split(), here, strict=True)]


def test_wall_clock_differs_and_monotonic_clock_does_not() -> None:
    clock = SkewedClock("test")
    for offset in (0, 3600, -3600):
        clock.set(offset)
        for code in (SHOW, IN_CHILD):
            wall, wall_ns, monotonic = clocks(clock, code)
            assert abs(wall - offset) < NEAR
            assert abs(wall_ns - offset) < NEAR
            assert abs(monotonic) < NEAR


def test_clock_jumps_while_a_process_runs() -> None:
    clock = SkewedClock("test")
    code = "import sys, time; print(time.time(), flush=True); sys.stdin.readline(); time.sleep(0.2); print(time.time())"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **clock.env},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        before = float(process.stdout.readline())
        assert clock.skews(psutil.Process(process.pid))
        assert not clock.skews(psutil.Process())
        clock.set(3600)
        after, _ = process.communicate("\n")
    assert abs(float(after) - before - 3600) < NEAR
