"""ACLs of the node's principal on the guarded target, and what the node says of those that are missing."""

from __future__ import annotations

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
    """Our principal may do it to a topic, or to all topics with that prefix."""
    return binding(operation, name, prefix=prefix)


def denied(operation: AclOperation, name: str) -> AclBinding:
    """Our principal may not, whatever else it may."""
    return binding(operation, name, deny=True)


def add(cluster: KafkaCluster, *bindings: AclBinding) -> None:
    for future in cluster.admin.create_acls(list(bindings)).values():
        future.result(30)


def take_back(cluster: KafkaCluster, *bindings: AclBinding) -> None:
    described = [
        AclBindingFilter(
            one.restype,
            one.name,
            one.resource_pattern_type,
            one.principal,
            one.host,
            one.operation,
            one.permission_type,
        )
        for one in bindings
    ]
    for future in cluster.admin.delete_acls(described).values():
        future.result(30)


def wait_for_reason(node: Node, *words: str) -> str:
    """Until a reason of the flow has all these words; the reason."""

    def seen() -> str:
        reasons = node.flow("A->B").get("reasons", [])
        return next((reason for reason in reasons if all(word in reason for word in words)), "")

    return wait_until(seen, SEEN, f"/flows says {' … '.join(words)}")


def wait_for_topic(node: Node, topic: str, state: str) -> str:
    """Until the topic is in this state; its error."""
    wait_until(lambda: node.topic("A->B", topic).get("state") == state, SEEN, f"{topic} is {state}")
    return str(node.topic("A->B", topic)["error"])


def copy(source: KafkaCluster, target: KafkaCluster, topic: str) -> str:
    """Make a topic, fill it and see it copied."""
    source.create_topic(topic, 2)
    write(source.bootstrap, topic, plain(100, partitions=2))
    wait_until_copied((source.bootstrap, topic), (target.bootstrap, f"A.{topic}"), COPIED)
    return topic
