from __future__ import annotations

import pytest

from flows.batch.target_batch import TargetBatch
from flows.target.produce_errors import ErrorAction, ProduceError, describe, from_exception, from_response
from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import ClusterError, ConnectionLost, NotSupported, RequestTimedOut, Unreachable
from mm2.kafka.protocol.error_codes import ErrorCode

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("A.orders", 3)


def batch(*runs: tuple[int, int]) -> TargetBatch:
    return TargetBatch(
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
        count=sum(count for _, count in runs),
        records=b"",
        runs=runs,
        next_offset=0,
        held_bytes=0,
        source_bytes=0,
    )


@pytest.mark.parametrize(
    ("code", "action", "maybe_appended"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorAction.RETRY, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorAction.RETRY, True),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorAction.RETRY, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorAction.RETRY, True),
        (ErrorCode.CORRUPT_MESSAGE, ErrorAction.RETRY, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorAction.NEW_PRODUCER_ID, False),
        (ErrorCode.UNKNOWN_PRODUCER_ID, ErrorAction.NEW_PRODUCER_ID, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorAction.NEW_PRODUCER_ID, False),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorAction.DISABLE_IDEMPOTENCE, False),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorAction.SPLIT, False),
        (ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorAction.RECODE, False),
        (ErrorCode.INVALID_TIMESTAMP, ErrorAction.ISOLATE, False),
        (ErrorCode.INVALID_RECORD, ErrorAction.ISOLATE, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorAction.FAIL, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, ErrorAction.FAIL, True),
        (12_345, ErrorAction.FAIL, True),
    ],
)
def test_the_meaning_of_error_codes(code: int, action: ErrorAction, maybe_appended: bool) -> None:
    error = from_response(code)
    assert (error.action, error.maybe_appended) == (action, maybe_appended)


@pytest.mark.parametrize(
    ("error", "action", "maybe_appended"),
    [
        (Unreachable("B refuses connections"), ErrorAction.RETRY, False),
        (ConnectionLost("B hung up"), ErrorAction.RETRY, True),
        (RequestTimedOut("no answer"), ErrorAction.RETRY, True),
        (NotSupported("too old"), ErrorAction.FAIL, False),
    ],
)
def test_the_meaning_of_no_response(error: ClusterError, action: ErrorAction, maybe_appended: bool) -> None:
    classified = from_exception(error)
    assert (classified.action, classified.maybe_appended, classified.message) == (action, maybe_appended, str(error))


def test_the_message_names_the_rejected_record() -> None:
    error = from_response(ErrorCode.INVALID_RECORD, "One or more records", [(2, "Compacted topic cannot accept")])
    assert describe(SOURCE, TARGET, batch((10, 2), (20, 5)), error) == (
        "cannot copy orders-3 offset 20 to A.orders-3: Compacted topic cannot accept (INVALID_RECORD)"
    )


def test_the_message_names_the_range_without_a_rejected_record() -> None:
    error = from_response(ErrorCode.INVALID_TIMESTAMP, "too far ahead", ())
    assert describe(SOURCE, TARGET, batch((10, 2), (20, 5)), error) == (
        "cannot copy orders-3 offsets 10-24 to A.orders-3: too far ahead (INVALID_TIMESTAMP); raise"
        " message.timestamp.before.max.ms or message.timestamp.after.max.ms of A.orders on the target"
    )


def test_the_message_contains_the_fix() -> None:
    large = describe(SOURCE, TARGET, batch((10, 1)), from_response(ErrorCode.MESSAGE_TOO_LARGE))
    assert large == (
        "cannot copy orders-3 offset 10 to A.orders-3: MESSAGE_TOO_LARGE;"
        " raise max.message.bytes of A.orders on the target"
    )
    denied = describe(SOURCE, TARGET, None, from_response(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    assert denied.endswith("; requires WRITE on topic A.orders of the target")


def test_without_a_batch_the_message_names_none() -> None:
    error = ProduceError(action=ErrorAction.RETRY, message="nobody leads it", maybe_appended=False)
    assert describe(SOURCE, TARGET, None, error) == "cannot copy orders-3 to A.orders-3: nobody leads it"
