"""Errors of a member of a consumer group, with the property to change."""

from __future__ import annotations

from mm2.core.mirror1.assignors import JAVA_CLASSES
from mm2.core.mirror1.settings import GroupMembership
from mm2.core.naming.names import TopicPartition
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, ClusterError, NotSupported
from mm2.kafka.groups.group_errors import commit_error
from mm2.kafka.groups.group_protocol import group_protocol
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.group_requests import CONSUMER_PROTOCOL

MEMBERSHIP_ENDED = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.FENCED_INSTANCE_ID,
    }
)
"""Errors of a commit whose partitions belong to another member now, or soon will."""


class MembershipRefused(ClusterError):
    """The coordinator does not accept this member, and trying again will not help. ``code``: the broker's, or None.

    Java's consumer raises such errors from ``poll``.
    """

    def __init__(self, message: str, code: int | None) -> None:
        super().__init__(message)
        self.code = code

    def __reduce__(self) -> tuple[type[MembershipRefused], tuple[str, int | None]]:
        return type(self), (str(self), self.code)


class CommitFailed(BrokerError):
    """The member's generation is over (Java's CommitFailedException): another member continues from the last commit."""

    retriable = False


def member_commit_error(code: int, group: str, partition: TopicPartition) -> BrokerError:
    """Return the error of one partition of a member's commit."""
    if code in MEMBERSHIP_ENDED:
        return CommitFailed(code, f"commit an offset of group {group} for {partition}: the group has rebalanced")
    return commit_error(code, group, partition)


async def refused(cluster: Cluster, group: GroupMembership, error: ClusterError) -> MembershipRefused:
    """Return the error to raise for one that is not retriable, with the cause and what to change."""
    code = error.code if isinstance(error, BrokerError) else None
    where = f"group {group.group_id}" + (f" on cluster {cluster.settings.alias}" if cluster.settings.alias else "")
    if code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL:
        return MembershipRefused(f"{where}: {await _other_protocol(cluster, group)}", code)
    if isinstance(error, NotSupported) and group.instance_id is not None:
        return MembershipRefused(f"{where}: {error}: remove group.instance.id", code)
    advice = _advice(code, group)
    return MembershipRefused(f"{where}: {error}" + (f": {advice}" if advice else ""), code)


async def _other_protocol(cluster: Cluster, group: GroupMembership) -> str:
    """Describe the members that share no protocol with this one."""
    found = await group_protocol(cluster, group.group_id)
    by = f" ({', '.join(found.members)})" if found.members else ""
    other = f"set another group.id than {group.group_id}"
    if found.protocol_type and found.protocol_type != CONSUMER_PROTOCOL:
        return f"members with group protocol {found.protocol_type} hold it{by}: stop them, or {other}"
    assignor = f"assignor {found.protocol}" if found.protocol else "another assignor, or group.protocol=consumer"
    own = " or ".join(group.assignors)
    strategies = " or ".join(JAVA_CLASSES[one] for one in group.assignors)
    if found.protocol in JAVA_CLASSES:
        advice = f"add {JAVA_CLASSES[found.protocol]} to partition.assignment.strategy of this one"
    else:
        advice = (
            "stop all of them before this one starts, or set partition.assignment.strategy of all of them to"
            f" {strategies}, and group.protocol to classic"
        )
    return f"its members use {assignor}{by}, this one {own}: {advice}, or {other}"


def _advice(code: int | None, group: GroupMembership) -> str:
    texts: dict[int, str] = {
        ErrorCode.GROUP_AUTHORIZATION_FAILED: f"grant the principal READ on group {group.group_id}",
        ErrorCode.INVALID_GROUP_ID: "set group.id",
        ErrorCode.INVALID_SESSION_TIMEOUT: f"session.timeout.ms = {group.session_timeout_ms} must be between the"
        " broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
        ErrorCode.GROUP_MAX_SIZE_REACHED: "the broker's group.max.size does not allow another member: increase it, or"
        " reduce num.streams",
        ErrorCode.FENCED_INSTANCE_ID: f"another member has joined with group.instance.id = {group.instance_id}: give"
        " each process its own",
        ErrorCode.UNKNOWN_SERVER_ERROR: "the broker failed: see the log of the group's coordinator",
    }
    return texts.get(code or 0, "")
