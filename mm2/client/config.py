"""Configuration of a `MirrorClient`: connections and replication policy (Java: MirrorClientConfig).

Keys are Java's, parsed by the code that parses mm2.properties (docs/adr/0004-client-reads-keys.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mm2.config.clients import java_derivation
from mm2.config.clients.client_keys import ClientKeys
from mm2.config.clients.client_reader import ClientReader
from mm2.config.grammar import providers
from mm2.config.grammar.java_types import read_list
from mm2.config.grammar.problems import Problem, ProblemLog
from mm2.config.grammar.properties import Entry, read_file
from mm2.config.grammar.values import Properties, Value
from mm2.config.keys import declaration
from mm2.config.keys.connector_keys import SourceSettings
from mm2.config.plugins.plugin_reader import PluginReader
from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.settings.client import ClientSettings

CLIENT_ID = "mm2-client"
"""Client ID, which brokers log; a client.id among the properties is added as a prefix."""

_NAMES = java_derivation.CLIENT_NAMES | declaration.names(ClientKeys)
_POLICY = ("replication.policy", "source.cluster.alias")
_NO_FILE = "properties"
"""Shown in problems in place of a file name."""


class ConfigInvalid(ValueError):
    """The properties are invalid. ``problems`` are messages, one for each error."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorClientConfig:
    """``client`` lists topics, ``consumer`` reads checkpoints (None: like ``client``), and ``policy`` names remote and
    internal topics."""

    client: ClientSettings
    consumer: ClientSettings | None = None
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)

    @classmethod
    def of(cls, config: MirrorClientConfig | Mapping[str, str]) -> MirrorClientConfig:
        """Return ``config``, parsed if it is a mapping of properties."""
        return config if isinstance(config, MirrorClientConfig) else cls.from_properties(config)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, policy: ReplicationPolicy | None = None
    ) -> MirrorClientConfig:
        """Parse Java's properties: bootstrap.servers, security.protocol, ssl.*, sasl.*, replication.policy.*.

        ``admin.…`` and ``consumer.…`` override them for the client that lists topics and the one that reads
        checkpoints; ``producer.…`` has no effect. Other keys of an mm2.properties file are ignored. Unlike in Java,
        client.id, request.timeout.ms and the backoffs are also used. ``policy`` replaces the policy class of the
        properties. Raises ConfigInvalid.
        """
        problems = ProblemLog(_NO_FILE)
        entries = {key: Entry(file=_NO_FILE, line=0, key=key, raw=text, value=text) for key, text in properties.items()}
        return _Reading(problems, entries, alias="", directory=Path(), policy=policy).config()

    @classmethod
    def from_file(cls, path: str | Path, alias: str, *, policy: ReplicationPolicy | None = None) -> MirrorClientConfig:
        """Read the configuration of cluster ``alias`` from an mm2.properties file.

        Keys ``alias.…`` override those without a prefix.

        Java: MirrorMakerConfig.clientConfig(alias). References to config providers are resolved only in keys of this
        cluster. Raises ConfigInvalid, also if the file cannot be read or does not contain the cluster.
        """
        problems = ProblemLog(str(path))
        entries = read_file(Path(path), problems)
        if entries is None:
            raise ConfigInvalid(_texts(problems))
        clusters = entries.get("clusters")
        known = read_list(clusters.value) if clusters else ()
        if alias not in known:
            problems.error(
                f"does not contain cluster {alias}",
                f"use one of its clusters: {', '.join(known)}" if known else f"add clusters = {alias}, B",
                at=clusters,
            )
            raise ConfigInvalid(_texts(problems))
        concerned = {key: entry for key, entry in entries.items() if _concerns(key, alias)}
        resolved = providers.resolve(concerned, problems)
        return _Reading(problems, resolved, alias=alias, directory=Path(path).parent, policy=policy).config()


def _concerns(key: str, alias: str) -> bool:
    return key in _NAMES or key.startswith((f"{alias}.", "config.providers", *_POLICY))


@dataclass(frozen=True, slots=True)
class _Reading:
    problems: ProblemLog
    entries: Mapping[str, Entry]
    alias: str
    directory: Path
    """Directory of the file, for errors about classes that are not found."""
    policy: ReplicationPolicy | None

    def config(self) -> MirrorClientConfig:
        properties = {key: Value.of(entry) for key, entry in self.entries.items()}
        if self.alias:
            properties |= java_derivation.cluster_properties(properties, self.alias)
        client, consumer = self._client(properties, "admin."), self._client(properties, "consumer.")
        policy = self.policy or self._policy(properties)
        if self.problems.failed or client is None or consumer is None:
            raise ConfigInvalid(_texts(self.problems))
        return MirrorClientConfig(client=client, consumer=None if consumer == client else consumer, policy=policy)

    def _client(self, properties: Properties, prefix: str) -> ClientSettings | None:
        own = {name: properties[key] for name in _NAMES if (key := f"{prefix}{name}") in properties}
        used = {name: value for name, value in properties.items() if name in _NAMES} | own
        if "bootstrap.servers" not in used:
            key = f"{self.alias}.bootstrap.servers" if self.alias else "bootstrap.servers"
            self.problems.error("missing, so no client can connect", f"add {key} = host:port", key=key)
            return None
        reader = ClientReader(clusters=next(iter(self.entries.values())), problems=self.problems)
        return reader.read(used, ClientKeys, self.alias, CLIENT_ID)

    def _policy(self, properties: Properties) -> ReplicationPolicy:
        used = {name: value for name, value in properties.items() if name.startswith(_POLICY)}
        source = declaration.read(SourceSettings, used, self.problems)
        alias = used.get("source.cluster.alias")
        flow = Flow(alias.text if alias else "", self.alias)
        policy = PluginReader(
            flow=flow, properties=used, source=source, directory=self.directory, problems=self.problems
        ).policy()
        if alias is None and isinstance(policy, IdentityReplicationPolicy):
            return replace(policy, source_alias=None)
        return policy


def _texts(problems: ProblemLog) -> tuple[str, ...]:
    return tuple(str(_placed(one)) for one in problems.in_order() if not one.is_warning)


def _placed(problem: Problem) -> Problem:
    """Return ``problem`` without a line if the properties are not from a file."""
    return replace(problem, line=None) if problem.line == 0 else problem
