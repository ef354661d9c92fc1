"""Lists of thousands of continued lines, as programs write them."""

from __future__ import annotations

import time
from pathlib import Path

from tests.unit.config import files


def cpu_seconds(directory: Path, lines: int) -> float:
    names = [f"topic-{number}" for number in range(lines)]
    before = time.process_time()
    flow = files.flow(directory, "topics = \\\n  " + ", \\\n  ".join(names) + "\n")
    after = time.process_time()
    assert list(flow.source.topics) == names
    return after - before


def test_a_list_over_many_lines_takes_linear_time(tmp_path: Path) -> None:
    """Four times the lines take four times as long; quadratic time would be sixteen times."""
    cpu_seconds(tmp_path, 10)
    few, many = (min(cpu_seconds(tmp_path, lines) for _ in range(2)) for lines in (1_500, 6_000))
    assert many < 8 * few


def test_lines_continue_as_in_java(tmp_path: Path) -> None:
    lines = "topics = a\\\n  b, c\\\\\\\n\t.x, \\\n\n# a comment\ngroups = \\\n  # no comment\\\n"
    flow = files.flow(tmp_path, lines)
    assert flow.source.topics == ("ab", "c\\.x", "")
    assert flow.checkpoint.groups == ("# no comment",)
