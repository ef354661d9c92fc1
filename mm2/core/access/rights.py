"""A right that a request requires, in Kafka's words: the operation of an ACL and its resource.

Which request requires which right: kafka.server.KafkaApis, kafka.server.ControllerApis and kafka.server.AclApis. An
ACL that allows READ, WRITE, DELETE or ALTER also allows DESCRIBE, and ALTER_CONFIGS also DESCRIBE_CONFIGS
(org.apache.kafka.metadata.authorizer.StandardAuthorizerData).
"""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.topics.acls import Operation, ResourceType

CLUSTER_RESOURCE = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

_IMPLYING = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}


def implies(allowed: Operation, needed: Operation) -> bool:
    """Return whether an ACL that allows one operation on a resource also allows the other one."""
    return allowed in (needed, Operation.ALL) or allowed in _IMPLYING.get(needed, ())


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """``operation`` on one resource, such as READ on topic orders. ``cluster``: its alias; empty: unknown."""

    operation: Operation
    resource_type: ResourceType
    name: str
    cluster: str = ""

    def __str__(self) -> str:
        if self.resource_type is ResourceType.CLUSTER:
            return f"{self.operation.name} on {f'cluster {self.cluster}' if self.cluster else 'the cluster'}"
        of_cluster = f" of cluster {self.cluster}" if self.cluster else ""
        return f"{self.operation.name} on {resource_words(self.resource_type)} {self.name}{of_cluster}"


def resource_words(kind: ResourceType) -> str:
    """Return the type of a resource as messages write it, such as ``transactional id``."""
    return kind.name.lower().replace("_", " ")


def on_topic(operation: Operation, topic: str, cluster: str = "") -> Right:
    """Return a right on one topic."""
    return Right(operation=operation, resource_type=ResourceType.TOPIC, name=topic, cluster=cluster)


def on_group(operation: Operation, group: str, cluster: str = "") -> Right:
    """Return a right on one group."""
    return Right(operation=operation, resource_type=ResourceType.GROUP, name=group, cluster=cluster)


def on_transactional_id(operation: Operation, transactional_id: str, cluster: str = "") -> Right:
    """Return a right on one transactional id."""
    return Right(
        operation=operation, resource_type=ResourceType.TRANSACTIONAL_ID, name=transactional_id, cluster=cluster
    )


def on_cluster(operation: Operation, cluster: str = "") -> Right:
    """Return a right on the cluster itself."""
    return Right(operation=operation, resource_type=ResourceType.CLUSTER, name=CLUSTER_RESOURCE, cluster=cluster)
