"""Java client properties that our clients do not take, and why: some mean nothing here, some a user would miss.

Together with `client_keys` and `security` this covers every key of Kafka 4.3.1's consumer, producer and admin client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class ClientKind(StrEnum):
    """The three clients of Java, by their word in the file."""

    CONSUMER = "consumer"
    PRODUCER = "producer"
    ADMIN = "admin"


@dataclass(frozen=True, slots=True)
class Missed:
    """A property that cannot be honoured: ``why`` ends the sentence "cannot be honoured: …". A value in ``harmless``
    asks for what happens anyway."""

    why: str
    harmless: tuple[str, ...] = ()


_SOCKETS = Missed("the operating system sizes socket buffers", ("-1",))
_JAVA_CODE = Missed("it names Java classes, and this is not Java", ("",))
_METRICS = "metrics are Prometheus's, on GET /metrics"

_MISSED_BY_ALL: Mapping[str, Missed] = {
    "client.dns.lookup": Missed("a name is tried with the addresses it resolves to", ("use_all_dns_ips",)),
    "receive.buffer.bytes": _SOCKETS,
    "send.buffer.bytes": _SOCKETS,
    "socket.connection.setup.timeout.ms": Missed("request.timeout.ms bounds connecting too", ("10000",)),
    "socket.connection.setup.timeout.max.ms": Missed("request.timeout.ms bounds connecting too", ("30000",)),
    "interceptor.classes": _JAVA_CODE,
    "metric.reporters": Missed(_METRICS, ("", "org.apache.kafka.common.metrics.JmxReporter")),
    "metadata.recovery.strategy": Missed("clients always go back to bootstrap.servers", ("rebootstrap",)),
    "metadata.recovery.rebootstrap.trigger.ms": Missed("clients go back when no broker answers", ("300000",)),
}

MISSED: Mapping[ClientKind, Mapping[str, Missed]] = {
    ClientKind.CONSUMER: _MISSED_BY_ALL,
    ClientKind.PRODUCER: {
        **_MISSED_BY_ALL,
        "buffer.memory": Missed("set mm2.lane.buffer.bytes, which bounds what is fetched and not yet acknowledged"),
        "transactional.id": Missed("exactly-once flows come with a later release and choose it themselves"),
        "transaction.timeout.ms": Missed("exactly-once flows come with a later release", ("60000",)),
        "transaction.two.phase.commit.enable": Missed("no other program commits for us", ("false",)),
        "delivery.timeout.ms": Missed("a batch is tried until it is written or refused for good", ("2147483647",)),
        "partitioner.class": Missed("records keep their partition, so there is nothing to choose"),
    },
    ClientKind.ADMIN: {
        **_MISSED_BY_ALL,
        "bootstrap.controllers": Missed("everything needed is asked from brokers", ("",)),
    },
}

_BYTES = "keys and values are copied as bytes"
_NO_GROUP = "partitions are assigned to slots, not by a consumer group"
_RETRIES = "what can be retried is retried for ever"
_STEPS = "admin.timeout.ms bounds administrative steps"
_PARTITION = "records keep their partition"
_LEAKED = "Java's admin.timeout.ms and consumer.poll.timeout.ms end up here and mean nothing to a client"
_SHARE = "no share groups are used"

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
        "allow.auto.create.topics": "no topic is ever created by asking for it",
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
        "max.poll.records": "fetches are bounded in bytes",
        "partition.assignment.strategy": _NO_GROUP,
        "poll.timeout.ms": _LEAKED,
        "session.timeout.ms": _NO_GROUP,
        "share.acknowledgement.mode": _SHARE,
        "share.acquire.mode": _SHARE,
        "value.deserializer": _BYTES,
    },
    ClientKind.PRODUCER: {
        **_POINTLESS_FOR_ALL,
        "key.serializer": _BYTES,
        "linger.ms": "small batches are merged as they come, without waiting for more",
        "max.block.ms": "reading waits while writing cannot go on",
        "metadata.max.idle.ms": "metadata is kept for the topics of the flow",
        "partitioner.adaptive.partitioning.enable": _PARTITION,
        "partitioner.availability.timeout.ms": _PARTITION,
        "partitioner.ignore.keys": _PARTITION,
        "retries": _RETRIES,
        "value.serializer": _BYTES,
    },
    ClientKind.ADMIN: {
        **_POINTLESS_FOR_ALL,
        "default.api.timeout.ms": _STEPS,
        "retries": _RETRIES,
        "timeout.ms": _LEAKED,
    },
}
