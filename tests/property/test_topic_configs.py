"""Our few changes produce the same configuration as Java's many (MirrorSourceConnector.syncTopicConfigs)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.topics.topic_configs import ConfigEntry, ConfigSource, DefaultsFrom, SetConfig, config_changes

NAMES = ("cleanup.policy", "min.insync.replicas", "retention.ms", "segment.ms")
TARGET_DEFAULTS = dict.fromkeys(NAMES, "t")
SOURCES = st.sampled_from(
    [
        ConfigSource.DYNAMIC_TOPIC_CONFIG,
        ConfigSource.DEFAULT_CONFIG,
        ConfigSource.STATIC_BROKER_CONFIG,
        ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG,
    ]
)
SOURCE_ENTRIES = st.fixed_dictionaries(
    {name: st.tuples(st.sampled_from(["t", "s", "x"]), SOURCES, st.booleans(), st.booleans()) for name in NAMES}
)
EXPLICIT = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["t", "s", "y"]))


def java(source: list[ConfigEntry], explicit: dict[str, str], defaults_from: DefaultsFrom) -> dict[str, str]:
    """Return the remote topic's configuration after one round of Java: an operation for every selected entry."""
    after = dict(explicit)
    for entry in source:
        if entry.read_only or entry.sensitive or entry.source is ConfigSource.STATIC_BROKER_CONFIG:
            continue
        if entry.name == "min.insync.replicas":
            continue
        if entry.source is ConfigSource.DEFAULT_CONFIG and defaults_from is DefaultsFrom.TARGET:
            after.pop(entry.name, None)
        else:
            assert entry.value is not None
            after[entry.name] = entry.value
    return after


@given(source=SOURCE_ENTRIES, explicit=EXPLICIT, defaults_from=st.sampled_from(DefaultsFrom))
def test_same_configuration_as_java_and_no_further_changes(
    source: dict[str, tuple[str, ConfigSource, bool, bool]], explicit: dict[str, str], defaults_from: DefaultsFrom
) -> None:
    entries = [
        ConfigEntry(name=name, value=value, source=origin, read_only=read_only, sensitive=sensitive)
        for name, (value, origin, read_only, sensitive) in source.items()
    ]

    def round_of(there: dict[str, str]) -> dict[str, str]:
        shown = [
            ConfigEntry(name=name, value=there[name], source=ConfigSource.DYNAMIC_TOPIC_CONFIG)
            if name in there
            else ConfigEntry(name=name, value=TARGET_DEFAULTS[name], source=ConfigSource.DEFAULT_CONFIG)
            for name in NAMES
        ]
        diff = config_changes(
            entries, shown, excluded=lambda name: name == "min.insync.replicas", use_defaults_from=defaults_from
        )
        after = dict(there)
        for change in diff.changes:
            if isinstance(change, SetConfig):
                assert after.get(change.name) != change.value
                after[change.name] = change.value
            else:
                del after[change.name]
        return after

    once = round_of(explicit)
    assert once == java(entries, explicit, defaults_from)
    assert round_of(once) == once
