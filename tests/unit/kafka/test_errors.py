"""Texts and classification of cluster errors."""

from __future__ import annotations

import copy
import pickle

import pytest

from mm2.core.naming.names import TopicPartition
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
from mm2.kafka.protocol.error_codes import ErrorCode


def test_a_broker_error_contains_the_brokers_message_and_kafkas_name() -> None:
    error = BrokerError(37, "add partitions to topic a", "The topic a has 5 partitions.")
    assert str(error) == "cannot add partitions to topic a: The topic a has 5 partitions. (INVALID_PARTITIONS)"
    assert str(BrokerError(3, "read a-0")) == "cannot read a-0: UNKNOWN_TOPIC_OR_PARTITION"


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
def test_codes_are_retriable_as_in_java(code: ErrorCode, retriable: bool, stale: bool) -> None:
    error = BrokerError(code, "do")
    assert (error.retriable, error.stale_metadata) == (retriable, stale)


def test_a_code_of_a_later_kafka_is_not_retriable() -> None:
    error = BrokerError(9_999, "do", "something new")
    assert str(error) == "cannot do: something new (error 9999)"
    assert not error.retriable
    assert not error.stale_metadata


def test_no_leader_names_the_partition() -> None:
    error = NoLeader(TopicPartition("a", 1), ErrorCode.LEADER_NOT_AVAILABLE)
    assert str(error) == "cannot find the leader of a-1: LEADER_NOT_AVAILABLE"
    assert error.retriable


def test_check_passes_zero_only() -> None:
    check(0, "do")
    with pytest.raises(BrokerError, match="do: words"):
        check(42, "do", "words")


def test_errors_that_can_pass_without_operator_action_are_retriable() -> None:
    assert all(one.retriable for one in (Unreachable, ConnectionLost, TlsRefused, AuthenticationRefused))
    assert RequestTimedOut.retriable
    assert not any(one.retriable for one in (NotSupported, SecuritySettingsInvalid, ClusterClosed))


@pytest.mark.parametrize(
    "error",
    [
        BrokerError(37, "do", "words"),
        NoLeader(TopicPartition("a", 1), ErrorCode.LEADER_NOT_AVAILABLE),
        Unreachable("cluster A: kafka:9092: connection refused"),
    ],
)
def test_errors_survive_copying_and_pickling(error: Exception) -> None:
    for again in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
