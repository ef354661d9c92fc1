"""Commits of a member of a consumer group, which the broker accepts only from the current generation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mm2.core.naming.names import TopicPartition
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import ClusterError
from mm2.kafka.groups.group_coordinators import ask_coordinators
from mm2.kafka.groups.groups import COMMIT_BYTES, commit_row_bytes
from mm2.kafka.groups.member_errors import member_commit_error
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.protocol.membership_requests import Generation, MemberCommitRequest

Outcome = dict[TopicPartition, ClusterError | None]

_RETRIED = frozenset(  # of the whole request: the coordinator has moved or could not replicate the commit in time
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


async def commit_as_member(
    cluster: Cluster,
    member: Generation,
    offsets: Mapping[TopicPartition, int],
    *,
    is_current: Callable[[], bool],
    purpose: str,
    timeout_ms: int,
) -> Outcome:
    """Return None or the error for each partition; `CommitFailed` if the generation is over.

    Is retried while the coordinator moves, for ``timeout_ms``, and as long as ``is_current`` returns True.
    """
    group = member.group_id

    async def ask(node_id: int, _: Sequence[str]) -> dict[str, Outcome]:
        outcome: Outcome = {}
        for rows in chunks(offsets.items(), COMMIT_BYTES, lambda row: commit_row_bytes(group, row[0], "")):
            if not is_current():
                return {group: outcome | generation_ended(group, offsets.keys() - outcome.keys())}
            request = MemberCommitRequest(member, dict(rows))
            codes: dict[TopicPartition, int] = await cluster.send(node_id, request, purpose=purpose)
            for one, code in codes.items():
                outcome[one] = member_commit_error(code, group, one) if code else None
                if code in _RETRIED:
                    raise member_commit_error(code, group, one)
        return {group: outcome}

    if not offsets:
        return {}
    found = (await ask_coordinators(cluster, [group], ask, groups_a_request=1, timeout_ms=timeout_ms))[group]
    return dict.fromkeys(offsets, found) if isinstance(found, ClusterError) else found


def generation_ended(group: str, partitions: Iterable[TopicPartition]) -> Outcome:
    """Return `CommitFailed` for partitions that a member does not have any more."""
    return {one: member_commit_error(ErrorCode.UNKNOWN_MEMBER_ID, group, one) for one in partitions}
