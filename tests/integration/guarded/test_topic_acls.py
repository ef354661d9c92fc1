"""Read access to a topic is synced to its remote topic."""

from __future__ import annotations

from confluent_kafka.admin import AclBindingFilter, AclOperation, AclPermissionType, ResourcePatternType, ResourceType

from tests.integration.guarded.permissions import (
    MAY_ALTER_CLUSTER,
    USER,
    add,
    allowed,
    binding,
    copy,
    denied,
    remove,
    wait_for_reason,
    wait_for_status,
    wait_for_topic,
)
from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.commands import run
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

Seen = set[tuple[str, str, str, str]]


def acls_of(cluster: KafkaCluster, topic: str) -> Seen:
    """Return the ACLs of a literal topic name: principal, host, operation and permission type."""
    one_topic = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        None,  # type: ignore[arg-type]  # the stubs do not allow None, which means any
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    found = cluster.admin.describe_acls(one_topic).result(30)
    return {(one.principal, one.host, one.operation.name, one.permission_type.name) for one in found}


def test_sync_topic_acls(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """ALL becomes READ, WRITE is not synced, and neither are ACLs of other kinds."""
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
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "an ACL created later is synced too")
    created = "A->B: created 1 ACL: ALLOW User:heidi"  # logged after the broker's response
    node.process.wait_until_output(created, SEEN, "only the missing ACL was created")
    log = node.process.output()
    assert log.count(f"ALLOW User:heidi DESCRIBE TOPIC A.{topic}") == 1

    remove(source, late)
    other = binding(AclOperation.READ, topic, principal="ivan")
    add(source, other)
    wanted.add(("User:ivan", "*", "READ", "ALLOW"))
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "no ACL is removed on the target")


def test_permissions_that_are_granted_on_a_remote_topic_last(
    node: Node, source: KafkaCluster, target: KafkaCluster
) -> None:
    """As docs/how-to/troubleshooting.md says, over two rounds of the sync of ACLs, whose source has no such ACL."""
    add(target, MAY_ALTER_CLUSTER)
    topic = source.create_topic("orders-granted")
    remote = f"A.{topic}"
    forbidden, granted = denied(AclOperation.WRITE, remote), allowed(AclOperation.WRITE, remote)
    add(target, forbidden)
    write(source.bootstrap, topic, plain(10))
    assert f"WRITE on topic {remote}" in wait_for_status(node, topic, "FAILED")["partitions"][0]["error"]
    remove(target, forbidden)
    add(target, granted)
    restarted = run("mm2", "restart", str(node.file), "MirrorSourceConnector-0", "--flow", "A->B")
    assert restarted.code == 0, restarted.stderr
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, remote), COPIED)
    own = (f"User:{USER}", "*", "WRITE", "ALLOW")
    wait_sync(source, target, topic, "olga")
    wait_sync(source, target, topic, "pavel")
    assert acls_of(target, remote) == {own} | {(f"User:{name}", "*", "READ", "ALLOW") for name in ("olga", "pavel")}
    write(source.bootstrap, topic, plain(10, first=10))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, remote), COPIED)
    wait_for_topic(node, topic, "RUNNING")


def wait_sync(source: KafkaCluster, target: KafkaCluster, topic: str, principal: str) -> None:
    """Wait until a round of the sync that begins now has created an ACL: another one of the source tells."""
    add(source, binding(AclOperation.READ, topic, principal=principal))
    synced = (f"User:{principal}", "*", "READ", "ALLOW")
    wait_until(lambda: synced in acls_of(target, f"A.{topic}"), SEEN, f"the ACL of {principal} is synced")


def test_no_permission_to_create_acls(node: Node, source: KafkaCluster, target: KafkaCluster) -> None:
    """Causes only a warning that names the permission to grant; records are copied."""
    remove(target, MAY_ALTER_CLUSTER)
    topic = copy(source, target, "orders-unshared")
    add(source, binding(AclOperation.READ, topic, principal="alice"))
    wait_for_reason(node, "cannot create 1 missing topic ACL on cluster B", "requires ALTER on cluster B")
    wait_for_topic(node, topic, "RUNNING")
    wait_until(lambda: node.healthy, SEEN, "/health is UP regardless")
    wait_until(lambda: "topic ACL" in str(node.health().get("reasons")), SEEN, "/health shows the warning")

    add(target, MAY_ALTER_CLUSTER)
    wanted = {("User:alice", "*", "READ", "ALLOW")}
    wait_until(lambda: acls_of(target, f"A.{topic}") == wanted, SEEN, "the ACL is created once permitted")
    wait_until(lambda: "topic ACL" not in str(node.flow("A->B")["reasons"]), SEEN, "no warning is left")
