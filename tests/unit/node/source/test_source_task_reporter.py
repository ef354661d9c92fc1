"""The reports of a node about its source tasks, and when they are repeated."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from mm2.core.assignment.source_task_records import SourceTaskRecord
from mm2.core.assignment.source_task_reports import SourceTaskReport, decode_report
from mm2.core.lanes.counters import PartitionCounters
from mm2.core.lanes.fetch_shares import FetchTotals, FetchUse
from mm2.core.lanes.progress_reports import PartitionProgress, SourceTaskProgress
from mm2.core.lanes.task_states import TaskState
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.settings.client import ClientSettings
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterClosed, RequestTimedOut
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer, Headers
from mm2.node.source.source_task_reporter import DEMANDS_EVERY_S, REPEAT_EVERY_S, SourceTaskReporter
from tests.unit.config import files

T0 = TopicPartition("t", 0)
LIST = SourceTaskRecord(source_task=0, epoch=1, version=1, partitions=frozenset({T0}))
NEWER = SourceTaskRecord(source_task=0, epoch=1, version=2, partitions=frozenset())


class Written(ControlProducer):
    """Records what is sent, and stores nothing."""

    def __init__(self) -> None:
        super().__init__(Cluster(ClientSettings(bootstrap_servers=("localhost:1",))))
        self.reports: list[SourceTaskReport] = []
        self.futures: list[asyncio.Future[int]] = []
        self.full = False

    def send(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        *,
        headers: Headers = (),
        timestamp_ms: int | None = None,
    ) -> asyncio.Future[int]:
        if self.full:
            raise BufferFull("full")
        assert (topic, partition) == ("mm2-status.A.internal", 0)
        self.reports.append(decode_report(key, value))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


def a_reporter(directory: Path) -> tuple[SourceTaskReporter, Written]:
    written = Written()
    return SourceTaskReporter(files.flow(directory), written, 1, "node-1"), written


def progress(records: int, size: int) -> SourceTaskProgress:
    partition = PartitionProgress(
        topic="t",
        partition=0,
        remote_topic="A.t",
        state=TaskState.RUNNING,
        position=records,
        end_offset=records,
        counters=PartitionCounters(records=records, bytes=size),
    )
    return SourceTaskProgress(
        flow=Flow("A", "B"), source_task=0, epoch=1, state=TaskState.RUNNING, partitions=(partition,)
    )


async def test_changes_are_reported_immediately_and_repeated_later(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.report(LIST, "m", 100.0)
    reporter.report(LIST, "m", 100.0 + REPEAT_EVERY_S - 1)
    assert written.reports == [SourceTaskReport(source_task=0, epoch=1, version=1, member="m", node="node-1")]
    reporter.report(LIST, "m", 100.0 + REPEAT_EVERY_S)
    reporter.report(LIST, "m", 100.0 + REPEAT_EVERY_S + 1)
    assert len(written.reports) == 2
    reporter.report(NEWER, "m", 100.0 + REPEAT_EVERY_S + 1)
    reporter.report(NEWER, "n", 100.0 + REPEAT_EVERY_S + 1)
    assert [(one.version, one.member) for one in written.reports[2:]] == [(2, "m"), (2, "n")]


async def test_a_report_that_could_not_be_written_is_retried(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    written.full = True
    reporter.report(LIST, "m", 100.0)
    written.full = False
    reporter.report(LIST, "m", 101.0)
    assert len(written.reports) == 1
    written.futures[0].set_exception(RequestTimedOut("late"))
    await asyncio.sleep(0)
    reporter.report(LIST, "m", 102.0)
    assert len(written.reports) == 2
    reporter.report(NEWER, "m", 103.0)
    written.futures[1].set_exception(RequestTimedOut("late"))  # superseded by a newer report
    await asyncio.sleep(0)
    reporter.report(NEWER, "m", 104.0)
    assert len(written.reports) == 3


async def test_a_stored_or_cancelled_report_is_not_retried(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.report(LIST, "m", 100.0)
    written.futures[0].set_result(7)
    reporter.report(NEWER, "m", 100.0)
    written.futures[1].set_exception(ClusterClosed("closed"))
    await asyncio.sleep(0)
    reporter.report(NEWER, "m", 101.0)
    assert len(written.reports) == 2


async def test_demands_are_reported_at_intervals_and_rounded(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.report(LIST, "m", 100.0)
    for second in range(1, 20):
        reporter.measure("session", progress(10 * second, 50_300 * second), 100.0 + second)
    reporter.report(LIST, "m", 119.0)
    assert [one.demands for one in written.reports] == [{}]
    reporter.report(LIST, "m", 100.0 + DEMANDS_EVERY_S)
    demand = written.reports[-1].demands[T0]
    assert demand % 1_000 == 0
    assert demand > 0
    reporter.keep([])
    reporter.report(LIST, "m", 100.0 + 2 * DEMANDS_EVERY_S)
    assert written.reports[-1].demands == {}


async def test_what_is_fetched_is_reported_while_there_is_a_share(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)

    def fetched(size: int, limited_s: float) -> SourceTaskProgress:
        return replace(progress(0, 0), fetched=FetchTotals(bytes=size, limited_s=limited_s))

    def use(now: float) -> FetchUse | None:
        reporter.report(LIST, "m", now)
        return written.reports[-1].use

    reporter.measure("session", fetched(1_000, 0.0), 100.0, 1_000)
    assert use(100.0) is None
    reporter.measure("session", fetched(3_000, 1.0), 102.0, 1_000)
    assert use(102.0) is None, "too short"
    reporter.measure("session", fetched(4_033, 1.0), 105.0, 1_000)
    assert use(105.0) == FetchUse(600, True), "rounded"
    reporter.measure("session", fetched(4_043, 1.0), 110.0, 1_000)
    assert use(110.0) == FetchUse(0, False)
    reporter.measure("next session", fetched(10, 0.0), 115.0, 1_000)
    assert use(115.0) is None, "another run counts from 0"
    reporter.measure("next session", fetched(10_010, 5.0), 120.0, 1_000)
    assert use(120.0) == FetchUse(2_000, True)
    reporter.measure("next session", progress(0, 0), 125.0, 1_000)
    assert use(125.0) is None, "the lane does not know the limit any more"
    reporter.measure("next session", fetched(10_010, 5.0), 130.0, None)
    reporter.measure("next session", fetched(10_010, 5.0), 135.0, 1_000)
    assert use(135.0) is None
    reporter.forget(0)
    reporter.measure("next session", fetched(10_010, 5.0), 145.0, 1_000)
    assert use(145.0) is None


async def test_a_reassigned_source_task_is_reported_immediately(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.forget(0)
    reporter.report(LIST, "m", 100.0)
    reporter.forget(0)
    reporter.report(LIST, "m", 101.0)
    assert len(written.reports) == 2
