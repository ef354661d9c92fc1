"""Selects the ACLs of remote topics (Java: MirrorSourceConnector.syncTopicAcls).

A principal that can read a topic can read its remote topic. WRITE is never granted.

ACLs are only added, never removed. ACLs of groups, clusters and prefixes are not copied, because their names have a
different meaning on the target.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum, IntEnum

from mm2.core.policies import ReplicationPolicy

_EVERY_TOPIC = "*"  # a literal pattern of this name means all topics, not one


class _AclNumber(IntEnum):
    """Numbers used in ACL requests; a number not in the list is UNKNOWN, as in Java."""

    @classmethod
    def _missing_(cls, value: object) -> _AclNumber:
        return cls(0)


class ResourceType(_AclNumber):
    """Kind of resource that an ACL applies to."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(_AclNumber):
    """How the resource name of an ACL is matched."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(_AclNumber):
    """Operation that an ACL allows or denies."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(_AclNumber):
    """Whether an ACL allows or denies the operation."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One ACL binding: ``principal`` (such as User:alice) from ``host``, and its permission for ``operation``."""

    resource_type: ResourceType = ResourceType.TOPIC
    pattern_type: PatternType = PatternType.LITERAL
    name: str
    principal: str
    host: str = "*"
    operation: Operation
    permission: Permission = Permission.ALLOW

    def __str__(self) -> str:
        who = self.principal if self.host == "*" else f"{self.principal} from {self.host}"
        return f"{self.permission.name} {who} {self.operation.name} {self.resource_type.name} {self.name}"


class AclVerdict(Enum):
    """Whether an ACL of the source is copied; the value is the message to show."""

    COPIED = "the remote topic gets it"
    NOT_ONE_TOPIC = "it does not apply to a single topic by name"
    WRITE = "only replication writes to remote topics"
    NOT_REPLICATED = "its topic is not replicated"
    UNKNOWN = "its operation or permission is not supported by this version"


def verdict(acl: Acl, replicates: Callable[[str], bool]) -> AclVerdict:
    """Return the verdict on one ACL of the source.

    ``replicates`` returns whether a source topic is replicated (`ReplicationFilter.replicates`). Differs from Java in
    two points: the name ``*`` is not treated as a topic (Java creates an ACL for ``A.*``, which does not exist, and
    under a policy that keeps names it would open all topics of the target), and unknown values are not copied.
    """
    if (
        acl.resource_type is not ResourceType.TOPIC
        or acl.pattern_type is not PatternType.LITERAL
        or acl.name == _EVERY_TOPIC
    ):
        return AclVerdict.NOT_ONE_TOPIC
    if acl.operation is Operation.UNKNOWN or acl.permission is Permission.UNKNOWN:
        return AclVerdict.UNKNOWN
    if acl.permission is Permission.ALLOW and acl.operation is Operation.WRITE:
        return AclVerdict.WRITE
    return AclVerdict.COPIED if replicates(acl.name) else AclVerdict.NOT_REPLICATED


def remote_acl(acl: Acl, *, policy: ReplicationPolicy, source_alias: str) -> Acl:
    """Return the remote topic's ACL for an ACL that is copied. ALLOW ALL becomes ALLOW READ; DENY ALL is unchanged."""
    operation = acl.operation
    if acl.permission is Permission.ALLOW and operation is Operation.ALL:
        operation = Operation.READ
    return replace(acl, name=policy.format_remote_topic(source_alias, acl.name), operation=operation)


def acls_to_create(
    source: Iterable[Acl],
    present: Collection[Acl] = (),
    *,
    replicates: Callable[[str], bool],
    policy: ReplicationPolicy,
    source_alias: str,
) -> tuple[Acl, ...]:
    """Return the ACLs to create on the target, in the order of the source, without duplicates and ``present`` ones."""
    wanted = (
        remote_acl(acl, policy=policy, source_alias=source_alias)
        for acl in source
        if verdict(acl, replicates) is AclVerdict.COPIED
    )
    known = frozenset(present)
    return tuple(acl for acl in dict.fromkeys(wanted) if acl not in known)
