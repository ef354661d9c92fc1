"""Topics that mm2 creates on B, compared to those that Java's MirrorMaker creates on C from the same source."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from tests.lab.cluster import KafkaCluster
from tests.parity.scenario import (
    CHECKPOINTS,
    COMPACTED,
    CONFIGS,
    CONFIGURED,
    HEARTBEATS,
    OFFSETS,
    PRESET,
    STATUS,
    SYNCS_OF_B,
    SYNCS_OF_C,
    TOPICS,
    Scenario,
)

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario

ANSWER = 30  # seconds for an administrative request


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedTopic:
    """Properties of a created topic: partitions, replicas of each, and the configs set on it."""

    partitions: int
    copies: int
    configs: dict[str, str]


def _created(cluster: KafkaCluster, topic: str) -> CreatedTopic:
    known = cluster.admin.list_topics(timeout=ANSWER).topics[topic].partitions
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = cluster.admin.describe_configs([resource]).values()
    entries = future.result(ANSWER).values()
    (copies,) = {len(one.replicas) for one in known.values()}
    return CreatedTopic(
        partitions=len(known),
        copies=copies,
        configs={one.name: one.value for one in entries if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value},
    )


@pytest.mark.parametrize("topic", [OFFSETS, CONFIGS, STATUS, HEARTBEATS, CHECKPOINTS])
def test_internal_topics_on_the_target(scenario: Scenario, topic: str) -> None:
    assert topic in scenario.topics_by_us
    assert _created(scenario.b, topic) == _created(scenario.c, topic)


def test_offset_syncs_topics_on_the_source(scenario: Scenario) -> None:
    assert _created(scenario.a, SYNCS_OF_B) == _created(scenario.a, SYNCS_OF_C)


@pytest.mark.parametrize("topic", TOPICS)
def test_remote_topics(scenario: Scenario, topic: str) -> None:
    assert _created(scenario.b, f"A.{topic}") == _created(scenario.c, f"A.{topic}")


def test_configs_are_copied_except_excluded_ones(scenario: Scenario) -> None:
    """Ensures that the previous comparison covers actual values."""
    configs = _created(scenario.b, f"A.{CONFIGURED}").configs
    assert configs["retention.ms"] == "123456789"
    assert "message.timestamp.type" not in configs
    assert "min.insync.replicas" not in configs
    assert _created(scenario.b, f"A.{COMPACTED}").configs["cleanup.policy"] == "compact"


def test_configs_of_an_existing_remote_topic_are_synced(scenario: Scenario) -> None:
    """As in Java: the source's values and the target's defaults apply; excluded configs keep their value."""
    wanted = {"retention.ms": "123456789", "segment.bytes": "1073741824", "min.insync.replicas": "1"}
    assert _created(scenario.b, f"A.{PRESET}").configs == wanted
    assert _created(scenario.c, f"A.{PRESET}").configs == wanted


def test_same_topic_names(scenario: Scenario) -> None:
    """mm2 creates every topic that Java creates for a flow, and two of its own."""
    on_b = {name for name in scenario.topics_by_us if not name.startswith("__")}
    on_c = {name for name in scenario.c.admin.list_topics(timeout=ANSWER).topics if not name.startswith("__")}
    assert on_c - on_b == set()
    assert on_b - on_c == {"mm2-exact-offsets.A.internal", "mm2-losses.A.internal"}
