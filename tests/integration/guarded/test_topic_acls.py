"""Who may read a topic may read its remote topic (mm2-compat §3.5)."""

from __future__ import annotations

from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests.integration.guarded.permissions import (
    MAY_ALTER_CLUSTER,
    add,
    binding,
    copy,
    take_back,
    wait_for_reason,
    wait_for_topic,
)
from tests.integration.shared_node import SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.waiting import wait_until

Seen = set[tuple[str, str, str, str]]


def acls_of(cluster: KafkaCluster, topic: str) -> Seen:
    """Those of one topic by its name: who, from where, what, and whether."""
    one_topic = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,  # type: ignore[arg-type]  # the stubs know of no None, which stands for any
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = cluster.admin.describe_acls(one_topic).result(30)
    return {(one.principal, one.host, one.operation.name, one.permission_type.name) for one in found}


def test_sync_topic_acls(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """ALL becomes READ, writing is for replication only, and other kinds of ACLs stay where they are."""
    add(target, MAY_ALTER_CLUSTER)
    topic = copy(source, target, "orders-shared")
    prefixed = binding(AclOperation.READ, "orders-", principal="frank", prefix=True)
    add(
        source,
        binding(AclOperation.READ, topic, principal="alice"),
        binding(AclOperation.ALL, topic, principal="bob"),
        binding(AclOperation.WRITE, topic, principal="carol"),
        binding(AclOperation.ALL, topic, principal="dave", host="10.0.0.1", deny=True),
        binding(AclOperation.DESCRIBE_CONFIGS, topic, principal="élodie"),
        binding(AclOperation.READ, "*", principal="grace"),
        binding(AclOperation.READ, "elsewhere", principal="alice"),
        prefixed,
    )
    wanted = {
        ("User:alice", "*", "READ", "ALLOW"),
        ("User:bob", "*", "READ", "ALLOW"),
        ("User:dave", "10.0.0.1", "ALL", "DENY"),
        ("User:élodie", "*", "DESCRIBE_CONFIGS", "ALLOW"),
    }
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, f"A.{topic} has the ACLs of {topic}")
    assert acls_of(target, "A.*") == acls_of(target, "A.elsewhere") == acls_of(target, "A.orders-") == set()

    late = binding(AclOperation.DESCRIBE, topic, principal="heidi")
    add(source, late)
    wanted.add(("User:heidi", "*", "DESCRIBE", "ALLOW"))
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "an ACL made later comes too")
    log = node.process.output()
    assert log.count(f"ALLOW User:heidi DESCRIBE TOPIC A.{topic}") == 1
    assert "A->B: created 1 ACL: ALLOW User:heidi" in log, "only what was missing"

    take_back(source, late)
    other = binding(AclOperation.READ, topic, principal="ivan")
    add(source, other)
    wanted.add(("User:ivan", "*", "READ", "ALLOW"))
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "nothing is taken away on the target")


def test_acls_that_must_not_be_created(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """A warning that says what to grant; records are copied all the same."""
    take_back(target, MAY_ALTER_CLUSTER)
    topic = copy(source, target, "orders-unshared")
    add(source, binding(AclOperation.READ, topic, principal="alice"))
    wait_for_reason(node, "sync ACLs of topics: 1 of them is missing on cluster B", "grant it Alter on the cluster")
    wait_for_topic(node, topic, "RUNNING")
    wait_until(lambda: node.healthy, SEEN, "/health is UP all the same")
    assert [reason for reason in node.health()["reasons"] if "sync ACLs" in reason]

    add(target, MAY_ALTER_CLUSTER)
    wanted = {("User:alice", "*", "READ", "ALLOW")}
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "the ACL is there when it may be")
    wait_until(lambda: "sync ACLs" not in str(node.flow("A->B")["reasons"]), SEEN, "no warning is left")
