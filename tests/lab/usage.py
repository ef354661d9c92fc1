"""Memory, open files and threads of a node's processes over time, and whether they grow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import psutil

from tests.lab.node import Node

ROLES = ("node", "engine", "jvm", "worker")
WARM_UP = 0.25  # share of the samples that is ignored: code is compiled, pools and caches fill
GROWTH = 1.2  # allowed factor of memory: a JVM's heap size varies between collections
SLACK_MB = 32.0  # allowed in addition, for small processes
HANDLES = 10.0  # allowed variation in files or threads: broker connections, a pool
FEWEST = 12  # samples after the warm-up, so that each third has four


@dataclass(frozen=True, slots=True)
class Usage:
    """Resource usage of all processes of one role."""

    megabytes: float
    files: float
    threads: float


def usage(node: Node) -> dict[str, Usage]:
    """Return what the node's processes use now, by role. A process that has just ended counts as nothing."""
    found = {}
    for role in ROLES:
        each = [one for one in map(_usage_of, node.members(role)) if one is not None]
        found[role] = _combined(each, sum)
    return found


def growth(samples: Sequence[Mapping[str, Usage]]) -> list[str]:
    """Return one line for each role whose usage grew beyond its limit over the run.

    Medians of the first and the last third after the warm-up are compared: single samples depend on garbage collections
    and on rebalances. Raises ValueError if there are too few samples.
    """
    warm = samples[round(len(samples) * WARM_UP) :]
    if len(warm) < FEWEST:
        raise ValueError(f"{len(warm)} samples after the warm-up, at least {FEWEST} are needed")
    third = len(warm) // 3
    found = []
    for role in ROLES:
        before = _combined([one[role] for one in warm[:third]], median)
        after = _combined([one[role] for one in warm[-third:]], median)
        if (
            after.megabytes > before.megabytes * GROWTH + SLACK_MB
            or after.files > before.files + HANDLES
            or after.threads > before.threads + HANDLES
        ):
            found.append(f"{role}: {before} became {after}")
    return found


def _usage_of(process: psutil.Process) -> Usage | None:
    try:
        with process.oneshot():
            memory = process.memory_full_info().uss / 1e6
            return Usage(megabytes=memory, files=process.num_fds(), threads=process.num_threads())
    except psutil.NoSuchProcess:
        return None


def _combined(found: Sequence[Usage], how: Callable[[Sequence[float]], float]) -> Usage:
    return Usage(
        megabytes=how([one.megabytes for one in found]),
        files=how([one.files for one in found]),
        threads=how([one.threads for one in found]),
    )
