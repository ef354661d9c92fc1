"""The mm2.properties file that does what MirrorMaker 1 did with a consumer file and a producer file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mm2.config.checks.foreign.foreign_file import IDENTITY_POLICY
from mm2.config.clients.client_keys import ConsumerKeys, ProducerKeys
from mm2.config.clients.ignored_client_keys import ClientKind
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.properties import Entry, escaped
from mm2.config.grammar.providers import without_references
from mm2.config.grammar.secrets import is_secret
from mm2.config.grammar.values import Value
from mm2.config.keys import declaration
from mm2.config.keys.node_keys import EngineSettings
from mm2.config.mirror1.client_file import ClientFile
from mm2.config.security import jaas, security_keys
from mm2.config.security.sasl_properties import JAAS
from mm2.core.mirror1.settings import MirrorSettings

PROVIDER = "mirrormaker1"
"""The config provider that reads secrets from the files of MirrorMaker 1."""

_FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
_PROVIDERS = "config.providers"
_KEYS = {
    ClientKind.CONSUMER: declaration.names(ConsumerKeys) - {"client.id"},
    ClientKind.PRODUCER: declaration.names(ProducerKeys),
}
_ENGINE = declaration.names(EngineSettings)
_CLUSTER = security_keys.NAMES | {"bootstrap.servers"}
_SEPARATOR = re.compile(r"[:}]")

_KAFKAS_OWN = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_REPLICATION_FACTORS = (
    "replication.factor",
    "offset.storage.replication.factor",
    "config.storage.replication.factor",
    "status.storage.replication.factor",
    "offset-syncs.topic.replication.factor",
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "errors.deadletterqueue.topic.replication.factor",
)


_REFERENCE = "REFERENCE"
_PUBLIC_OPTIONS = frozenset({"username", "principal", "servicename", "keytab", "usekeytab", "ticketcache"})
"""Options of login modules, in lower case, whose values are not secret. Those of other modules are not known here."""
_PUBLIC_VALUES = frozenset({"", "true", "false"})
_COMMENT = re.compile(r"//|/\*")


def has_mixed_secret(entry: Entry) -> bool:
    """Return whether a line with references can also contain a secret in plain text."""
    if not is_secret(entry.key, entry.raw):
        return False
    rest = without_references(entry.raw)
    return bool(rest.strip()) if entry.key != JAAS else _has_secret_option(entry.raw)


def _has_secret_option(raw: str) -> bool:
    """Return whether an option of a login module, or a comment, can be a secret, or the text is no login module."""
    text = without_references(raw, _REFERENCE)
    if _COMMENT.search(text):
        return True
    try:
        module = jaas.parse(text)
    except jaas.JaasError:
        return True
    return any(
        name.lower() not in _PUBLIC_OPTIONS and value.replace(_REFERENCE, "").lower() not in _PUBLIC_VALUES
        for name, value in module.options.items()
    )


class MigrationError(ValueError):
    """The files cannot be combined in one. The message says why, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """What was read, and the aliases of both clusters in the new file. ``classes`` are classes of the user that were
    given on the command line, which have no equivalent."""

    settings: MirrorSettings
    consumer: ClientFile
    producer: ClientFile
    source: str
    target: str
    classes: Sequence[str] = ()

    def text(self) -> str:
        """Return the content of mm2.properties. Raises MigrationError."""
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        source, target, flow = self.source, self.target, f"{self.source}->{self.target}"
        group = self.settings.consumers[0].group.group_id
        consumer = self._client(self.consumer, source)
        producer = self._client(self.producer, target)
        yield f"# Replicates {flow} as MirrorMaker 1 did as consumer group {_one_line(group)}."
        yield "# To continue at the offsets of the group: stop MirrorMaker 1, run mm2 migrate-mm1 again with the same"
        yield "# options and --write-offsets, and only then start mm2 run with this file."
        yield f"clusters = {source}, {target}"
        yield f"{flow}.enabled = true"
        yield ""
        yield from self._topics(flow)
        yield "# Topics keep their names. Where a topic exists on the target with fewer partitions than on the source,"
        yield "# partitions are added to it: records keep their partitions."
        yield IDENTITY_POLICY
        yield ""
        yield f"# Source: {_one_line(str(self.consumer.path))}"
        yield f"{source}.bootstrap.servers = {','.join(self.settings.consumers[0].client.bootstrap_servers)}"
        yield from consumer
        yield from self._start(source)
        yield f"# Target: {_one_line(str(self.producer.path))}"
        yield f"{target}.bootstrap.servers = {','.join(self.settings.target.bootstrap_servers)}"
        yield from producer
        yield ""
        yield from self._node(target)
        yield "# MirrorMaker 1 created no topics on the source."
        yield "offset-syncs.topic.location = target"
        yield "emit.heartbeats.enabled = false"
        yield "# It did not change the configurations and ACLs of existing topics."
        yield "sync.topic.configs.enabled = false"
        yield "sync.topic.acls.enabled = false"
        yield "# New topics have the replication factor that the target's brokers choose."
        yield from (f"{name} = -1" for name in _REPLICATION_FACTORS)
        yield from self._providers((*consumer, *producer))

    def _topics(self, flow: str) -> Iterator[str]:
        include, exclude = self.settings.include, self.settings.exclude
        yield f"{flow}.topics = {escaped('.*' if include is None else include)}"
        yield "# Kafka's own topics, as with exclude.internal.topics."
        yield f"{flow}.topics.exclude = {', '.join((*_KAFKAS_OWN, *([] if exclude is None else [escaped(exclude)])))}"
        yield "# Never replicated, also if they are selected: topics whose names begin with __ or with a dot, and"
        yield "# internal topics of MirrorMaker 2 (mm2*.internal, *.checkpoints.internal)."
        yield "# A topic of heartbeats is only replicated if it is selected."
        yield "heartbeats.replication.enabled = false"
        yield "# metadata.max.age.ms: how often new topics and partitions are looked for."
        yield f"refresh.topics.interval.seconds = {self._refresh_s()}"

    def _refresh_s(self) -> int:
        """Return seconds; 0 milliseconds, which Java allows, are the shortest interval of a flow."""
        return max(1, math.ceil(self.settings.consumers[0].client.metadata_max_age_ms / 1000))

    def _start(self, source: str) -> Iterator[str]:
        reset = self.settings.consumers[0].fetch.auto_offset_reset
        yield "# Where partitions start for which the group has no committed offset, those of new topics among them."
        yield f"{source}.consumer.auto.offset.reset = {reset}"
        yield ""

    def _node(self, target: str) -> Iterator[str]:
        settings = self.settings
        yield "# --num.streams"
        yield f"tasks.max = {settings.streams}"
        if settings.commit_interval_ms != MirrorSettings.__dataclass_fields__["commit_interval_ms"].default:
            yield "# --offset.commit.interval.ms"
            yield f"{target}.offset.flush.interval.ms = {max(1, settings.commit_interval_ms)}"
        if not settings.abort_on_send_failure:
            yield "# --abort.on.send.failure false: records that the target rejects go to a dead-letter topic."
            yield "errors.tolerance = all"
        if self.classes:
            yield f"# Not converted: {_one_line(', '.join(self.classes))}. Queries in SQL can change and drop records"
            yield "# (mm2.sql.NAME.query)."
        if "buffer.memory" in self.producer.properties:
            yield "# buffer.memory"
            yield f"mm2.lane.buffer.bytes = {settings.lane_buffer_bytes}"
        for name, value in self.producer.properties.items():
            if name.startswith("spark.") or name in _ENGINE:
                yield _line(name, value, self.producer)
        yield ""

    def _client(self, file: ClientFile, alias: str) -> list[str]:
        """Return the lines of connection, security and client; last the names of the lines that have no equivalent."""
        lines, copied = [], {"bootstrap.servers", "auto.offset.reset", "buffer.memory", "group.id"}
        for name, value in file.properties.items():
            prefix = f"{alias}." if name in _CLUSTER else f"{alias}.{file.kind}."
            if name in copied or value.entry is None or name not in _CLUSTER | _KEYS[file.kind]:
                continue
            lines.append(_line(f"{prefix}{name}", value, file))
        used = {value.entry.key for name, value in file.properties.items() if value.entry and self._is_used(name, file)}
        left = [key for key in file.entries if key not in used and not key.startswith(_PROVIDERS)]
        if left:
            lines.append(f"# without effect here: {_one_line(', '.join(left))}")
        return lines

    def _is_used(self, name: str, file: ClientFile) -> bool:
        own = ("group.id", "exclude.internal.topics", "mirror.topics.whitelist", "mirror.topics.blacklist")
        more = (*own, "mirror.consumer.numthreads", "zookeeper.connect", "buffer.memory")
        return name in _CLUSTER | _KEYS[file.kind] or name in {*more, *_ENGINE} or name.startswith("spark.")

    def _providers(self, lines: Sequence[str]) -> Iterator[str]:
        """Return the declarations of both files, and that of `PROVIDER` if a line refers to it."""
        found: dict[str, Entry] = {}
        names: list[str] = []
        for file in (self.consumer, self.producer):
            for key, entry in file.entries.items():
                if key == _PROVIDERS:
                    names += read_list(entry.value)
                elif key.startswith(_PROVIDERS) and found.setdefault(key, entry).raw != entry.raw:
                    raise MigrationError(
                        f"{key} has different values in {self.consumer.path} and {self.producer.path}: "
                        "rename the config provider in one of them"
                    )
        if PROVIDER in names:
            raise MigrationError(f"rename the config provider {PROVIDER}: mm2 migrate-mm1 needs this name")
        own = any(f"${{{PROVIDER}:" in line for line in lines)
        if not names and not own:
            return
        yield ""
        if own:
            yield "# Secrets stay in the files of MirrorMaker 1."
        yield f"{_PROVIDERS} = {', '.join(dict.fromkeys((*names, *([PROVIDER] if own else []))))}"
        yield from (f"{key} = {escaped(entry.raw)}" for key, entry in found.items())
        if own:
            yield f"{_PROVIDERS}.{PROVIDER}.class = {_FILE_PROVIDER}"


def _line(key: str, value: Value, file: ClientFile) -> str:
    """Return the line of ``key``. References of the file are kept, and secrets become references to the file.

    Raises MigrationError for a value with both, as a value that is referred to is not searched for references.
    """
    entry = value.entry
    assert entry is not None, f"{key} has no line"
    if value.text != entry.value:  # under another name, or in another form
        return f"{key} = {escaped(value.text)}"
    path = os.path.abspath(file.path)
    if entry.raw != entry.value and has_mixed_secret(entry):
        raise MigrationError(
            f"{path}:{entry.line}: {entry.key} contains references and other text, which can be a secret: move the"
            " whole value to where the config provider reads it, and write one reference"
        )
    if entry.raw != entry.value or not is_secret(entry.key, entry.raw):
        return f"{key} = {escaped(entry.raw)}"
    if _SEPARATOR.search(path + entry.key):
        raise MigrationError(f"{path} has a colon or a brace in its path, so that no reference to it can be written")
    return f"{key} = {escaped(f'${{{PROVIDER}:{path}:{entry.key}}}')}"


def _one_line(text: Iterable[str] | str) -> str:
    return "".join(char if " " <= char <= "~" else "?" for char in text)
