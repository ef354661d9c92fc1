"""Results with a query, beside Java's transformations, as rows of figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.bench.process_tree import MEMORY
from tests.bench.results import Copy, Failure, Latency, Transformed
from tests.bench.rows import Row, Section, disturbed, failed, known
from tests.bench.sql import CPU_AIM, JAVA_SQL, NAME, OURS_SQL, P50_AIM_MS, P99_AIM, RATE_AIM, TITLE, TOOLS


def sql_section(results: Transformed, failures: Sequence[Failure]) -> Section:
    """Return the section of the SQL flow."""
    copies = {one.tool: one for one in results.copies}
    latencies = {one.tool: one for one in results.latencies}
    pair = (OURS_SQL.name, JAVA_SQL.name)

    def copied(what: str, figure: Callable[[Copy], float], *, digits: int = 0, aim: float | None = None) -> Row:
        ours, java = (known(figure(copies[name])) if name in copies else None for name in pair)
        return Row(what=what, ours=ours, other=java, digits=digits, aim=aim)

    def streamed(what: str, figure: Callable[[Latency], float], *, digits: int = 1, aim: float | None = None) -> Row:
        ours, java = (figure(latencies[name]) if name in latencies else None for name in pair)
        return Row(what=what, ours=ours, other=java, digits=digits, aim=aim)

    return Section(
        title=f"{NAME}: {TITLE}",
        rows=(
            copied("CPU-s per GB of values, source", lambda one: one.cpu_per_value_gb, digits=2, aim=CPU_AIM),
            copied("records/s, source", lambda one: one.records_per_second * results.source_records / one.last.records),
            copied(f"peak memory, MB {MEMORY}", lambda one: one.peak_memory_bytes / 1e6),
            copied("start-up, s", lambda one: one.first.seconds, digits=1),
            copied("start-up, CPU-s", lambda one: one.first.tool_cpu, digits=1),
            copied("brokers, CPU-s per GB of values, source", lambda one: one.brokers_cpu_per_value_gb, digits=2),
            copied("other programs, cores", lambda one: one.others_cores, digits=1),
            streamed("p50, ms", lambda one: one.p50_ms),
            streamed("p99, ms", lambda one: one.p99_ms, aim=P99_AIM),
            streamed("max, ms", lambda one: one.max_ms),
            streamed("CPU at 1,000 records/s, share of one core", lambda one: one.cores, digits=2),
            streamed(f"memory at 1,000 records/s, MB {MEMORY}", lambda one: one.memory_bytes / 1e6, digits=0),
        ),
        notes=(
            "a query of mm2 parses the JSON, drops a tenth of the records and masks card numbers in the others by a"
            " regular expression; Java drops the same records by a header (`Filter`, `HasHeaderKey`) and encodes the"
            " values in base64 (`Cast` to string), the cheapest transformation that rewrites MirrorMaker's values",
            f"copied as in `large`, latency as in `latency`. mm2 should copy at least {RATE_AIM:,} records/s of the"
            f" source on two cores, with p50 at most {P50_AIM_MS} ms",
            *disturbed(TOOLS, copies),
            *failed(NAME, failures),
        ),
        compared=(OURS_SQL.title, JAVA_SQL.title),
    )
