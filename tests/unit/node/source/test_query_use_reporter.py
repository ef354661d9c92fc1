"""The reports of a node about the queries of its source tasks."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from mm2.core.coordination.query_history import QueryEntry, QueryText, QueryUse
from mm2.core.coordination.query_history_records import QueryHistories
from mm2.core.coordination.query_uses import USES_REPORTED, ReportedQueryUses
from mm2.core.lanes.lease import LaneQuery, PartitionLease, SourceTaskLease
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from mm2.core.settings.client import ClientSettings
from mm2.core.settings.row_query import RowQuery
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterClosed, RequestTimedOut
from mm2.kafka.logs.control_producer import BufferFull, ControlProducer, Headers
from mm2.node.source.query_use_reporter import REPEAT_EVERY_S, QueryUseReporter
from tests.unit.config import files
from tests.unit.node.engine.lane_boards import source_task_lease

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def query(digest: str) -> LaneQuery:
    text = f"SELECT * FROM records WHERE {digest}"
    return LaneQuery(name="mask", action=RowQuery(columns={}, condition=digest, text=text, sha256=digest))


AA, BB = "aa" * 32, "bb" * 32
MASK, DROP = query(AA), query(BB)


def lease(*offsets: int | None, query: LaneQuery | None = MASK, topic_id: int | None = None) -> SourceTaskLease:
    """Return the lease of source task 3, with the start offsets of its partitions."""
    ids = TopicIds(None if topic_id is None else UUID(int=topic_id))
    partitions = tuple(
        PartitionLease(topic="t", partition=number, remote_topic="A.t", start_offset=offset, topic_ids=ids)
        for number, offset in enumerate(offsets)
    )
    return replace(source_task_lease(3), partitions=partitions, query=query)


class Written(ControlProducer):
    """Records what is sent, and stores nothing."""

    def __init__(self) -> None:
        super().__init__(Cluster(ClientSettings(bootstrap_servers=("localhost:1",))))
        self.records: list[tuple[bytes | None, bytes | None]] = []
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
        self.records.append((key, value))
        self.futures.append(asyncio.get_running_loop().create_future())
        return self.futures[-1]


class Node:
    """A reporter, and a leader that stores what it reports when it is told to."""

    def __init__(self, directory: Path) -> None:
        self.written = Written()
        self.histories = QueryHistories()
        self.at = 1_000
        self.may_send = True
        self.reporter = QueryUseReporter(
            files.flow(directory),
            self.written,
            1,
            self.histories,
            lambda: self.may_send,
            clock_ms=lambda: self.at,
        )

    def reported(self, now: float) -> tuple[QueryUse, ...]:
        """Return what is reported at this time."""
        self.reporter.report(now)
        records, self.written.records = self.written.records, []
        found = ReportedQueryUses()
        for record in records:
            found.take(*record)
        return tuple(found.uses)

    def store(self, *uses: QueryUse) -> None:
        texts = {digest: QueryText(text="x", sha256=digest) for digest in (AA, "bb")}
        for records in self.histories.due(uses, texts):
            for record in records:
                self.histories.take(*record)


def use(partition: TopicPartition, offset: int, query: str | None, at: int, topic_id: int | None = None) -> QueryUse:
    return QueryUse(partition, QueryEntry(offset, query, at), None if topic_id is None else UUID(int=topic_id))


async def test_reported_until_the_histories_contain_it(tmp_path: Path) -> None:
    """(A)"""
    node = Node(tmp_path)
    node.reporter.granted(lease(100, None))
    first = node.reported(0.0)
    assert first == (use(T0, 100, AA, 1_000), use(T1, 0, AA, 1_000))
    assert node.reported(REPEAT_EVERY_S - 0.1) == ()
    assert node.reported(REPEAT_EVERY_S) == first
    node.store(first[0])
    assert node.reported(REPEAT_EVERY_S + 1) == first[1:]
    node.store(first[1])
    assert node.reported(REPEAT_EVERY_S * 3) == ()


async def test_a_renewed_lease_keeps_the_first_offset(tmp_path: Path) -> None:
    """(A) The stored offset has advanced, and nothing is in the history yet."""
    node = Node(tmp_path)
    node.reporter.granted(lease(100))
    node.at = 2_000
    node.reporter.granted(lease(500, topic_id=1))
    assert node.reported(0.0) == (use(T0, 100, AA, 1_000, topic_id=1),)
    node.reporter.granted(lease(500))
    node.reporter.granted(lease(500, topic_id=1))
    assert node.reported(1.0) == (use(T0, 100, AA, 1_000, topic_id=1),)


@pytest.mark.parametrize(
    ("renewed", "expected"),
    [
        pytest.param(lease(40, topic_id=1), use(T0, 40, AA, 2_000, topic_id=1), id="offsets were reset"),
        pytest.param(lease(500, query=DROP, topic_id=1), use(T0, 500, BB, 2_000, topic_id=1), id="another query"),
        pytest.param(lease(500, topic_id=2), use(T0, 500, AA, 2_000, topic_id=2), id="topic recreated"),
    ],
)
async def test_a_lease_with_another_beginning(tmp_path: Path, renewed: SourceTaskLease, expected: QueryUse) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(100, topic_id=1))
    node.at = 2_000
    node.reporter.granted(renewed)
    assert node.reported(0.0) == (expected,)


async def test_the_same_query_on_another_node_is_not_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.store(use(T0, 100, AA, 1))
    node.reporter.granted(lease(500))
    assert node.reported(0.0) == ()


async def test_a_partition_that_is_copied_as_it_is_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.store(use(T1, 100, AA, 1))
    node.reporter.granted(lease(500, 700, query=None))
    assert node.reported(0.0) == (use(T1, 700, None, 1_000),)


async def test_a_flow_without_queries_reports_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(500, 700, query=None))
    assert node.reported(0.0) == ()
    node.store(use(TopicPartition("other", 0), 100, AA, 1))
    assert node.reported(1.0) == ()


async def test_a_query_that_is_stored_after_it_was_removed(tmp_path: Path) -> None:
    """Its owner or the leader was delayed. The first lease without the query counts, not its renewals."""
    node = Node(tmp_path)
    node.reporter.granted(lease(500, 700, query=None))
    assert node.reported(0.0) == ()
    node.at = 2_000
    node.reporter.granted(lease(500, 900, query=None))
    node.store(use(T1, 100, AA, 500))
    late = node.reported(1.0)
    assert late == (use(T1, 700, None, 1_000),)
    node.store(*late)
    assert [(one.offset, one.sha256) for one in node.histories.of(T1).entries] == [(100, AA), (700, None)]
    assert node.reported(60.0) == ()


async def test_a_released_source_task_is_not_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(100))
    node.reporter.forget(3)
    node.reporter.forget(4)
    assert node.reported(0.0) == ()


async def test_a_partition_that_left_the_source_task_is_not_reported(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(100, 200))
    node.reporter.granted(lease(100))
    assert node.reported(0.0) == (use(T0, 100, AA, 1_000),)


async def test_a_node_that_may_have_lost_its_tasks_waits(tmp_path: Path) -> None:
    """(B)"""
    node = Node(tmp_path)
    node.reporter.granted(lease(100))
    node.may_send = False
    assert node.reported(0.0) == ()
    node.may_send = True
    assert node.reported(0.1) == (use(T0, 100, AA, 1_000),)


async def test_a_late_report_of_a_former_owner_is_corrected(tmp_path: Path) -> None:
    """(B) Its clock is ahead."""
    node = Node(tmp_path)
    node.reporter.granted(lease(100))
    node.store(*node.reported(0.0))
    assert node.reported(1.0) == ()
    node.store(use(T0, 150, BB, 9_000))
    again = node.reported(2.0)
    assert again == (use(T0, 100, AA, 9_001),)
    node.store(*again)
    assert [(one.offset, one.sha256) for one in node.histories.of(T0).entries] == [(100, AA)]
    assert node.reported(60.0) == ()


async def test_many_partitions_are_reported_one_part_after_another(tmp_path: Path) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(*range(USES_REPORTED + 2)))
    first = node.reported(0.0)
    assert len(first) == USES_REPORTED
    node.store(*first)
    assert [one.entry.offset for one in node.reported(0.1)] == [USES_REPORTED, USES_REPORTED + 1]


async def test_a_report_that_is_not_written_is_retried(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    node = Node(tmp_path)
    node.reporter.granted(lease(100))
    node.written.full = True
    assert node.reported(0.0) == ()
    node.written.full = False
    assert len(node.reported(0.1)) == 1
    node.written.futures[-1].set_exception(RequestTimedOut("no answer"))
    await asyncio.sleep(0)
    assert len(node.reported(0.2)) == 1
    assert "A->B: failed to report the queries of source task 3 to the leader; retrying: no answer" in caplog.text
    node.written.futures[-1].set_exception(ClusterClosed("closed"))
    await asyncio.sleep(0)
    assert node.reported(0.3) == ()
