"""The rules of topic configuration sync (MirrorSourceConnector) and the cases of Java's tests."""

from __future__ import annotations

import pytest

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

TOPIC = ConfigSource.DYNAMIC_TOPIC_CONFIG
DEFAULT = ConfigSource.DEFAULT_CONFIG
BROKER = ConfigSource.STATIC_BROKER_CONFIG


def entry(name: str, value: str | None, source: ConfigSource = TOPIC) -> ConfigEntry:
    return ConfigEntry(name=name, value=value, source=source)


def diff(
    source: list[ConfigEntry], remote: list[ConfigEntry], use_defaults_from: DefaultsFrom = DefaultsFrom.TARGET
) -> ConfigDiff:
    return config_changes(
        source,
        remote,
        excluded=lambda name: name.startswith("delete.retention."),
        use_defaults_from=use_defaults_from,
    )


def test_topics_are_created_with_source_defaults_if_configured() -> None:
    entries = [entry("retention.ms", "5", DEFAULT), entry("segment.ms", "6")]
    assert configs_to_create(entries, excluded=lambda _: False) == {"segment.ms": "6"}
    both = configs_to_create(entries, excluded=lambda _: False, use_defaults_from=DefaultsFrom.SOURCE)
    assert both == {"retention.ms": "5", "segment.ms": "6"}


def test_only_differing_values_are_set() -> None:
    source = [entry("retention.ms", "60000"), entry("cleanup.policy", "compact")]
    remote = [entry("cleanup.policy", "compact"), entry("retention.ms", "604800000", DEFAULT)]
    changes = diff(source, remote).changes
    assert changes == (SetConfig(name="retention.ms", value="60000", before="604800000"),)
    assert str(changes[0]) == "retention.ms = 60000, was 604800000"
    assert diff(source, source) == ConfigDiff(changes=())


def test_explicit_values_are_set_even_if_equal_to_the_targets_default() -> None:
    changes = diff([entry("retention.ms", "60000")], [entry("retention.ms", "60000", BROKER)]).changes
    assert changes == (SetConfig(name="retention.ms", value="60000", before="60000"),)
    assert str(changes[0]) == "retention.ms = 60000, now set on the topic"


def test_source_default_resets_to_the_targets_default() -> None:
    source = [entry("retention.bytes", "-1", DEFAULT), entry("segment.ms", "7", DEFAULT)]
    remote = [entry("retention.bytes", "1000"), entry("segment.ms", "9", BROKER)]
    changes = diff(source, remote).changes
    assert changes == (DeleteConfig(name="retention.bytes", before="1000"),)
    assert str(changes[0]) == "retention.bytes = the target's default, was 1000"


def test_source_defaults_are_copied_if_configured() -> None:
    source = [entry("retention.bytes", "-1", DEFAULT)]
    for remote in (entry("retention.bytes", "1000"), entry("retention.bytes", "-1", DEFAULT)):
        (change,) = diff(source, [remote], DefaultsFrom.SOURCE).changes
        assert change == SetConfig(name="retention.bytes", value="-1", before=remote.value)
    assert diff(source, [entry("retention.bytes", "-1")], DefaultsFrom.SOURCE).changes == ()


@pytest.mark.parametrize("name", ["message.timestamp.before.max.ms", "message.timestamp.after.max.ms"])
@pytest.mark.parametrize("defaults_from", list(DefaultsFrom))
def test_limits_of_timestamps_are_copied_at_creation_and_never_synced_back(
    name: str, defaults_from: DefaultsFrom
) -> None:
    """The repair of INVALID_TIMESTAMP in docs/how-to/troubleshooting.md lasts."""
    raised = entry(name, "1000000000000000")
    for on_source in (entry(name, "9223372036854775807", DEFAULT), entry(name, "3600000")):
        assert diff([on_source], [raised], defaults_from).changes == ()
    assert configs_to_create([entry(name, "5")], excluded=lambda _: False) == {name: "5"}


def test_excluded_properties_are_not_changed() -> None:
    source = [
        entry("delete.retention.ms", "1"),
        entry("min.insync.replicas", "2", BROKER),
        ConfigEntry(name="fixed", value="1", source=TOPIC, read_only=True),
        ConfigEntry(name="secret", value=None, source=TOPIC, sensitive=True),
        entry("hidden", None),
    ]
    remote = [entry(one.name, "5") for one in source]
    assert diff(source, remote) == ConfigDiff(changes=())


def test_properties_unknown_to_the_target_are_reported_and_not_set() -> None:
    source = [entry("new.config", "1"), entry("new.default", "1", DEFAULT), entry("retention.ms", "5")]
    changed = diff(source, [entry("retention.ms", "6")])
    assert changed.unknown == ("new.config",)
    assert [change.name for change in changed.changes] == ["retention.ms"]


def test_changes_are_sorted_by_name() -> None:
    changed = diff(
        [entry("b", "1"), entry("a", "1"), entry("c", "1", DEFAULT)],
        [entry("c", "2"), entry("b", "2"), entry("a", "2")],
    )
    assert [change.name for change in changed.changes] == ["a", "b", "c"]
