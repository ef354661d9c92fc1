"""Java's client property maps to the settings of our clients (mm2-compat §1.7)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from mm2.config import keys
from mm2.config.client_keys import ClientKeys, ConsumerKeys, ProducerKeys
from mm2.config.problems import ProblemLog
from mm2.config.properties import Entry
from mm2.config.security import read_security
from mm2.config.values import Properties
from mm2.core.client_settings import ClientSettings, FetchSettings, IsolationLevel, OffsetReset, ProduceSettings

_SERVER = re.compile(r"(?:[\w.%-]*://)?\[?[\w.%:-]*\]?:[0-9]{1,5}", re.ASCII)
"""What Java takes for host:port; a listener's name in front is allowed and means nothing."""

_ACKS = {"all": -1, "0": 0, "1": 1}

MOST_IDEMPOTENT_IN_FLIGHT = 5
"""A broker remembers the last five batches of a producer in each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReader:
    """Reads the clients of one file; ``clusters`` is the line to blame where a cluster is named but not described."""

    clusters: Entry
    problems: ProblemLog

    def read(self, properties: Properties, model: type[ClientKeys], alias: str, client_id: str) -> ClientSettings:
        """Connection and security of one client of cluster ``alias``. A client.id of the user's stands before
        ``client_id``, parted by ``|``, as in Java."""
        settings = keys.read(model, properties, self.problems)
        security = read_security(properties, self.problems)
        return ClientSettings(
            alias=alias,
            bootstrap_servers=self._servers(properties, settings, alias),
            client_id=f"{settings.client_id}|{client_id}" if settings.client_id else client_id,
            security_protocol=security.protocol,
            tls=security.tls,
            sasl=security.sasl,
            request_timeout_ms=settings.request_timeout_ms,
            retry_backoff_ms=settings.retry_backoff_ms,
            retry_backoff_max_ms=settings.retry_backoff_max_ms,
            reconnect_backoff_ms=settings.reconnect_backoff_ms,
            reconnect_backoff_max_ms=settings.reconnect_backoff_max_ms,
            metadata_max_age_ms=settings.metadata_max_age_ms,
            connections_max_idle_ms=settings.connections_max_idle_ms,
        )

    def fetch(self, properties: Properties) -> FetchSettings:
        """How the source consumer fetches."""
        settings = keys.read(ConsumerKeys, properties, self.problems)
        return FetchSettings(
            isolation_level=IsolationLevel(settings.isolation_level),
            auto_offset_reset=OffsetReset(settings.auto_offset_reset),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_partition_bytes=settings.max_partition_fetch_bytes,
            max_wait_ms=settings.fetch_max_wait_ms,
            client_rack=settings.client_rack,
            check_crcs=settings.check_crcs,
        )

    def produce(self, properties: Properties) -> ProduceSettings:
        """How records are produced. Idempotent unless the file says otherwise; without idempotence one batch of a
        partition is on the way at a time, as in Java's Connect, unless the file says otherwise: order is kept."""
        settings = keys.read(ProducerKeys, properties, self.problems)
        acks = _ACKS[settings.acks]
        possible = acks == -1 and settings.max_in_flight <= MOST_IDEMPOTENT_IN_FLIGHT
        idempotent = settings.enable_idempotence and possible
        if settings.enable_idempotence and not possible and "enable.idempotence" in properties:
            properties["enable.idempotence"].refuse(
                self.problems,
                "needs acks = all and max.in.flight.requests.per.connection of at most 5, and the file asks for "
                "something else. Remove this line, or those.",
            )
        asked_in_flight = idempotent or "max.in.flight.requests.per.connection" in properties
        return ProduceSettings(
            acks=acks,
            idempotent=idempotent,
            max_in_flight=settings.max_in_flight if asked_in_flight else 1,
            max_request_size=settings.max_request_size,
            batch_size=settings.batch_size,
            request_timeout_ms=settings.request_timeout_ms,
            compression_type=settings.compression_type,
            compression_level=_level(properties, settings),
        )

    def _servers(self, properties: Properties, settings: ClientKeys, alias: str) -> tuple[str, ...]:
        if "bootstrap.servers" not in properties:
            self.problems.error(
                f"{alias} has no bootstrap.servers, so nothing can connect to it. Add {alias}.bootstrap.servers = "
                "host:port, or take it out of the list.",
                at=self.clusters,
            )
        elif not settings.bootstrap_servers or not all(map(_SERVER.fullmatch, settings.bootstrap_servers)):
            properties["bootstrap.servers"].refuse(self.problems, "must be host:port, several parted by commas.")
        return settings.bootstrap_servers


def _level(properties: Properties, settings: ProducerKeys) -> int | None:
    levels = {
        "gzip": settings.compression_gzip_level,
        "lz4": settings.compression_lz4_level,
        "zstd": settings.compression_zstd_level,
    }
    codec = settings.compression_type
    if codec not in levels or f"compression.{codec}.level" not in properties:
        return None
    return levels[codec] if levels[codec] != -1 or codec == "zstd" else None  # gzip's -1 is "as zlib likes"
