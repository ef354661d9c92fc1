"""The memory of processes of the data plane."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path

MEASURED_EVERY_S = 30.0
"""Memory changes slowly, and the kernel needs up to ten milliseconds to add up that of a large process."""

PROC = Path("/proc")


def proportional_bytes(pid: int, proc: Path = PROC) -> int | None:
    """Return the memory of a process, with its share of what it has in common with others (PSS).

    None: it is unknown, as on other systems than Linux, or of a process that has ended.
    """
    try:
        lines = (proc / str(pid) / "smaps_rollup").read_text("ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)


class ProcessMemory:
    """The memory of some processes together, measured at most every `MEASURED_EVERY_S`."""

    def __init__(
        self,
        pids: Callable[[], Iterable[int | None]],
        *,
        measure: Callable[[int], int | None] = proportional_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``pids``: of the processes; None among them is one that is not known yet."""
        self._pids = pids
        self._measure = measure
        self._clock = clock
        self._measured: tuple[tuple[int | None, ...], float, int | None] | None = None

    def bytes(self) -> int | None:
        """Return the newest sum; None if the memory of one of them is unknown."""
        pids, now = tuple(self._pids()), self._clock()
        if self._measured is None or self._measured[0] != pids or now - self._measured[1] >= MEASURED_EVERY_S:
            found = [None if pid is None else self._measure(pid) for pid in pids]
            known = [one for one in found if one is not None]
            self._measured = pids, now, sum(known) if len(known) == len(found) else None
        return self._measured[2]
