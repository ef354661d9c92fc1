"""What a broker's answer to a batch means: done, try again, or give up, and the sentence for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

from flows.batch.outgoing import Outgoing
from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import ClusterError, NotSupported, RequestTimedOut, Unreachable
from mm2.kafka.errors import ConnectionLost as _ConnectionLost


class Verdict(Enum):
    """What to do about a batch that was not acknowledged."""

    RETRY = auto()
    IN_TURN = auto()  # refused because one before it was not there: send it again after that one
    NEW_PRODUCER = auto()  # the broker does not know our producer id any more
    NOT_IDEMPOTENT = auto()  # the broker denies us idempotence: plain writes
    SPLIT = auto()
    FATAL = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a batch was not acknowledged. ``maybe_appended``: the target may have it all the same.

    ``words`` say why for people; ``leader_moved``: look the leader up again. ``index`` is the record in the batch that
    the broker blames, if it blames one.
    """

    verdict: Verdict
    words: str
    maybe_appended: bool
    leader_moved: bool = False
    code: int = ErrorCode.NETWORK_EXCEPTION
    index: int | None = None


_VERDICTS = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.IN_TURN,
    ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.NEW_PRODUCER,
    ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.NEW_PRODUCER,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.NEW_PRODUCER,
    ErrorCode.PRODUCER_FENCED: Verdict.NEW_PRODUCER,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Verdict.NOT_IDEMPOTENT,
    ErrorCode.MESSAGE_TOO_LARGE: Verdict.SPLIT,
    ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.SPLIT,
}

_MAYBE_APPENDED = frozenset(
    {
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        # the next ones also end a request that waits for its replicas
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)

DUPLICATE = ErrorCode.DUPLICATE_SEQUENCE_NUMBER
"""The target has the batch from an earlier attempt, so long ago that it does not remember at which offset."""


def refused(code: int, message: str | None, record_errors: Sequence[tuple[int, str | None]]) -> Refusal:
    """The broker answered with an error, perhaps in words of its own."""
    try:
        known = ErrorCode(code)
    except ValueError:
        return Refusal(verdict=Verdict.FATAL, words=f"error {code}", maybe_appended=True, code=code)
    index, words = record_errors[0] if record_errors else (None, None)
    said = words or message
    return Refusal(
        verdict=_VERDICTS.get(known, Verdict.RETRY if known.retriable else Verdict.FATAL),
        words=f"{said} ({known.name})" if said else known.name,
        maybe_appended=known in _MAYBE_APPENDED,
        leader_moved=known.stale_metadata,
        code=code,
        index=index,
    )


def unanswered(error: ClusterError) -> Refusal:
    """No answer came, or the request could not be sent."""
    return Refusal(
        verdict=Verdict.FATAL if isinstance(error, NotSupported) else Verdict.RETRY,
        words=str(error),
        maybe_appended=isinstance(error, _ConnectionLost | RequestTimedOut),
        leader_moved=isinstance(error, Unreachable | RequestTimedOut),
    )


def sentence(source: TopicPartition, target: TopicPartition, batch: Outgoing | None, refusal: Refusal) -> str:
    """What to tell people: topic, partition, offset and the broker's words."""
    if batch is None:
        where = ""
    elif refusal.index is not None:
        where = f", offset {batch.source_offset(refusal.index)}"
    elif batch.count == 1:
        where = f", offset {batch.first_offset}"
    else:
        where = f", offsets {batch.first_offset} to {batch.last_offset}"
    return f"copy {source}{where} to {target}: {refusal.words}{_repair(target, refusal)}"


def _repair(target: TopicPartition, refusal: Refusal) -> str:
    match refusal.code:
        case ErrorCode.MESSAGE_TOO_LARGE | ErrorCode.RECORD_LIST_TOO_LARGE:
            return f"; raise max.message.bytes of {target.topic} on the target"
        case ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return f"; allow this flow's producer to WRITE {target.topic} on the target"
    return ""
