"""Reading the ACLs of topics, and creating ACLs.

Grammar of what DescribeAcls v1 answers:

    throttle i32 | error i16 | words str? | resources [type i8, name str, pattern i8,
                                                       acls [principal str, host str, operation i8, permission i8]]

Read a few ACLs at a time, as the answer names all topics of the cluster.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from aiokafka.protocol.admin import CreateAclsRequest_v1, DescribeAclsRequest_v1
from aiokafka.protocol.api import Request, RequestStruct

from mm2.core.acls import Acl, Operation, PatternType, Permission, ResourceType
from mm2.kafka.answer_reader import AnswerReader
from mm2.kafka.cluster import Cluster
from mm2.kafka.errors import BrokerError, NotSupported, check
from mm2.kafka.retrying import API_TIMEOUT_MS, retried
from mm2.kafka.undecoded_answer import UndecodedAnswer

_ACLS_A_REQUEST = 1_000  # a KRaft controller refuses more than 10,000 in one request
_YIELD_EVERY = 2_000  # ACLs decoded between two turns of the event loop: about 10 ms


class _DescribeAnswer(UndecodedAnswer):
    API_KEY = 29
    API_VERSION = 1


class _Describe1(DescribeAclsRequest_v1):  # type: ignore[misc]
    RESPONSE_TYPE = _DescribeAnswer


class _DescribeTopicAcls(Request[_Describe1]):  # type: ignore[misc]
    API_KEY = 29

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        return request_struct_class(
            ResourceType.TOPIC, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY
        )


class _CreateAcls(Request[CreateAclsRequest_v1]):  # type: ignore[misc]
    """aiokafka's takes one ACL a request."""

    API_KEY = 30

    def __init__(self, acls: Sequence[Acl]) -> None:
        self._acls = acls

    def build(self, request_struct_class: type[RequestStruct]) -> RequestStruct:
        rows = [
            (acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission)
            for acl in self._acls
        ]
        return request_struct_class(rows)


async def describe_topic_acls(cluster: Cluster, *, timeout_ms: int = API_TIMEOUT_MS) -> list[Acl]:
    """All ACLs of topics, of all pattern types.

    Raises BrokerError, with code SECURITY_DISABLED where the brokers have no authorizer, and
    CLUSTER_AUTHORIZATION_FAILED where our principal may not Describe the cluster; NotSupported for brokers older than
    2.0; another ClusterError when the cluster cannot be asked at all within ``timeout_ms``.
    """
    answer = await _ask(cluster, _DescribeTopicAcls(), "describe ACLs of topics", timeout_ms)
    reader = AnswerReader(answer.body)
    reader.int32()  # throttle time: the broker itself delays us
    check(reader.int16(), "describe ACLs of topics", reader.string())
    found: list[Acl] = []
    unseen = _YIELD_EVERY
    for _ in range(reader.length()):
        kind, name, pattern = ResourceType(reader.int8()), reader.string() or "", PatternType(reader.int8())
        found += [_acl(reader, kind, name, pattern) for _ in range(reader.length())]
        if len(found) >= unseen:
            unseen = len(found) + _YIELD_EVERY
            await asyncio.sleep(0)
    return found


async def create_acls(
    cluster: Cluster, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[Acl, BrokerError | None]:
    """Create ACLs; one that is there already is no trouble. Outcome per ACL: None for done, else the refusal in the
    broker's words. Raises as `describe_topic_acls`, but for what the broker says of single ACLs."""
    outcome: dict[Acl, BrokerError | None] = {}
    for start in range(0, len(acls), _ACLS_A_REQUEST):
        chunk = acls[start : start + _ACLS_A_REQUEST]
        answer = await _ask(cluster, _CreateAcls(chunk), "create ACLs", timeout_ms)
        for acl, (code, words) in zip(chunk, answer.creation_responses, strict=True):
            outcome[acl] = BrokerError(code, f"create ACL {acl}", words) if code else None
    return outcome


async def _ask(cluster: Cluster, request: Any, what: str, timeout_ms: int) -> Any:
    async def attempt() -> Any:
        return await cluster.send(await cluster.any_node(), request)

    try:
        return await retried(attempt, cluster.settings, timeout_ms=timeout_ms)
    except NotSupported as error:
        raise NotSupported(f"cluster {cluster.settings.alias}: {what}: its brokers are older than 2.0") from error


def _acl(reader: AnswerReader, kind: ResourceType, name: str, pattern: PatternType) -> Acl:
    return Acl(
        resource_type=kind,
        pattern_type=pattern,
        name=name,
        principal=reader.string() or "",
        host=reader.string() or "",
        operation=Operation(reader.int8()),
        permission=Permission(reader.int8()),
    )
