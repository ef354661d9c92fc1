"""Records of a new batch, encoded by aiokafka; the header is our own."""

from __future__ import annotations

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from flows.batch.header import HEADER_BYTES, MAGIC, NO_PRODUCER

_NO_LIMIT = 2**31 - 1


def record_builder() -> DefaultRecordBatchBuilder:
    """Return a builder of uncompressed records without a producer, for `records_of`."""
    return DefaultRecordBatchBuilder(
        magic=MAGIC,
        compression_type=0,
        is_transactional=0,
        producer_id=NO_PRODUCER,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=_NO_LIMIT,
    )


def records_of(builder: DefaultRecordBatchBuilder) -> bytes:
    """Return the records that were appended, without the header of the batch."""
    return bytes(builder.build())[HEADER_BYTES:]
