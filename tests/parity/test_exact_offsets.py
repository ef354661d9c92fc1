"""Exact offsets of a flow that Java's MirrorMaker copied in between: exact for mm2's records, else as in Java."""

from __future__ import annotations

import pytest

from mm2.core.naming.internal_topics import exact_offsets
from mm2.core.naming.names import Flow, TopicPartition
from tests.lab.exact_map import judge, read_segments
from tests.parity.internal_records import positions
from tests.parity.scenario import BUSY, STILL, TOPICS, Scenario

pytestmark = pytest.mark.timeout(600)  # the first test runs the scenario

EXACT_OFFSETS = exact_offsets(Flow("A", "B")).name


def test_java_does_not_touch_the_exact_offsets_topic(scenario: Scenario) -> None:
    assert EXACT_OFFSETS in scenario.topics_by_us
    assert f"A.{EXACT_OFFSETS}" not in scenario.b.admin.list_topics(timeout=10).topics
    assert EXACT_OFFSETS not in scenario.c.admin.list_topics(timeout=10).topics


@pytest.mark.parametrize("topic", BUSY)
def test_offsets_are_exact_for_mm2_records_and_conservative_for_java_records(scenario: Scenario, topic: str) -> None:
    by_us, after_java = positions(scenario.by_us.offsets), positions(scenario.after_java.offsets)
    segments = read_segments(scenario.b.bootstrap, EXACT_OFFSETS)
    for number, records in scenario.source[topic].items():
        partition = TopicPartition(topic, number)
        coverage = judge(segments[partition], records, scenario.into_b[topic][number])
        ours, javas = by_us[partition], after_java[partition]  # Java copied a little more after ``after_java`` was read
        assert coverage.exact >= set(range(ours))
        assert coverage.conservative >= set(range(ours, javas))
        end = records[-1].offset + 1
        assert coverage.exact >= set(range(max(coverage.conservative) + 1, end + 1))
        assert max(coverage.conservative) < end
        assert len(coverage.conservative) == max(coverage.conservative) - min(coverage.conservative) + 1


@pytest.mark.parametrize("topic", sorted({*TOPICS} - {*BUSY}))
def test_quiet_topics_are_completely_exact(scenario: Scenario, topic: str) -> None:
    segments = read_segments(scenario.b.bootstrap, EXACT_OFFSETS)
    for number, records in scenario.source[topic].items():
        coverage = judge(segments[TopicPartition(topic, number)], records, scenario.into_b[topic][number])
        assert coverage.conservative == frozenset()
    if topic == STILL:
        assert len(segments[TopicPartition(topic, 0)][-1].ranges) == 1
