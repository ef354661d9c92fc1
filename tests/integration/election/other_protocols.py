"""Members of groups that are not ours: Java's MirrorMaker, consumers."""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.group import JoinGroupRequest

from mm2.kafka.cluster import Cluster, CoordinatorKind
from mm2.kafka.error_codes import ErrorCode
from mm2.kafka.errors import BrokerError
from mm2.kafka.retrying import retried
from tests.integration.election.members import SOON


async def join_as(cluster: Cluster, group: str, protocol_type: str) -> str:
    answer = await ask_to_join(cluster, group, protocol_type)
    assert answer.error_code == 0
    return str(answer.member_id)


async def ask_to_join(cluster: Cluster, group: str, protocol_type: str) -> Any:
    """The answer to a join that takes no part in the round; what only needs time is waited for."""
    member_id = ""

    async def attempt() -> Any:
        nonlocal member_id
        coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group)
        request = JoinGroupRequest(group, 10_000, 10_000, member_id, None, protocol_type, [("any", b"")])
        answer = await cluster.send(coordinator, request)
        if ErrorCode(answer.error_code).retriable:
            raise BrokerError(answer.error_code, f"join {group}")
        return answer

    for _ in range(2):  # the first answer only brings the member id
        answer = await retried(attempt, cluster.settings, timeout_ms=int(SOON * 1000))
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
        member_id = answer.member_id
    return answer
