"""Errors of a coordinator about one group, with the permission it requires."""

from __future__ import annotations

from mm2.core.access.rights import on_group, on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode

_ACTIVE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})


class GroupActive(BrokerError):
    """The group has members, and only they may commit its offsets. Not retriable while it has members."""

    retriable = False


def describe_error(code: int, what: str, group: str, words: str | None = None) -> BrokerError:
    """Return the error of a request that requires DESCRIBE on ``group``."""
    return BrokerError(code, f"{what} {group}", words, on_group(Operation.DESCRIBE, group))


def commit_error(code: int, group: str, partition: TopicPartition) -> BrokerError:
    """Return the error of one partition of an offset commit for ``group``."""
    what = f"commit an offset of group {group} for {partition}"
    if code in _ACTIVE:
        return GroupActive(code, f"{what}: the group has active members")
    about_topic = code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    right = on_topic(Operation.READ, partition.topic) if about_topic else on_group(Operation.READ, group)
    return BrokerError(code, what, right=right)
