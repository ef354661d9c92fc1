"""Results with exactly-once as rows of figures: beside mm2's at-least-once, and beside Java's exactly-once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tests.bench.exactly_once import CPU_AIM, NAME, P50_AIM_MS, ROUNDS
from tests.bench.process_tree import MEMORY
from tests.bench.results import Copy, ExactlyOnce, Failure, Latency
from tests.bench.rows import TITLES, Row, Section, failed, known
from tests.bench.tools import JAVA_EXACTLY_ONCE, OURS, OURS_EXACTLY_ONCE, Tool

AT_LEAST_ONCE_TITLE = f"{OURS.title}, at-least-once"


def exactly_once_sections(results: ExactlyOnce, failures: Sequence[Failure]) -> Iterator[Section]:
    """Yield a section for each tool that mm2 with exactly-once is compared with. The notes follow the last one."""
    yield Section(
        title=f"{NAME}: cost, beside at-least-once",
        rows=_rows(results, OURS, aim=CPU_AIM),
        compared=(TITLES[OURS_EXACTLY_ONCE.name], AT_LEAST_ONCE_TITLE),
    )
    yield Section(
        title=f"{NAME}: beside Java's",
        rows=_rows(results, JAVA_EXACTLY_ONCE),
        notes=(
            f"copied as in `large`, by mm2 {ROUNDS} times each: the run with the median CPU time. Latency as in"
            f" `latency`, for a read_committed consumer: p50 with exactly-once should be at most {P50_AIM_MS} ms",
            *failed(NAME, failures),
        ),
        compared=(TITLES[OURS_EXACTLY_ONCE.name], TITLES[JAVA_EXACTLY_ONCE.name]),
    )


def _rows(results: ExactlyOnce, other: Tool, *, aim: float | None = None) -> tuple[Row, ...]:
    pair = (OURS_EXACTLY_ONCE, other)
    copies = [results.middle_copy(tool.name) for tool in pair]
    latencies = [results.latency(tool.name) for tool in pair]

    def copied(what: str, figure: Callable[[Copy], float], *, digits: int = 0, aim: float | None = None) -> Row:
        ours, others = (None if one is None else known(figure(one)) for one in copies)
        return Row(what=what, ours=ours, other=others, digits=digits, aim=aim)

    def streamed(what: str, figure: Callable[[Latency], float], *, digits: int = 1) -> Row:
        ours, others = (None if one is None else figure(one) for one in latencies)
        return Row(what=what, ours=ours, other=others, digits=digits)

    return (
        copied("CPU-s per GB of values", lambda one: one.cpu_per_value_gb, digits=2, aim=aim),
        copied("records/s", lambda one: one.records_per_second),
        copied(f"peak memory, MB {MEMORY}", lambda one: one.peak_memory_bytes / 1e6),
        copied("start-up, s", lambda one: one.first.seconds, digits=1),
        copied("brokers, CPU-s per GB of values", lambda one: one.brokers_cpu_per_value_gb, digits=2),
        copied("other programs, cores", lambda one: one.others_cores, digits=1),
        streamed("p50, ms", lambda one: one.p50_ms),
        streamed("p99, ms", lambda one: one.p99_ms),
        streamed("max, ms", lambda one: one.max_ms),
        streamed("CPU at 1,000 records/s, share of one core", lambda one: one.cores, digits=2),
    )
