"""The properties of Java's consumer, producer and admin client that our clients honour, with Java's types and defaults.

Which line a client takes them from stands in mm2-compat §1.7 and §1.8; security has a module of its own.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator

from mm2.config.java_types import Boolean, Int, ListOf, Long, OptionalString, String, at_least, between, one_of
from mm2.config.keys import KeyModel, key
from mm2.config.reach import Reach

Size = Annotated[Int, at_least(0)]
Duration = Annotated[Int, at_least(0)]
LongDuration = Annotated[Long, at_least(0)]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class ClientKeys(KeyModel):
    """What every client is told. Durations are milliseconds."""

    bootstrap_servers: ListOf = key(
        "bootstrap.servers", (), "Brokers to ask first, `host:port` parted by commas.", reach=Reach.FLOW, local=True
    )
    client_id: OptionalString = key(
        "client.id", None, "Put in front of the client id that brokers log.", reach=Reach.FLOW, local=True
    )
    request_timeout_ms: Duration = key(
        "request.timeout.ms", 30_000, "How long to wait for the answer to a request.", reach=Reach.FLOW
    )
    retry_backoff_ms: LongDuration = key(
        "retry.backoff.ms", 100, "First pause before a request is repeated.", reach=Reach.FLOW
    )
    retry_backoff_max_ms: LongDuration = key(
        "retry.backoff.max.ms", 1_000, "Longest pause before a request is repeated.", reach=Reach.FLOW
    )
    reconnect_backoff_ms: LongDuration = key(
        "reconnect.backoff.ms", 50, "First pause before connecting again.", reach=Reach.FLOW
    )
    reconnect_backoff_max_ms: LongDuration = key(
        "reconnect.backoff.max.ms", 1_000, "Longest pause before connecting again.", reach=Reach.FLOW
    )
    metadata_max_age_ms: LongDuration = key(
        "metadata.max.age.ms", 300_000, "Oldest metadata a client works with.", reach=Reach.FLOW
    )
    connections_max_idle_ms: Long = key(
        "connections.max.idle.ms", 540_000, "Idle connections are closed after this.", reach=Reach.FLOW
    )


class AdminKeys(ClientKeys):
    """An admin client keeps idle connections for a shorter time."""

    connections_max_idle_ms: Long = key(
        "connections.max.idle.ms", 300_000, "Idle connections are closed after this.", reach=Reach.FLOW
    )


class WorkerClientKeys(ClientKeys):
    """The group's own client waits longer for an answer."""

    request_timeout_ms: Duration = key(
        "request.timeout.ms", 40_000, "How long to wait for the answer to a request.", reach=Reach.FLOW
    )


class ConsumerKeys(ClientKeys):
    """What is read about fetching. Sizes are bytes."""

    isolation_level: Annotated[String, one_of("read_uncommitted", "read_committed")] = key(
        "isolation.level",
        "read_uncommitted",
        "Whether records of aborted and open transactions are replicated.",
        reach=Reach.FLOW,
    )
    auto_offset_reset: Annotated[String, one_of("earliest", "latest", "none")] = key(
        "auto.offset.reset",
        "earliest",
        "Where a partition starts that has no stored offset. A consumer's own: latest.",
        reach=Reach.FLOW,
    )
    fetch_min_bytes: Size = key(
        "fetch.min.bytes", 1, "Bytes a broker waits for before it answers a fetch.", reach=Reach.FLOW
    )
    fetch_max_bytes: Size = key("fetch.max.bytes", 52_428_800, "Bytes one fetch may bring.", reach=Reach.FLOW)
    max_partition_fetch_bytes: Size = key(
        "max.partition.fetch.bytes", 1_048_576, "Bytes one fetch may bring per partition.", reach=Reach.FLOW
    )
    fetch_max_wait_ms: Duration = key(
        "fetch.max.wait.ms", 500, "How long a broker may wait for them.", reach=Reach.FLOW
    )
    client_rack: String = key(
        "client.rack", "", "The rack to read from, where followers may be read (KIP-392).", reach=Reach.FLOW, local=True
    )
    check_crcs: Boolean = key("check.crcs", True, "Check the checksum of every batch that arrives.", reach=Reach.FLOW)


def _in_words(acks: str) -> str:
    return "all" if acks == "-1" else acks


class ProducerKeys(ClientKeys):
    """What is read about producing. Sizes are bytes."""

    acks: Annotated[String, one_of("all", "-1", "0", "1"), AfterValidator(_in_words)] = key(
        "acks",
        "all",
        "Replicas that must have a batch before it counts. Less than `all` switches idempotence off.",
        reach=Reach.FLOW,
    )
    enable_idempotence: Boolean = key(
        "enable.idempotence", True, "Let the broker drop repeats. Java's record producer: false.", reach=Reach.FLOW
    )
    max_in_flight: Annotated[Int, at_least(1, "nothing could be sent")] = key(
        "max.in.flight.requests.per.connection",
        5,
        "Batches of a partition on the way at the same time. Java's record producer: 1.",
        reach=Reach.FLOW,
    )
    max_request_size: Size = key("max.request.size", 1_048_576, "Bytes one produce request may have.", reach=Reach.FLOW)
    batch_size: Size = key("batch.size", 16_384, "Bytes up to which small batches are merged.", reach=Reach.FLOW)
    compression_type: Annotated[OptionalString, one_of(*CODECS)] = key(
        "compression.type", None, "Codec on the target. Without it every batch keeps its own.", reach=Reach.FLOW
    )
    compression_gzip_level: Annotated[Int, between(-1, 9)] = key(
        "compression.gzip.level", -1, "Effort of gzip, 1 to 9.", reach=Reach.FLOW
    )
    compression_lz4_level: Annotated[Int, between(1, 17)] = key(
        "compression.lz4.level", 9, "Effort of lz4, 1 to 17.", reach=Reach.FLOW
    )
    compression_zstd_level: Annotated[Int, between(-131_072, 22)] = key(
        "compression.zstd.level", 3, "Effort of zstd, up to 22.", reach=Reach.FLOW
    )
