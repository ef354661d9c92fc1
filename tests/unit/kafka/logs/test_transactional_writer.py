"""Sequences of transactional batches."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatch

from mm2.kafka.logs.record_writer import record_batches
from mm2.kafka.protocol.transaction_requests import ProducerIdAndEpoch


def testrecord_batches_have_one_producer_and_consecutive_sequences() -> None:
    """The highest sequence is followed by 0."""
    records = [(b"%d" % number, bytes(200_000)) for number in range(5)]
    batches = record_batches(records, ProducerIdAndEpoch(7, 3), 2**31 - 3)
    read = [DefaultRecordBatch(batch.raw) for batch in batches]
    assert [batch.records for batch in batches] == [2, 2, 1]
    assert [one.base_sequence for one in read] == [2**31 - 3, 2**31 - 1, 1]
    for one in read:
        assert (one.producer_id, one.producer_epoch, one.is_transactional) == (7, 3, True)
        assert one.validate_crc()
    assert [record.key for one in read for record in one] == [key for key, _ in records]


def test_a_record_larger_than_a_batch_is_sent_alone() -> None:
    batches = record_batches([(b"a", b""), (b"b", bytes(600_000)), (b"c", b"")], ProducerIdAndEpoch(7, 3), 0)
    assert [batch.records for batch in batches] == [1, 1, 1]
