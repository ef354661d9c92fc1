"""How a `MirrorClient` is told where to connect and how remote topics are called (mm2-compat §1.3).

Keys are Java's, read by the same code that reads mm2.properties (docs/adr/0004-client-reads-keys.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from mm2.config import derive, keys, providers
from mm2.config.client_keys import ClientKeys
from mm2.config.clients import ClientReader
from mm2.config.connectors import SourceSettings
from mm2.config.java_types import read_list
from mm2.config.plugins import PluginReader
from mm2.config.problems import Problem, ProblemLog
from mm2.config.properties import Entry, read_file
from mm2.config.values import Properties, Value
from mm2.core.client_settings import ClientSettings
from mm2.core.names import Flow
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy

CLIENT_ID = "mm2-client"
"""What brokers log; a client.id among the properties is put in front of it."""

_NAMES = derive.CLIENT_NAMES | keys.names(ClientKeys)
_POLICY = ("replication.policy", "source.cluster.alias")
_NO_FILE = "properties"
"""Stands in problems where the name of a file would."""


class ConfigInvalid(ValueError):
    """The properties are not what a client can connect with. ``problems`` are sentences, one per place to repair."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorClientConfig:
    """``client`` says how topics are listed, ``consumer`` how checkpoints are read (None: by the same client), and
    ``policy`` how remote and internal topics are called."""

    client: ClientSettings
    consumer: ClientSettings | None = None
    policy: ReplicationPolicy = field(default_factory=DefaultReplicationPolicy)

    @classmethod
    def of(cls, config: MirrorClientConfig | Mapping[str, str]) -> MirrorClientConfig:
        """``config`` itself, or what its properties say."""
        return config if isinstance(config, MirrorClientConfig) else cls.from_properties(config)

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], *, policy: ReplicationPolicy | None = None
    ) -> MirrorClientConfig:
        """Read Java's properties: bootstrap.servers, security.protocol, ssl.*, sasl.*, replication.policy.*.

        ``admin.…`` and ``consumer.…`` override for the client that lists topics and the one that reads checkpoints;
        ``producer.…`` means nothing, as nothing is produced. Further keys, as a mm2.properties file has them, do no
        harm. Other than in Java, client.id, request.timeout.ms and the backoffs count too. ``policy`` is for policies
        that are no class with a name. Raises ConfigInvalid.
        """
        problems = ProblemLog(_NO_FILE)
        entries = {key: Entry(file=_NO_FILE, line=0, key=key, raw=text, value=text) for key, text in properties.items()}
        return _Reading(problems, entries, alias="", directory=Path(), policy=policy).config()

    @classmethod
    def from_file(cls, path: str | Path, alias: str, *, policy: ReplicationPolicy | None = None) -> MirrorClientConfig:
        """How a mm2.properties file says to reach cluster ``alias``: all keys that stand alone, then ``alias.…``.

        Java: MirrorMakerConfig.clientConfig(alias). References to config providers are replaced, but only in what
        concerns this cluster. Raises ConfigInvalid, also where the file cannot be read or knows no such cluster.
        """
        problems = ProblemLog(str(path))
        entries = read_file(Path(path), problems)
        if entries is None:
            raise ConfigInvalid(_texts(problems))
        clusters = entries.get("clusters")
        known = read_list(clusters.value) if clusters else ()
        if alias not in known:
            problems.error(f"has no cluster {alias}: there are {', '.join(known) or 'none'}.", at=clusters)
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
    """The file's, for what is said of a class that is not found."""
    policy: ReplicationPolicy | None

    def config(self) -> MirrorClientConfig:
        properties = {key: Value.of(entry) for key, entry in self.entries.items()}
        if self.alias:
            properties |= derive.cluster_properties(properties, self.alias)
        client, consumer = self._client(properties, "admin."), self._client(properties, "consumer.")
        policy = self.policy or self._policy(properties)
        if self.problems.failed or client is None or consumer is None:
            raise ConfigInvalid(_texts(self.problems))
        return MirrorClientConfig(client=client, consumer=None if consumer == client else consumer, policy=policy)

    def _client(self, properties: Properties, prefix: str) -> ClientSettings | None:
        own = {name: properties[key] for name in _NAMES if (key := f"{prefix}{name}") in properties}
        told = {name: value for name, value in properties.items() if name in _NAMES} | own
        if "bootstrap.servers" not in told:
            key = f"{self.alias}.bootstrap.servers" if self.alias else "bootstrap.servers"
            self.problems.error("is missing, so nothing can connect. Add host:port.", key=key)
            return None
        reader = ClientReader(clusters=next(iter(self.entries.values())), problems=self.problems)
        return reader.read(told, ClientKeys, self.alias, CLIENT_ID)

    def _policy(self, properties: Properties) -> ReplicationPolicy:
        told = {name: value for name, value in properties.items() if name.startswith(_POLICY)}
        source = keys.read(SourceSettings, told, self.problems)
        alias = told.get("source.cluster.alias")
        flow = Flow(alias.text if alias else "", self.alias)
        policy = PluginReader(
            flow=flow, properties=told, source=source, directory=self.directory, problems=self.problems
        ).policy()
        if alias is None and isinstance(policy, IdentityReplicationPolicy):
            return replace(policy, source_alias=None)
        return policy


def _texts(problems: ProblemLog) -> tuple[str, ...]:
    return tuple(str(_placed(one)) for one in problems.in_order() if not one.is_warning)


def _placed(problem: Problem) -> Problem:
    """Properties that came from no file have no lines either."""
    return replace(problem, line=None) if problem.line == 0 else problem
