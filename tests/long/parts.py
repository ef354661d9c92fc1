"""Parts of the tests that take minutes. A part is what one person or machine runs in a row, for about an hour at most.

Every test belongs to the first part whose pattern matches its id, so that a new test is never left out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

from tests.faults.mode import MODES, OURS

SOAK = "tests/faults/test_soak.py"
MATRIX = "tests/faults/test_fault_matrix.py"


class UnknownPartError(Exception):
    """There is no part of this name; the message lists those that exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """``pattern`` matches the ids of its tests, from their beginning; ``path`` has them all.

    ``spread``: they run in two processes. ``shown``: their output is shown while they run. ``short_ones``: tests that
    are not marked long belong to it, too.
    """

    name: str
    pattern: str
    path: str = "tests/faults"
    spread: bool = False
    shown: bool = False
    short_ones: bool = False


def _by_mode() -> list[Part]:
    table = [Part(name=f"table-{mode}", pattern=rf"tests/faults/test_fault_table\.py::\w+\[{mode}: ") for mode in MODES]
    processes = [
        Part(name=f"processes-{mode}", pattern=rf"tests/faults/test_processes\.py::\w+\[{mode}\b") for mode in OURS
    ]
    soak = [
        Part(name=f"soak-{mode}", pattern=rf"tests/faults/test_soak\.py::\w+\[{mode}\b", path=SOAK, shown=True)
        for mode in OURS
    ]
    return [*table, *processes, *soak]


def _matrix() -> list[Part]:
    kinds = {
        "2-nodes": r"2 nodes, 1 broker, kafka",
        "zookeeper": r"2 nodes, 1 broker, zookeeper",
        "3-nodes": r"3 nodes, ",
        "5-nodes": r"5 nodes, ",
    }
    return [
        Part(
            name=f"matrix-{name}-{mode}",
            pattern=rf"tests/faults/test_fault_matrix\.py::\w+\[{mode}: {topology}",
            path=MATRIX,
        )
        for (name, topology), mode in product(kinds.items(), OURS)
    ]


PARTS = (
    Part(name="property", pattern="tests/property/", path="tests/property", spread=True, short_ones=True),
    Part(name="readme", pattern=r"tests/integration/test_(readme|tutorial|demo)\.py", path="tests/integration"),
    Part(name="integration", pattern="tests/integration/", path="tests/integration"),
    Part(name="parity", pattern="tests/parity/", path="tests/parity"),
    *_by_mode(),
    *_matrix(),
    Part(name="faults", pattern=""),
)
"""In the order in which tests are assigned; the last one has all that is left: the other tests of tests/faults."""


def selected(words: Sequence[str], among: Sequence[Part] = PARTS) -> tuple[Part, ...]:
    """Return the parts of these names; ``matrix`` stands for all whose name begins with ``matrix-``. All without words.

    Raises UnknownPartError.
    """
    unknown = [word for word in words if not any(_named(part, word) for part in among)]
    if unknown:
        groups = dict.fromkeys(name for part in among if (name := part.name.partition("-")[0]) != part.name)
        raise UnknownPartError(
            f"no part is named {', '.join(unknown)}\n"
            f"parts: {' '.join(part.name for part in among)}\ngroups of parts: {' '.join(groups)}"
        )
    return tuple(part for part in among if not words or any(_named(part, word) for word in words))


def part_of(test: str) -> Part:
    """Return the part of a test by its id."""
    return next(part for part in PARTS if re.match(part.pattern, test))


def _named(part: Part, word: str) -> bool:
    return part.name == word or part.name.startswith(f"{word}-")
