"""Recognition of configurations of plain Kafka clients, such as those of MirrorMaker 1."""

from __future__ import annotations

from mm2.config.checks.foreign.connect import SECURITY
from mm2.config.checks.foreign.foreign_file import ADDRESS, INSTEAD, ForeignFile, Settings, line
from mm2.config.grammar.problems import to_copy
from mm2.config.grammar.secrets import shown

CHOOSE_TOPICS = (
    "choose the topics: without A->B.topics, all topics are copied into topics of the same names, and all records "
    "that MirrorMaker 1 copied are duplicated"
)

_ZOOKEEPER = ("zookeeper.connect", "zk.connect")
_OLD_PRODUCER = ("broker.list", "metadata.broker.list", "producer.type", "serializer.class")
_CONSUMER = (
    "group.id",
    "groupid",
    "auto.commit.enable",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "mirror.topics.whitelist",
    "mirror.topics.blacklist",
    "whitelist",
)
_PRODUCER = (
    "acks",
    "request.required.acks",
    "linger.ms",
    "batch.size",
    "buffer.memory",
    "max.in.flight.requests.per.connection",
)
_OPTIONS = "--consumer.config FILE --producer.config FILE --include REGEX"


def mirror_maker_1(_text: str, properties: Settings) -> ForeignFile | None:
    """Recognise the file of --consumer.config or --producer.config, which configures a plain Kafka client."""
    if _has_aliases(properties):
        return None
    servers = properties.get("bootstrap.servers")
    if any(key in properties for key in _OLD_PRODUCER):
        kind = "producer"
    elif any(key in properties for key in _ZOOKEEPER) or (servers and any(key in properties for key in _CONSUMER)):
        kind = "consumer"
    elif servers and any(key in properties for key in _PRODUCER):
        kind = "producer"
    else:
        return None
    return ForeignFile(
        f"is a Kafka {kind} configuration, such as MirrorMaker 1's --{kind}.config{INSTEAD}",
        (
            f"run it with the command line of MirrorMaker 1:{to_copy(f'kafka-mirror-maker {_OPTIONS}')}",
            f"or convert the files of both clients:{to_copy(f'mm2 migrate-mm1 {_OPTIONS} > mm2.properties')}",
        ),
    )


def other_client(_text: str, properties: Settings) -> ForeignFile | None:
    """Recognise a client configuration that is neither a consumer's nor a producer's."""
    servers = properties.get("bootstrap.servers")
    if servers is None or _has_aliases(properties):
        return None
    return ForeignFile(
        f"is a Kafka client configuration{INSTEAD}",
        ("name both clusters: this file is about one cluster",),
        (*_clusters({"A": servers or ADDRESS, "B": ADDRESS}, "A", properties), "A->B.enabled = true"),
    )


def offsets_of_group(group: str | None) -> str:
    """Return where copying starts, and how it continues at the committed offsets of MirrorMaker 1's ``group``."""
    offsets = f"group {shown('group.id', group)}" if group else "MirrorMaker 1's consumer group"
    return (
        "note that copying starts at auto.offset.reset (default: earliest): to continue at the offsets of "
        f"{offsets}, write the properties of its consumer and producer to files, and use mm2 migrate-mm1"
    )


def _has_aliases(properties: Settings) -> bool:
    return any("->" in key or key == "clusters" or key.endswith(".bootstrap.servers") for key in properties)


def _clusters(servers: Settings, alias: str, properties: Settings) -> list[str]:
    """Return the lines of both clusters. ``properties`` contain the security settings of ``alias``."""
    lines = ["clusters = A, B", *(line(f"{name}.bootstrap.servers", servers[name]) for name in "AB")]
    return lines + [line(f"{alias}.{key}", value) for key, value in properties.items() if key.startswith(SECURITY)]
