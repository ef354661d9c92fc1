"""MirrorSourceConnectorTest's ACL cases and the other rules of ACL sync."""

from __future__ import annotations

import pytest

from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.topics.acls import (
    Acl,
    AclVerdict,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acls_to_create,
    remote_acl,
    verdict,
)

POLICY = DefaultReplicationPolicy()


def acl(
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
    *,
    name: str = "test_topic",
    pattern: PatternType = PatternType.LITERAL,
    resource: ResourceType = ResourceType.TOPIC,
) -> Acl:
    return Acl(
        resource_type=resource,
        pattern_type=pattern,
        name=name,
        principal="User:kafka",
        operation=operation,
        permission=permission,
    )


@pytest.mark.parametrize(
    ("binding", "expected"),
    [
        (acl(), AclVerdict.COPIED),
        (acl(Operation.ALL), AclVerdict.COPIED),
        (acl(Operation.DESCRIBE), AclVerdict.COPIED),
        (acl(Operation.WRITE), AclVerdict.WRITE),
        (acl(Operation.WRITE, Permission.DENY), AclVerdict.COPIED),
        (acl(Operation.ALL, Permission.DENY), AclVerdict.COPIED),
        (acl(name="secret"), AclVerdict.NOT_REPLICATED),
        (acl(name="*"), AclVerdict.NOT_ONE_TOPIC),
        (acl(pattern=PatternType.PREFIXED), AclVerdict.NOT_ONE_TOPIC),
        (acl(resource=ResourceType.GROUP), AclVerdict.NOT_ONE_TOPIC),
        (acl(Operation.UNKNOWN), AclVerdict.UNKNOWN),
        (acl(permission=Permission.UNKNOWN), AclVerdict.UNKNOWN),
    ],
)
def test_verdicts(binding: Acl, expected: AclVerdict) -> None:
    assert verdict(binding, lambda topic: topic != "secret") is expected


@pytest.mark.parametrize(
    ("operation", "permission", "expected"),
    [
        (Operation.ALL, Permission.ALLOW, Operation.READ),
        (Operation.ALL, Permission.DENY, Operation.ALL),
        (Operation.DESCRIBE_CONFIGS, Permission.ALLOW, Operation.DESCRIBE_CONFIGS),
    ],
)
def test_acl_of_the_remote_topic(operation: Operation, permission: Permission, expected: Operation) -> None:
    remote = remote_acl(acl(operation, permission), policy=POLICY, source_alias="source")
    assert remote == acl(expected, permission, name="source.test_topic")


def test_only_missing_acls_are_created() -> None:
    source = [acl(Operation.ALL), acl(Operation.READ), acl(Operation.WRITE), acl(Operation.DESCRIBE)]
    created = acls_to_create(
        source,
        [acl(Operation.DESCRIBE, name="source.test_topic"), acl(Operation.READ, name="other")],
        replicates=lambda _: True,
        policy=POLICY,
        source_alias="source",
    )
    assert created == (acl(Operation.READ, name="source.test_topic"),)


def test_identity_policy_keeps_names() -> None:
    policy = IdentityReplicationPolicy(source_alias="A")
    created = acls_to_create([acl()], replicates=lambda _: True, policy=policy, source_alias="A")
    assert created == (acl(),)


def test_future_codes_are_unknown() -> None:
    for kind in (ResourceType, PatternType, Operation, Permission):
        assert kind(99).name == "UNKNOWN"


def test_acl_text_form() -> None:
    assert str(acl()) == "ALLOW User:kafka READ TOPIC test_topic"
    elsewhere = Acl(name="t", principal="User:a", host="10.0.0.1", operation=Operation.ALL, permission=Permission.DENY)
    assert str(elsewhere) == "DENY User:a from 10.0.0.1 ALL TOPIC t"
