from __future__ import annotations

import pytest

from flows.batch.outgoing import Outgoing
from flows.outcomes import Refusal, Verdict, refused, sentence, unanswered
from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import ConnectionLost, NotSupported, RequestTimedOut, Unreachable

SOURCE, TARGET = TopicPartition("orders", 3), TopicPartition("A.orders", 3)


def batch(*runs: tuple[int, int]) -> Outgoing:
    return Outgoing(
        attributes=0,
        base_timestamp=0,
        max_timestamp=0,
        count=sum(count for _, count in runs),
        records=b"",
        runs=runs,
        until=0,
        held=0,
        source_bytes=0,
    )


@pytest.mark.parametrize(
    ("code", "verdict", "maybe_appended"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, Verdict.RETRY, False),
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, Verdict.RETRY, True),
        (ErrorCode.REQUEST_TIMED_OUT, Verdict.RETRY, True),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, Verdict.RETRY, True),
        (ErrorCode.CORRUPT_MESSAGE, Verdict.RETRY, False),
        (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, Verdict.IN_TURN, False),
        (ErrorCode.UNKNOWN_PRODUCER_ID, Verdict.NEW_PRODUCER, False),
        (ErrorCode.INVALID_PRODUCER_EPOCH, Verdict.NEW_PRODUCER, False),
        (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, Verdict.NOT_IDEMPOTENT, False),
        (ErrorCode.MESSAGE_TOO_LARGE, Verdict.SPLIT, False),
        (ErrorCode.INVALID_TIMESTAMP, Verdict.FATAL, False),
        (ErrorCode.INVALID_RECORD, Verdict.FATAL, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, Verdict.FATAL, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Verdict.FATAL, True),
        (12_345, Verdict.FATAL, True),
    ],
)
def test_what_an_error_code_means(code: int, verdict: Verdict, maybe_appended: bool) -> None:
    refusal = refused(code, None, ())
    assert (refusal.verdict, refusal.maybe_appended) == (verdict, maybe_appended)


@pytest.mark.parametrize(
    ("error", "verdict", "maybe_appended"),
    [
        (Unreachable("B refuses connections"), Verdict.RETRY, False),
        (ConnectionLost("B hung up"), Verdict.RETRY, True),
        (RequestTimedOut("no answer"), Verdict.RETRY, True),
        (NotSupported("too old"), Verdict.FATAL, False),
    ],
)
def test_what_silence_means(error: Exception, verdict: Verdict, maybe_appended: bool) -> None:
    refusal = unanswered(error)  # type: ignore[arg-type]
    assert (refusal.verdict, refusal.maybe_appended, refusal.words) == (verdict, maybe_appended, str(error))


def test_the_sentence_names_the_record_the_broker_blames() -> None:
    refusal = refused(ErrorCode.INVALID_RECORD, "One or more records", [(2, "Compacted topic cannot accept")])
    assert sentence(SOURCE, TARGET, batch((10, 2), (20, 5)), refusal) == (
        "copy orders-3, offset 20 to A.orders-3: Compacted topic cannot accept (INVALID_RECORD)"
    )


def test_the_sentence_names_the_range_when_nobody_is_blamed() -> None:
    refusal = refused(ErrorCode.INVALID_TIMESTAMP, "too far ahead", ())
    assert sentence(SOURCE, TARGET, batch((10, 2), (20, 5)), refusal) == (
        "copy orders-3, offsets 10 to 24 to A.orders-3: too far ahead (INVALID_TIMESTAMP)"
    )


def test_the_sentence_says_what_to_do() -> None:
    large = sentence(SOURCE, TARGET, batch((10, 1)), refused(ErrorCode.MESSAGE_TOO_LARGE, None, ()))
    assert large == (
        "copy orders-3, offset 10 to A.orders-3: MESSAGE_TOO_LARGE; raise max.message.bytes of A.orders on the target"
    )
    denied = sentence(SOURCE, TARGET, None, refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, ()))
    assert denied.endswith("; allow this flow's producer to WRITE A.orders on the target")


def test_without_a_batch_the_sentence_names_none() -> None:
    refusal = Refusal(verdict=Verdict.RETRY, words="nobody leads it", maybe_appended=False)
    assert sentence(SOURCE, TARGET, None, refusal) == "copy orders-3 to A.orders-3: nobody leads it"
