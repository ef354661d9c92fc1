"""Errors of clusters and of the connections to them.

An error's text is written for operators. ``retriable``: the same call may succeed later without a change to this
program's settings. Rejected credentials and certificates are retriable: they never end a node, since passwords also
change on the brokers.
"""

from __future__ import annotations

from mm2.core.naming.names import TopicPartition
from mm2.kafka.protocol.error_codes import ErrorCode


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
    """

    def __init__(self, code: int, what: str, words: str | None = None) -> None:
        self.code = code
        self.what = what
        self.words = words
        super().__init__(f"cannot {what}: {words} ({self.name})" if words else f"cannot {what}: {self.name}")

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        """Copy and pickle by the arguments, not by the text."""
        return type(self), (self.code, self.what, self.words)

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


def check(code: int, what: str, words: str | None = None) -> None:
    """Raise BrokerError unless ``code`` is 0."""
    if code:
        raise BrokerError(code, what, words)


class NoLeader(BrokerError):
    """A partition has no leader, or does not exist, depending on ``code``."""

    def __init__(self, partition: TopicPartition, code: int) -> None:
        self.partition = partition
        super().__init__(code, f"find the leader of {partition}")

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        return type(self), (self.partition, self.code)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the first error of an exception group, at any depth."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
