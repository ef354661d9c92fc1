"""One tool copies a backlog: watched from its start to the last record, then checked."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence

from tests.bench.digests import Digests, differences, digest_topic
from tests.bench.end_offsets import EndOffsets
from tests.bench.log_files import stored
from tests.bench.process_tree import ProcessTree, busy_seconds
from tests.bench.results import Copy, Moment
from tests.bench.screen import Screen, Told
from tests.bench.tools import RunningTool, Tool
from tests.bench.workloads import PARTITIONS, Workload
from tests.lab.cluster import KafkaCluster
from tests.lab.waiting import GaveUp

STARTS_WITHIN = 180.0  # seconds to the first record: ten alone, many more on a busy machine
STALLED = 60.0  # seconds without a further record
LOOK = 0.05  # seconds between two looks at the target: one in a hundred of the shortest window
CPU_LOOK = 0.25  # seconds between two looks at the processes: what nobody waits for is lost by up to this
MEMORY_LOOK = 1.0  # seconds: reading PSS walks all pages and holds the process up meanwhile


def copy_backlog(
    tool: Tool, workload: Workload, source: KafkaCluster, target: KafkaCluster, wanted: Digests, screen: Screen
) -> Copy:
    """Start a tool with the backlog present, wait for the last record, stop it, and compare the copy to the source.

    Raises GaveUp when the tool does not start, stalls, ends by itself, or when the copy is not exact.
    """
    records = sum(digest.records for digest in wanted.values())
    os.sync()  # what the run before wrote is not to be written back during this one
    with RunningTool(tool, source, target, workload.name) as running:
        with screen.phase(f"{workload.name}: {tool.title} copies", records) as told:
            first, last = watch(running, records, told)
        running.stop()
    check_copy(running, wanted, screen)
    return Copy(
        workload=workload.name,
        tool=tool.name,
        value_bytes=records * workload.backlog.value_bytes,
        source=stored(source, running.topic),
        target=stored(target, running.remote_topic),
        first=first,
        last=last,
        peak_memory_bytes=running.tree.peak_memory_bytes,
    )


def watch(running: RunningTool, records: int, told: Told) -> tuple[Moment, Moment]:
    """The moments when the first and when all ``records`` were seen on the target.

    Raises GaveUp when the tool ends by itself or no further record comes in time.
    """
    ends = EndOffsets(running.target, running.remote_topic)
    brokers = [ProcessTree(cluster.broker(1).process.pid) for cluster in (running.source, running.target)]
    first: Moment | None = None
    present = 0
    heard = cpu_due = memory_due = time.monotonic()
    while True:
        began = time.monotonic()
        before, present = present, ends.refresh()
        if present > before:
            heard = began
            told(present)
        if present and (first is None or present >= records):
            moment = _moment(running, brokers, present)
            first = first or moment
            if present >= records:
                running.tree.memory_bytes()
                return first, moment
        if began >= cpu_due:
            running.tree.cpu_seconds()
            cpu_due = began + CPU_LOOK
        if began >= memory_due:
            running.tree.memory_bytes()
            memory_due = began + MEMORY_LOOK
        running.check()
        limit = STALLED if first else STARTS_WITHIN
        if began - heard > limit:
            raise GaveUp(f"{present} of {records} records, no further one for {limit:g} s\n{running.report()}")
        time.sleep(max(0.0, began + LOOK - time.monotonic()))


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


def read_source(cluster: KafkaCluster, topic: str, title: str, screen: Screen) -> Digests:
    """The digests that a copy of this topic must have."""
    ends = EndOffsets(cluster, topic)
    with screen.phase(title, ends.refresh()) as told:
        return digest_topic(cluster.bootstrap, topic, PARTITIONS, told)


def check_copy(running: RunningTool, wanted: Digests, screen: Screen) -> None:
    """Read what the tool left on the target. Raises GaveUp with a sentence for each partition that is wrong."""
    title = running.tool.title
    with screen.phase(f"{running.topic}: checking the copy", sum(one.records for one in wanted.values())) as told:
        copied = digest_topic(running.target.bootstrap, running.remote_topic, PARTITIONS, told)
    if wrong := differences(wanted, copied):
        raise GaveUp(f"the copy is not exact, {title} has {'; '.join(wrong)}")
