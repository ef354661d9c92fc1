"""Reports about this node's source tasks to the leader, through ``mm2-status.<source>.internal``
(`mm2.core.assignment.source_task_reports`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from functools import partial

from mm2.config.settings import FlowSettings
from mm2.core.assignment.partition_load import LoadSample, PartitionLoads
from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.source_task_releases import SourceTaskRelease
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.lanes.fetch_shares import FetchTotals, FetchUse, use_of
from mm2.core.lanes.lease import TaskProducer
from mm2.core.lanes.progress_reports import SourceTaskProgress
from mm2.core.naming.names import TopicPartition
from mm2.core.wire.murmur2 import partition_of
from mm2.kafka.errors import ClusterClosed, ClusterError
from mm2.kafka.logs.control_producer import ControlProducer

log = logging.getLogger(__name__)

DEMANDS_EVERY_S = 30.0
"""How often the demand of a source task's partitions is reported; moving partitions more often is not worthwhile."""

REPEAT_EVERY_S = 20.0
"""Interval after which a report is repeated, because an earlier owner of the source task may have overwritten it. Until
then, no partition of the task moves to another source task."""

USE_EVERY_S = 5.0
"""Over how long it is measured how much a source task with a limit fetches: the leader divides every ten seconds, and a
burst of one second does not count much."""

USE_STEPS = 50
"""What a source task fetches is rounded to so many parts of its share, so that small variations cause no report."""

DEMAND_STEP = 1_000
"""Bytes per second to which demands are rounded, so that small variations cause no report."""


class SourceTaskReporter:
    """Reports the list that each source task of the node runs, and repeats it every `REPEAT_EVERY_S`.

    A report that could not be written is retried by the next `report`.
    """

    def __init__(self, settings: FlowSettings, producer: ControlProducer, partitions: int, node_id: str) -> None:
        """``partitions`` is the partition count of the status topic."""
        self._flow = settings.flow
        self._topic = settings.storage.statuses.name
        self._producer = producer
        self._partitions = partitions
        self._node_id = node_id
        self._loads = PartitionLoads()
        self._demands: dict[int, dict[TopicPartition, int]] = {}
        self._measured_at: dict[int, float] = {}
        self._fetched: dict[int, tuple[str, FetchTotals, float]] = {}  # the run, and when it had fetched so much
        self._uses: dict[int, FetchUse] = {}
        self._reported: dict[int, SourceTaskReport] = {}
        self._reported_at: dict[int, float] = {}

    def measure(self, session: str, source_task: SourceTaskProgress, now: float, share: int | None = None) -> None:
        """Measure the load of the partitions from a lane's report, and the use of the source task's ``share``.

        ``now`` is in seconds of the event loop's clock. ``share`` None: its fetching is not limited.
        """
        run = f"{session}/{source_task.epoch}/{source_task.source_task}"
        for p in source_task.partitions:
            reading = LoadSample(
                at_s=now,
                run=run,
                position=p.position,
                end_offset=p.end_offset,
                records_total=p.counters.records,
                bytes_total=p.counters.bytes,
            )
            self._loads.take(TopicPartition(p.topic, p.partition), reading)
        self._measure_use(run, source_task, now, share)

    def _measure_use(self, run: str, source_task: SourceTaskProgress, now: float, share: int | None) -> None:
        number, fetched = source_task.source_task, source_task.fetched
        before = self._fetched.get(number)
        if fetched is None or share is None or before is None or before[0] != run:
            self._uses.pop(number, None)
            if fetched is None or share is None:
                self._fetched.pop(number, None)
            else:
                self._fetched[number] = run, fetched, now
        elif now - before[2] >= USE_EVERY_S:
            self._fetched[number] = run, fetched, now
            use = use_of(before[1], fetched, now - before[2], share)
            step = max(1, share // USE_STEPS)
            self._uses[number] = replace(use, rate=step * round(use.rate / step))

    def keep(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the load of all other partitions."""
        self._loads.keep(partitions)

    def report(self, record: SourceTaskRecord, member_id: str, now: float) -> None:
        """Report that the source task runs no partition that is not in the list ``record``."""
        if now - self._measured_at.get(record.source_task, float("-inf")) >= DEMANDS_EVERY_S:
            self._measured_at[record.source_task] = now
            known = self._loads.demands()
            rounded = {one: DEMAND_STEP * round(known.get(one, 0.0) / DEMAND_STEP) for one in record.partitions}
            self._demands[record.source_task] = {one: demand for one, demand in rounded.items() if demand}
        report = SourceTaskReport(
            source_task=record.source_task,
            epoch=record.epoch,
            version=record.version,
            member=member_id,
            node=self._node_id,
            demands=self._demands[record.source_task],
            use=self._uses.get(record.source_task),
        )
        if (
            self._reported.get(report.source_task) != report
            or now - self._reported_at[report.source_task] >= REPEAT_EVERY_S
        ):
            self._reported_at[report.source_task] = now
            self._write(report)

    def release(self, source_task: int, producer: TaskProducer) -> asyncio.Future[int] | None:
        """Write that the source task was released in order. Return when that is stored; None: it cannot be."""
        release = SourceTaskRelease(source_task=source_task, producer_id=producer.producer_id, epoch=producer.epoch)
        key = release.key()
        try:
            written = self._producer.send(self._topic, partition_of(key, self._partitions), key, release.value())
        except ClusterError:
            return None
        written.add_done_callback(lambda done: done.cancelled() or done.exception())
        return written

    def forget(self, source_task: int) -> None:
        """Forget a released source task, so that it is reported when it is assigned again."""
        self._reported.pop(source_task, None)
        self._fetched.pop(source_task, None)
        self._uses.pop(source_task, None)

    def _write(self, report: SourceTaskReport) -> None:
        self._reported[report.source_task] = report
        key = report.key()
        try:
            written = self._producer.send(self._topic, partition_of(key, self._partitions), key, report.value())
        except ClusterError as error:
            self._failed(report, error)
        else:
            written.add_done_callback(partial(self._written, report))

    def _written(self, report: SourceTaskReport, done: asyncio.Future[int]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, ClusterError) and not isinstance(error, ClusterClosed):
            self._failed(report, error)

    def _failed(self, report: SourceTaskReport, error: ClusterError) -> None:
        if self._reported.get(report.source_task) is report:
            del self._reported[report.source_task]
        log.warning(
            "%s: failed to report source task %d to the leader; retrying: %s", self._flow, report.source_task, error
        )
