"""Errors about groups: their texts and their classes."""

from __future__ import annotations

import pickle

from mm2.core.naming.names import TopicPartition
from mm2.kafka.groups.group_errors import GroupActive, commit_error, describe_error
from mm2.kafka.protocol.error_codes import ErrorCode

PARTITION = TopicPartition("orders", 3)


def test_a_missing_permission_is_named() -> None:
    error = describe_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "describe group", "g")
    assert str(error) == "cannot describe group g: GROUP_AUTHORIZATION_FAILED; requires DESCRIBE on group g"
    assert not error.retriable
    group = commit_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "g", PARTITION)
    assert str(group).endswith("of group g for orders-3: GROUP_AUTHORIZATION_FAILED; requires READ on group g")
    topic = commit_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "g", PARTITION)
    assert str(topic.on("B")).endswith("; requires READ on topic orders of cluster B")
    assert str(pickle.loads(pickle.dumps(topic))) == str(topic)


def test_other_codes_keep_the_brokers_message() -> None:
    error = describe_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, "describe group", "g", "later")
    assert str(error) == "cannot describe group g: later (COORDINATOR_NOT_AVAILABLE)"
    assert error.retriable


def test_an_active_group_is_an_error_of_its_own() -> None:
    for code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
        error = commit_error(code, "g", PARTITION)
        assert isinstance(error, GroupActive)
        assert not error.retriable
        assert "the group has active members" in str(error)
        copied = pickle.loads(pickle.dumps(error))
        assert type(copied) is GroupActive
        assert str(copied) == str(error)
    assert not isinstance(commit_error(ErrorCode.OFFSET_METADATA_TOO_LARGE, "g", PARTITION), GroupActive)
