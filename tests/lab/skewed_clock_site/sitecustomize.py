"""Skews the wall clock of this Python process by the seconds in a file. See tests/lab/skewed_clock.py."""

from __future__ import annotations

import os
import time
from pathlib import Path

REREAD = 0.1  # seconds after which the file is read again

_file = Path(os.environ["MM2_LAB_CLOCK_OFFSET"])
_true_time_ns, _monotonic = time.time_ns, time.monotonic
_offset_ns, _read_at = 0, float("-inf")


def _time_ns() -> int:
    global _offset_ns, _read_at
    now = _monotonic()
    if now - _read_at >= REREAD:
        _offset_ns, _read_at = round(float(_file.read_text()) * 1e9), now
    return _true_time_ns() + _offset_ns


def _time() -> float:
    return _time_ns() / 1e9


time.time_ns, time.time = _time_ns, _time
