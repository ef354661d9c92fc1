"""Which of a source topic's configs its remote topic gets (mm2-compat §3.4)."""

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
        if entry.source not in without
        and not (entry.read_only or entry.sensitive or entry.value is None or excluded(entry.name))
    }
