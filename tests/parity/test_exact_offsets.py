"""Exact offsets of a flow that Java's MirrorMaker copied in between: exact where we copied, Java's answer elsewhere."""

from __future__ import annotations

import pytest

from mm2.core.internal_topics import exact_offsets
from mm2.core.names import Flow, TopicPartition
from tests.lab.exact_map import judge, read_segments
from tests.parity.internal_records import positions
from tests.parity.story import BUSY, STILL, TOPICS, Story

pytestmark = pytest.mark.timeout(600)  # the first test plays the story

EXACT_OFFSETS = exact_offsets(Flow("A", "B")).name


def test_java_leaves_the_topic_alone(story: Story) -> None:
    assert EXACT_OFFSETS in story.topics_by_us
    assert f"A.{EXACT_OFFSETS}" not in story.b.admin.list_topics(timeout=10).topics
    assert EXACT_OFFSETS not in story.c.admin.list_topics(timeout=10).topics


@pytest.mark.parametrize("topic", BUSY)
def test_what_we_copied_is_exact_and_what_java_copied_is_not_guessed(story: Story, topic: str) -> None:
    by_us, after_java = positions(story.by_us.offsets), positions(story.after_java.offsets)
    segments = read_segments(story.b.bootstrap, EXACT_OFFSETS)
    for number, records in story.source[topic].items():
        partition = TopicPartition(topic, number)
        coverage = judge(segments[partition], records, story.into_b[topic][number])
        ours, javas = by_us[partition], after_java[partition]  # Java went on for a moment after that was read
        assert coverage.exact >= set(range(ours))
        assert coverage.conservative >= set(range(ours, javas))
        end = records[-1].offset + 1
        assert coverage.exact >= set(range(max(coverage.conservative) + 1, end + 1))
        assert max(coverage.conservative) < end
        assert len(coverage.conservative) == max(coverage.conservative) - min(coverage.conservative) + 1


@pytest.mark.parametrize("topic", sorted({*TOPICS} - {*BUSY}))
def test_quiet_topics_are_exact_throughout(story: Story, topic: str) -> None:
    segments = read_segments(story.b.bootstrap, EXACT_OFFSETS)
    for number, records in story.source[topic].items():
        coverage = judge(segments[TopicPartition(topic, number)], records, story.into_b[topic][number])
        assert coverage.conservative == frozenset()
    if topic == STILL:
        assert len(segments[TopicPartition(topic, 0)][-1].ranges) == 1
