"""What is written in a transaction, and what follows its commit or abort."""

from __future__ import annotations

from base64 import b64encode
from uuid import UUID

from flows.batch.target_batch import ProducerId
from flows.commit.loss_writer import LossWriter
from flows.commit.transaction_committer import AcknowledgedRuns, TransactionalJournals, TransactionCommitter
from flows.partition.replicator import PartitionReplicator
from flows.partition.state import OffsetRange
from mm2.core.lanes.lease import ExactOffsetsLease, OffsetsLease, PartitionLease
from mm2.core.lanes.losses import Loss, LossKind
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.connect_offsets import decode_offset
from mm2.core.offsets.exact_offset_journal import ExactOffsetJournal
from mm2.core.offsets.exact_offset_records import TopicIds, decode_segment
from mm2.core.settings.client import ClientSettings
from mm2.kafka.errors import RequestTimedOut
from tests.unit.flows.replicators import WALL, RecordingListener, arrive, data, replicator_of

SOURCE = TopicPartition("orders", 3)
EXACT = TopicPartition("exact", 0)
CLIENT = ClientSettings(bootstrap_servers=("b:9092",))
OLD, NEW = TopicIds(UUID(int=1), UUID(int=9)), TopicIds(UUID(int=2), UUID(int=9))


def committer() -> TransactionCommitter:
    return TransactionCommitter(
        OffsetsLease(client=CLIENT, topic="offsets", partitions=5, flush_interval_ms=1_000),
        source="A",
        losses=LossWriter(None, None),
        syncs=None,
        exact=TransactionalJournals(ExactOffsetsLease(client=CLIENT, topic=EXACT.topic, segments=32)),
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
    assert set(records) == commits.places([partition])
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
    partition.await_roll_back()
    partition.roll_back()
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
    last = b64encode(journal.newest.value()).decode()
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
    assert EXACT not in commits.places([partition])
    (exact, _) = commits.warnings
    assert "too slow" in str(exact)
    commits.committed(0.0, WALL)
    copy(commits, partition, 10, 10, 11)
    partition.await_roll_back()
    partition.roll_back()
    commits.aborted([partition])
    assert partition.position == 10, "what was committed without exact offsets stays committed"


def test_contiguous_runs_are_one_for_offset_syncs() -> None:
    acknowledged = AcknowledgedRuns()
    acknowledged.add(((0, 10), (15, 5)), 100)
    acknowledged.add(((20, 5),), 115)
    acknowledged.add(((25, 5),), 121)
    found = [(one.upstream, one.downstream, one.count) for one in acknowledged.runs]
    assert found == [(0, 100, 10), (15, 110, 10), (25, 121, 5)]
