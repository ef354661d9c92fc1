"""Effects in Java of the keys that have none here, and what of a copy differs because of them.

Taken from Kafka 4.3.1: MirrorMakerConfig.workerConfig and connectorBaseConfig decide which level of the file reaches
the worker and the connectors, WorkerConfig, ConnectorConfig and the clients' ConfigDefs what a key is for. For some of
them, and all that change copies, a run of Java has shown it (tests/golden/java-4.3.1-ignored-keys.json).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Aspect(StrEnum):
    """What can differ from what Java does."""

    RECORDS = "records"
    OFFSETS = "offsets"
    TOPICS = "topics"
    GROUPS = "groups"
    ACLS = "ACLs"
    TIMING = "timing"


@dataclass(frozen=True, slots=True)
class JavaEffect:
    """What Java ``does`` with a key; ``differs``: what of the copy differs from Java's, nothing if empty."""

    does: str
    differs: tuple[Aspect, ...] = ()


_CONVERTS = JavaEffect(
    "converts keys, values or headers of copies, heartbeats and checkpoints with it", (Aspect.RECORDS, Aspect.GROUPS)
)
_CONVERTS_HEADERS = JavaEffect("converts headers of copies with it", (Aspect.RECORDS,))
_NOTHING_FOR_COPIES = JavaEffect("passes it to Connect, where it does not concern copies")
_REST = JavaEffect("configures the REST interface of its workers")
_METRICS = JavaEffect("configures its metrics")
_LOADING = JavaEffect("finds and loads classes with it")
_GROUP = JavaEffect("configures the group of its workers, and with it when tasks are assigned", (Aspect.TIMING,))
_CONSUMER_GROUP = JavaEffect("ignores it: its source tasks assign partitions without a group")
_ERRORS = JavaEffect("handles errors of converters and transformations with it")
_CONNECTS = JavaEffect("connects to brokers with it", (Aspect.TIMING,))
_DESERIALIZER = JavaEffect("ignores it: its tasks set their own")
_SERIALIZER = JavaEffect(
    "fails the task at the first record with another one than that of bytes",
    (Aspect.RECORDS, Aspect.OFFSETS, Aspect.GROUPS),
)
_PARTITIONS = JavaEffect("ignores it: its source tasks choose the partition")
_RETRIES = JavaEffect("fails an operation after this time or these attempts", (Aspect.TIMING,))
_SHARE = JavaEffect("ignores it: it is for consumers of share groups")
_NO_COMMITS = JavaEffect("does not use committed offsets")

CHANGING_CLASSES = ("key.converter", "value.converter", "header.converter", "connector.class")
"""Keys that change what Java copies, so that a warning is due."""

BYTES_CONVERTERS = ("", "org.apache.kafka.connect.converters.ByteArrayConverter", "ByteArrayConverter", "ByteArray")
"""Values of converters that leave records as they are: the default of MirrorMaker 2, and its names as a plugin."""

EFFECTS: Mapping[str, JavaEffect] = {
    "access.control.allow.methods": _REST,
    "access.control.allow.origin": _REST,
    "admin.listeners": _REST,
    "allow.auto.create.topics": JavaEffect("asks for metadata of topics that exist, so that none is created"),
    "auto.commit.interval.ms": _NO_COMMITS,
    "bootstrap.controllers": JavaEffect("sends administrative requests to controllers instead of brokers"),
    "buffer.memory": JavaEffect("stops fetching while this memory is full", (Aspect.TIMING,)),
    "client.dns.lookup": _CONNECTS,
    "config.action.reload": JavaEffect("restarts a connector when a value of a config provider expires"),
    "config.providers": JavaEffect("replaces references, as here"),
    "connect.protocol": _GROUP,
    "connector.class": JavaEffect(
        "runs this class for all three connectors of a flow, so records are copied several times, or not at all",
        (Aspect.RECORDS, Aspect.OFFSETS, Aspect.GROUPS),
    ),
    "connector.client.config.override.policy": JavaEffect(
        "rejects connectors whose override is not allowed; by default all are allowed"
    ),
    "connector.plugin.version": _LOADING,
    "consumer.poll.timeout.ms": JavaEffect("waits this long for records in one poll", (Aspect.TIMING,)),
    "default.api.timeout.ms": _RETRIES,
    "delivery.timeout.ms": JavaEffect("fails the task when a record is not written in this time", (Aspect.TIMING,)),
    "enable.auto.commit": _NO_COMMITS,
    "enable.metrics.push": _METRICS,
    "errors.log.enable": _ERRORS,
    "errors.log.include.messages": _ERRORS,
    "errors.retry.delay.max.ms": _ERRORS,
    "errors.retry.timeout": _ERRORS,
    "exclude.internal.topics": _CONSUMER_GROUP,
    "group.id": _CONSUMER_GROUP,
    "group.instance.id": _CONSUMER_GROUP,
    "group.protocol": _CONSUMER_GROUP,
    "group.remote.assignor": _CONSUMER_GROUP,
    "header.converter": _CONVERTS_HEADERS,
    "header.converter.plugin.version": _LOADING,
    "heartbeat.interval.ms": _CONSUMER_GROUP,
    "interceptor.classes": JavaEffect("calls this class, which can change or drop records", (Aspect.RECORDS,)),
    "internal.throw.on.fetch.stable.offset.unsupported": _CONSUMER_GROUP,
    "key.converter": _CONVERTS,
    "key.converter.plugin.version": _LOADING,
    "key.deserializer": _DESERIALIZER,
    "key.serializer": _SERIALIZER,
    "linger.ms": JavaEffect("waits this long for more records of a batch", (Aspect.TIMING,)),
    "listeners": _REST,
    "max.block.ms": JavaEffect(
        "fails the task when metadata or memory is not available in this time", (Aspect.TIMING,)
    ),
    "max.poll.interval.ms": _CONSUMER_GROUP,
    "max.poll.records": JavaEffect("handles at most so many records at once", (Aspect.TIMING,)),
    "metadata.max.idle.ms": JavaEffect("forgets metadata of unused topics after this time"),
    "metadata.recovery.rebootstrap.trigger.ms": _CONNECTS,
    "metadata.recovery.strategy": _CONNECTS,
    "metric.names.formats": _METRICS,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "name": JavaEffect("creates its three connectors under their default names all the same"),
    "offset.flush.timeout.ms": JavaEffect(
        "gives up one attempt to write source offsets after this time", (Aspect.TIMING,)
    ),
    "partition.assignment.strategy": _CONSUMER_GROUP,
    "partitioner.adaptive.partitioning.enable": _PARTITIONS,
    "partitioner.availability.timeout.ms": _PARTITIONS,
    "partitioner.class": _PARTITIONS,
    "partitioner.ignore.keys": _PARTITIONS,
    "plugin.discovery": _LOADING,
    "plugin.path": _LOADING,
    "poll.timeout.ms": JavaEffect("ignores it: no client has this key"),
    "receive.buffer.bytes": _CONNECTS,
    "response.http.headers.config": _REST,
    "rest.advertised.host.name": _REST,
    "rest.advertised.listener": _REST,
    "rest.advertised.port": _REST,
    "rest.extension.classes": _REST,
    "retries": _RETRIES,
    "send.buffer.bytes": _CONNECTS,
    "session.timeout.ms": _CONSUMER_GROUP,
    "share.acknowledgement.mode": _SHARE,
    "share.acquire.mode": _SHARE,
    "socket.connection.setup.timeout.max.ms": _CONNECTS,
    "socket.connection.setup.timeout.ms": _CONNECTS,
    "ssl.client.auth": _REST,
    "tasks.max.enforce": JavaEffect("fails a connector that has more tasks than tasks.max; its own never have"),
    "timeout.ms": JavaEffect("ignores it: no client has this key"),
    "topic.creation.enable": JavaEffect("lets Connect create missing topics; MirrorMaker 2 creates them before"),
    "topic.tracking.allow.reset": _NOTHING_FOR_COPIES,
    "transaction.two.phase.commit.enable": JavaEffect("lets another program decide about transactions, and none does"),
    "transactional.id": JavaEffect("writes with this ID, which its tasks replace if they are exactly-once"),
    "value.converter": _CONVERTS,
    "value.converter.plugin.version": _LOADING,
    "value.deserializer": _DESERIALIZER,
    "value.serializer": _SERIALIZER,
    "worker.sync.timeout.ms": _GROUP,
    "worker.unsync.backoff.ms": _GROUP,
}
"""By key, whatever prefix it has in the file."""
