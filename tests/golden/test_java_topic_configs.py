"""Configurations of created and synced remote topics, compared with Java's MirrorSourceConnector."""

from __future__ import annotations

from mm2.core.topics.topic_configs import (
    ConfigDiff,
    ConfigEntry,
    ConfigSource,
    DefaultsFrom,
    DeleteConfig,
    SetConfig,
    config_changes,
    configs_to_create,
)
from tests.golden.vectors import java_vectors


def test_selected_configs() -> None:
    for vector in java_vectors("topic-configs"):
        entry = ConfigEntry(
            name=vector["name"],
            value=vector["value"],
            source=ConfigSource[vector["source"]],
            read_only=vector["read_only"],
            sensitive=vector["sensitive"],
        )
        kept = configs_to_create(
            [entry],
            excluded=lambda name: name == "min.insync.replicas",  # the one of both names that is excluded by default
            use_defaults_from=DefaultsFrom(vector["use_defaults_from"]),
        )
        assert kept == ({entry.name: entry.value} if vector["kept"] else {}), vector


def test_changes_of_a_config_sync() -> None:
    """The remote topic has different values, so that ours has as much to change as Java, which never compares."""
    for vector in java_vectors("config-sync"):
        name, value, source, read_only, sensitive = vector["entry"]
        on_source = ConfigEntry(
            name=name, value=value, source=ConfigSource[source], read_only=read_only, sensitive=sensitive
        )
        diff = config_changes(
            [on_source],
            [ConfigEntry(name=name, value="6", source=ConfigSource.DYNAMIC_TOPIC_CONFIG)],
            excluded=lambda name: name == "min.insync.replicas",
            use_defaults_from=DefaultsFrom(vector["use_defaults_from"]),
        )
        expected: dict[str | None, tuple[SetConfig | DeleteConfig, ...]] = {
            "SET": (SetConfig(name=name, value=value, before="6"),),
            "DELETE": (DeleteConfig(name=name, before="6"),),
            None: (),
        }
        assert diff == ConfigDiff(changes=expected[vector["done"]]), vector
