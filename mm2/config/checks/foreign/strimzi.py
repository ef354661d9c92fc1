"""Conversion of Strimzi resources: KafkaMirrorMaker2 in both forms, KafkaMirrorMaker and KafkaConnector.

``v1beta2`` lists all clusters in ``spec.clusters``, and mirrors refer to their aliases. ``v1`` has the target in
``spec.target`` and a source in each mirror. What cannot be converted is named with its path. If the structure is not
understood, NotUnderstood is raised, and no line is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mm2.config.checks.foreign.clients import CHOOSE_TOPICS, offsets_of_group
from mm2.config.checks.foreign.connect import connector_settings
from mm2.config.checks.foreign.foreign_file import (
    ADDRESS,
    IDENTITY_POLICY,
    INSTEAD,
    OFFSETS_OF_CONNECT,
    ForeignFile,
    line,
)
from mm2.config.checks.foreign.tree import NotUnderstood, Tree

_FLOW_KEYS = {
    "topicsPattern": "topics",
    "topicsExcludePattern": "topics.exclude",
    "topicsBlacklistPattern": "topics.exclude",
    "groupsPattern": "groups",
    "groupsExcludePattern": "groups.exclude",
    "groupsBlacklistPattern": "groups.exclude",
}
_CONNECTORS = ("sourceConnector", "checkpointConnector", "heartbeatConnector")
_NOT_CONVERTED = "nothing was converted, because the structure of the file was not fully recognized"
_SECURITY = ("tls", "authentication")
_SASL = ("plain", "scram-sha-256", "scram-sha-512", "oauth")
_NAME = re.compile(r"[\w.-]+", re.ASCII)
_PROTOCOL = "security.protocol"


@dataclass(slots=True)
class _Conversion:
    """Lines so far, and the paths that were not converted: those of security settings, and others."""

    lines: dict[str, str] = field(default_factory=dict)
    security: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def add(self, key: str, value: str, path: str) -> None:
        """Add a line. The first of different values for ``key`` is kept."""
        if self.lines.setdefault(key, value) != value:
            self.others.append(path)

    def add_config(self, prefix: str, config: Tree) -> None:
        """Add an entry for each scalar of a ``config:`` section."""
        for key in config.names:
            if not _NAME.fullmatch(key):
                raise NotUnderstood(config.place(key))
            self.add(f"{prefix}.{key}", config.text(key) or "", config.place(key))

    def leave(self, tree: Tree, *converted: str) -> None:
        """Note all entries of ``tree`` that were not converted."""
        for key in tree.names:
            if key not in converted:
                (self.security if key in _SECURITY else self.others).append(tree.place(key))

    def add_cluster(self, alias: str, cluster: Tree, *converted: str) -> None:
        """Add the lines of a cluster; ``converted``: its keys that the caller converts."""
        self.lines[f"{alias}.bootstrap.servers"] = cluster.required("bootstrapServers")
        if protocol := _protocol(cluster):
            self.lines[f"{alias}.{_PROTOCOL}"] = protocol
        self.leave(cluster, "bootstrapServers", *converted)

    def file(self, rule: str, aliases: list[str], *notes: str) -> ForeignFile:
        """Return the lines, with notes on what was not converted."""
        unconverted = []
        if self.security:
            unconverted.append(f"not converted: {', '.join(self.security)}: add the matching security settings")
        if self.others:
            unconverted.append(f"not converted: {', '.join(self.others)}: check whether you need them")
        lines = (line(key, value) for key, value in self.lines.items())
        return ForeignFile(rule, (*notes, *unconverted), (f"clusters = {', '.join(aliases)}", *lines))


def mirror_maker_2(rule: str, resource: Tree) -> ForeignFile:
    """Convert a KafkaMirrorMaker2 resource. Raises NotUnderstood."""
    spec, conversion = resource.child("spec"), _Conversion()
    mirrors = list(spec.children("mirrors"))
    if "target" in spec.names:
        if "clusters" in spec.names:
            raise NotUnderstood("both forms")
        target = spec.child("target")
        clusters = [mirror.child("source") for mirror in mirrors] + [target]
        flows = [(mirror.child("source").required("alias"), target.required("alias")) for mirror in mirrors]
        conversion.leave(spec, "target", "mirrors")
    else:
        clusters = list(spec.children("clusters"))
        connect = spec.text("connectCluster")
        flows = [
            (mirror.required("sourceCluster"), mirror.text("targetCluster") or connect or "") for mirror in mirrors
        ]
        conversion.leave(spec, "connectCluster", "clusters", "mirrors")
    aliases = [cluster.required("alias") for cluster in clusters]
    _check(aliases, flows)
    for alias, cluster in zip(aliases, clusters, strict=True):
        conversion.add_cluster(alias, cluster, "alias", "config")
        conversion.add_config(alias, cluster.child("config"))
    for (source, target_alias), mirror in zip(flows, mirrors, strict=True):
        _add_mirror(f"{source}->{target_alias}", mirror, conversion)
    return conversion.file(rule, aliases, OFFSETS_OF_CONNECT)


def _check(aliases: list[str], flows: list[tuple[str, str]]) -> None:
    """Raise NotUnderstood if an alias or flow is missing, occurs twice or is undefined."""
    ends = {alias for flow in flows for alias in flow}
    unique = len(set(aliases)) == len(aliases) and len(set(flows)) == len(flows)
    if (
        not all(map(_NAME.fullmatch, aliases))
        or not flows
        or not unique
        or not ends <= set(aliases)
        or any(source == target for source, target in flows)
    ):
        raise NotUnderstood("aliases")


def _add_mirror(flow: str, mirror: Tree, conversion: _Conversion) -> None:
    if "sourceConnector" not in mirror.names:
        raise NotUnderstood("a mirror that copies nothing")
    conversion.lines[f"{flow}.enabled"] = "true"
    for key, name in _FLOW_KEYS.items():
        if value := mirror.text(key):
            conversion.add(f"{flow}.{name}", value, mirror.place(key))
    for name in _CONNECTORS:
        settings = mirror.child(name)
        if tasks := settings.text("tasksMax"):
            conversion.add(f"{flow}.tasks.max", tasks, settings.place("tasksMax"))
        conversion.add_config(flow, settings.child("config"))
        conversion.leave(settings, "tasksMax", "config")
    conversion.leave(mirror, "source", "sourceCluster", "targetCluster", *_FLOW_KEYS, *_CONNECTORS)


def _protocol(cluster: Tree) -> str | None:
    """Return security.protocol, so that a node never connects without encryption or authentication by mistake."""
    encrypted = "tls" in cluster.names
    if "authentication" not in cluster.names:
        return "SSL" if encrypted else None
    method = cluster.child("authentication").text("type")
    if method == "tls":
        return "SSL"
    if method not in _SASL:
        return "(SSL or SASL_SSL)"
    return "SASL_SSL" if encrypted else "SASL_PLAINTEXT"


def mirror_maker_1(rule: str, resource: Tree) -> ForeignFile:
    """Convert a KafkaMirrorMaker resource, which runs MirrorMaker 1. Raises NotUnderstood."""
    spec, conversion = resource.child("spec"), _Conversion()
    consumer, producer = spec.child("consumer"), spec.child("producer")
    conversion.add_cluster("A", consumer, "groupId")
    conversion.add_cluster("B", producer)
    conversion.lines["A->B.enabled"] = "true"
    conversion.lines["A->B.topics"] = spec.text("include") or spec.text("whitelist") or "(the topics of spec.include)"
    conversion.leave(spec, "consumer", "producer", "include", "whitelist")
    found = conversion.file(rule, ["A", "B"], offsets_of_group(consumer.text("groupId")), CHOOSE_TOPICS)
    return ForeignFile(found.rule, found.notes, (*found.lines, IDENTITY_POLICY))


def connector(rule: str, resource: Tree) -> ForeignFile:
    """Convert a KafkaConnector resource. Raises NotUnderstood."""
    spec = resource.child("spec")
    config = spec.child("config")
    settings = {key: config.text(key) or "" for key in config.names}
    if tasks := spec.text("tasksMax"):
        settings["tasks.max"] = tasks
    return connector_settings(rule.removesuffix(INSTEAD), {**settings, "connector.class": spec.required("class")})


def by_hand(rule: str, kind: str, *reasons: str) -> ForeignFile:
    """Return what to write for resources that cannot be converted. ``reasons``: notes on why."""
    if kind == "KafkaConnector":
        return ForeignFile(
            rule, (_NOT_CONVERTED, *reasons, "convert one MirrorSourceConnector at a time, in a file of its own")
        )
    is_first = kind == "KafkaMirrorMaker"
    notes = (offsets_of_group(None), CHOOSE_TOPICS) if is_first else (OFFSETS_OF_CONNECT,)
    lines = [
        "clusters = A, B",
        f"A.bootstrap.servers = {ADDRESS}",
        "A.security.protocol = (according to tls and authentication)",
        f"B.bootstrap.servers = {ADDRESS}",
        "B.security.protocol = (according to tls and authentication)",
        "A->B.enabled = true",
        f"A->B.topics = ({'include' if is_first else 'topicsPattern'})",
        IDENTITY_POLICY if is_first else "A->B.groups = (groupsPattern)",
    ]
    heading = "write an mm2.properties file with lines of this form, for each source A and target B:"
    return ForeignFile(rule, (*notes, _NOT_CONVERTED, *reasons), tuple(lines), heading)
