"""From us to Java's MirrorMaker and back, on one file and one target, under load (mm2-compat §6.1, §6.3)."""

from __future__ import annotations

import pytest

from mm2.core.names import TopicPartition
from tests.lab.history import count
from tests.lab.verify import compare
from tests.parity.internal_records import positions
from tests.parity.story import BUSY, LEDGER, STILL, TOPICS, Story

pytestmark = pytest.mark.timeout(600)  # the first test plays the story


@pytest.mark.parametrize("topic", TOPICS)
def test_nothing_is_lost_or_repeated_from_us_to_java_and_back(story: Story, topic: str) -> None:
    verdict = compare(story.source[topic], story.into_b[topic])
    assert verdict.exact, str(verdict)


def test_both_wrote_busy_topics_in_turn(story: Story) -> None:
    """Otherwise the test before this one would say little: each of the three reigns copied some of every partition."""
    by_us, after_java = positions(story.by_us.offsets), positions(story.after_java.offsets)
    for topic in BUSY:
        for number, records in story.source[topic].items():
            partition = TopicPartition(topic, number)
            assert 0 < by_us[partition] < after_java[partition] < len(records)


def test_our_node_drains_both_times(story: Story) -> None:
    assert story.exit_codes == (0, 0)


def test_java_cannot_join_the_group_we_hold(story: Story) -> None:
    """Java's program ends by itself then, with all its flows: what it says is in its log."""
    assert "InconsistentGroupProtocolException" in story.java_refused
    assert story.flow_meanwhile["state"] == "RUNNING"
    assert story.flow_meanwhile["epoch"] == story.epoch_before, "our group was not disturbed"
    assert story.flow_meanwhile["reasons"] == []


def test_our_node_says_that_java_holds_the_group_and_waits(story: Story) -> None:
    flow = story.flow_while_java_held
    assert flow["state"] == "WAITING"
    (reason,) = flow["reasons"]
    assert reason.startswith("a Java MirrorMaker holds group A-mm2 on cluster B")
    assert reason.endswith("waiting until it ends")
    assert reason in story.log_while_java_held
    assert story.health_while_java_held["status"] == "DOWN"
    assert any(reason in words for words in story.health_while_java_held["reasons"])


def test_java_alone_copies_the_same_records_as_we_do(story: Story) -> None:
    """The quiet topics of C, which Java filled without us, beside those of B: what we do is what Java does."""
    for topic in (STILL, LEDGER):
        verdict = compare(story.into_c[topic], story.into_b[topic])
        assert verdict.exact, str(verdict)
        assert count(story.into_b[topic]) == count(story.source[topic])
