"""Comparison tables and the page that contains them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bench.comparison import sections
from tests.bench.results import Failure, Latency, Results
from tests.bench.tables import BEGIN, END, as_markdown, write_block
from tests.unit.bench.test_results import COPY, LAST

JAVA_COPY = replace(COPY, tool="java", last=replace(LAST, seconds=50.0, tool_cpu=40.0, others_cpu=160.0))
FLOOR = Latency(tool=None, records=10, p50_ms=0.5, p99_ms=1.0, max_ms=2.0)
LATENCIES = (
    FLOOR,
    replace(FLOOR, tool="ours", p50_ms=1.25, p99_ms=8.0, max_ms=20.0),
    replace(FLOOR, tool="java", p50_ms=5.0, p99_ms=80.0, max_ms=100.0),
)
RESULTS = Results(facts=(("date", "2024-06-01"),), copies=(COPY, JAVA_COPY), latencies=LATENCIES)


def markdown(results: Results) -> list[str]:
    return as_markdown(results.facts, sections(results)).splitlines()


def test_row_with_both_figures_ratio_and_target() -> None:
    lines = markdown(RESULTS)
    assert lines[0] == "- date: 2024-06-01"
    assert "| CPU-s per GB of values | 5.00 | 25.00 | 0.20 | ≤ 0.25 |" in lines
    assert "| records/s | 100,000 | 20,000 | 5.00 |  |" in lines
    assert "| p50, ms | 1.25 | 5.00 | 0.25 | ≤ 0.5 |" in lines


def test_failed_run_is_shown_as_a_dash_and_its_error() -> None:
    failure = Failure(workload="large", tool="java", reason="the copy is not exact\nits log")
    lines = markdown(Results(facts=(), copies=(COPY,), failures=(failure,)))
    assert "| CPU-s per GB of values | 5.00 | - | - | ≤ 0.25 |" in lines
    assert "Java MM2 4.3.1 failed: the copy is not exact" in lines
    assert "its log" not in lines


def test_block_between_the_markers_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_block(page, "new")
    write_block(page, "newer")
    assert page.read_text() == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"
