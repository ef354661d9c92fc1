"""The table of the fault matrix: one line for each fault in each topology, over all of its seeds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, ClassVar

HEADER = (
    "topology",
    "fault",
    "rounds",
    "silence s (median)",
    "(longest)",
    "records",
    "repeated",
    "lost",
    "stale",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault, healed and judged. ``silence``: the longest time without a new record in any partition, in seconds."""

    PROPERTY: ClassVar = "fault round"  # in a test's report

    topology: str
    fault: str
    silence: float
    records: int
    repeated: int
    lost: int
    stale: int

    def values(self) -> dict[str, Any]:
        """Return the fields as a test's report can carry them between processes."""
        return asdict(self)


def lines(rounds: Iterable[Round]) -> Iterator[str]:
    """Yield the table as Markdown."""
    of_fault: defaultdict[tuple[str, str], list[Round]] = defaultdict(list)
    for one in rounds:
        of_fault[one.topology, one.fault].append(one)
    yield _line(HEADER)
    yield _line("---" for _ in HEADER)
    for names, found in of_fault.items():
        silences = [one.silence for one in found]
        yield _line(
            (
                *names,
                len(found),
                f"{median(silences):.1f}",
                f"{max(silences):.1f}",
                sum(one.records for one in found),
                sum(one.repeated for one in found),
                sum(one.lost for one in found),
                sum(one.stale for one in found),
            )
        )


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
