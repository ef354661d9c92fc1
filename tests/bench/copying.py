"""Runs one tool until it has copied a backlog, measures it, and checks the copy."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from tests.bench.digests import Digests, Framing, differences, digest_topic
from tests.bench.end_offsets import CommittedRecords, EndOffsets
from tests.bench.log_files import stored
from tests.bench.process_tree import ProcessTree, busy_seconds
from tests.bench.results import Copy, Moment
from tests.bench.screen import ReportProgress, Screen
from tests.bench.tools import RunningTool, Tool
from tests.bench.workloads import PARTITIONS, Workload
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import GaveUp

STARTS_WITHIN = 180.0  # seconds to the first record; takes ten on an idle machine, many more on a busy one
STALLED = 60.0  # seconds without a new record
SAMPLE_EVERY = 0.05  # seconds between samples of the target: a hundredth of the shortest window
SAMPLE_CPU_EVERY = 0.25  # seconds between samples of CPU time: at most this much of an orphan's CPU time is lost
SAMPLE_MEMORY_EVERY = (
    1.0  # seconds between samples of memory: reading PSS walks all pages and blocks the process meanwhile
)


def copy_backlog(
    tool: Tool,
    workload: Workload,
    source: KafkaCluster,
    target: KafkaCluster,
    wanted: Digests,
    screen: Screen,
    *,
    dropped: int = 0,
) -> Copy:
    """Start a tool with the backlog present, wait for the last record, stop the tool, and check the copy.

    ``dropped``: number of source records that the tool does not copy, and that ``wanted`` does not have.

    Raises GaveUp if the tool does not start, stalls or exits, or if the copy is not exact.
    """
    records = sum(digest.records for digest in wanted.values())
    os.sync()  # do not let the kernel write back data of the previous run during this one
    with RunningTool(tool, source, target, workload.name) as running:
        with screen.phase(f"{workload.name}: {tool.title} copies", records) as report_progress:
            first, last = watch(running, records, report_progress)
        running.stop()
    check_copy(running, wanted, screen)
    return Copy(
        workload=workload.name,
        tool=tool.name,
        value_bytes=(records + dropped) * workload.backlog.value_bytes,
        source=stored(source, running.topic),
        target=stored(target, running.remote_topic),
        first=first,
        last=last,
        peak_memory_bytes=running.tree.peak_memory_bytes,
    )


def watch(running: RunningTool, records: int, report_progress: ReportProgress) -> tuple[Moment, Moment]:
    """Return the moments at which the first and all ``records`` were seen on the target.

    Raises GaveUp if the tool exits or no new record arrives in time.
    """
    counted = CommittedRecords if running.tool.exactly_once else EndOffsets
    ends = counted(running.target, running.remote_topic)
    brokers = [ProcessTree(cluster.broker(1).process.pid) for cluster in (running.source, running.target)]
    first: Moment | None = None
    present = 0
    heard = cpu_due = memory_due = time.monotonic()
    while True:
        began = time.monotonic()
        before, present = present, ends.refresh()
        if present > before:
            heard = began
            report_progress(present)
        if present and (first is None or present >= records):
            moment = _moment(running, brokers, present)
            first = first or moment
            if present >= records:
                running.tree.memory_bytes()
                return first, moment
        if began >= cpu_due:
            running.tree.cpu_seconds()
            cpu_due = began + SAMPLE_CPU_EVERY
        if began >= memory_due:
            running.tree.memory_bytes()
            memory_due = began + SAMPLE_MEMORY_EVERY
        running.check()
        limit = STALLED if first else STARTS_WITHIN
        if began - heard > limit:
            raise GaveUp(f"{present} of {records} records, no new one for {limit:g} s\n{running.report()}")
        time.sleep(max(0.0, began + SAMPLE_EVERY - time.monotonic()))


def _moment(running: RunningTool, brokers: Sequence[ProcessTree], records: int) -> Moment:
    seconds = time.monotonic() - running.started
    tool_cpu, brokers_cpu = running.tree.cpu_seconds(), sum(broker.cpu_seconds() for broker in brokers)
    return Moment(
        seconds=seconds,
        records=records,
        tool_cpu=tool_cpu,
        brokers_cpu=brokers_cpu,
        others_cpu=busy_seconds() - tool_cpu - brokers_cpu - time.process_time(),
    )


def read_source(
    cluster: KafkaCluster, topic: str, title: str, screen: Screen, expected: Framing | None = None
) -> Digests:
    """Return the digests that a copy of this topic must have. ``expected``: what becomes of a record."""
    ends = EndOffsets(cluster, topic)
    with screen.phase(title, ends.refresh()) as report_progress:
        return digest_topic(cluster.bootstrap, topic, PARTITIONS, report_progress, expected)


def check_copy(running: RunningTool, wanted: Digests, screen: Screen) -> None:
    """Check the remote topic that the tool wrote. Raises GaveUp with a message for each wrong partition."""
    title = running.tool.title
    with screen.phase(
        f"{running.topic}: checking the copy", sum(one.records for one in wanted.values())
    ) as report_progress:
        copied = digest_topic(running.target.bootstrap, running.remote_topic, PARTITIONS, report_progress)
    if wrong := differences(wanted, copied):
        raise GaveUp(f"the copy is not exact, {title} has {'; '.join(wrong)}")
