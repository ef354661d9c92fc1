"""What a node says of its slots, and when it says it again."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mm2.core.client_settings import ClientSettings
from mm2.core.lease import PartitionProgress, SlotProgress, TaskState
from mm2.core.names import Flow, TopicPartition
from mm2.core.slot_records import SlotRecord
from mm2.core.slot_reports import SlotReport, decode_report
from mm2.kafka.cluster import Cluster
from mm2.kafka.control_producer import BufferFull, ControlProducer
from mm2.kafka.errors import ClusterClosed, RequestTimedOut
from mm2.node.slot_reports import DEMANDS_EVERY_S, TOLD_AGAIN_S, SlotReporter
from tests.unit.config import files

T0 = TopicPartition("t", 0)
LIST = SlotRecord(slot=0, epoch=1, version=1, partitions=frozenset({T0}))
NEWER = SlotRecord(slot=0, epoch=1, version=2, partitions=frozenset())


class Written(ControlProducer):
    """Keeps what it is given, and stores nothing."""

    def __init__(self) -> None:
        super().__init__(Cluster(ClientSettings(bootstrap_servers=("localhost:1",))))
        self.reports: list[SlotReport] = []
        self.futures: list[asyncio.Future[int]] = []
        self.full = False

    def send(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, *, timestamp_ms: int | None = None
    ) -> asyncio.Future[int]:
        if self.full:
            raise BufferFull("full")
        assert (topic, partition) == ("mm2-status.A.internal", 0)
        self.reports.append(decode_report(key, value))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


def a_reporter(directory: Path) -> tuple[SlotReporter, Written]:
    written = Written()
    return SlotReporter(files.flow(directory), written, 1, "node-1"), written


def progress(records: int, size: int) -> SlotProgress:
    partition = PartitionProgress(
        topic="t",
        partition=0,
        remote_topic="A.t",
        state=TaskState.RUNNING,
        position=records,
        end_offset=records,
        records_total=records,
        bytes_total=size,
    )
    return SlotProgress(flow=Flow("A", "B"), slot=0, epoch=1, state=TaskState.RUNNING, partitions=(partition,))


async def test_news_is_told_at_once_and_what_is_known_after_a_while(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.tell(LIST, "m", 100.0)
    reporter.tell(LIST, "m", 100.0 + TOLD_AGAIN_S - 1)
    assert written.reports == [SlotReport(slot=0, epoch=1, version=1, member="m", node="node-1")]
    reporter.tell(LIST, "m", 100.0 + TOLD_AGAIN_S)
    reporter.tell(LIST, "m", 100.0 + TOLD_AGAIN_S + 1)
    assert len(written.reports) == 2
    reporter.tell(NEWER, "m", 100.0 + TOLD_AGAIN_S + 1)
    reporter.tell(NEWER, "n", 100.0 + TOLD_AGAIN_S + 1)
    assert [(one.version, one.member) for one in written.reports[2:]] == [(2, "m"), (2, "n")]


async def test_what_could_not_be_written_is_told_again(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    written.full = True
    reporter.tell(LIST, "m", 100.0)
    written.full = False
    reporter.tell(LIST, "m", 101.0)
    assert len(written.reports) == 1
    written.futures[0].set_exception(RequestTimedOut("late"))
    await asyncio.sleep(0)
    reporter.tell(LIST, "m", 102.0)
    assert len(written.reports) == 2
    reporter.tell(NEWER, "m", 103.0)
    written.futures[1].set_exception(RequestTimedOut("late"))  # nobody waits for that one any more
    await asyncio.sleep(0)
    reporter.tell(NEWER, "m", 104.0)
    assert len(written.reports) == 3


async def test_what_is_stored_or_dropped_at_the_end_is_not(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.tell(LIST, "m", 100.0)
    written.futures[0].set_result(7)
    reporter.tell(NEWER, "m", 100.0)
    written.futures[1].set_exception(ClusterClosed("closed"))
    await asyncio.sleep(0)
    reporter.tell(NEWER, "m", 101.0)
    assert len(written.reports) == 2


async def test_demands_are_told_now_and_then_and_rounded(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.tell(LIST, "m", 100.0)
    for second in range(1, 20):
        reporter.listen("session", progress(10 * second, 50_300 * second), 100.0 + second)
    reporter.tell(LIST, "m", 119.0)
    assert [one.demands for one in written.reports] == [{}]
    reporter.tell(LIST, "m", 100.0 + DEMANDS_EVERY_S)
    demand = written.reports[-1].demands[T0]
    assert demand % 1_000 == 0
    assert demand > 0
    reporter.keep([])
    reporter.tell(LIST, "m", 100.0 + 2 * DEMANDS_EVERY_S)
    assert written.reports[-1].demands == {}


async def test_a_slot_that_comes_back_is_told_at_once(tmp_path: Path) -> None:
    reporter, written = a_reporter(tmp_path)
    reporter.forget(0)
    reporter.tell(LIST, "m", 100.0)
    reporter.forget(0)
    reporter.tell(LIST, "m", 101.0)
    assert len(written.reports) == 2
