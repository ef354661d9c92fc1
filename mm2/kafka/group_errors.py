"""What a coordinator refuses about one group, in words that say what to change."""

from __future__ import annotations

from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError

_ACTIVE = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS})


class GroupActive(BrokerError):
    """The group has members: only they may commit its offsets. Trying again does not help while they are there."""

    retriable = False


def describe_error(code: int, what: str, group: str, words: str | None = None) -> BrokerError:
    """An error code about ``group`` from a request that needs the right to describe it."""
    needs = ", which needs the ACL Describe on the group" if code == ErrorCode.GROUP_AUTHORIZATION_FAILED else ""
    return BrokerError(code, f"{what} {group}{needs}", words)


def commit_error(code: int, group: str, partition: TopicPartition) -> BrokerError:
    """An error code of one partition from a commit for ``group``."""
    what = f"commit an offset of group {group} for {partition}"
    if code in _ACTIVE:
        return GroupActive(code, f"{what}: the group is active")
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        what = f"{what}, which needs the ACL Read on the group"
    if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        what = f"{what}, which needs the ACL Read on the topic"
    return BrokerError(code, what)
