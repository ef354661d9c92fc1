"""The table of a run: one row for each fault in each topology, one column for each mode, over all rounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any, ClassVar

from tests.faults.mode import MODES

CELL = "fault cell"  # in a test's report: the names of its row and of its column
LEGEND = "lost/repeated/stale records, median (longest) silence in seconds, rounds"


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One fault, healed and judged.

    ``silence``: the longest time without a new record in any partition, in seconds; None if it was not measured.
    ``lost``: neither copied nor on record as lost; ``recorded``: on record. ``recovered``: without a restart.
    """

    PROPERTY: ClassVar = "fault round"  # in a test's report

    mode: str
    fault: str
    topology: str = "own"
    silence: float | None = None
    records: int = 0
    repeated: int = 0
    lost: int = 0
    stale: int = 0
    recorded: int = 0
    recovered: bool = True

    def values(self) -> dict[str, Any]:
        """Return the fields as a test's report can carry them between processes."""
        return asdict(self)


def lines(rounds: Iterable[Round]) -> Iterator[str]:
    """Yield the table as Markdown."""
    of_row: defaultdict[tuple[str, str], defaultdict[str, list[Round]]] = defaultdict(lambda: defaultdict(list))
    for one in rounds:
        of_row[one.fault, one.topology][one.mode].append(one)
    modes = [mode.name for mode in MODES if any(mode.name in columns for columns in of_row.values())]
    header = ("fault", "topology", *modes)
    yield _line(header)
    yield _line("---" for _ in header)
    for names, columns in of_row.items():
        yield _line((*names, *(_cell(columns[mode]) for mode in modes)))


def _cell(found: Sequence[Round]) -> str:
    return f"{figures(found)}, {len(found)}" if found else "-"


def figures(found: Sequence[Round]) -> str:
    """Return what these rounds of one cell found, without their number."""
    parts = [f"{sum(one.lost for one in found)}/{sum(one.repeated for one in found)}/{sum(one.stale for one in found)}"]
    silences = [one.silence for one in found if one.silence is not None]
    if silences:
        longest = f" ({max(silences):.1f})" if len(silences) > 1 else ""
        parts.append(f"{median(silences):.1f}{longest} s")
    recorded, stopped = sum(one.recorded for one in found), sum(not one.recovered for one in found)
    if recorded:
        parts.append(f"{recorded} on record")
    if stopped:
        parts.append(f"{stopped} stopped until restarted")
    return ", ".join(parts)


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
