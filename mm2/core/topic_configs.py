"""Which of a source topic's configs its remote topic gets, when it is created and later (mm2-compat §3.4, KIP-894)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ConfigSource(IntEnum):
    """Where a broker took a topic's config from; the numbers of the DescribeConfigs answer."""

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
        """A number this list does not know yet is UNKNOWN, as in Java."""
        return cls.UNKNOWN


class DefaultsFrom(StrEnum):
    """use.defaults.from: whose default a remote topic has where the source topic has the default."""

    TARGET = "target"
    SOURCE = "source"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """One config of one topic as DescribeConfigs shows it. ``value`` is None where the broker hides it."""

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
    """The configs to create a remote topic with. ``excluded`` is config.properties.exclude, asked by config name.

    Left out are what cannot be set (read-only), what is hidden (sensitive), what the source's brokers have in their own
    file, what is excluded, and, with the target's defaults, what is a default.
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
    """The remote topic is to have ``value`` of its own. ``before`` is the value it has now."""

    name: str
    value: str
    before: str | None

    def __str__(self) -> str:
        if self.value == self.before:
            return f"{self.name} = {self.value}, now set on the topic"
        return f"{self.name} = {self.value}, was {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteConfig:
    """The remote topic is to have the target's default again. ``before`` is the value of its own it has now."""

    name: str
    before: str | None

    def __str__(self) -> str:
        return f"{self.name} = the target's default, was {self.before}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigDiff:
    """``changes`` for one IncrementalAlterConfigs, sorted by name. ``unknown``: configs that the target's brokers do
    not know; they would refuse the topic's other changes along with them."""

    changes: tuple[SetConfig | DeleteConfig, ...]
    unknown: tuple[str, ...] = ()


def config_changes(
    source: Iterable[ConfigEntry],
    remote: Iterable[ConfigEntry],
    *,
    excluded: Callable[[str], bool],
    use_defaults_from: DefaultsFrom = DefaultsFrom.TARGET,
) -> ConfigDiff:
    """What to change so that the ``remote`` topic has the ``source`` topic's configs, both as DescribeConfigs has them.

    The outcome is Java's, which sets and deletes everything in each round. What the source has by default is deleted
    on the remote topic, or set with the source's defaults; all else is set there, so that it stays when the target's
    own defaults change. Excluded configs, and those the source's brokers have in their own file, are left alone.
    """
    present = {entry.name: entry for entry in remote}
    changes: list[SetConfig | DeleteConfig] = []
    unknown: list[str] = []
    for entry in sorted(source, key=lambda entry: entry.name):
        if entry.source is ConfigSource.STATIC_BROKER_CONFIG or not _goes_along(entry, excluded):
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
