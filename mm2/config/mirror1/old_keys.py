"""Properties of MirrorMaker 1's files that are read in another way than those of today's Java clients.

Most are names of Kafka 0.7 and 0.8 (kafka.consumer.ConsumerConfig, kafka.producer.ProducerConfig and the configurations
of the synchronous and asynchronous producers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.config.clients.ignored_client_keys import ClientKind


@dataclass(frozen=True, slots=True)
class Renamed:
    """A name of earlier releases: its value counts as that of property ``name``, unless the file sets that, too.

    ``values`` are earlier values and those of today.
    """

    name: str
    values: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A property without effect: ``why``, and what to write instead. A value in ``harmless`` is not reported."""

    why: str
    fix: str = "remove the line"
    harmless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RejectedKey:
    """A property that must not have any value but those in ``harmless``: it would be silently ignored otherwise."""

    rule: str
    fix: str
    harmless: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnMeaning:
    """A property that MirrorMaker 1 itself reads; the reader of the file has code for it."""


OldKey = Renamed | NoEffect | RejectedKey | OwnMeaning

ZOOKEEPER = "zookeeper.connect"
WHITELIST = "mirror.topics.whitelist"
BLACKLIST = "mirror.topics.blacklist"
STREAMS = "mirror.consumer.numthreads"

OLD_VALUES: Mapping[str, Mapping[str, str]] = {
    "auto.offset.reset": {"smallest": "earliest", "largest": "latest"},
    "compression.type": {"0": "none", "1": "gzip", "2": "snappy", "3": "lz4"},
}
"""Values of Kafka 0.7 and 0.8, by the name of today, and those of today."""

BYTES = "org.apache.kafka.common.serialization.ByteArray"

_COMMITS = "offsets are committed after the target has acknowledged the records"
_COMMIT_INTERVAL = "remove the line; --offset.commit.interval.ms sets the interval"
_ZOOKEEPER = "ZooKeeper is only asked at the start"
_REBALANCE = "brokers coordinate the group (max.poll.interval.ms is the time for a rebalance)"
_LONG_POLL = "a broker holds back the answer for fetch.max.wait.ms if there are no new records"
_RETRIES = "errors that can be retried are retried without limit"
_LINGER = "small batches are merged without waiting for more"
_BUFFER = "the bytes between fetch and acknowledgement are limited, not the number of records"
_BUFFER_FIX = "remove the line, or write buffer.memory = BYTES in the file of --producer.config"
_BLOCKS = "fetching pauses while producing is blocked, and no record is dropped"
_ENCODER = "keys and values are copied as bytes"
_HANDLER = "write a Python class, and give it as --message.handler module:Class"
_CODE = "Java classes cannot be loaded"

_BOTH: Mapping[str, OldKey] = {
    "zk.connect": Renamed(ZOOKEEPER),
    ZOOKEEPER: OwnMeaning(),
    "zk.connectiontimeout.ms": NoEffect(_ZOOKEEPER),
    "zk.sessiontimeout.ms": NoEffect(_ZOOKEEPER),
    "zk.synctime.ms": NoEffect(_ZOOKEEPER),
    "zookeeper.connection.timeout.ms": NoEffect(_ZOOKEEPER),
    "zookeeper.session.timeout.ms": NoEffect(_ZOOKEEPER),
    "zookeeper.sync.time.ms": NoEffect(_ZOOKEEPER),
    "socket.timeout.ms": Renamed("request.timeout.ms"),
}

CONSUMER: Mapping[str, OldKey] = {
    **_BOTH,
    "autocommit.enable": Renamed("enable.auto.commit"),
    "autocommit.interval.ms": Renamed("auto.commit.interval.ms"),
    "autooffset.reset": Renamed("auto.offset.reset"),
    "auto.commit.enable": Renamed("enable.auto.commit"),
    "auto.commit.interval.ms": NoEffect(_COMMITS, _COMMIT_INTERVAL),
    "backoff.increment.ms": NoEffect(_LONG_POLL),
    "client.id": NoEffect("client IDs are made of group.id and the number of the stream, as in Java"),
    "consumer.id": NoEffect("brokers choose the IDs of members"),
    "consumer.timeout.ms": NoEffect("streams wait for records without limit", harmless=("-1",)),
    "consumerid": NoEffect("brokers choose the IDs of members"),
    "dual.commit.enabled": NoEffect("offsets are committed to Kafka only", harmless=("false",)),
    "enable.auto.commit": NoEffect(_COMMITS, harmless=("false",)),
    "fetch.message.max.bytes": Renamed("max.partition.fetch.bytes"),
    "fetch.size": Renamed("max.partition.fetch.bytes"),
    "fetch.wait.max.ms": Renamed("fetch.max.wait.ms"),
    "fetcher.backoff.ms": NoEffect(_LONG_POLL),
    "group.protocol": RejectedKey("must be classic", "remove the line", ("classic", "CLASSIC")),
    "groupid": Renamed("group.id"),
    "key.deserializer": NoEffect(_ENCODER, harmless=(f"{BYTES}Deserializer",)),
    "mirror.consumer.numthreads": OwnMeaning(),
    "mirror.topics.blacklist": OwnMeaning(),
    "mirror.topics.whitelist": OwnMeaning(),
    "num.consumer.fetchers": NoEffect("each stream fetches from all brokers", "remove the line; see --num.streams"),
    "offsets.channel.backoff.ms": Renamed("retry.backoff.ms"),
    "offsets.channel.socket.timeout.ms": Renamed("request.timeout.ms"),
    "offsets.commit.max.retries": NoEffect(_RETRIES),
    "offsets.storage": OwnMeaning(),
    "queued.max.message.chunks": NoEffect(_BUFFER, _BUFFER_FIX),
    "queuedchunks.max": NoEffect(_BUFFER, _BUFFER_FIX),
    "rebalance.backoff.ms": NoEffect(_REBALANCE),
    "rebalance.max.retries": NoEffect(_REBALANCE),
    "rebalance.retries.max": NoEffect(_REBALANCE),
    "refresh.leader.backoff.ms": Renamed("retry.backoff.ms"),
    "shallow.iterator.enable": NoEffect("batches are copied without decompressing them whenever possible"),
    "shallowiterator.enable": Renamed("shallow.iterator.enable"),
    "socket.buffersize": Renamed("receive.buffer.bytes"),
    "socket.receive.buffer.bytes": Renamed("receive.buffer.bytes"),
    "value.deserializer": NoEffect(_ENCODER, harmless=(f"{BYTES}Deserializer",)),
}

PRODUCER: Mapping[str, OldKey] = {
    **_BOTH,
    "batch.num.messages": NoEffect("batches are limited in bytes", "remove the line, or write batch.size = BYTES"),
    "block.on.buffer.full": NoEffect(_BLOCKS, harmless=("true",)),
    "broker.list": Renamed("bootstrap.servers"),
    "buffer.memory": OwnMeaning(),
    "buffer.size": Renamed("send.buffer.bytes"),
    "callback.handler": RejectedKey(_CODE, _HANDLER),
    "callback.handler.props": RejectedKey(_CODE, _HANDLER),
    "compressed.topics": NoEffect("compression.type applies to all topics", harmless=("",)),
    "compression.codec": Renamed("compression.type"),
    "connect.timeout.ms": NoEffect("request.timeout.ms also limits connecting"),
    "event.handler": RejectedKey(_CODE, _HANDLER),
    "event.handler.props": RejectedKey(_CODE, _HANDLER),
    "key.serializer": NoEffect(_ENCODER, harmless=(f"{BYTES}Serializer",)),
    "key.serializer.class": NoEffect(_ENCODER, harmless=("kafka.serializer.DefaultEncoder",)),
    "max.message.size": Renamed("max.request.size"),
    "message.send.max.retries": NoEffect(_RETRIES),
    "metadata.broker.list": Renamed("bootstrap.servers"),
    "metadata.fetch.timeout.ms": NoEffect(_BLOCKS),
    "num.retries": NoEffect(_RETRIES),
    "partitioner.class": NoEffect(
        _CODE,
        "remove the line; --partitions key chooses partitions by key, --partitions same keeps them",
        (
            "",
            "kafka.producer.DefaultPartitioner",
            "org.apache.kafka.clients.producer.internals.DefaultPartitioner",
        ),
    ),
    "producer.type": NoEffect(
        "several batches are in flight, and offsets are committed when all of them are acknowledged",
        harmless=("async",),
    ),
    "queue.buffering.max.messages": NoEffect(_BUFFER, _BUFFER_FIX),
    "queue.buffering.max.ms": NoEffect(_LINGER),
    "queue.enqueue.timeout.ms": NoEffect(_BLOCKS, harmless=("-1",)),
    "queue.enqueueTimeout.ms": NoEffect(_BLOCKS, harmless=("-1",)),
    "queue.size": NoEffect(_BUFFER, _BUFFER_FIX),
    "queue.time": NoEffect(_LINGER),
    "reconnect.interval": NoEffect("connections are kept open"),
    "reconnect.time.interval.ms": NoEffect("connections are kept open"),
    "request.required.acks": Renamed("acks"),
    "retries": NoEffect(_RETRIES, harmless=("2147483647",)),
    "serializer.class": NoEffect(_ENCODER, harmless=("kafka.serializer.DefaultEncoder",)),
    "timeout.ms": Renamed("request.timeout.ms"),
    "topic.metadata.refresh.interval.ms": Renamed("metadata.max.age.ms", {"-1": "300000"}),  # -1: after errors only
    "value.serializer": NoEffect(_ENCODER, harmless=(f"{BYTES}Serializer",)),
    "zk.read.num.retries": NoEffect(_ZOOKEEPER),
}

OLD_KEYS: Mapping[ClientKind, Mapping[str, OldKey]] = {ClientKind.CONSUMER: CONSUMER, ClientKind.PRODUCER: PRODUCER}

OLD_PRODUCER = ("broker.list", "metadata.broker.list", "producer.type", "serializer.class", "zk.connect")
"""Properties that only the producers of Kafka 0.7 and 0.8 have. With one of them, batch.size is a number of records."""
