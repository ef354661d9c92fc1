"""Java client properties that our clients do not support, and why.

Together with `client_keys` and `security` this covers every key of Kafka 4.3.1's consumer, producer and admin client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ClientKind(StrEnum):
    """The three kinds of Java clients, as named in the file."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Missed:
    """A property without effect that a user would expect to have one: ``why`` completes "not supported: …". A value in
    ``harmless`` is the actual behavior of our clients."""

    why: str
    harmless: tuple[str, ...] = ()


_JAVA_CODE = Missed("Java classes cannot be loaded", ("",))
_BYTES = "keys and values are copied as bytes"
_AS_BYTES = Missed(_BYTES, ("", "org.apache.kafka.common.serialization.ByteArraySerializer"))
_METRICS = "metrics are served in Prometheus format on GET /metrics"

_MISSED_BY_ALL: Mapping[str, Missed] = {
    "client.dns.lookup": Missed("all addresses of a host name are tried", ("use_all_dns_ips",)),
    "socket.connection.setup.timeout.ms": Missed("request.timeout.ms also limits connecting", ("10000",)),
    "socket.connection.setup.timeout.max.ms": Missed("request.timeout.ms also limits connecting", ("30000",)),
    "interceptor.classes": _JAVA_CODE,
    "metric.reporters": Missed(_METRICS, ("", "org.apache.kafka.common.metrics.JmxReporter")),
    "metadata.recovery.strategy": Missed("clients always return to bootstrap.servers", ("rebootstrap",)),
    "metadata.recovery.rebootstrap.trigger.ms": Missed(
        "clients return to bootstrap.servers when no broker responds", ("300000",)
    ),
}

MISSED: Mapping[ClientKind, Mapping[str, Missed]] = {
    ClientKind.CONSUMER: _MISSED_BY_ALL,
    ClientKind.PRODUCER: {
        **_MISSED_BY_ALL,
        "buffer.memory": Missed("mm2.lane.buffer.bytes limits the bytes that are fetched and not yet replicated"),
        "transactional.id": Missed("source tasks use the IDs of Java, A-mm2-MirrorSourceConnector-0 and so on"),
        "transaction.two.phase.commit.enable": Missed("transactions of other programs are not used", ("false",)),
        "delivery.timeout.ms": Missed(
            "a batch is retried until it is written or rejected with an error that cannot be retried", ("2147483647",)
        ),
        "key.serializer": _AS_BYTES,
        "partitioner.class": Missed("records keep their partition"),
        "value.serializer": _AS_BYTES,
    },
    ClientKind.ADMIN: {
        **_MISSED_BY_ALL,
        "bootstrap.controllers": Missed("only brokers are used", ("",)),
    },
}

_NO_GROUP = "partitions are assigned to source tasks, not by a consumer group"
_RETRIES = "errors that can be retried are retried without limit"
_STEPS = "admin.timeout.ms limits administrative operations"
_PARTITION = "records keep their partition"
_LEAKED = "Java passes admin.timeout.ms and consumer.poll.timeout.ms to clients, which do not use them"
_SHARE = "share groups are not used"

_POINTLESS_FOR_ALL: Mapping[str, str] = {
    "config.providers": "references are replaced when the file is read",
    "enable.metrics.push": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
}

POINTLESS: Mapping[ClientKind, Mapping[str, str]] = {
    ClientKind.CONSUMER: {
        **_POINTLESS_FOR_ALL,
        "allow.auto.create.topics": "reading metadata never creates a topic",
        "auto.commit.interval.ms": "offsets are stored by the flow, as in Java",
        "enable.auto.commit": "offsets are stored by the flow, as in Java",
        "default.api.timeout.ms": _STEPS,
        "exclude.internal.topics": _NO_GROUP,
        "group.id": _NO_GROUP,
        "group.instance.id": _NO_GROUP,
        "group.protocol": _NO_GROUP,
        "group.remote.assignor": _NO_GROUP,
        "heartbeat.interval.ms": _NO_GROUP,
        "internal.throw.on.fetch.stable.offset.unsupported": _NO_GROUP,
        "key.deserializer": _BYTES,
        "max.poll.interval.ms": _NO_GROUP,
        "max.poll.records": "limited by fetch.max.bytes, not by record count",
        "partition.assignment.strategy": _NO_GROUP,
        "poll.timeout.ms": _LEAKED,
        "session.timeout.ms": _NO_GROUP,
        "share.acknowledgement.mode": _SHARE,
        "share.acquire.mode": _SHARE,
        "value.deserializer": _BYTES,
    },
    ClientKind.PRODUCER: {
        **_POINTLESS_FOR_ALL,
        "linger.ms": "small batches are merged without waiting for more",
        "max.block.ms": "fetching pauses while producing is blocked",
        "metadata.max.idle.ms": "metadata is kept for the topics of the flow",
        "partitioner.adaptive.partitioning.enable": _PARTITION,
        "partitioner.availability.timeout.ms": _PARTITION,
        "partitioner.ignore.keys": _PARTITION,
        "retries": _RETRIES,
    },
    ClientKind.ADMIN: {
        **_POINTLESS_FOR_ALL,
        "default.api.timeout.ms": _STEPS,
        "retries": _RETRIES,
        "timeout.ms": _LEAKED,
    },
}
