"""Comparison of a file with the configuration that a Java MirrorMaker last used for a flow.

Java's leader writes its connectors' configurations to ``mm2-configs.<source>.internal`` (KafkaConfigBackingStore). A
migration with a different file by mistake would replicate other topics, or the same topics under other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from mm2.config.clients.java_derivation import LEGACY_NAMES
from mm2.config.grammar import secrets
from mm2.config.keys import declaration
from mm2.config.keys.connector_keys import SOURCE_ALIAS, TARGET_ALIAS, CheckpointSettings, SourceSettings
from mm2.config.keys.declaration import KeyModel, KeySpec
from mm2.config.settings import FlowSettings

_PACE = ("tasks.max", "admin.timeout.ms", ".interval.seconds", "replication.factor")
"""Suffixes of keys about frequency and parallelism, which do not change what is replicated."""

_BOOTSTRAP = "source.cluster.bootstrap.servers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One key whose value differs from the one that Java stored. Values are as written in the file."""

    key: str
    java: str
    here: str

    def __str__(self) -> str:
        return f"{self.key} = {self.here} (was {self.java})"


def differences(flow: FlowSettings, java: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the differences in the replicated topics and groups and their names.

    ``java`` are the properties of one connector as Java stored them. References (``${…}``) are not compared: Java
    stores them unresolved.
    """
    return (
        *_bootstrap(flow, java),
        *_aliases(flow, java),
        *_of(SourceSettings, flow.source, java),
        *_of(CheckpointSettings, flow.checkpoint, java),
    )


def selection_differences(flow: FlowSettings, java: Mapping[str, str]) -> tuple[Difference, ...]:
    """Return the differences in which topics and groups are selected, and how connections to both clusters are
    protected. Java's old names count as well, as Kafka 3.9 used them."""
    renamed = {new: java[old] for old, new in LEGACY_NAMES.items() if old in java and new not in java}
    found = (
        *_of(SourceSettings, flow.source, {**renamed, **java}),
        *_of(CheckpointSettings, flow.checkpoint, {**renamed, **java}),
    )
    clients = (("source", flow.clients.source_consumer), ("target", flow.clients.record_producer))
    return (
        *(one for one in found if one.key in _SELECTS),
        *(
            Difference(key=f"{side}.cluster.{_PROTOCOL}", java=there, here=client.security_protocol.value)
            for side, client in clients
            if "${" not in (there := java.get(f"{side}.cluster.{_PROTOCOL}", "PLAINTEXT").strip().upper())
            and there != client.security_protocol.value
        ),
    )


_SELECTS = ("topics", "topics.exclude", "topic.filter.class", "groups", "groups.exclude", "group.filter.class")
_PROTOCOL = "security.protocol"


def _bootstrap(flow: FlowSettings, java: Mapping[str, str]) -> Iterator[Difference]:
    """Report another cluster under the same alias; lists with a common broker belong to the same cluster."""
    text = java.get(_BOOTSTRAP, "")
    there = {server.strip() for server in text.split(",")} - {""}
    here = flow.clients.source_consumer.bootstrap_servers
    if there and "${" not in text and there.isdisjoint(here):
        yield Difference(key=f"{flow.flow.source}.bootstrap.servers", java=text, here=", ".join(here))


def _aliases(flow: FlowSettings, java: Mapping[str, str]) -> Iterator[Difference]:
    """Report other aliases in topic names. Java stores them even if the file does not set them."""
    for key, here in ((SOURCE_ALIAS, flow.aliases.source), (TARGET_ALIAS, flow.aliases.target)):
        there = java.get(key)
        if there is not None and "${" not in there and there.strip() != here:
            yield Difference(key=key, java=there, here=here)


def _of(model: type[KeyModel], settings: KeyModel, java: Mapping[str, str]) -> Iterator[Difference]:
    shared = declaration.names(SourceSettings) & declaration.names(CheckpointSettings)
    for spec in declaration.specs(model):
        if spec.name.endswith((*_PACE, SOURCE_ALIAS, TARGET_ALIAS)) or (
            model is CheckpointSettings and spec.name in shared
        ):
            continue
        text = java.get(spec.name)
        if text is not None and ("${" in text or secrets.is_secret(spec.name, text)):
            continue
        there, here = _typed(model, spec, text), declaration.as_text(getattr(settings, spec.field))
        if there != here:
            yield Difference(key=spec.name, java=there or "", here=here or "")


def _typed(model: type[KeyModel], spec: KeySpec, text: str | None) -> str | None:
    """Return Java's value in normalized form; unchanged if it is invalid here."""
    if text is None:
        return spec.default
    try:
        return declaration.as_text(getattr(model.model_validate({spec.name: text}), spec.field))
    except ValidationError:
        return text
