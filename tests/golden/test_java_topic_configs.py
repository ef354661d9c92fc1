"""Which configs a remote topic is created with, and later changed to, beside what Java's MirrorSourceConnector does."""

from __future__ import annotations

from mm2.core.topic_configs import (
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


def test_choice_of_configs() -> None:
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
            excluded=lambda name: name == "min.insync.replicas",  # of the two names used, the one excluded by default
            use_defaults_from=DefaultsFrom(vector["use_defaults_from"]),
        )
        assert kept == ({entry.name: entry.value} if vector["kept"] else {}), vector


def test_what_a_round_of_config_sync_changes() -> None:
    """The remote topic has another value of its own, so that ours has as much to change as Java, which never looks."""
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
