"""The target ACL of each source ACL, compared with the creation requests of Java's MirrorSourceConnector."""

from __future__ import annotations

from typing import Any

import pytest

from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.topics.acls import (
    Acl,
    AclVerdict,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    acls_to_create,
    verdict,
)
from mm2.core.topics.replication_filter import ReplicationFilter
from tests.golden.vectors import java_vectors

POLICIES: dict[str, ReplicationPolicy] = {
    "DefaultReplicationPolicy": DefaultReplicationPolicy(),
    "IdentityReplicationPolicy": IdentityReplicationPolicy(source_alias="A"),
}


def default_topics(name: str) -> bool:
    """Selects topics by the default topics and topics.exclude."""
    internal = name.startswith("mm2") and name.endswith(".internal")
    return not (internal or name.endswith(".replica") or name.startswith("__"))


def read(fields: list[str]) -> Acl:
    resource, pattern, name, principal, host, operation, permission = fields
    return Acl(
        resource_type=ResourceType[resource],
        pattern_type=PatternType[pattern],
        name=name,
        principal=principal,
        host=host,
        operation=Operation[operation],
        permission=Permission[permission],
    )


@pytest.mark.parametrize("case", java_vectors("acls"), ids=lambda case: " ".join((case["policy"], *case["acl"])))
def test_translated_acls(case: dict[str, Any]) -> None:
    policy = POLICIES[case["policy"]]
    replicates = ReplicationFilter(aliases=Flow("A", "B"), policy=policy, selects=default_topics).replicates
    acl = read(case["acl"])
    created = acls_to_create([acl], replicates=replicates, policy=policy, source_alias="A")
    if acl.operation is Operation.UNKNOWN:
        assert (created, verdict(acl, replicates)) == ((), AclVerdict.UNKNOWN), "Java's request would be rejected"
    elif acl.name == "*":
        assert (created, verdict(acl, replicates)) == ((), AclVerdict.NOT_ONE_TOPIC), (
            "Java creates an ACL for A.*, which is not a topic"
        )
    else:
        assert created == (() if case["created"] is None else (read(case["created"]),))
