"""Errors of a coordinator about one group, with the permission it requires."""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode

_ACTIVE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})


class GroupActive(BrokerError):
    """The group has members, and only they may commit its offsets. Not retriable while it has members."""

    retriable = False


def describe_error(code: int, what: str, group: str, words: str | None = None) -> BrokerError:
    """Return the error of a request that requires DESCRIBE on ``group``."""
    needs = " (requires DESCRIBE on the group)" if code == ErrorCode.GROUP_AUTHORIZATION_FAILED else ""
    return BrokerError(code, f"{what} {group}{needs}", words)


def commit_error(code: int, group: str, partition: TopicPartition) -> BrokerError:
    """Return the error of one partition of an offset commit for ``group``."""
    what = f"commit an offset of group {group} for {partition}"
    if code in _ACTIVE:
        return GroupActive(code, f"{what}: the group has active members")
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        what = f"{what} (requires READ on the group)"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        what = f"{what} (requires READ on the topic)"
    return BrokerError(code, what)
