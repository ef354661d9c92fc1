"""The comparison, from figures to tables and to the page."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.comparison import sections
from tests.bench.results import Failure, Latency, Results, TranslationCost
from tests.bench.tables import BEGIN, END, as_markdown, on_screen, write_block
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


def test_a_row_holds_both_figures_their_ratio_and_the_aim() -> None:
    lines = markdown(RESULTS)
    assert lines[0] == "- date: 2024-06-01"
    assert "| CPU-s per GB of values | 5.00 | 25.00 | 0.20 | ≤ 0.25 |" in lines
    assert "| records/s | 100,000 | 20,000 | 5.00 |  |" in lines
    assert "| p50, ms | 1.25 | 5.00 | 0.25 | ≤ 0.5 |" in lines


def test_notes_tell_what_the_source_held_and_who_else_ran() -> None:
    lines = markdown(RESULTS)
    assert "source: 1,000,000 records, 1,000 MB of values, 500 MB in 2,000 batches" in lines
    assert "disturbed: other programs took 1.5 cores while Java MM2 4.3.1 copied" in lines
    assert not any("mm2 copied" in line for line in lines)
    assert "without a mirror: p50 0.50, p99 1.0, max 2.0 ms" in lines


def test_a_failed_run_is_a_dash_and_a_sentence() -> None:
    failure = Failure(workload="large", tool="java", reason="the copy is not exact\nits log")
    lines = markdown(Results(facts=(), copies=(COPY,), failures=(failure,)))
    assert "| CPU-s per GB of values | 5.00 | - | - | ≤ 0.25 |" in lines
    assert "Java MM2 4.3.1 failed: the copy is not exact" in lines
    assert "its log" not in lines


def test_a_run_too_short_to_measure_is_a_dash() -> None:
    lines = markdown(Results(facts=(), copies=(replace(COPY, first=LAST), JAVA_COPY)))
    assert "| CPU-s per GB of values | - | 25.00 | - | ≤ 0.25 |" in lines


def test_only_what_ran_is_shown() -> None:
    assert [one.title.partition(":")[0] for one in sections(Results(facts=(), copies=(COPY,)))] == ["large"]
    assert [one.title.partition(":")[0] for one in sections(Results(facts=(), latencies=LATENCIES))] == ["latency"]


def test_the_cost_of_translation_has_no_counterpart() -> None:
    cost = TranslationCost(
        group_partitions=100_000,
        moved_cpu=0.5,
        unmoved_cpu=0.25,
        compatible_cpu=0.75,
        decoding_cpu=0.3,
        encoding_cpu=0.2,
        store_bytes=2_500.0,
        map_bytes=800.0,
        full_map_bytes=33_000.0,
        checkpoint_bytes=200.0,
    )
    lines = markdown(Results(facts=(), translation=cost))
    assert "| every group moved on, CPU-s | 0.50 | - | - |  |" in lines
    assert "| offset syncs, bytes a partition | 2,500 | - | - |  |" in lines
    assert lines[-1] == "100,000 group-partitions; translating them all should take under one CPU-second"


def test_the_screen_shows_the_same_in_eighty_columns() -> None:
    console = Console(file=StringIO(), width=80)
    for item in on_screen(sections(RESULTS)):
        console.print(item)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "CPU-s per GB of values" in shown
    assert "≤ 0.25" in shown


def test_the_block_replaces_what_is_between_the_markers(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_block(page, "new")
    write_block(page, "newer")
    assert page.read_text() == f"before\n{BEGIN}\nnewer\n{END}\nafter\n"


@pytest.mark.parametrize("text", ["", BEGIN, f"{END}\n{BEGIN}", f"{BEGIN}{END}{BEGIN}{END}"])
def test_a_page_without_its_markers_is_left_alone(tmp_path: Path, text: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(ValueError, match="needs one"):
        write_block(page, "new")
    assert page.read_text() == text
