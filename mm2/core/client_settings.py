"""What one Kafka client of ours is told: the meaning of Java's client properties, typed, with Java's defaults.

`mm2/config` makes these from mm2.properties, `mm2/kafka` opens connections from them, and they travel inside a lease
to the lanes. Secrets are contents here, never file names, because a lane may run on another machine.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class SecurityProtocol(StrEnum):
    """security.protocol."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"


class SaslMechanism(StrEnum):
    """sasl.mechanism: those our client speaks without further libraries."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


class IsolationLevel(StrEnum):
    """isolation.level of the source consumer."""

    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


class OffsetReset(StrEnum):
    """auto.offset.reset: where a partition starts that has no stored offset, or whose offset is gone."""

    EARLIEST = "earliest"
    LATEST = "latest"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsSettings:
    """PEM contents. ``ca_pem`` None means the system's trust store; ``check_hostname`` is Java's
    ssl.endpoint.identification.algorithm=https."""

    ca_pem: str | None = None
    certificate_pem: str | None = field(default=None, repr=False)
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True
    ciphers: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """Mechanism and credentials, read from sasl.jaas.config."""

    mechanism: SaslMechanism
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """Connection and security of one client. Durations are milliseconds, as in Java's keys of the same name.

    ``alias`` is the cluster's, for sentences that people read ("check sasl.jaas.config of A")."""

    bootstrap_servers: tuple[str, ...]
    alias: str = ""
    client_id: str = "mm2"
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings = TlsSettings()
    sasl: SaslSettings | None = None
    request_timeout_ms: int = 30_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    connections_max_idle_ms: int = 540_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """What the source consumer's properties say about fetching. Sizes are bytes, ``max_wait_ms`` milliseconds."""

    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    auto_offset_reset: OffsetReset = OffsetReset.EARLIEST
    min_bytes: int = 1
    max_bytes: int = 52_428_800
    max_partition_bytes: int = 1_048_576
    max_wait_ms: int = 500
    client_rack: str = ""
    check_crcs: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceSettings:
    """What the record producer's properties say about producing.

    ``acks`` is -1 (all), 1 or 0. ``compression_type`` None means: keep the source batch's codec (no explicit
    compression.type in the file); otherwise none, gzip, snappy, lz4 or zstd. ``compression_level`` None is the codec's
    default in Java. ``idempotent`` is false when acks is not all or enable.idempotence=false.
    """

    acks: int = -1
    idempotent: bool = True
    max_in_flight: int = 5
    max_request_size: int = 1_048_576
    batch_size: int = 16_384
    request_timeout_ms: int = 30_000
    compression_type: str | None = None
    compression_level: int | None = None
