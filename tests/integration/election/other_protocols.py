"""Group members with other protocols: Java's MirrorMaker, consumers."""

from __future__ import annotations

from typing import Any

from aiokafka.protocol.group import JoinGroupRequest

from mm2.kafka.client.cluster import Cluster, CoordinatorKind
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from mm2.kafka.retrying import retried
from tests.integration.election.members import SOON

SESSION_MS = 6_000  # the default minimum of brokers; a member that does not rejoin delays a rebalance until then


async def join_as(cluster: Cluster, group: str, protocol_type: str, protocol: str = "any") -> str:
    answer = await try_join(cluster, group, protocol_type, protocol)
    assert answer.error_code == 0
    return str(answer.member_id)


async def try_join(cluster: Cluster, group: str, protocol_type: str, protocol: str = "any") -> Any:
    """Return the response to a join without completing the rebalance; retriable errors are retried."""
    member_id = ""

    async def attempt() -> Any:
        nonlocal member_id
        coordinator = await cluster.coordinator(CoordinatorKind.GROUP, group)
        request = JoinGroupRequest(group, SESSION_MS, SESSION_MS, member_id, None, protocol_type, [(protocol, b"")])
        answer = await cluster.send(coordinator, request)
        if ErrorCode(answer.error_code).retriable:
            raise BrokerError(answer.error_code, f"join {group}")
        return answer

    for _ in range(2):  # the first response only contains the member ID
        answer = await retried(attempt, cluster.settings, timeout_ms=int(SOON * 1000))
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            break
        member_id = answer.member_id
    return answer
