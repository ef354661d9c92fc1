"""Selects the configs of a source topic for its remote topic, at creation and later (KIP-894)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ConfigSource(IntEnum):
    """Where a broker got a topic's config from; the numbers of the DescribeConfigs response."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> ConfigSource:
        """Return UNKNOWN for a number not in the list, as in Java."""
        return cls.UNKNOWN


ONLY_AT_CREATION = frozenset({"message.timestamp.before.max.ms", "message.timestamp.after.max.ms"})
"""Configs that a remote topic gets when it is created and that later syncs leave alone: limits of the target's brokers
can reject records that the source accepted, and a user repairs that on the remote topic. Java's default of
config.properties.exclude was to exclude them, but names the brokers' keys (``log.message.timestamp.…``)."""


class DefaultsFrom(StrEnum):
    """use.defaults.from: the cluster whose default a remote topic gets if the source topic has the default."""

    TARGET = "target"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of one topic as returned by DescribeConfigs. ``value`` is None if the broker hides it."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool = False
    sensitive: bool = False


def configs_to_create(
    entries: Iterable[ConfigEntry],
    *,
    excluded: Callable[[str], bool],
    use_defaults_from: DefaultsFrom = DefaultsFrom.TARGET,
) -> dict[str, str]:
    """Return the configs to create a remote topic with.

    ``excluded`` is config.properties.exclude, called with a config name. Not copied are read-only and sensitive
    configs, those from the source brokers' own file, excluded ones, and, with the target's defaults, default values.
    """
    without = {ConfigSource.STATIC_BROKER_CONFIG}
    if use_defaults_from is DefaultsFrom.TARGET:
        without.add(ConfigSource.DEFAULT_CONFIG)
    return {
        entry.name: entry.value
        for entry in entries
        if entry.source not in without and entry.value is not None and _goes_along(entry, excluded)
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class SetConfig:
    """Set ``value`` on the remote topic. ``before`` is its current value."""

    name: str
    value: str
    before: str | None

    def __str__(self) -> str:
        if self.value == self.before:
            return f"{self.name} = {self.value}, now set on the topic"
        return f"{self.name} = {self.value}, was {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConfig:
    """Reset the remote topic to the target's default. ``before`` is the current value set on the topic."""

    name: str
    before: str | None

    def __str__(self) -> str:
        return f"{self.name} = the target's default, was {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDiff:
    """``changes`` for one IncrementalAlterConfigs request, sorted by name.

    ``unknown``: configs that the target's brokers do not support; with them the broker would reject all changes.
    """

    changes: tuple[SetConfig | DeleteConfig, ...]
    unknown: tuple[str, ...] = ()


def config_changes(
    source: Iterable[ConfigEntry],
    remote: Iterable[ConfigEntry],
    *,
    excluded: Callable[[str], bool],
    use_defaults_from: DefaultsFrom = DefaultsFrom.TARGET,
) -> ConfigDiff:
    """Return the changes that give the ``remote`` topic the ``source`` topic's configs, both from DescribeConfigs.

    The result is the same as in Java, which sets and deletes all configs every time. A config that is a default on the
    source is deleted on the remote topic, or set if the source's defaults are used. All others are set on the topic, so
    that they do not change with the target's defaults. Excluded configs, those from the source brokers' own file, and,
    unlike in Java, those of `ONLY_AT_CREATION` are not changed.
    """
    present = {entry.name: entry for entry in remote}
    changes: list[SetConfig | DeleteConfig] = []
    unknown: list[str] = []
    for entry in sorted(source, key=lambda entry: entry.name):
        if entry.source is ConfigSource.STATIC_BROKER_CONFIG or entry.name in ONLY_AT_CREATION:
            continue
        if not _goes_along(entry, excluded):
            continue
        there = present.get(entry.name)
        of_its_own = there is not None and there.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
        before = None if there is None else there.value
        if entry.source is ConfigSource.DEFAULT_CONFIG and use_defaults_from is DefaultsFrom.TARGET:
            if of_its_own:
                changes.append(DeleteConfig(name=entry.name, before=before))
        elif there is None:
            unknown.append(entry.name)
        elif entry.value is not None and not (of_its_own and before == entry.value):
            changes.append(SetConfig(name=entry.name, value=entry.value, before=before))
    return ConfigDiff(changes=tuple(changes), unknown=tuple(unknown))


def _goes_along(entry: ConfigEntry, excluded: Callable[[str], bool]) -> bool:
    return not (entry.read_only or entry.sensitive or excluded(entry.name))
