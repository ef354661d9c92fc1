"""What a transaction contains, and when it is due."""

from __future__ import annotations

from flows.batch.target_batch import ProducerId
from flows.partition.replicator import PartitionReplicator
from flows.target.produce_errors import from_response
from flows.transaction.transaction import Transaction
from mm2.core.lanes.lease import TransactionsLease
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.unit.flows.replicators import arrive, data, partition

LEASE = TransactionsLease(interval_ms=100, max_bytes=1_000)


def transactional() -> PartitionReplicator:
    replicator, _ = partition(start=0)
    replicator.is_transactional = True
    replicator.set_producer_id(ProducerId(7, 0, transactional=True))
    arrive(replicator, data(0, 10), data(10, 10))
    return replicator


def test_a_partition_sends_after_it_was_added() -> None:
    transaction, replicator = Transaction(LEASE), transactional()
    assert not transaction.admits(replicator)
    assert list(transaction.pending_partitions) == [replicator]
    assert transaction.due_in(5.0) is None
    transaction.partitions_added([replicator], 5.0)
    assert transaction.admits(replicator)
    assert not transaction.pending_partitions


def test_it_is_due_after_the_interval_or_when_it_is_full() -> None:
    transaction, replicator = Transaction(LEASE), transactional()
    transaction.partitions_added([replicator], 5.0)
    due_in = transaction.due_in(5.04)
    assert due_in is not None
    assert round(due_in, 3) == 0.06
    assert transaction.due_in(5.2) == 0
    transaction.sent(999)
    assert transaction.admits(replicator)
    transaction.sent(1)
    assert transaction.due_in(5.0) == 0
    assert not transaction.admits(replicator)


def test_a_closing_transaction_admits_only_repetitions() -> None:
    transaction, replicator, other = Transaction(LEASE), transactional(), transactional()
    transaction.partitions_added([replicator], 0.0)
    entry = replicator.next_batch(0.0)
    assert entry is not None
    transaction.close()
    assert not transaction.admits(replicator), "the next batch would be new"
    assert transaction.uncertain == [replicator]
    replicator.produce_failed(entry, from_response(ErrorCode.REQUEST_TIMED_OUT), 0.0)
    assert transaction.admits(replicator)
    assert not transaction.admits(other)
    assert not transaction.pending_partitions
    repeated = replicator.next_batch(10.0)
    assert repeated is not None
    replicator.acknowledged(repeated, 0, 10.0, 0.0)
    assert transaction.uncertain == []
    assert not transaction.admits(replicator)


def test_lost_producer_state_is_noticed() -> None:
    transaction, replicator = Transaction(LEASE), transactional()
    transaction.partitions_added([replicator], 0.0)
    assert transaction.lost is None
    entry = replicator.next_batch(0.0)
    assert entry is not None
    replicator.produce_failed(entry, from_response(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER), 0.0)
    assert transaction.lost is replicator
