"""Results as rows of figures: mm2's, Java's, and their ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tests.bench import latency, translation
from tests.bench.exactly_once_comparison import exactly_once_sections
from tests.bench.process_tree import MEMORY
from tests.bench.results import Copy, Latency, Results, TranslationCost
from tests.bench.rows import Row, Section, disturbed, failed, known
from tests.bench.sql_comparison import sql_section
from tests.bench.tools import JAVA, OURS, TOOLS
from tests.bench.workloads import WORKLOADS, Workload


def sections(results: Results) -> tuple[Section, ...]:
    """Return a section for each benchmark that ran, in the order of the workloads."""
    ran = {one.workload for one in results.copies} | {one.workload for one in results.failures}
    found = [_copy_section(workload, results) for workload in WORKLOADS if workload.name in ran]
    if results.latencies or latency.NAME in ran:
        found.append(_latency_section(results))
    if results.exactly_once is not None:
        found += exactly_once_sections(results.exactly_once, results.failures)
    if results.transformed is not None:
        found.append(sql_section(results.transformed, results.failures))
    if results.translation is not None:
        found.append(_translation_section(results.translation))
    return tuple(found)


def _copy_section(workload: Workload, results: Results) -> Section:
    copies = {one.tool: one for one in results.copies if one.workload == workload.name}

    def row(what: str, figure: Callable[[Copy], float], *, digits: int = 0, aim: float | None = None) -> Row:
        ours, java = (known(figure(copies[tool.name])) if tool.name in copies else None for tool in (OURS, JAVA))
        return Row(what=what, ours=ours, other=java, digits=digits, aim=aim)

    rows = (
        row("CPU-s per GB of values", lambda one: one.cpu_per_value_gb, digits=2, aim=workload.aim),
        row("CPU-s per GB of batches, source", lambda one: one.cpu_per_batch_gb, digits=2),
        row("records/s", lambda one: one.records_per_second),
        row("MB/s of values", lambda one: one.records_per_second * one.value_bytes / one.last.records / 1e6, digits=1),
        row(f"peak memory, MB {MEMORY}", lambda one: one.peak_memory_bytes / 1e6),
        row("start-up, s", lambda one: one.first.seconds, digits=1),
        row("start-up, CPU-s", lambda one: one.first.tool_cpu, digits=1),
        row("brokers, CPU-s per GB of values", lambda one: one.brokers_cpu_per_value_gb, digits=2),
        row("MB on the target", lambda one: one.target.bytes / 1e6),
        row("records per batch, target", lambda one: one.last.records / one.target.batches, digits=1),
    )
    notes = (*_copy_notes(copies), *failed(workload.name, results.failures))
    return Section(title=f"{workload.name}: {workload.title}", rows=rows, notes=notes)


def _copy_notes(copies: Mapping[str, Copy]) -> Iterator[str]:
    for one in list(copies.values())[:1]:  # all tools have the same source
        yield (
            f"source: {one.last.records:,} records, {one.value_bytes / 1e6:,.0f} MB of values, "
            f"{one.source.bytes / 1e6:,.0f} MB in {one.source.batches:,} batches"
        )
    yield from disturbed(TOOLS, copies)


def _latency_section(results: Results) -> Section:
    measured = {one.tool: one for one in results.latencies}

    def row(what: str, figure: Callable[[Latency], float], *, digits: int = 1, aim: float | None = None) -> Row:
        ours, java = (figure(measured[tool.name]) if tool.name in measured else None for tool in (OURS, JAVA))
        return Row(what=what, ours=ours, other=java, digits=digits, aim=aim)

    rows = (
        row("p50, ms", lambda one: one.p50_ms, digits=2, aim=latency.AIM),
        row("p99, ms", lambda one: one.p99_ms),
        row("max, ms", lambda one: one.max_ms),
        row("CPU, share of one core", lambda one: one.cores, digits=2),
        row(f"memory, MB {MEMORY}", lambda one: one.memory_bytes / 1e6, digits=0),
    )
    floor = measured.get(None)
    note = (
        [f"without a mirror: p50 {floor.p50_ms:.2f}, p99 {floor.p99_ms:.1f}, max {floor.max_ms:.1f} ms"]
        if floor
        else []
    )
    return Section(
        title=f"{latency.NAME}: {latency.TITLE}",
        rows=rows,
        notes=(*note, *failed(latency.NAME, results.failures)),
    )


def _translation_section(cost: TranslationCost) -> Section:
    figures = (
        ("all groups advanced, CPU-s", cost.moved_cpu, 2),
        ("no group moved, CPU-s", cost.unmoved_cpu, 2),
        ("all groups advanced, offset syncs alone, CPU-s", cost.compatible_cpu, 2),
        ("decoding the committed offsets, CPU-s", cost.decoding_cpu, 2),
        ("encoding a checkpoint for each, CPU-s", cost.encoding_cpu, 2),
        ("offset syncs, bytes a partition", cost.store_bytes, 0),
        ("exact map, bytes a partition copied in order", cost.map_bytes, 0),
        ("exact map, bytes a partition with a full window", cost.full_map_bytes, 0),
        ("checkpoints, bytes a group-partition", cost.checkpoint_bytes, 0),
    )
    return Section(
        title=f"{translation.NAME}: {translation.TITLE}",
        rows=tuple(Row(what=what, ours=figure, other=None, digits=digits) for what, figure, digits in figures),
        notes=(f"{cost.group_partitions:,} group-partitions; translating them all should take {translation.AIM}",),
    )
