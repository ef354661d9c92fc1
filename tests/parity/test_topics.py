"""Topics as we make them (on B) beside those that Java's MirrorMaker makes (on C) of the same source and file."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

from tests.lab.cluster import KafkaCluster
from tests.parity.story import (
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
    Story,
)

pytestmark = pytest.mark.timeout(600)  # the first test plays the story

ANSWER = 30  # seconds for an administrative request


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """How a topic was made: partitions, copies of each, and the configs set on it."""

    partitions: int
    copies: int
    configs: dict[str, str]


def _made(cluster: KafkaCluster, topic: str) -> Made:
    known = cluster.admin.list_topics(timeout=ANSWER).topics[topic].partitions
    resource = ConfigResource(ResourceType.TOPIC, topic)
    (future,) = cluster.admin.describe_configs([resource]).values()
    entries = future.result(ANSWER).values()
    (copies,) = {len(one.replicas) for one in known.values()}
    return Made(
        partitions=len(known),
        copies=copies,
        configs={one.name: one.value for one in entries if one.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value},
    )


@pytest.mark.parametrize("topic", [OFFSETS, CONFIGS, STATUS, HEARTBEATS, CHECKPOINTS])
def test_internal_topics_on_the_target(story: Story, topic: str) -> None:
    assert topic in story.topics_by_us
    assert _made(story.b, topic) == _made(story.c, topic)


def test_offset_syncs_topics_on_the_source(story: Story) -> None:
    assert _made(story.a, SYNCS_OF_B) == _made(story.a, SYNCS_OF_C)


@pytest.mark.parametrize("topic", TOPICS)
def test_remote_topics(story: Story, topic: str) -> None:
    assert _made(story.b, f"A.{topic}") == _made(story.c, f"A.{topic}")


def test_configs_are_copied_but_for_the_excluded(story: Story) -> None:
    """So that the comparison above is not one of nothing with nothing."""
    configs = _made(story.b, f"A.{CONFIGURED}").configs
    assert configs["retention.ms"] == "123456789"
    assert "message.timestamp.type" not in configs
    assert "min.insync.replicas" not in configs
    assert _made(story.b, f"A.{COMPACTED}").configs["cleanup.policy"] == "compact"


def test_configs_of_a_remote_topic_that_was_there_are_synced(story: Story) -> None:
    """As in Java: the source's values, the target's own defaults, and what is excluded stays."""
    wanted = {"retention.ms": "123456789", "segment.bytes": "1073741824", "min.insync.replicas": "1"}
    assert _made(story.b, f"A.{PRESET}").configs == wanted
    assert _made(story.c, f"A.{PRESET}").configs == wanted


def test_the_same_names(story: Story) -> None:
    """Every topic that Java makes for a flow we have made too, and one of our own."""
    on_b = {name for name in story.topics_by_us if not name.startswith("__")}
    on_c = {name for name in story.c.admin.list_topics(timeout=ANSWER).topics if not name.startswith("__")}
    assert on_c - on_b == set()
    assert on_b - on_c == {"mm2-exact-offsets.A.internal"}
