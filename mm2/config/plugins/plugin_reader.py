"""Reader of a flow's class keys: built-in classes, or instances of a user's class, configured with properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from mm2.config.grammar.problems import ProblemLog
from mm2.config.grammar.values import Properties
from mm2.config.keys.class_keys import ADMIN, GROUP_FILTER, POLICY, PROPERTY_FILTER, TOPIC_FILTER, ClassKey
from mm2.config.keys.class_loading import PAGE, ClassProblem, load, load_own
from mm2.config.keys.connector_keys import SOURCE_ALIAS, TARGET_ALIAS, CheckpointSettings, SourceSettings
from mm2.config.plugins.filters import NameFilter, OwnFilter, PropertyFilter, read_pattern
from mm2.config.security import security_keys
from mm2.core.naming.guarded_policy import GuardedPolicy
from mm2.core.naming.names import Flow
from mm2.core.plugins import Plugin, PluginError, described
from mm2.core.policies import DefaultReplicationPolicy, ReplicationPolicy

_CONNECTIONS = ("source.", "target.", "producer.", "consumer.", "admin.", "config.providers")


def properties_for_plugins(connector: Properties) -> Properties:
    """Return the connector properties that user classes receive: none of clients, and no passwords."""
    return {
        name: value
        for name, value in connector.items()
        if not name.startswith(_CONNECTIONS) and name not in security_keys.NAMES
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminChoice:
    """forwarding.admin.class: its ``name`` in the file; ``own``: the user's class, if it is not built in, and the
    ``properties`` of the flow that it receives."""

    name: str
    own: type[Any] | None
    properties: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReader:
    """Reads the class keys of one ``flow`` from the ``properties`` of its connectors.

    Errors are added to ``problems`` and the built-in class is used. ``directory`` is that of the file. Classes are
    checked for every flow; filters are created only for enabled flows, because the others do not use them.
    """

    flow: Flow
    properties: Properties
    source: SourceSettings
    directory: Path
    problems: ProblemLog

    @property
    def aliases(self) -> Flow:
        """The aliases of the clusters in topic names."""
        return self.source.aliases(self.flow)

    def policy(self) -> ReplicationPolicy:
        """Return the replication policy, which names the flow's topics, including internal ones."""
        name = self.source.replication_policy_class
        if name in POLICY.built_in:
            return self._built_in_policy(name)
        plugin = self._plugin(POLICY, name)
        if plugin is None:
            return self._built_in_policy(POLICY.default)
        policy = GuardedPolicy(plugin)
        try:
            policy.heartbeats_topic()
            policy.checkpoints_topic(self.aliases.source)
            policy.offset_syncs_topic(self.aliases.source)
            policy.offset_syncs_topic(self.aliases.target)
        except PluginError as error:
            self._refuse(POLICY, f"the policy cannot name the internal topics: {error}", f"correct the class ({PAGE})")
        return policy

    def topic_filter(self) -> NameFilter | OwnFilter:
        """Return the topic filter."""
        source = self.source
        chosen = self._name_filter("topics", source.topics, source.topics_exclude)
        return self._own_filter(TOPIC_FILTER, source.topic_filter_class) or chosen

    def group_filter(self, checkpoint: CheckpointSettings) -> NameFilter | OwnFilter:
        """Return the group filter."""
        chosen = self._name_filter("groups", checkpoint.groups, checkpoint.groups_exclude)
        return self._own_filter(GROUP_FILTER, checkpoint.group_filter_class) or chosen

    def property_filter(self) -> PropertyFilter | OwnFilter:
        """Return the filter of topic configs."""
        source = self.source
        exclude = read_pattern(
            "config.properties.exclude", source.config_properties_exclude, self.properties, self.problems
        )
        return self._own_filter(PROPERTY_FILTER, source.config_property_filter_class) or PropertyFilter(exclude)

    def admin(self) -> AdminChoice:
        """Return the admin that creates and alters topics."""
        name = self.source.forwarding_admin_class
        own = None if name in ADMIN.built_in else self._class(ADMIN, name)
        return AdminChoice(name=name, own=own, properties=self._own_properties() if own is not None else {})

    def _name_filter(self, name: str, include: tuple[str, ...], exclude: tuple[str, ...]) -> NameFilter:
        return NameFilter(
            include=read_pattern(name, include, self.properties, self.problems),
            exclude=read_pattern(f"{name}.exclude", exclude, self.properties, self.problems),
        )

    def _own_filter(self, key: ClassKey, name: str) -> OwnFilter | None:
        if name in key.built_in:
            return None
        if not self.source.enabled:
            self._class(key, name)
            return None
        plugin = self._plugin(key, name)
        return None if plugin is None else OwnFilter(plugin, key.methods[0])

    def _built_in_policy(self, name: str) -> ReplicationPolicy:
        policy = load(POLICY.built_in[name])
        return cast(ReplicationPolicy, policy(**self._arguments(policy)))

    def _plugin(self, key: ClassKey, name: str) -> Plugin | None:
        own = self._class(key, name)
        if own is None:
            return None
        try:
            instance = own(**self._arguments(own))
            if hasattr(instance, "configure"):
                instance.configure(self._own_properties())
        except (Exception, SystemExit) as error:  # noqa: BLE001 a user's code may raise anything
            rule = f"the class cannot be created or configured for {self.flow}: it raised {described(error)}"
            self._refuse(key, rule, f"correct the class or its properties ({PAGE})")
            return None
        return Plugin(f"{key.name} {name}", instance)

    def _class(self, key: ClassKey, name: str) -> type[Any] | None:
        try:
            return load_own(name, key, self.directory)
        except ClassProblem as problem:
            self._refuse(key, problem.rule, problem.fix)
            return None

    def _arguments(self, policy: type[Any]) -> dict[str, object]:
        """Return the constructor's arguments. Built-in policies are dataclasses; classes that inherit take the same."""
        if not issubclass(policy, DefaultReplicationPolicy):
            return {}
        arguments: dict[str, object] = {
            "separator": self.source.replication_policy_separator,
            "internal_separator_enabled": self.source.internal_topic_separator_enabled,
            "source_alias": self.aliases.source,
        }
        return {field.name: arguments[field.name] for field in fields(policy) if field.name in arguments}

    def _own_properties(self) -> dict[str, str]:
        """Return the properties that user classes receive."""
        received = {name: value.text for name, value in properties_for_plugins(self.properties).items()}
        return received | {SOURCE_ALIAS: self.aliases.source, TARGET_ALIAS: self.aliases.target}

    def _refuse(self, key: ClassKey, rule: str, fix: str) -> None:
        self.properties[key.name].refuse(self.problems, rule, fix)
