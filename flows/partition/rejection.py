"""Source records that cannot be copied: rejected by the target one by one, or in a batch that cannot be read."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from flows.batch.record_reader import DecodedRecord
from flows.batch.target_batch import SourceBatch, TargetBatch
from flows.source.completed_fetch import UnreadableBatch
from flows.target.produce_errors import ProduceError, describe
from mm2.core.naming.names import Flow, TopicPartition

CORRUPT = "org.apache.kafka.common.errors.CorruptRecordException"
RECORD_TOO_LARGE = "org.apache.kafka.common.errors.RecordTooLargeException"
QUERY_FAILED = "org.apache.spark.SparkException"


_FETCH_BYTES = "max.partition.fetch.bytes"  # named by `flows.batch.codecs`

_SYNCED = {
    "org.apache.kafka.common.errors.RecordTooLargeException": "max.message.bytes",
    "org.apache.kafka.common.errors.RecordBatchTooLargeException": "segment.bytes",
    "org.apache.kafka.common.InvalidRecordException": "cleanup.policy",
}
"""The config of a remote topic that `describe` advises to change, if the sync of configurations would reset it."""


class Stage(StrEnum):
    """Where copying failed, as in org.apache.kafka.connect.runtime.errors.Stage."""

    POLL = "TASK_POLL"
    TRANSFORM = "TRANSFORMATION"
    PRODUCE = "KAFKA_PRODUCE"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Source offsets from ``first`` up to, not including, ``until`` cannot be copied, which ``message`` explains.

    ``exception`` is the exception class with which Java reports the error. One record is decoded in ``record``; of a
    batch that cannot be read, ``batch`` has the bytes. ``is_certain`` False: it is unknown where the batch ends, so
    that only its first offset is in the range, or why it cannot be read, or the error does not concern the record.
    """

    first: int
    until: int
    message: str
    exception: str = CORRUPT
    stage: Stage = Stage.POLL
    record: DecodedRecord | None = None
    batch: bytes | None = None
    is_certain: bool = True

    @property
    def is_from_source(self) -> bool:
        """Whether the contents are those of the source: no query has changed them."""
        return self.stage is not Stage.PRODUCE

    def keys(self, flow: Flow) -> str:
        """Return the keys of the file that let the flow continue, as the end of the error of a stopped partition."""
        synced = _SYNCED.get(self.exception)
        is_named = synced is not None and f" {synced} of " in self.message
        exclude = f"; {flow}.config.properties.exclude must contain {synced}, or it is reset" if is_named else ""
        if _FETCH_BYTES in self.message:
            exclude += f"; {flow.source}.consumer.{_FETCH_BYTES} sets it"
        leave_out = f"; {flow}.errors.tolerance = all leaves such records out" if self.is_certain else ""
        return f"{exclude}{leave_out}"

    def without_content(self) -> Rejection:
        """Return it without record and batch, for a partition that stays stopped."""
        return replace(self, record=None, batch=None)


def of_record(
    source: TopicPartition,
    target: TopicPartition,
    batch: TargetBatch,
    error: ProduceError,
    record: DecodedRecord | None,
) -> Rejection:
    """Return the rejection of a batch with a single record by the target."""
    return Rejection(
        first=batch.first_offset,
        until=batch.last_offset + 1,
        message=describe(source, target, batch, error),
        exception=error.java_exception,
        stage=Stage.PRODUCE,
        record=record,
    )


def of_rejected_batch(
    source: TopicPartition,
    target: TopicPartition,
    batch: TargetBatch,
    error: ProduceError,
    why: str = "",
    *,
    expected: bool,
) -> Rejection:
    """Return the rejection of a batch by the target whose records cannot be read, or sent, which ``why`` explains.

    ``expected``: the batch is the cause, rather than an error of this program.
    """
    return Rejection(
        first=batch.first_offset,
        until=batch.last_offset + 1,
        message=f"{describe(source, target, batch, replace(error, record_indexes=()))}{why and f'; {why}'}",
        exception=error.java_exception,
        stage=Stage.PRODUCE,
        batch=b"".join(batch.wire()),
        is_certain=expected,
    )


def of_source_batch(
    source: TopicPartition, target: TopicPartition, batch: SourceBatch, wanted: int, why: str, *, expected: bool
) -> Rejection:
    """Return the rejection of a fetched batch that cannot be rebuilt, from offset ``wanted`` on."""
    first, until = max(wanted, batch.header.base_offset), batch.header.next_offset
    return Rejection(
        first=first,
        until=until,
        message=f"cannot copy {source} {offsets_in_words(first, until)} to {target}: {why}",
        batch=bytes(batch.data),
        is_certain=expected,
    )


def of_query(
    source: TopicPartition,
    target: TopicPartition,
    offset: int,
    *,
    query: str,
    why: str,
    record: DecodedRecord | None,
) -> Rejection:
    """Return the rejection of a record for which the query of this name failed; ``why`` is Spark's message, or ours."""
    return Rejection(
        first=offset,
        until=offset + 1,
        message=f"cannot copy {source} offset {offset} to {target}: query {query} failed: {why}",
        exception=QUERY_FAILED,
        stage=Stage.TRANSFORM,
        record=record,
    )


def of_large_record(source: TopicPartition, target: TopicPartition, offset: int, why: str) -> Rejection:
    """Return the rejection of a record that takes too much memory to be decoded, which ``why`` explains."""
    return Rejection(
        first=offset,
        until=offset + 1,
        message=f"cannot copy {source} offset {offset} to {target}: {why}",
        exception=RECORD_TOO_LARGE,
        stage=Stage.TRANSFORM,
    )


def of_fetched_batch(source: TopicPartition, batch: UnreadableBatch, message: str) -> Rejection:
    """Return the rejection of a batch that arrived corrupt repeatedly, which ``message`` explains."""
    if batch.until is None:
        until, where = batch.first + 1, f"from offset {batch.first} on; where the batch ends is unknown"
    else:
        until = batch.until
        where = offsets_in_words(batch.first, until)
    return Rejection(
        first=batch.first,
        until=until,
        message=f"{message} ({where})",
        batch=batch.data,
        is_certain=batch.until is not None,
    )


def offsets_in_words(first: int, until: int) -> str:
    """Return the offsets from ``first`` up to, not including, ``until``, as text."""
    return f"offset {first}" if until == first + 1 else f"offsets {first}-{until - 1}"
