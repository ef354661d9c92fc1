"""Conversion of Java's client property maps to the settings of our clients."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mm2.config.clients.client_keys import ClientKeys, ConsumerKeys, ProducerKeys
from mm2.config.grammar.comments import comment_fix, no_comment
from mm2.config.grammar.problems import ProblemLog, shortened
from mm2.config.grammar.properties import Entry
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.security.security import read_security
from mm2.core.settings.client import ClientSettings, FetchSettings, IsolationLevel, OffsetReset, ProduceSettings

_SERVER = re.compile(r"(?:[\w.%-]*://)?\[?[\w.%:-]*\]?:(?P<port>[0-9]{1,5})", re.ASCII)
"""Java's form of host:port; a listener name as prefix is allowed and has no effect."""

_WEB = re.compile(r"https?://", re.IGNORECASE)
_PORTS = 65_535


def is_server(text: str) -> bool:
    """Return whether ``text`` is the address of a broker; that of a web server is none."""
    match = _SERVER.fullmatch(text)
    return match is not None and int(match["port"]) <= _PORTS and _WEB.match(text) is None


_SEPARATORS = re.compile(r"[;\s]+")
"""What users write between brokers instead of a comma."""

_ACKS = {"all": -1, "0": 0, "1": 1}

MOST_IDEMPOTENT_IN_FLIGHT = 5
"""A broker keeps the last five batches of a producer in each partition to find duplicates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReader:
    """Reads the clients of one file; ``clusters`` is the line that errors about a cluster without keys refer to.

    ``credentials``: the contents, in base64, of the files that clients read again for each token or ticket.
    """

    clusters: Entry
    problems: ProblemLog
    credentials: dict[str, str] = field(default_factory=dict)

    def read(self, properties: Properties, model: type[ClientKeys], alias: str, client_id: str) -> ClientSettings:
        """Return connection and security settings of one client of cluster ``alias``. The user's client.id is added to
        ``client_id`` as a prefix, separated by ``|``, as in Java."""
        settings = declaration.read(model, properties, self.problems)
        security = read_security(properties, self.problems, self.credentials)
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
            send_buffer_bytes=settings.send_buffer_bytes,
            receive_buffer_bytes=settings.receive_buffer_bytes,
        )

    def fetch(self, properties: Properties) -> FetchSettings:
        """Return the fetch settings of the source consumer."""
        settings = declaration.read(ConsumerKeys, properties, self.problems)
        return FetchSettings(
            isolation_level=IsolationLevel(settings.isolation_level),
            auto_offset_reset=OffsetReset(settings.auto_offset_reset),
            min_bytes=settings.fetch_min_bytes,
            max_bytes=settings.fetch_max_bytes,
            max_partition_bytes=settings.max_partition_fetch_bytes,
            max_partition_bytes_set="max.partition.fetch.bytes" in properties,
            max_wait_ms=settings.fetch_max_wait_ms,
            client_rack=settings.client_rack,
            check_crcs=settings.check_crcs,
        )

    def produce(self, properties: Properties) -> ProduceSettings:
        """Return the settings of the record producer. The default is idempotent. Without idempotence the default is one
        batch in flight per partition, as in Java's Connect, which keeps the order."""
        settings = declaration.read(ProducerKeys, properties, self.problems)
        acks = _ACKS[settings.acks]
        possible = acks == -1 and settings.max_in_flight <= MOST_IDEMPOTENT_IN_FLIGHT
        idempotent = settings.enable_idempotence and possible
        if settings.enable_idempotence and not possible and "enable.idempotence" in properties:
            properties["enable.idempotence"].refuse(
                self.problems,
                "requires acks = all and max.in.flight.requests.per.connection of at most 5",
                f"remove this line, or the lines of {_conflicting(settings, acks)}",
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
            transaction_timeout_ms=settings.transaction_timeout_ms,
        )

    def _servers(self, properties: Properties, settings: ClientKeys, alias: str) -> tuple[str, ...]:
        if "bootstrap.servers" not in properties:
            self.problems.error(
                f"cluster {alias} has no bootstrap.servers",
                f"add {alias}.bootstrap.servers = host:port, or remove {alias} from clusters",
                at=self.clusters,
            )
        elif not settings.bootstrap_servers or not all(map(is_server, settings.bootstrap_servers)):
            self._refuse_servers(properties["bootstrap.servers"], settings.bootstrap_servers)
        return settings.bootstrap_servers

    def _refuse_servers(self, value: Value, servers: tuple[str, ...]) -> None:
        assert value.entry is not None, "only the file contains invalid servers"
        rule, fix = (
            "must be a comma-separated host:port list",
            "write host:port for each broker, such as b1:9092, b2:9092",
        )
        wrong = [(number, server) for number, server in enumerate(servers, 1) if not is_server(server)]
        if comment := comment_fix(value.entry):
            rule, fix = f"{rule} ({no_comment(value.entry)})", comment
        elif wrong and value.entry.shown == value.entry.value:
            number, server = wrong[0]
            rule = f'{rule}; element {number} "{shortened(server)}" {_why_not(server)}'
            split = [_WEB.sub("", part).rstrip("/") for part in _SEPARATORS.split(" ".join(servers))]
            if all(map(is_server, split)):
                fix = f"write {value.entry.key} = {', '.join(split)}"
        value.refuse(self.problems, rule, fix)


def _why_not(server: str) -> str:
    if _WEB.match(server):
        return "is a URL: brokers do not speak HTTP"
    if _SERVER.fullmatch(server):
        return f"has a port above {_PORTS}"
    return "is not host:port"


def _conflicting(settings: ProducerKeys, acks: int) -> str:
    keys = ["acks"] if acks != -1 else []
    if settings.max_in_flight > MOST_IDEMPOTENT_IN_FLIGHT:
        keys.append("max.in.flight.requests.per.connection")
    return " and ".join(keys)


def _level(properties: Properties, settings: ProducerKeys) -> int | None:
    levels = {
        "gzip": settings.compression_gzip_level,
        "lz4": settings.compression_lz4_level,
        "zstd": settings.compression_zstd_level,
    }
    codec = settings.compression_type
    if codec not in levels or f"compression.{codec}.level" not in properties:
        return None
    return levels[codec] if levels[codec] != -1 or codec == "zstd" else None  # gzip's -1 is zlib's default
