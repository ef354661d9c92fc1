"""Reading and creating ACLs, checked by an independent client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import PasswordLogin, SaslMechanism
from mm2.core.topics import acls
from mm2.core.topics.acls import Acl, Operation, PatternType, Permission
from mm2.kafka.admin.acls import create_acls, describe_topic_acls
from mm2.kafka.errors import BrokerError
from mm2.kafka.protocol.error_codes import ErrorCode
from tests.integration.kafka.clients import connected
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import AUTHORIZER, Listener
from tests.lab.waiting import until, wait_until

SOON = 30.0  # seconds until an ACL is in effect on a busy machine
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
NOBODY = {
    "security_protocol": SecurityProtocol.SASL_PLAINTEXT,
    "sasl": PasswordLogin(mechanism=SaslMechanism.PLAIN, username="nobody", password="secret"),
}
HOST = "10.1.1.1"
OF_HOST = AclBindingFilter(  # the stubs do not allow None, which means any
    ResourceType.ANY,
    None,  # type: ignore[arg-type]
    ResourcePatternType.ANY,
    None,  # type: ignore[arg-type]
    HOST,
    AclOperation.ANY,
    AclPermissionType.ANY,
)


@pytest.fixture(scope="module")
def guarded() -> Iterator[KafkaCluster]:
    with KafkaCluster("acls", listeners=(LISTENER,), users={"nobody": "secret"}, properties=AUTHORIZER) as cluster:
        yield cluster


async def test_all_kinds_of_topic_acls_are_read(guarded: KafkaCluster) -> None:
    theirs = [
        AclBinding(kind, name, pattern, principal, host, AclOperation[operation], AclPermissionType[permission])
        for kind, name, pattern, principal, host, operation, permission in [
            (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:alice", "*", "READ", "ALLOW"),
            (ResourceType.TOPIC, "orders", ResourcePatternType.LITERAL, "User:ünï", "10.0.0.1", "ALL", "DENY"),
            (ResourceType.TOPIC, "or", ResourcePatternType.PREFIXED, "User:bob", "*", "ALTER_CONFIGS", "ALLOW"),
            (ResourceType.TOPIC, "*", ResourcePatternType.LITERAL, "User:*", "*", "DESCRIBE", "ALLOW"),
            (ResourceType.GROUP, "orders", ResourcePatternType.LITERAL, "User:alice", "*", "READ", "ALLOW"),
        ]
    ]
    for future in guarded.admin.create_acls(theirs).values():
        future.result(30)
    wanted = {
        Acl(name="orders", principal="User:alice", operation=Operation.READ),
        Acl(
            name="orders",
            principal="User:ünï",
            host="10.0.0.1",
            operation=Operation.ALL,
            permission=Permission.DENY,
        ),
        Acl(
            name="or",
            pattern_type=PatternType.PREFIXED,
            principal="User:bob",
            operation=Operation.ALTER_CONFIGS,
        ),
        Acl(name="*", principal="User:*", operation=Operation.DESCRIBE),
    }
    async with connected(guarded) as cluster:

        async def seen() -> bool:
            return set(await describe_topic_acls(cluster)) >= wanted

        condition: Callable[[], bool | Awaitable[bool]] = seen
        await until(condition, SOON, "the ACLs are in effect")
        assert {one.resource_type for one in await describe_topic_acls(cluster)} == {acls.ResourceType.TOPIC}


async def test_many_acls_are_created_in_one_request(guarded: KafkaCluster, requests: list[str]) -> None:
    ours = [
        Acl(name="created", principal=f"User:reader-{n}", host=HOST, operation=Operation.READ) for n in range(50)
    ] + [Acl(name="created", principal="User:x", host=HOST, operation=Operation.ALL, permission=Permission.DENY)]
    async with connected(guarded) as cluster:
        await cluster.any_node()
        requests.clear()
        assert await create_acls(cluster, ours) == dict.fromkeys(ours)
        assert await create_acls(cluster, ours) == dict.fromkeys(ours), "creating an existing ACL is not an error"
        assert len(requests) == 2

    def present() -> set[tuple[str, ...]]:
        found = guarded.admin.describe_acls(OF_HOST).result(30)
        return {
            (one.restype.name, one.name, one.principal, one.operation.name, one.permission_type.name) for one in found
        }

    created = {("TOPIC", one.name, one.principal, one.operation.name, one.permission.name) for one in ours}
    wait_until(lambda: present() == created, SOON, "all 51 ACLs exist")


async def test_cluster_without_authorizer_has_its_own_error_code(cluster_a: KafkaCluster) -> None:
    acl = Acl(name="orders", principal="User:alice", operation=Operation.READ)
    async with connected(cluster_a) as cluster:
        with pytest.raises(BrokerError) as caught:
            await describe_topic_acls(cluster)
        assert caught.value.code == ErrorCode.SECURITY_DISABLED
        refusal = (await create_acls(cluster, [acl]))[acl]
        assert refusal is not None
        assert refusal.code == ErrorCode.SECURITY_DISABLED
        assert str(refusal).startswith("cannot create ACL ALLOW User:alice READ TOPIC orders: ")


async def test_missing_permission_is_reported(guarded: KafkaCluster) -> None:
    acl = Acl(name="orders", principal="User:alice", operation=Operation.READ)
    async with connected(guarded, "SASL_PLAINTEXT", **NOBODY) as cluster:
        with pytest.raises(BrokerError) as caught:
            await describe_topic_acls(cluster)
        assert caught.value.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        refusal = (await create_acls(cluster, [acl]))[acl]
        assert refusal is not None
        assert refusal.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
