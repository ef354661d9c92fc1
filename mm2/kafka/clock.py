"""The clock for sessions and leases, which also counts while the machine is suspended."""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)  # Linux only


def session_clock() -> float:
    """Return the time in seconds since some moment in the past.

    CLOCK_MONOTONIC, the clock of asyncio, stops while a virtual machine is suspended, and others take over meanwhile.
    """
    return time.clock_gettime(_CLOCK)
