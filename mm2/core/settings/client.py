"""Settings of a Kafka client: Java's client properties, typed, with Java's defaults.

`mm2/config` creates these from mm2.properties, `mm2/kafka` opens connections with them, and lanes receive them in their
leases. Secrets are stored as contents, because a lane can run on another machine, except for files that change while
they are used: of these logins have the names, and lanes receive the contents beside (`LaneOrders.credentials`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from mm2.core.settings.sasl import SaslLogin
from mm2.core.settings.tls import TlsSettings

DEFAULT_BUFFER = -1
"""Size of a socket buffer that the operating system chooses."""


class SecurityProtocol(StrEnum):
    """security.protocol."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class IsolationLevel(StrEnum):
    """isolation.level of the source consumer."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OffsetReset(StrEnum):
    """auto.offset.reset: where a partition starts if it has no stored offset, or the offset is out of range."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Connection and security of one client. Durations are milliseconds, as in Java's properties of the same name.
    Sizes of socket buffers are bytes; unlike in Java, the operating system chooses the default.

    ``alias`` is the cluster's alias, used in messages ("check A.sasl.jaas.config")."""

    bootstrap_servers: tuple[str, ...]
    alias: str = ""
    client_id: str = "mm2"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings = field(default_factory=TlsSettings)
    sasl: SaslLogin | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000
    send_buffer_bytes: int = DEFAULT_BUFFER
    receive_buffer_bytes: int = DEFAULT_BUFFER

    @property
    def login(self) -> SaslLogin | None:
        """How connections log in; None if ``security_protocol`` is without SASL."""
        with_sasl = self.security_protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)
        return self.sasl if with_sasl else None

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its login that are read again for each token or ticket."""
        return self.login.files if self.login is not None else ()

    @property
    def secrets(self) -> tuple[str, ...]:
        """All passwords, keys and tokens, which no message or log line may contain; also those that are not used."""
        return (*self.tls.secrets, *(self.sasl.secrets if self.sasl is not None else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """Fetch settings from the source consumer's properties. Sizes are bytes, ``max_wait_ms`` is milliseconds.

    ``start`` (mm2.start) is where partitions without a stored offset start: earliest, latest, or at the first record
    from a time (epoch ms) on. None: auto.offset.reset decides, as it does for offsets that no longer exist.
    ``max_partition_bytes_set``: the file limits the bytes of a partition; otherwise more are requested over long links.
    """

    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    auto_offset_reset: OffsetReset = OffsetReset.EARLIEST
    start: OffsetReset | int | None = None
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_partition_bytes: int = 1_048_576
    max_partition_bytes_set: bool = False
    max_wait_ms: int = 500
    client_rack: str = ""
    check_crcs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """Produce settings from the record producer's properties.

    ``acks`` is -1 (all), 1 or 0. ``compression_type`` None keeps the source batch's codec (the file does not set
    compression.type); otherwise none, gzip, snappy, lz4 or zstd. ``compression_level`` None is the codec's default in
    Java. ``idempotent`` is false if acks is not all, or enable.idempotence=false. ``transaction_timeout_ms``: the
    broker aborts a transaction after that time.
    """

    acks: int = -1
    idempotent: bool = True
    max_in_flight: int = 5
    max_request_size: int = 1_048_576
    batch_size: int = 16_384
    request_timeout_ms: int = 30_000
    compression_type: str | None = None
    compression_level: int | None = None
    transaction_timeout_ms: int = 60_000


_EPOCH = datetime.fromtimestamp(0, UTC)


def read_start_point(text: str) -> OffsetReset | int:
    """Return earliest, latest, or the epoch ms of a time in ISO 8601. Raises ValueError, with the rule, for others."""
    if text in (OffsetReset.EARLIEST, OffsetReset.LATEST):
        return OffsetReset(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("must be earliest, latest, or a time such as 2026-11-01T00:00:00Z") from None
    if time.tzinfo is None:
        raise ValueError("must be a time with a time zone, such as 2026-11-01T00:00:00Z or 2026-11-01T01:00:00+01:00")
    since = (time - _EPOCH) // timedelta(milliseconds=1)
    if since < 0:
        raise ValueError("must not be a time before 1970")
    return since
