"""Classification of produce errors: how to handle a batch that was not acknowledged, and the message for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from flows.batch.target_batch import TargetBatch
from mm2.core.access.rights import on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.kafka.errors import BrokerError, ClusterError, ConnectionLost, NotSupported, RequestTimedOut, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode


class ErrorAction(Enum):
    """How to handle a batch that was not acknowledged, once it is the partition's first one in flight."""

    RETRY = auto()
    NEW_PRODUCER_ID = auto()  # the target lost earlier batches of this producer id, or no longer has its state
    DISABLE_IDEMPOTENCE = auto()  # the target does not allow idempotent writes
    SPLIT = auto()
    RECODE = auto()  # the target does not support the batch's codec
    ISOLATE = auto()  # the target rejects some of its records
    FAIL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceError:
    """Why a batch was not acknowledged.

    ``maybe_appended``: the target may nevertheless have the batch. ``leader_moved``: look up the leader again.
    ``record_indexes`` are the rejected records in the batch, as far as the broker reports them (KIP-467).
    ``unexpected``: an error of this program, not of the target.
    """

    action: ErrorAction
    message: str
    maybe_appended: bool
    leader_moved: bool = False
    code: int = ErrorCode.NETWORK_EXCEPTION
    record_indexes: tuple[int, ...] = ()
    unexpected: bool = False

    @property
    def concerns_records(self) -> bool:
        """Whether what is in the batch is the cause, so that other batches can be copied."""
        return self.code in _JAVA_EXCEPTIONS

    @property
    def java_exception(self) -> str:
        """The exception class with which Java's producer reports the error, if it `concerns_records`."""
        return _JAVA_EXCEPTIONS.get(self.code, "org.apache.kafka.common.KafkaException")


_JAVA_EXCEPTIONS: dict[int, str] = {
    ErrorCode.MESSAGE_TOO_LARGE: "org.apache.kafka.common.errors.RecordTooLargeException",
    ErrorCode.RECORD_LIST_TOO_LARGE: "org.apache.kafka.common.errors.RecordBatchTooLargeException",
    ErrorCode.INVALID_TIMESTAMP: "org.apache.kafka.common.errors.InvalidTimestampException",
    ErrorCode.INVALID_RECORD: "org.apache.kafka.common.InvalidRecordException",
    ErrorCode.CORRUPT_MESSAGE: "org.apache.kafka.common.errors.CorruptRecordException",
}
"""Errors about records, with their classes in org.apache.kafka.common.protocol.Errors."""

_ACTIONS = {
    # reached only by the first batch in flight: the target lost what came before it
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.UNKNOWN_PRODUCER_ID: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_EPOCH: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.PRODUCER_FENCED: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.INVALID_TXN_STATE: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.TRANSACTION_ABORTABLE: ErrorAction.NEW_PRODUCER_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: ErrorAction.DISABLE_IDEMPOTENCE,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorAction.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorAction.SPLIT,
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: ErrorAction.RECODE,
    ErrorCode.INVALID_TIMESTAMP: ErrorAction.ISOLATE,
    ErrorCode.INVALID_RECORD: ErrorAction.ISOLATE,
}

_WITHOUT_KEY = "without key"
"""Part of the broker's words for a record that a compacted topic cannot have (LogValidator.validateKey)."""

_MAYBE_APPENDED = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # the following can also occur while a request waits for its replicas
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

DUPLICATE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
"""The target has the batch from an earlier attempt, but no longer knows its offset."""


def from_response(
    code: int, message: str | None = None, record_errors: Sequence[tuple[int, str | None]] = ()
) -> ProduceError:
    """Return the error for an error code of the broker, with its own message if it sent one."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return ProduceError(action=ErrorAction.FAIL, message=f"error {code}", maybe_appended=True, code=code)
    detail = (record_errors[0][1] if record_errors else None) or message
    return ProduceError(
        action=_ACTIONS.get(known, ErrorAction.RETRY if known.retriable else ErrorAction.FAIL),
        message=f"{detail} ({known.name})" if detail else known.name,
        maybe_appended=known in _MAYBE_APPENDED,
        leader_moved=known.stale_metadata,
        code=code,
        record_indexes=tuple(index for index, _ in record_errors),
    )


def from_exception(error: ClusterError) -> ProduceError:
    """Return the error for a request that could not be sent or was not answered."""
    return ProduceError(
        action=ErrorAction.FAIL if isinstance(error, NotSupported) else ErrorAction.RETRY,
        message=str(error),
        maybe_appended=isinstance(error, ConnectionLost | RequestTimedOut),
        leader_moved=isinstance(error, Unreachable | RequestTimedOut),
    )


def not_sendable(error: Exception) -> ProduceError:
    """Return the error for a batch that could not be encoded for the target."""
    return ProduceError(
        action=ErrorAction.ISOLATE,
        message=f"unexpected error: {error!r}",
        maybe_appended=False,
        code=ErrorCode.CORRUPT_MESSAGE,
        unexpected=True,
    )


def of_record(error: ClusterError) -> ProduceError:
    """Return the error for the one of a record that a `ControlProducer` has sent."""
    return from_response(error.code, error.words) if isinstance(error, BrokerError) else from_exception(error)


def describe(source: TopicPartition, target: TopicPartition, batch: TargetBatch | None, error: ProduceError) -> str:
    """Return the message with topic, partition, offsets and the broker's message; ``batch`` None: none was sent."""
    if batch is None:
        where = ""
    elif error.record_indexes:
        where = f" offset {batch.source_offset(error.record_indexes[0])}"
    elif batch.count == 1:
        where = f" offset {batch.first_offset}"
    else:
        where = f" offsets {batch.first_offset}-{batch.last_offset}"
    return f"cannot copy {source}{where} to {target}: {error.message}{_fix(target, error)}"


_FIXES: dict[int, str] = {
    ErrorCode.MESSAGE_TOO_LARGE: "raise max.message.bytes of {topic} on the target",
    ErrorCode.RECORD_LIST_TOO_LARGE: "raise segment.bytes of {topic} on the target",
    ErrorCode.INVALID_TIMESTAMP: "raise message.timestamp.before.max.ms or message.timestamp.after.max.ms of {topic} on"
    " the target",
    ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: "set compression.type of the flow's producer to a codec that the target"
    " supports",
}


def _fix(target: TopicPartition, error: ProduceError) -> str:
    fix = _FIXES.get(error.code, "")
    if error.code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        fix = f"requires {on_topic(Operation.WRITE, target.topic)} of the target"
    elif error.code == ErrorCode.INVALID_RECORD and _WITHOUT_KEY in error.message:
        fix = "remove compact from cleanup.policy of {topic} on the target"
    return f"; {fix.format(topic=target.topic)}" if fix else ""
