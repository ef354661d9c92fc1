"""What can go wrong with a cluster, as this program speaks of it.

Every error is a sentence for people and says whether it is ``retriable``: whether the same call may succeed later
without anybody changing this program's settings. Refused credentials and certificates count as retriable, because a
cluster that refuses a password never ends a node (contract: exit codes) and passwords change on the brokers' side too.
"""

from __future__ import annotations

from mm2.core.names import TopicPartition
from mm2.kafka.error_codes import ErrorCode


class ClusterError(Exception):
    """Something a cluster, or the way to it, did not do for us."""

    retriable = False


class Unreachable(ClusterError):
    """No usable connection: name, port, network, or a broker that is down."""

    retriable = True


class ConnectionLost(Unreachable):
    """The connection ended while a request was under way; the broker may or may not have carried it out."""


class TlsRefused(Unreachable):
    """One side did not accept the other's certificate, or only one of them speaks TLS."""


class AuthenticationRefused(Unreachable):
    """The broker refused the SASL mechanism, the user or the password."""


class RequestTimedOut(ClusterError):
    """The broker took the request and did not answer in time; it may or may not have carried it out."""

    retriable = True


class NotSupported(ClusterError):
    """The broker is too old, or too new, for a request of ours."""


class SecuritySettingsInvalid(ClusterError):
    """A certificate or key among the settings cannot be used."""


class ClusterClosed(ClusterError):
    """Asked of a client that has been closed."""


class BrokerError(ClusterError):
    """A broker answered with an error code.

    ``what`` was being done, ``words`` are the broker's own, if it gave any.
    """

    def __init__(self, code: int, what: str, words: str | None = None) -> None:
        self.code = code
        self.what = what
        self.words = words
        super().__init__(f"{what}: {words} ({self.name})" if words else f"{what}: {self.name}")

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        """Made anew from its parts when copied or pickled, not from its sentence."""
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
        """Whether time alone may heal it, by Java's classification of the code."""
        try:
            return ErrorCode(self.code).retriable
        except ValueError:
            return False

    @property
    def stale_metadata(self) -> bool:
        """Whether leaders should be looked up again first."""
        try:
            return ErrorCode(self.code).stale_metadata
        except ValueError:
            return False


def check(code: int, what: str, words: str | None = None) -> None:
    """Raise BrokerError unless ``code`` is 0."""
    if code:
        raise BrokerError(code, what, words)


class NoLeader(BrokerError):
    """A partition has no leader right now, or is not known to the cluster (``code`` tells which)."""

    def __init__(self, partition: TopicPartition, code: int) -> None:
        self.partition = partition
        super().__init__(code, f"find the leader of {partition}")

    def __reduce__(self) -> tuple[type[BrokerError], tuple[object, ...]]:
        return type(self), (self.partition, self.code)


def first_error(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """One error of those that came together: tasks of a group end with it."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
