"""Which configs a remote topic is created with, beside what Java's MirrorSourceConnector keeps."""

from __future__ import annotations

from mm2.core.topic_configs import ConfigEntry, ConfigSource, DefaultsFrom, configs_to_create
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
