"""Recognition of configurations of plain Kafka clients, such as those of MirrorMaker 1."""

from __future__ import annotations

from mm2.config.checks.foreign.connect import SECURITY
from mm2.config.checks.foreign.foreign_file import ADDRESS, IDENTITY_POLICY, INSTEAD, ForeignFile, Settings, line
from mm2.config.grammar.secrets import shown

CHOOSE_TOPICS = (
    "choose the topics: without A->B.topics, all topics are copied into topics of the same names, and all records "
    "that MirrorMaker 1 copied are duplicated"
)

_ZOOKEEPER = ("zookeeper.connect", "zk.connect")
_OLD_PRODUCER = ("metadata.broker.list", "producer.type", "serializer.class")
_CONSUMER = ("group.id", "groupid", "auto.commit.enable", "enable.auto.commit", "auto.commit.interval.ms", "whitelist")
_PRODUCER = (
    "acks",
    "request.required.acks",
    "linger.ms",
    "batch.size",
    "buffer.memory",
    "max.in.flight.requests.per.connection",
)


def mirror_maker_1(_text: str, properties: Settings) -> ForeignFile | None:
    """Recognise the file of --consumer.config or --producer.config, which configures a plain Kafka client."""
    if _has_aliases(properties):
        return None
    servers = properties.get("bootstrap.servers")
    if any(key in properties for key in _ZOOKEEPER) or (servers and any(key in properties for key in _CONSUMER)):
        kind, alias, other = "consumer", "A", "B"
    elif any(key in properties for key in _OLD_PRODUCER) or (servers and any(key in properties for key in _PRODUCER)):
        kind, alias, other = "producer", "B", "A"
    else:
        return None
    servers = servers or properties.get("metadata.broker.list") or ADDRESS
    whitelist = properties.get("whitelist") or "(the value of --whitelist)"
    return ForeignFile(
        f"is a Kafka {kind} configuration, such as MirrorMaker 1's --{kind}.config{INSTEAD}",
        (offsets_of_group(properties.get("group.id") or properties.get("groupid")), CHOOSE_TOPICS),
        (
            *_clusters({alias: servers, other: ADDRESS}, alias, properties),
            "A->B.enabled = true",
            line("A->B.topics", whitelist),
            IDENTITY_POLICY,
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
    """Return where copying starts instead of the committed offsets of MirrorMaker 1's consumer ``group``."""
    offsets = f"group {shown('group.id', group)}" if group else "MirrorMaker 1's consumer group"
    return (
        "note that copying starts at auto.offset.reset (default: earliest): "
        f"mm2 does not continue from the offsets of {offsets}"
    )


def _has_aliases(properties: Settings) -> bool:
    return any("->" in key or key == "clusters" or key.endswith(".bootstrap.servers") for key in properties)


def _clusters(servers: Settings, alias: str, properties: Settings) -> list[str]:
    """Return the lines of both clusters. ``properties`` contain the security settings of ``alias``."""
    lines = ["clusters = A, B", *(line(f"{name}.bootstrap.servers", servers[name]) for name in "AB")]
    return lines + [line(f"{alias}.{key}", value) for key, value in properties.items() if key.startswith(SECURITY)]
