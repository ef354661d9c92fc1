"""What is written in a transaction, and what follows its commit or abort."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from uuid import UUID

from flows.batch.header import BatchHeader
from flows.batch.target_batch import ProducerId, WrittenBatch
from flows.commit.loss_writer import LossWriter
from flows.commit.transaction_committer import (
    REFUSED_FOR_S,
    AcknowledgedRuns,
    TransactionalJournals,
    TransactionCommitter,
)
from flows.partition.frames_in_query import FrameInQuery, FrameResult
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from mm2.core.lanes.lease import ExactOffsetsLease, OffsetsLease, PartitionLease
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import decode_offset
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import ProducerEpoch, TopicIds, decode_segment, segment_text
from mm2.core.settings.client import ClientSettings
from mm2.kafka.errors import RequestTimedOut
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, replicator_of

SOURCE = TopicPartition("orders", 3)
EXACT = TopicPartition("exact", 0)
CLIENT = ClientSettings(bootstrap_servers=("b:9092",))
OLD, NEW = TopicIds(UUID(int=1), UUID(int=9)), TopicIds(UUID(int=2), UUID(int=9))


def committer(clock: Callable[[], float] = time.monotonic) -> TransactionCommitter:
    return TransactionCommitter(
        OffsetsLease(client=CLIENT, topic="offsets", partitions=5, source_alias="A", flush_interval_ms=1_000),
        source="A",
        losses=LossWriter(None, None),
        syncs=None,
        exact=TransactionalJournals(ExactOffsetsLease(client=CLIENT, topic=EXACT.topic), clock=clock),
    )


def added(to: TransactionCommitter, lease: PartitionLease) -> PartitionReplicator:
    partition = replicator_of(lease, RecordingListener())
    to.add(partition, lease)
    return partition


def lease_from(start: int, **options: object) -> PartitionLease:
    return PartitionLease(topic="orders", partition=3, remote_topic="A.orders", start_offset=start, **options)  # type: ignore[arg-type]


def copy(to: TransactionCommitter, partition: PartitionReplicator, offset: int, count: int, remote: int) -> None:
    """Copy records in a batch, as far as the committer learns of it."""
    if partition.needs_producer_id:
        partition.set_producer_id(ProducerId(7, 0, transactional=True))
    arrive(partition, data(offset, count), end=1_000)
    entry = partition.next_batch(0.0)
    assert entry is not None
    partition.acknowledged(entry, remote, 0.0, WALL)
    to.acknowledged(partition, entry.batch, remote, OffsetRange(offset, offset + count))


def offsets(records: dict[TopicPartition, list[tuple[bytes, bytes | None]]]) -> list[int | None]:
    return [decode_offset(value) for place, some in records.items() if place.topic == "offsets" for _, value in some]


def ranges(records: dict[TopicPartition, list[tuple[bytes, bytes | None]]]) -> list[tuple[int, int, int]]:
    segments = [decode_segment(*record) for record in records.get(EXACT, [])]
    return [(one.upstream, one.downstream, one.records) for each in segments if each is not None for one in each.ranges]


def test_offsets_and_exact_offsets_are_written_until_they_are_committed() -> None:
    commits = committer()
    partition = added(commits, lease_from(40))
    copy(commits, partition, 40, 10, 0)
    assert commits.is_due
    records = commits.prepare([partition])
    assert (offsets(records), ranges(records)) == ([49], [(40, 0, 10)])
    segment = decode_segment(*records[EXACT][0])
    assert segment is not None
    assert segment.producers == (ProducerEpoch(7, 0),)
    assert set(records) == commits.output_partitions([partition])
    commits.committed(0.0, WALL)
    assert (commits.is_due, commits.is_committed(partition), partition.committed_position) == (False, True, 50)
    assert commits.prepare([partition]) == {}


def test_an_aborted_transaction_leaves_no_trace_in_the_exact_offsets() -> None:
    commits = committer()
    partition = added(commits, lease_from(40))
    copy(commits, partition, 40, 10, 0)
    commits.prepare([partition])
    commits.committed(0.0, WALL)
    copy(commits, partition, 50, 10, 11)
    commits.prepare([partition])
    partition.await_roll_back(0.0)
    partition.roll_back(0.0)
    commits.aborted([partition])
    assert not commits.is_due
    copy(commits, partition, 50, 10, 22)
    records = commits.prepare([partition])
    assert (offsets(records), ranges(records)) == ([59], [(40, 0, 10), (50, 22, 10)])


def test_no_exact_offset_of_a_recreated_topic_before_its_beginning_is_stored() -> None:
    """Otherwise a restart would take the old offset for one of the new topic."""
    commits = committer()
    journal = ExactOffsetJournal(SOURCE, topic_ids=OLD)
    journal.acked(((0, 100),), 0, since=0, until=100)
    loss = Loss(topic="orders", partition=3, first=100, until=200, reason="", kind=LossKind.TOPIC_RECREATED)
    last = segment_text(journal.newest.key(), journal.newest.value())
    stopped = lease_from(0, topic_recreated=True, topic_ids=NEW, last_segment=last, stopped_by=loss)
    assert added(commits, stopped).needs_initial_commit
    assert commits.prepare([]) == {}
    running = added(commits, lease_from(0, topic_recreated=True, topic_ids=NEW, last_segment=last))
    assert offsets(commits.prepare([])) == [-2]
    commits.committed(0.0, WALL)
    assert not running.needs_initial_commit


def test_records_are_committed_without_exact_offsets_that_cannot_be_written() -> None:
    commits = committer()
    partition = added(commits, lease_from(0))
    copy(commits, partition, 0, 10, 0)
    assert EXACT in commits.prepare([partition])
    commits.write_failed(EXACT, RequestTimedOut("too slow"))
    assert EXACT not in commits.prepare([partition])
    assert EXACT not in commits.output_partitions([partition])
    (exact, _) = commits.warnings
    assert "too slow" in str(exact)
    commits.committed(0.0, WALL)
    copy(commits, partition, 10, 10, 11)
    partition.await_roll_back(0.0)
    partition.roll_back(0.0)
    commits.aborted([partition])
    assert partition.position == 10, "what was committed without exact offsets stays committed"


def test_exact_offsets_that_were_refused_are_written_without_new_records() -> None:
    now = 1_000.0
    commits = committer(lambda: now)
    partition = added(commits, lease_from(0))
    copy(commits, partition, 0, 10, 0)
    commits.prepare([partition])
    commits.write_failed(EXACT, RequestTimedOut("refused"))
    commits.prepare([partition])
    commits.committed(0.0, WALL)
    commits.commit_passed_over()
    assert not commits.is_due, "the topic is left out for a while"

    now += REFUSED_FOR_S
    commits.commit_passed_over()
    assert commits.is_due
    assert ranges(commits.prepare([partition])) == [(0, 0, 10)]
    commits.committed(0.0, WALL)
    assert not any(commits.warnings)
    commits.commit_passed_over()
    assert not commits.is_due


def test_contiguous_runs_are_one_for_offset_syncs() -> None:
    acknowledged = AcknowledgedRuns()
    acknowledged.add(((0, 10), (15, 5)), 100)
    acknowledged.add(((20, 5),), 115)
    acknowledged.add(((25, 5),), 121)
    found = [(one.upstream, one.downstream, one.count) for one in acknowledged.runs]
    assert found == [(0, 100, 10), (15, 110, 10), (25, 121, 5)]


# -- records that a query drops


def pass_over(to: TransactionCommitter, partition: PartitionReplicator, offset: int, until: int) -> None:
    """Drop records in a query, as far as the committer learns of it."""
    arrive(partition, data(offset, until - offset), end=1_000)
    partition.transformed(to_come[partition], FrameResult(), 0.0)
    to_come[partition] += 1
    to.passed_over(partition, OffsetRange(offset, until))


to_come: dict[PartitionReplicator, int] = {}


class Nowhere:
    """A query whose results the test reports itself."""

    writes_itself = False

    def submit(self, partition: PartitionReplicator, frame: FrameInQuery) -> None: ...

    async def remove(self, partition: PartitionReplicator) -> None: ...


def added_with_query(to: TransactionCommitter) -> PartitionReplicator:
    lease = lease_from(40)
    partition = replicator_of(lease, RecordingListener(), transform=Nowhere())
    to.add(partition, lease)
    to_come[partition] = 0
    return partition


def keep(to: TransactionCommitter, partition: PartitionReplicator, offset: int, count: int, remote: int) -> None:
    """Copy records that the query keeps."""
    if partition.needs_producer_id:
        partition.set_producer_id(ProducerId(7, 0, transactional=True))
    arrive(partition, data(offset, count), end=1_000)
    header = BatchHeader(offset, 61, -1, 2, 0, 0, count - 1, 5, 5, -1, -1, -1, count)
    written = WrittenBatch(header, memoryview(bytes(73)), ((offset, count),))
    partition.transformed(to_come[partition], FrameResult(written), 0.0)
    to_come[partition] += 1
    entry = partition.next_batch(0.0)
    assert entry is not None
    partition.acknowledged(entry, remote, 0.0, WALL)
    to.acknowledged(partition, entry.batch, remote, OffsetRange(offset, offset + count))


def test_dropped_records_are_stored_once_a_second() -> None:
    commits = committer()
    due: list[bool] = []
    commits.on_due = lambda: due.append(commits.is_due)
    partition = added_with_query(commits)
    for offset in range(40, 60, 5):
        pass_over(commits, partition, offset, offset + 5)
    assert (commits.is_due, due, commits.is_committed(partition)) == (False, [], False)
    assert commits.prepare([]) == {}
    commits.commit_passed_over()
    assert (commits.is_due, due) == (True, [True])
    assert offsets(commits.prepare([])) == [59]
    commits.committed(0.0, WALL)
    assert (commits.is_due, commits.is_committed(partition), partition.needs_commit) == (False, True, False)
    commits.commit_passed_over()
    assert (commits.is_due, due) == (False, [True])


def test_dropped_records_are_stored_with_the_next_copied_ones() -> None:
    commits = committer()
    partition = added_with_query(commits)
    pass_over(commits, partition, 40, 50)
    keep(commits, partition, 50, 10, 0)
    assert offsets(commits.prepare([partition])) == [59]
    commits.committed(0.0, WALL)
    assert commits.is_committed(partition)
    commits.commit_passed_over()
    assert not commits.is_due, "it would be a transaction without anything new"


def test_what_is_dropped_during_a_commit_is_due_a_second_later() -> None:
    commits = committer()
    partition = added_with_query(commits)
    keep(commits, partition, 40, 10, 0)
    assert offsets(commits.prepare([partition])) == [49]
    pass_over(commits, partition, 50, 60)
    commits.committed(0.0, WALL)
    assert (commits.is_due, commits.is_committed(partition)) == (False, False)
    commits.commit_passed_over()
    assert offsets(commits.prepare([])) == [59]
    commits.committed(0.0, WALL)
    assert (commits.is_due, commits.is_committed(partition)) == (False, True)


def test_what_was_dropped_before_an_aborted_transaction_is_still_known() -> None:
    commits = committer()
    partition = added_with_query(commits)
    keep(commits, partition, 40, 10, 0)
    commits.prepare([partition])
    commits.committed(0.0, WALL)
    pass_over(commits, partition, 50, 60)
    keep(commits, partition, 60, 10, 11)
    commits.prepare([partition])
    partition.await_roll_back(0.0)
    partition.roll_back(0.0)
    commits.aborted([partition])
    assert partition.position == 60
    keep(commits, partition, 60, 10, 22)
    records = commits.prepare([partition])
    segments = [decode_segment(*record) for record in records[EXACT]]
    assert [(one.upstream, one.downstream, one.hole) for each in segments if each for one in each.ranges] == [
        (40, 0, 0),
        (60, 22, 10),
    ]


def test_flush_stores_what_was_dropped() -> None:
    commits = committer()
    partition = added_with_query(commits)
    asked = []

    async def commit_now() -> None:
        asked.append(offsets(commits.prepare([])))
        commits.committed(0.0, WALL)

    commits.commit_now = commit_now
    pass_over(commits, partition, 40, 50)
    asyncio.run(commits.flush())
    assert (asked, commits.is_committed(partition)) == ([[49]], True)
    pass_over(commits, partition, 50, 60)
    asyncio.run(commits.remove([partition]))
    commits.commit_passed_over()
    assert not commits.is_due
