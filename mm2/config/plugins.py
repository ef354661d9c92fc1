"""What a flow's class keys name: what is built in, or an object of a user's class, made and told its properties."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, cast

from mm2.config import security_keys
from mm2.config.class_loading import PAGE, ClassProblem, load, load_own
from mm2.config.class_names import ADMIN, GROUP_FILTER, POLICY, PROPERTY_FILTER, TOPIC_FILTER, ClassKey
from mm2.config.connectors import CheckpointSettings, SourceSettings
from mm2.config.filters import NameFilter, OwnFilter, PropertyFilter, read_pattern
from mm2.config.problems import ProblemLog
from mm2.config.settings import AdminChoice
from mm2.config.values import Properties
from mm2.core.names import Flow
from mm2.core.own_policy import OwnPolicy
from mm2.core.plugins import Plugin, PluginError, described
from mm2.core.policies import DefaultReplicationPolicy, ReplicationPolicy

_CONNECTIONS = ("source.", "target.", "producer.", "consumer.", "admin.", "config.providers")


def told_to_own_classes(connector: Properties) -> Properties:
    """Of what a flow's connectors are told, what classes of a user's own are told too: no connections, no passwords."""
    return {
        name: value
        for name, value in connector.items()
        if not name.startswith(_CONNECTIONS) and name not in security_keys.NAMES
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginReader:
    """Reads the class keys of one ``flow`` from the ``properties`` of its connectors. What cannot be goes to
    ``problems`` and is replaced by what is built in. ``directory`` is the file's.

    Classes are looked at for every flow. Filters are made for flows that replicate, as only those ask them.
    """

    flow: Flow
    properties: Properties
    source: SourceSettings
    directory: Path
    problems: ProblemLog

    def policy(self) -> ReplicationPolicy:
        """What names the flow's topics, internal ones among them."""
        name = self.source.replication_policy_class
        if name in POLICY.built_in:
            return self._built_in_policy(name)
        plugin = self._plugin(POLICY, name)
        if plugin is None:
            return self._built_in_policy(POLICY.default)
        policy = OwnPolicy(plugin)
        try:
            policy.heartbeats_topic()
            policy.checkpoints_topic(self.flow.source)
            policy.offset_syncs_topic(self.flow.source)
            policy.offset_syncs_topic(self.flow.target)
        except PluginError as error:
            self._refuse(POLICY, f"cannot name the internal topics: {error}. Correct the class ({PAGE}).")
        return policy

    def topic_filter(self) -> NameFilter | OwnFilter:
        """What chooses topics."""
        source = self.source
        chosen = self._name_filter("topics", source.topics, source.topics_exclude)
        return self._own_filter(TOPIC_FILTER, source.topic_filter_class) or chosen

    def group_filter(self, checkpoint: CheckpointSettings) -> NameFilter | OwnFilter:
        """What chooses consumer groups."""
        chosen = self._name_filter("groups", checkpoint.groups, checkpoint.groups_exclude)
        return self._own_filter(GROUP_FILTER, checkpoint.group_filter_class) or chosen

    def property_filter(self) -> PropertyFilter | OwnFilter:
        """What chooses topic settings."""
        source = self.source
        exclude = read_pattern(
            "config.properties.exclude", source.config_properties_exclude, self.properties, self.problems
        )
        return self._own_filter(PROPERTY_FILTER, source.config_property_filter_class) or PropertyFilter(exclude)

    def admin(self) -> AdminChoice:
        """What makes and changes topics."""
        name = self.source.forwarding_admin_class
        own = None if name in ADMIN.built_in else self._class(ADMIN, name)
        return AdminChoice(name=name, own=own, properties=self._told() if own is not None else {})

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
                instance.configure(self._told())
        except (Exception, SystemExit) as error:  # noqa: BLE001 a user's code may raise anything
            rule = f"names a class that cannot be made or configured for {self.flow}: it raised {described(error)}. "
            self._refuse(key, rule + f"Correct what it says, or the class ({PAGE}).")
            return None
        return Plugin(f"{key.name} {name}", instance)

    def _class(self, key: ClassKey, name: str) -> type[Any] | None:
        try:
            return load_own(name, key, self.directory)
        except ClassProblem as problem:
            self._refuse(key, str(problem))
            return None

    def _arguments(self, policy: type[Any]) -> dict[str, object]:
        """What is built in are dataclasses, and who inherits from them is made as they are."""
        if not issubclass(policy, DefaultReplicationPolicy):
            return {}
        told: dict[str, object] = {
            "separator": self.source.replication_policy_separator,
            "internal_separator_enabled": self.source.internal_topic_separator_enabled,
            "source_alias": self.flow.source,
        }
        return {field.name: told[field.name] for field in fields(policy) if field.name in told}

    def _told(self) -> dict[str, str]:
        """The flow's properties without those of clients, among which passwords are."""
        told = {name: value.text for name, value in told_to_own_classes(self.properties).items()}
        return told | {"source.cluster.alias": self.flow.source, "target.cluster.alias": self.flow.target}

    def _refuse(self, key: ClassKey, rule: str) -> None:
        self.properties[key.name].refuse(self.problems, rule)
