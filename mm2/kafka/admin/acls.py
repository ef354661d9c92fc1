"""Requests that describe topic ACLs and create ACLs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mm2.core.access.rights import on_cluster
from mm2.core.topics.acls import Acl, Operation, PatternType, Permission, ResourceType
from mm2.kafka.admin.any_broker import ask_any_broker
from mm2.kafka.chunks import chunks
from mm2.kafka.client.cluster import Cluster
from mm2.kafka.errors import BrokerError, check
from mm2.kafka.protocol.api_request import ApiRequest
from mm2.kafka.protocol.schema import INT8, INT16, INT32, STRING
from mm2.kafka.retrying import API_TIMEOUT_MS

_ACLS_A_REQUEST = 1_000  # a KRaft controller rejects more than 10,000 in one request


class DescribeAclsRequest(
    ApiRequest,
    api_key=29,
    versions=(1,),
    kafka="2.0",
    bulk=True,
    request={
        "resource_type": INT8,
        "name": STRING,
        "pattern_type": INT8,
        "principal": STRING,
        "host": STRING,
        "operation": INT8,
        "permission": INT8,
    },
    response={
        "_throttle_ms": INT32,
        "error": INT16,
        "message": STRING,
        "resources": [
            {
                "type": INT8,
                "name": STRING,
                "pattern_type": INT8,
                "acls": [{"principal": STRING, "host": STRING, "operation": INT8, "permission": INT8}],
            }
        ],
    },
):
    """Request all topic ACLs. The response is (error code, the broker's message, list of `Acl`)."""

    def __init__(self) -> None:
        super().__init__(ResourceType.TOPIC, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)

    def parse(self, *fields: Any) -> tuple[int, str | None, list[Acl]]:
        error, message, resources = fields
        return (
            error,
            message,
            [
                Acl(
                    resource_type=ResourceType(kind),
                    pattern_type=PatternType(pattern),
                    name=name or "",
                    principal=principal or "",
                    host=host or "",
                    operation=Operation(operation),
                    permission=Permission(permission),
                )
                for kind, name, pattern, acls in resources
                for principal, host, operation, permission in acls
            ],
        )


class CreateAclsRequest(
    ApiRequest,
    api_key=30,
    versions=(1,),
    kafka="2.0",
    request={
        "acls": [
            {
                "resource_type": INT8,
                "name": STRING,
                "pattern_type": INT8,
                "principal": STRING,
                "host": STRING,
                "operation": INT8,
                "permission": INT8,
            }
        ]
    },
    response={"_throttle_ms": INT32, "results": [{"error": INT16, "message": STRING}]},
):
    """Create ``acls``; aiokafka's request takes only one. The response has one field with a row per ACL."""

    def __init__(self, acls: Sequence[Acl]) -> None:
        super().__init__(
            [
                (acl.resource_type, acl.name, acl.pattern_type, acl.principal, acl.host, acl.operation, acl.permission)
                for acl in acls
            ]
        )


async def describe_topic_acls(cluster: Cluster, *, timeout_ms: int = API_TIMEOUT_MS) -> list[Acl]:
    """Return all topic ACLs, of all pattern types.

    Raises BrokerError with SECURITY_DISABLED if the brokers have no authorizer, and with CLUSTER_AUTHORIZATION_FAILED
    if the principal may not DESCRIBE the cluster; NotSupported for brokers older than 2.0; another ClusterError if no
    broker answers within ``timeout_ms``.
    """
    what = "describe ACLs of topics"
    error, message, acls = await ask_any_broker(cluster, DescribeAclsRequest(), what, timeout_ms)
    check(error, what, message, on_cluster(Operation.DESCRIBE, cluster.settings.alias))
    found: list[Acl] = acls
    return found


async def create_acls(
    cluster: Cluster, acls: Sequence[Acl], *, timeout_ms: int = API_TIMEOUT_MS
) -> dict[Acl, BrokerError | None]:
    """Create ACLs; one that exists already counts as created. Return None or the broker's error for each ACL.

    Raises the errors of `describe_topic_acls`, except those that concern single ACLs.
    """
    outcome: dict[Acl, BrokerError | None] = {}
    right = on_cluster(Operation.ALTER, cluster.settings.alias)
    for chunk in chunks(acls, _ACLS_A_REQUEST):
        (results,) = await ask_any_broker(cluster, CreateAclsRequest(chunk), "create ACLs", timeout_ms)
        for acl, (code, message) in zip(chunk, results, strict=True):
            outcome[acl] = BrokerError(code, f"create ACL {acl}", message, right) if code else None
    return outcome
