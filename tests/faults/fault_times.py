"""How long faults last, in seconds, least and most: a round's seed decides."""

from __future__ import annotations

import time

from tests.lab.waiting import wait_until

LATE = 30.0  # seconds that the test process itself may be late on busy cores

# Session: 10 s by default; lease: at most 9 s; ZooKeeper's session: 20 s.
DOWN = (0.0, 15.0)  # from a restart within the session to one long after the takeover
BEYOND_SESSION = (11.0, 20.0)
AROUND_SESSION = (3.0, 20.0)
AROUND_ZOOKEEPER_SESSION = (5.0, 30.0)


def pass_time(seconds: float) -> None:
    """Wait for this many seconds."""
    end = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() >= end, seconds + LATE, "the time has passed")
