"""Orders and what becomes of them, and the comparison of a query with Java's transformations."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.bench.comparison import sections
from tests.bench.orders import CARD, MASK, TEST, orders
from tests.bench.results import Failure, Latency, Results, Transformed
from tests.bench.tables import as_markdown
from tests.unit.bench.test_results import COPY, LAST

COUNT = 1_000


def test_header_and_json_say_the_same_about_test_orders() -> None:
    found = list(orders(COUNT, value_bytes=500, partitions=4, now_ms=COUNT))
    for one in found:
        assert one.value is not None
        assert len(one.value) == 500
        order = json.loads(one.value)
        assert order["test"] == any(name == TEST for name, _ in one.headers)
        assert CARD.sub(MASK, one.value).count(MASK) == 1
    assert COUNT // 20 < sum(bool(one.headers) for one in found) < COUNT // 5
    assert [one.timestamp_ms for one in found] == list(range(1, COUNT + 1))


def test_rates_are_those_of_the_source() -> None:
    copies = (
        replace(COPY, tool="ours-sql"),
        replace(COPY, tool="java-sql", last=replace(LAST, tool_cpu=24.0 + LAST.tool_cpu, others_cpu=1_000.0)),
    )
    latency = Latency(tool="ours-sql", records=9, p50_ms=5.0, p99_ms=20.0, max_ms=30.0)
    transformed = Transformed(
        source_records=2 * LAST.records,
        copies=copies,
        latencies=(latency, replace(latency, tool="java-sql", p99_ms=80.0)),
    )
    failure = Failure(workload="sql", tool="java-sql", reason="the copy is not exact\nits log")
    lines = as_markdown((), sections(Results(facts=(), transformed=transformed, failures=(failure,)))).splitlines()
    assert "|  | mm2, SQL flow | Java MM2 4.3.1, Filter and Cast | ratio | aim |" in lines
    assert "| p99, ms | 20.0 | 80.0 | 0.25 | ≤ 0.5 |" in lines
    rate = round(2 * COPY.records_per_second)
    assert f"| records/s, source | {rate:,} | {rate:,} | 1.00 |  |" in lines
    assert "Java MM2 4.3.1, Filter and Cast failed: the copy is not exact" in lines
    assert any(line.startswith("disturbed: ") and "Java" in line for line in lines)
    assert not any(line.startswith("disturbed: ") and "SQL" in line for line in lines)
