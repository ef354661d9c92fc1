"""What errors say of themselves."""

from __future__ import annotations

import copy
import pickle

import pytest

from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import (
    AuthenticationRefused,
    BrokerError,
    ClusterClosed,
    ConnectionLost,
    NoLeader,
    NotSupported,
    RequestTimedOut,
    SecuritySettingsInvalid,
    TlsRefused,
    Unreachable,
    check,
)


def test_a_broker_error_reads_as_a_sentence_with_the_brokers_words_and_kafkas_name() -> None:
    error = BrokerError(37, "add partitions to topic a", "The topic a has 5 partitions.")
    assert str(error) == "add partitions to topic a: The topic a has 5 partitions. (INVALID_PARTITIONS)"
    assert str(BrokerError(3, "read a-0")) == "read a-0: UNKNOWN_TOPIC_OR_PARTITION"


@pytest.mark.parametrize(
    ("code", "retriable", "stale"),
    [
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, True, True),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, True, True),
        (ErrorCode.NOT_ENOUGH_REPLICAS, True, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, True, False),
        (ErrorCode.MESSAGE_TOO_LARGE, False, False),
        (ErrorCode.TOPIC_AUTHORIZATION_FAILED, False, False),
        (ErrorCode.UNKNOWN_SERVER_ERROR, False, False),
    ],
)
def test_codes_are_retried_as_java_retries_them(code: ErrorCode, retriable: bool, stale: bool) -> None:
    error = BrokerError(code, "do")
    assert (error.retriable, error.stale_metadata) == (retriable, stale)


def test_a_code_of_a_later_kafka_is_an_error_that_stays() -> None:
    error = BrokerError(9_999, "do", "something new")
    assert str(error) == "do: something new (error 9999)"
    assert not error.retriable
    assert not error.stale_metadata


def test_no_leader_says_for_which_partition() -> None:
    error = NoLeader(TopicPartition("a", 1), ErrorCode.LEADER_NOT_AVAILABLE)
    assert str(error) == "find the leader of a-1: LEADER_NOT_AVAILABLE"
    assert error.retriable


def test_check_passes_zero_only() -> None:
    check(0, "do")
    with pytest.raises(BrokerError, match="do: words"):
        check(42, "do", "words")


def test_whatever_may_heal_by_itself_is_retriable() -> None:
    assert all(one.retriable for one in (Unreachable, ConnectionLost, TlsRefused, AuthenticationRefused))
    assert RequestTimedOut.retriable
    assert not any(one.retriable for one in (NotSupported, SecuritySettingsInvalid, ClusterClosed))


@pytest.mark.parametrize(
    "error",
    [
        BrokerError(37, "do", "words"),
        NoLeader(TopicPartition("a", 1), ErrorCode.LEADER_NOT_AVAILABLE),
        Unreachable("cluster A: kafka:9092: nothing listens there"),
    ],
)
def test_errors_survive_copying_and_pickling(error: Exception) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
