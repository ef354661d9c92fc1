"""A flow with every feature between two clusters with an authorizer; the node has only the ACLs that a test creates."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from confluent_kafka.admin import AclBinding, AclOperation, ResourceType

from mm2.config.flow_features import features_of
from mm2.config.load import load
from mm2.core.access.required_acls import OTHER_PROGRAMS, RequiredAcl, required_acls
from mm2.core.access.rights import Right
from mm2.core.settings.client import SecurityProtocol
from mm2.core.settings.sasl import SaslMechanism
from mm2.core.topics import acls
from mm2.core.topics.acls import PatternType
from tests.faults.mode import Mode
from tests.integration.guarded.permissions import add, binding, remove
from tests.lab.cluster import KafkaCluster
from tests.lab.listeners import Listener
from tests.lab.node import Node
from tests.lab.settings import one_flow
from tests.lab.waiting import wait_until

FLOW = "A->B"
LISTENER = Listener(protocol=SecurityProtocol.SASL_PLAINTEXT, mechanisms=(SaslMechanism.PLAIN,))
USERS = {"A": "mirror-source", "B": "mirror-target"}
"""The node's user of each cluster. They differ, because the sync of ACLs also copies those of the node's own user."""

PROGRAM = "program"
"""The user of a program with the client library, on cluster B."""

PASSWORD = "mirror-secret"
NAMED = 45.0  # seconds until a message names what is missing: a partition and a topic are tried again after 30 s

EVERY_FEATURE = {
    "topics": "orders-.*, payments",
    "groups": "orders-.*",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "B->A.emit.heartbeats.enabled": "false",
    "offset.lag.max": "0",
    "errors.tolerance": "all",
    "mm2.on.data.loss": "stop-partition",
    "config.properties.exclude": r"max\.message\.bytes",
    "B.offset.flush.interval.ms": "500",
    "mm2.rest.admin": "true",
    "mm2.rest.admin.token": "guarded-commands",
}

_REQUIRES = re.compile(
    r"requires (?P<operation>[A-Z_]+) on (?:(?P<kind>topic|group|transactional id) (?P<name>[\w.-]+)"
    r"(?: of (?:cluster (?P<of>\w+)|the target))?|cluster (?P<cluster>\w+))"
)
_KINDS = {
    acls.ResourceType.TOPIC: ResourceType.TOPIC,
    acls.ResourceType.GROUP: ResourceType.GROUP,
    acls.ResourceType.CLUSTER: ResourceType.BROKER,
    acls.ResourceType.TRANSACTIONAL_ID: ResourceType.TRANSACTIONAL_ID,
}


def login(user: str) -> str:
    """Return the value of sasl.jaas.config."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    return f'{module} required username="{user}" password="{PASSWORD}";'


def security(cluster: KafkaCluster, user: str) -> dict[str, str]:
    """Return the properties of a client that logs in as ``user``."""
    return {
        "bootstrap.servers": cluster.bootstrap_of(LISTENER.label),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": login(user),
    }


@dataclass(slots=True)
class GuardedFlow:
    """``listed`` are all ACLs of `required_acls`, ``required`` those of the node; ``allowed`` is what it has."""

    source: KafkaCluster
    target: KafkaCluster
    node: Node
    mode: Mode
    listed: tuple[RequiredAcl, ...]
    required: tuple[RequiredAcl, ...]
    allowed: list[RequiredAcl] = field(default_factory=list)
    _seen: int = 0

    @classmethod
    def of(cls, source: KafkaCluster, target: KafkaCluster, mode: Mode) -> GuardedFlow:
        """Return the flow in this mode; its node is not started."""
        properties = one_flow(source, target, topics="") | EVERY_FEATURE | mode.properties()
        del properties[f"{FLOW}.topics"]
        for alias, cluster in (("A", source), ("B", target)):
            properties |= {f"{alias}.{key}": value for key, value in security(cluster, USERS[alias]).items()}
        node = Node(properties, name=f"guarded-{mode}")
        settings = load(node.file).settings
        assert settings is not None
        features = next(one for one in features_of(settings.flows) if str(one.flow) == FLOW)
        listed = required_acls(features)
        # an ACL can have several roles
        required = {str(one): one for one in listed if one.role not in OTHER_PROGRAMS}
        return cls(source, target, node, mode, listed, tuple(required.values()))

    # -- ACLs

    def allow(self, some: Iterable[RequiredAcl]) -> None:
        """Create these ACLs."""
        for cluster, bindings in _bindings(some, USERS).items():
            add(self.clusters[cluster], *bindings)
        self.allowed += [one for one in some if one not in self.allowed]

    def withdraw(self, some: Iterable[RequiredAcl]) -> None:
        """Delete these ACLs."""
        for cluster, bindings in _bindings(some, USERS).items():
            remove(self.clusters[cluster], *bindings)
        self.allowed = [one for one in self.allowed if one not in some]

    def allow_program(self, some: Iterable[RequiredAcl]) -> None:
        """Create these ACLs for `PROGRAM`."""
        for bindings in _bindings(some, {"B": PROGRAM}).values():
            add(self.target, *bindings)

    def forbid_program(self, some: Iterable[RequiredAcl]) -> None:
        """Delete these ACLs of `PROGRAM`."""
        for bindings in _bindings(some, {"B": PROGRAM}).values():
            remove(self.target, *bindings)

    def named(self, *texts: str) -> list[RequiredAcl]:
        """Return the required ACLs with these texts, each of which exists."""
        found = {str(one): one for one in self.required}
        return [found[text] for text in texts]

    @property
    def clusters(self) -> dict[str, KafkaCluster]:
        return {"A": self.source, "B": self.target}

    # -- messages

    def messages(self) -> str:
        """Return what the log has since the last `forget_messages`, and what /flows shows now."""
        answer = self.node.get("/flows")
        return self.node.process.output()[self._seen :] + ("" if answer is None else answer.text)

    def forget_messages(self) -> None:
        """Ignore what the log has now."""
        self._seen = len(self.node.process.output())

    def missing(self) -> set[Right]:
        """Return the rights that messages name."""
        return rights_in(self.messages())

    def allowing(self, right: Right) -> list[RequiredAcl]:
        """Return the required ACLs that a message about ``right`` asks for.

        Several imply DESCRIBE and DESCRIBE_CONFIGS: the first of them is enough to continue.
        """
        fitting = [one for one in self.required if one.allows(right)]
        same = [one for one in fitting if one.operation is right.operation]
        return same or fitting[:1]

    def wait_named(self, some: Iterable[RequiredAcl]) -> None:
        """Wait until a message has named each of these ACLs, by the operation or one that it implies."""

        def unnamed() -> list[str]:
            rights = self.missing()
            return [str(one) for one in some if not any(one.allows(right) for right in rights)]

        try:
            wait_until(lambda: not unnamed(), NAMED, "a message names each missing ACL")
        except Exception as error:
            error.add_note(f"not named: {unnamed()}")
            raise

    def wait_nothing_missing(self) -> None:
        """Wait until /health is UP, the flow is RUNNING and no message about a missing right is shown.

        A node that may join its group again can wait for it as long as its former membership has a session.
        """

        def over() -> bool:
            answer = self.node.get("/flows")
            runs = self.node.flow(FLOW).get("state") == "RUNNING"
            return self.node.healthy and runs and answer is not None and not rights_in(answer.text)

        try:
            wait_until(over, NAMED, "the flow has recovered")
        except Exception as error:
            error.add_note(f"{self.node.health()} {self.node.flow(FLOW).get('reasons')}")
            raise


def rights_in(text: str) -> set[Right]:
    """Return the rights that a text says are required."""
    return {_right(match) for match in _REQUIRES.finditer(text)}


def _right(match: re.Match[str]) -> Right:
    kind = (match["kind"] or "cluster").upper().replace(" ", "_")
    return Right(
        operation=acls.Operation[match["operation"]],
        resource_type=acls.ResourceType[kind],
        name=(match["name"] or "kafka-cluster").rstrip("."),
        cluster=match["of"] or match["cluster"] or "B",
    )


def _bindings(some: Iterable[RequiredAcl], users: dict[str, str]) -> dict[str, list[AclBinding]]:
    """Return the ACLs of each cluster."""
    found: dict[str, list[AclBinding]] = {}
    for one in some:
        found.setdefault(one.cluster, []).append(
            binding(
                AclOperation[one.operation.name],
                one.pattern.name,
                kind=_KINDS[one.resource_type],
                principal=users[one.cluster],
                prefix=one.pattern.pattern_type is PatternType.PREFIXED,
            )
        )
    return found
