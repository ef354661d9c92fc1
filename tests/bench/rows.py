"""Rows of figures: mm2's, those that they are compared with, and the ratio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.bench.results import Copy, Failure
from tests.bench.sql import JAVA_SQL, OURS_SQL
from tests.bench.tools import JAVA, JAVA_EXACTLY_ONCE, OURS, OURS_EXACTLY_ONCE, Tool

TITLES = {tool.name: tool.title for tool in (OURS, JAVA, OURS_EXACTLY_ONCE, JAVA_EXACTLY_ONCE, OURS_SQL, JAVA_SQL)}
DISTURBED = 0.25  # cores used by other programs above which the run is marked as disturbed; kernel threads use less


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One figure of mm2 and of what it is compared with; None if a run failed or was too short.

    ``aim`` is the upper limit of the ratio.
    """

    what: str
    ours: float | None
    other: float | None
    digits: int = 0
    aim: float | None = None

    @property
    def ratio(self) -> float | None:
        """Return mm2's figure divided by the other one."""
        return self.ours / self.other if self.ours is not None and self.other else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """The rows of one workload, notes on them, and what is compared."""

    title: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()
    compared: tuple[str, str] = (OURS.title, JAVA.title)


def known(figure: float) -> float | None:
    """Return the figure, or None for NaN: the run was too short."""
    return None if math.isnan(figure) else figure


def failed(workload: str, failures: Sequence[Failure]) -> Sequence[str]:
    """Return the first line of each reason, equal ones once; the rest is the end of a log."""
    found = [f"{TITLES[one.tool]} failed: {one.reason.splitlines()[0]}" for one in failures if one.workload == workload]
    return list(dict.fromkeys(found))


def disturbed(tools: Iterable[Tool], copies: Mapping[str, Copy]) -> Iterator[str]:
    """Yield a note for each copy, by the name of its tool, during which other programs used much CPU time."""
    for tool in tools:
        if tool.name in copies and copies[tool.name].others_cores > DISTURBED:
            yield f"disturbed: other programs took {copies[tool.name].others_cores:.1f} cores while {tool.title} copied"
