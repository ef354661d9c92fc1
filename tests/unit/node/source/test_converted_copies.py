"""Which partitions are compared before a flow starts whose file has a converter."""

from __future__ import annotations

from pathlib import Path

from mm2.core.naming.names import TopicPartition
from mm2.core.policies import DefaultReplicationPolicy
from mm2.node.source.converted_copies import TOPICS, copied_partitions
from tests.unit.config import files


class FailingPolicy(DefaultReplicationPolicy):
    """Fails for one topic."""

    def format_remote_topic(self, alias: str, topic: str) -> str:
        if topic == "b":
            raise ValueError("no name for b")
        return super().format_remote_topic(alias, topic)


async def test_all_partitions_of_a_topic_can_be_compared(tmp_path: Path) -> None:
    """One without a leader must not keep the flow from starting."""
    stored = [TopicPartition("a", 1), TopicPartition("a", 0), TopicPartition("left-out", 0), TopicPartition("c", 0)]
    found = await copied_partitions(files.flow(tmp_path, "topics = .\n"), stored)
    assert found == [
        [(TopicPartition("a", number), TopicPartition("A.a", number)) for number in (0, 1)],
        [(TopicPartition("c", 0), TopicPartition("A.c", 0))],
    ]


async def test_a_topic_for_which_a_custom_class_fails_is_left_out(tmp_path: Path) -> None:
    settings = files.flow(tmp_path, f"replication.policy.class = {__name__}:{FailingPolicy.__name__}\n")
    found = await copied_partitions(settings, [TopicPartition(topic, 0) for topic in ("a", "b", "c")])
    assert [partition.topic for pairs in found for partition, _ in pairs] == ["a", "c"]


async def test_topics_are_limited_but_not_their_partitions(tmp_path: Path) -> None:
    stored = [TopicPartition(f"t{topic:02}", number) for topic in range(TOPICS + 5) for number in range(2)]
    assert [len(pairs) for pairs in await copied_partitions(files.flow(tmp_path), stored)] == [2] * TOPICS


async def test_records_that_a_query_changes_are_not_compared(tmp_path: Path) -> None:
    lines = "mm2.sql.mask.topics = masked\nmm2.sql.mask.query = SELECT 1 AS value FROM records\n"
    stored = [TopicPartition(topic, 0) for topic in ("masked", "plain")]
    found = await copied_partitions(files.flow(tmp_path, lines), stored)
    assert [partition.topic for pairs in found for partition, _ in pairs] == ["plain"]
