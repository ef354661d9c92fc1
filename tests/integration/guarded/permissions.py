"""ACLs of the node's principal on the guarded target, and the node's reports about missing ones."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.integration.shared_node import COPIED, SEEN
from tests.lab.cluster import KafkaCluster
from tests.lab.node import Node
from tests.lab.records import plain, write
from tests.lab.verify import wait_until_copied
from tests.lab.waiting import wait_until

USER, PASSWORD = "mirror", "mirror-secret"
REMOTE = (
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
    AclOperation.DESCRIBE_CONFIGS,
    AclOperation.ALTER_CONFIGS,
    AclOperation.WRITE,
)


def binding(
    operation: AclOperation,
    name: str,
    *,
    kind: ResourceType = ResourceType.TOPIC,
    principal: str = USER,
    host: str = "*",
    prefix: bool = False,
    deny: bool = False,
) -> AclBinding:
    pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
    permission = AclPermissionType.DENY if deny else AclPermissionType.ALLOW
    return AclBinding(kind, name, pattern, f"User:{principal}", host, operation, permission)


MAY_ALTER_CLUSTER = binding(AclOperation.ALTER, "kafka-cluster", kind=ResourceType.BROKER)


def allowed(operation: AclOperation, name: str, *, prefix: bool = False) -> AclBinding:
    """Return an ACL that allows the node's principal the operation on a topic, or on all topics with that prefix."""
    return binding(operation, name, prefix=prefix)


def denied(operation: AclOperation, name: str) -> AclBinding:
    """Return an ACL that denies the node's principal the operation, regardless of other ACLs."""
    return binding(operation, name, deny=True)


def add(cluster: KafkaCluster, *bindings: AclBinding) -> None:
    """Create ACLs and wait until the broker applies them, which is after the controller's response."""
    for future in cluster.admin.create_acls(list(bindings)).values():
        future.result(30)
    wait_until(lambda: all(_applies(cluster, one) for one in bindings), SEEN, "the broker applies the new ACLs")


def remove(cluster: KafkaCluster, *bindings: AclBinding) -> None:
    """Delete ACLs and wait until the broker does not apply them any more."""
    for future in cluster.admin.delete_acls([_only(one) for one in bindings]).values():
        future.result(30)
    wait_until(lambda: not any(_applies(cluster, one) for one in bindings), SEEN, "the broker has removed the ACLs")


def _applies(cluster: KafkaCluster, one: AclBinding) -> bool:
    return bool(cluster.admin.describe_acls(_only(one)).result(30))


def _only(one: AclBinding) -> AclBindingFilter:
    return AclBindingFilter(
        one.restype,
        one.name,
        one.resource_pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission_type,
    )


def wait_for_reason(node: Node, *words: str) -> str:
    """Wait until a reason of the flow contains all ``words``, and return it."""

    def seen() -> str:
        reasons = node.flow("A->B").get("reasons", [])
        return next((reason for reason in reasons if all(word in reason for word in words)), "")

    return wait_until(seen, SEEN, f"/flows contains {' … '.join(words)}")


def wait_for_topic(node: Node, topic: str, state: str) -> str:
    """Wait until the topic is in this state, and return its error."""
    return str(wait_for_status(node, topic, state)["error"])


def wait_for_status(node: Node, topic: str, state: str) -> dict[str, Any]:
    """Wait until the topic is in this state, and return it as /flows showed it then."""

    def seen() -> dict[str, Any]:
        shown = node.topic("A->B", topic)
        return shown if shown.get("state") == state else {}

    return wait_until(seen, SEEN, f"{topic} is {state}")


def copy(source: KafkaCluster, target: KafkaCluster, topic: str) -> str:
    """Create and fill a topic, and wait until it is copied."""
    source.create_topic(topic, 2)
    write(source.bootstrap, topic, plain(100, partitions=2))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    return topic
