"""Properties of Java's consumer, producer and admin client that our clients support, with Java's types and defaults.

`mm2.config.clients.java_derivation` defines which line of the file wins; security keys are in `mm2.config.security`.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mm2.config.grammar.java_types import (
    Boolean,
    Int,
    ListOf,
    Long,
    OptionalString,
    String,
    at_least,
    between,
    one_of,
    require,
)
from mm2.config.keys.declaration import KeyModel, flow_key
from mm2.core.settings.client import DEFAULT_BUFFER

Size = Annotated[Int, at_least(0)]
Duration = Annotated[Int, at_least(0)]
LongDuration = Annotated[Long, at_least(0)]

BufferSize = Annotated[Int, require(lambda size: size == DEFAULT_BUFFER or size > 0, "must be at least 1, or -1")]

MERGED_BYTES = 128 * 1024
"""Small batches are merged up to this size, or batch.size if that is larger (flows/batch/choice.py)."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class ClientKeys(KeyModel):
    """Keys of all clients. Durations are milliseconds."""

    bootstrap_servers: ListOf = flow_key(
        "bootstrap.servers", (), "Comma-separated `host:port` list of the brokers to connect to first.", local=True
    )
    client_id: OptionalString = flow_key("client.id", None, "Prefix of the client ID, which brokers log.", local=True)
    request_timeout_ms: Duration = flow_key(
        "request.timeout.ms", 30_000, "Maximum time to wait for the response to a request."
    )
    retry_backoff_ms: LongDuration = flow_key("retry.backoff.ms", 100, "Initial backoff before a request is retried.")
    retry_backoff_max_ms: LongDuration = flow_key(
        "retry.backoff.max.ms", 1_000, "Maximum backoff before a request is retried."
    )
    reconnect_backoff_ms: LongDuration = flow_key("reconnect.backoff.ms", 50, "Initial backoff before reconnecting.")
    reconnect_backoff_max_ms: LongDuration = flow_key(
        "reconnect.backoff.max.ms", 1_000, "Maximum backoff before reconnecting."
    )
    metadata_max_age_ms: LongDuration = flow_key(
        "metadata.max.age.ms", 300_000, "Maximum age of metadata before it is refreshed."
    )
    connections_max_idle_ms: Long = flow_key(
        "connections.max.idle.ms", 540_000, "Time after which idle connections are closed."
    )
    send_buffer_bytes: BufferSize = flow_key(
        "send.buffer.bytes",
        DEFAULT_BUFFER,
        "Size of the TCP send buffer. -1: the operating system sizes it, and adapts it to the link. Default in Java: "
        "131072.",
        local=True,
    )
    receive_buffer_bytes: BufferSize = flow_key(
        "receive.buffer.bytes",
        DEFAULT_BUFFER,
        "Size of the TCP receive buffer. -1: the operating system sizes it, and adapts it to the link. Default in "
        "Java: 65536 for consumers and admin clients, 32768 for producers.",
        local=True,
    )


class AdminKeys(ClientKeys):
    """Keys of admin clients, which close idle connections earlier."""

    connections_max_idle_ms: Long = flow_key(
        "connections.max.idle.ms", 300_000, "Time after which idle connections are closed."
    )


class WorkerClientKeys(ClientKeys):
    """Keys of the group's client, which waits longer for responses."""

    request_timeout_ms: Duration = flow_key(
        "request.timeout.ms", 40_000, "Maximum time to wait for the response to a request."
    )


class ConsumerKeys(ClientKeys):
    """Keys of consumers. Sizes are bytes."""

    isolation_level: Annotated[
        String,
        one_of(
            "read_uncommitted",
            "read_committed",
            fix="write read_committed to leave out records of aborted transactions, or read_uncommitted to copy them",
        ),
    ] = flow_key(
        "isolation.level",
        "read_uncommitted",
        "Whether records of aborted and open transactions are replicated (`read_uncommitted`) or not.",
    )
    auto_offset_reset: Annotated[String, one_of("earliest", "latest", "none")] = flow_key(
        "auto.offset.reset",
        "earliest",
        "Where a partition starts that has no stored offset, unless `mm2.start` is set, or whose stored offset no "
        "longer exists. Default of a Java consumer: latest. `latest` means what it means for `mm2.start`.",
    )
    fetch_min_bytes: Size = flow_key(
        "fetch.min.bytes", 1, "Minimum bytes that a broker collects before it responds to a fetch."
    )
    fetch_max_bytes: Size = flow_key("fetch.max.bytes", 52_428_800, "Maximum bytes of one fetch response.")
    max_partition_fetch_bytes: Size = flow_key(
        "max.partition.fetch.bytes",
        1_048_576,
        "Maximum bytes of one fetch response per partition. If it is not set, more are requested over a long link "
        "([how to](../how-to/long-links.md#fetch-sizes)).",
    )
    fetch_max_wait_ms: Duration = flow_key(
        "fetch.max.wait.ms", 500, "Maximum time that a broker waits for `fetch.min.bytes`."
    )
    client_rack: String = flow_key(
        "client.rack", "", "Rack of this node, to fetch from the closest replica (KIP-392).", local=True
    )
    check_crcs: Boolean = flow_key("check.crcs", True, "Verify the checksum of every fetched batch.")


def _in_words(acks: str) -> str:
    return "all" if acks == "-1" else acks


class ProducerKeys(ClientKeys):
    """Keys of producers. Sizes are bytes."""

    acks: Annotated[String, one_of("all", "-1", "0", "1"), AfterValidator(_in_words)] = flow_key(
        "acks", "all", "Replicas that must acknowledge a batch. Less than `all` disables idempotence."
    )
    enable_idempotence: Boolean = flow_key(
        "enable.idempotence",
        True,
        "Let brokers discard duplicate batches after a retry. Java's record producer: false.",
    )
    max_in_flight: Annotated[Int, at_least(1, "nothing could be sent")] = flow_key(
        "max.in.flight.requests.per.connection",
        5,
        "Maximum number of batches in flight per partition. Java's record producer: 1.",
    )
    transaction_timeout_ms: Annotated[Int, at_least(1)] = flow_key(
        "transaction.timeout.ms",
        60_000,
        "Time after which the broker aborts an open transaction (`exactly.once.source.support`). At most "
        "`transaction.max.timeout.ms` of the broker (900000).",
    )
    max_request_size: Size = flow_key("max.request.size", 1_048_576, "Maximum bytes of one produce request.")
    batch_size: Size = flow_key(
        "batch.size",
        16_384,
        f"Size up to which small batches are merged; at least {MERGED_BYTES} is used. Has no effect on other batches.",
    )
    compression_type: Annotated[OptionalString, one_of(*CODECS)] = flow_key(
        "compression.type", None, "Compression codec on the target. If not set, every batch keeps its codec."
    )
    compression_gzip_level: Annotated[Int, between(-1, 9)] = flow_key(
        "compression.gzip.level", -1, "Compression level of gzip: 1 to 9, or -1 for its default."
    )
    compression_lz4_level: Annotated[Int, between(1, 17)] = flow_key(
        "compression.lz4.level", 9, "Compression level of lz4: 1 to 17."
    )
    compression_zstd_level: Annotated[Int, between(-131_072, 22)] = flow_key(
        "compression.zstd.level", 3, "Compression level of zstd: up to 22."
    )
