"""Comparison of exactly-once, and how committed records are counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tests.bench.comparison import sections
from tests.bench.log_files import Markers
from tests.bench.results import ExactlyOnce, Failure, Latency, Results
from tests.bench.tables import as_markdown
from tests.lab.batches import ABORT, COMMIT, TRANSACTIONAL, Batch, Record, marker
from tests.lab.stored_batches import stored_batches
from tests.unit.bench.test_results import COPY, LAST

PRODUCER = 7


RESULTS = ExactlyOnce(
    copies=(
        *(replace(COPY, last=replace(LAST, tool_cpu=20.0 + cpu)) for cpu in (4.0, 9.0, 3.0)),
        *(replace(COPY, tool="ours-exactly-once", last=replace(LAST, tool_cpu=20.0 + cpu)) for cpu in (5.0, 4.8, 9.0)),
    ),
    latencies=(
        Latency(tool="ours-exactly-once", records=10, p50_ms=60.0, p99_ms=150.0, max_ms=200.0),
        Latency(tool="java-exactly-once", records=10, p50_ms=240.0, p99_ms=800.0, max_ms=900.0),
    ),
)


def test_median_run_is_compared_with_each_kind() -> None:
    failure = Failure(workload="exactly-once", tool="java-exactly-once", reason="the copy is not exact\nits log")
    results = Results(facts=(), exactly_once=RESULTS, failures=(failure, failure))
    lines = as_markdown((), sections(results)).splitlines()
    assert "|  | mm2, exactly-once | mm2, at-least-once | ratio | aim |" in lines
    assert "| CPU-s per GB of values | 6.25 | 5.00 | 1.25 | ≤ 1.3 |" in lines
    assert "|  | mm2, exactly-once | Java MM2 4.3.1, exactly-once | ratio | aim |" in lines
    assert "| CPU-s per GB of values | 6.25 | - | - |  |" in lines
    assert "| p50, ms | 60.0 | 240.0 | 0.25 |  |" in lines
    assert lines.count("Java MM2 4.3.1, exactly-once failed: the copy is not exact") == 1


def test_median_of_an_even_number_of_runs_is_the_cheaper_one() -> None:
    first, second, _ = RESULTS.copies[:3]
    assert replace(RESULTS, copies=(second, first)).middle_copy("ours") == first
    assert RESULTS.middle_copy("java-exactly-once") is None


def transaction(first: int, records: int, kind: int) -> bytes:
    """Return a batch of this many records from offset ``first`` on, and the marker behind them."""
    written = [Record(first + number, 0, None, b"value") for number in range(records)]
    batch = Batch(records=written, attributes=TRANSACTIONAL, producer=(PRODUCER, 0, 0)).encode()
    return batch + marker(first + records, PRODUCER, kind)


def test_markers_are_counted_as_the_segment_grows(tmp_path: Path) -> None:
    segment = tmp_path / "orders-1" / f"{0:020d}.log"
    segment.parent.mkdir()
    (tmp_path / "orders-1.0123-delete").mkdir()
    first, second = transaction(0, 3, COMMIT), transaction(4, 2, ABORT)
    segment.write_bytes(first + second[:-1])  # the last marker is being written
    markers = Markers(tmp_path, "orders")
    markers.refresh()
    assert markers.count_before({1: 7}) == 1
    segment.write_bytes(first + second)
    markers.refresh()
    assert markers.count_before({1: 7}) == 2
    assert markers.count_before({1: 6}) == 1, "that of an open transaction is not counted"
    assert markers.count_before({}) == 0


def test_batches_and_markers_on_disk(tmp_path: Path) -> None:
    segment = tmp_path / "orders-0" / f"{0:020d}.log"
    segment.parent.mkdir()
    plain = Batch(records=[Record(5, 0, None, b"value")]).encode()
    segment.write_bytes(transaction(0, 1, COMMIT) + transaction(2, 2, ABORT) + plain)
    found = stored_batches(tmp_path, "orders")
    assert [(one.base_offset, one.last_offset, one.transactional, one.control, one.aborts) for one in found] == [
        (0, 0, True, False, False),
        (1, 1, True, True, False),
        (2, 3, True, False, False),
        (4, 4, True, True, True),
        (5, 5, False, False, False),
    ]
    assert [one.producer_id for one in found] == [PRODUCER, PRODUCER, PRODUCER, PRODUCER, -1]
