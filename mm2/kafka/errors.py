"""Errors of clusters and of the connections to them.

An error's text is written for operators. ``retriable``: the same call may succeed later without a change to this
program's settings. Rejected credentials and certificates are retriable: they never end a node, since passwords also
change on the brokers.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Self

from mm2.core.access.rights import Right, on_topic
from mm2.core.naming.names import TopicPartition
from mm2.core.topics.acls import Operation
from mm2.kafka.protocol.error_codes import ErrorCode

DENIED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
"""The codes of a missing right."""

_NOT_YET = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)

NOT_YET_S = 30.0
"""Seconds after which `is_not_yet` is no longer expected. New topics and coordinators take a few seconds."""


class ClusterError(Exception):
    """A request to a cluster failed, or no connection was made."""

    retriable = False


class Unreachable(ClusterError):
    """No usable connection: name, port, network, or a broker that is down."""

    retriable = True


class ConnectionLost(Unreachable):
    """The connection was lost while a request was in flight; the broker may or may not have executed it."""


class TlsRefused(Unreachable):
    """One side rejected the other's certificate, or only one of them uses TLS."""


class AuthenticationRefused(Unreachable):
    """The broker rejected the SASL mechanism, the user or the password."""


class RequestTimedOut(ClusterError):
    """The broker received the request and did not respond in time; it may or may not have executed it."""

    retriable = True


class NotSupported(ClusterError):
    """The broker supports none of the versions of a request that this client can send."""


class SecuritySettingsInvalid(ClusterError):
    """A certificate or key among the settings cannot be used."""


class LeaseExpired(ClusterError):
    """The request was not sent: another node may have taken over the work of this process."""

    retriable = True


class ClusterClosed(ClusterError):
    """The client has been closed."""


class BrokerError(ClusterError):
    """A broker responded with an error code.

    ``what`` is the failed action, such as ``create topic orders``; ``words`` is the broker's own message, if any.
    ``right`` is what the action requires; the text names it if the broker says that it is missing.
    """

    def __init__(self, code: int, what: str, words: str | None = None, right: Right | None = None) -> None:
        self.code = code
        self.what = what
        self.words = words
        self.right = right
        super().__init__(code, what, words, right)  # copied and pickled by these

    def __str__(self) -> str:
        if self.right is not None and self.is_denied:  # a broker's words only repeat the code, or quote the request
            return f"cannot {self.what}: {self.name}; requires {self.right}"
        return f"cannot {self.what}: {f'{self.words} ({self.name})' if self.words else self.name}"

    def on(self, cluster: str) -> Self:
        """Name the cluster in the text; ``cluster`` is its alias."""
        if self.right is not None:
            self.right = replace(self.right, cluster=cluster)
            self.args = (self.code, self.what, self.words, self.right)
        return self

    @property
    def is_denied(self) -> bool:
        """Whether the principal lacks a right."""
        return self.code in DENIED

    @property
    def name(self) -> str:
        """Kafka's name of the code, for example NOT_LEADER_OR_FOLLOWER."""
        try:
            return ErrorCode(self.code).name
        except ValueError:
            return f"error {self.code}"

    @property
    def retriable(self) -> bool:  # type: ignore[override]
        """Whether a retry may succeed, by Java's classification of the code."""
        try:
            return ErrorCode(self.code).retriable
        except ValueError:
            return False

    @property
    def stale_metadata(self) -> bool:
        """Whether metadata should be refreshed before a retry."""
        try:
            return ErrorCode(self.code).stale_metadata
        except ValueError:
            return False


def is_not_yet(error: BaseException | None) -> bool:
    """Return whether a broker says that a topic, leader or coordinator is not there, or not yet: normal while a topic
    is new, a coordinator loads, or the first node of a flow creates what the others wait for."""
    return isinstance(error, BrokerError) and error.code in _NOT_YET


def check(code: int, what: str, words: str | None = None, right: Right | None = None) -> None:
    """Raise BrokerError unless ``code`` is 0."""
    if code:
        raise BrokerError(code, what, words, right)


class NoLeader(BrokerError):
    """A partition has no leader, or does not exist, depending on ``code``."""

    def __init__(self, partition: TopicPartition, code: int, cluster: str = "") -> None:
        self.partition = partition
        self.cluster = cluster
        right = on_topic(Operation.DESCRIBE, partition.topic, cluster)
        super().__init__(code, f"find the leader of {partition}", right=right)

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        return type(self), (self.partition, self.code, self.cluster)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of an exception group, at any depth."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
