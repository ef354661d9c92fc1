from __future__ import annotations

import pytest

from mm2.core.naming import internal_topics
from mm2.core.naming.internal_topics import InternalTopic, Side
from mm2.core.naming.names import Flow
from mm2.core.policies import DefaultReplicationPolicy

FLOW = Flow("A", "B")
DOTS = DefaultReplicationPolicy()
UNDERSCORES = DefaultReplicationPolicy(separator="__")


@pytest.mark.parametrize(
    ("topic", "name", "side", "partitions", "replication_factor_key"),
    [
        (internal_topics.heartbeats(DOTS), "heartbeats", Side.TARGET, 1, "heartbeats.topic"),
        (
            internal_topics.offset_syncs(DOTS, FLOW, Side.SOURCE),
            "mm2-offset-syncs.B.internal",
            Side.SOURCE,
            1,
            "offset-syncs.topic",
        ),
        (
            internal_topics.offset_syncs(UNDERSCORES, FLOW, Side.TARGET),
            "mm2-offset-syncs__A__internal",
            Side.TARGET,
            1,
            "offset-syncs.topic",
        ),
        (internal_topics.checkpoints(DOTS, FLOW), "A.checkpoints.internal", Side.TARGET, 1, "checkpoints.topic"),
        (internal_topics.exact_offsets(FLOW), "mm2-exact-offsets.A.internal", Side.TARGET, 1, "checkpoints.topic"),
        (internal_topics.losses(FLOW), "mm2-losses.A.internal", Side.TARGET, 1, "checkpoints.topic"),
        (internal_topics.source_offsets(FLOW), "mm2-offsets.A.internal", Side.TARGET, 25, "offset.storage"),
        (internal_topics.configs(FLOW), "mm2-configs.A.internal", Side.TARGET, 1, "config.storage"),
        (internal_topics.status(FLOW), "mm2-status.A.internal", Side.TARGET, 5, "status.storage"),
    ],
    ids=lambda value: value.name if isinstance(value, InternalTopic) else "",
)
def test_names_and_places(
    topic: InternalTopic, name: str, side: Side, partitions: int, replication_factor_key: str
) -> None:
    assert (topic.name, topic.side, topic.partitions) == (name, side, partitions)
    assert topic.replication_factor_key == f"{replication_factor_key}.replication.factor"


def test_worker_topics_can_be_named_and_sized_by_the_file() -> None:
    assert internal_topics.source_offsets(FLOW, name="o", partitions=50).partitions == 50
    assert internal_topics.status(FLOW, name="s", partitions=3).name == "s"
    assert internal_topics.configs(FLOW, name="c").name == "c"


def test_created_compacted_regardless_of_the_file() -> None:
    topic = internal_topics.configs(FLOW)
    assert topic.creation_configs() == {"cleanup.policy": "compact"}
    settings = {"cleanup.policy": "delete", "segment.bytes": "1000"}
    assert topic.creation_configs(settings) == {"cleanup.policy": "compact", "segment.bytes": "1000"}


@pytest.mark.parametrize("cleanup_policy", ["delete", "compact,delete", "delete, compact"])
def test_worker_topics_without_compaction_are_rejected(cleanup_policy: str) -> None:
    for topic in internal_topics.source_offsets(FLOW), internal_topics.configs(FLOW), internal_topics.status(FLOW):
        refusal = topic.refusal(partitions=topic.partitions, cleanup_policy=cleanup_policy)
        assert refusal is not None
        assert topic.name in refusal
        assert f"cleanup.policy={cleanup_policy}" in refusal


@pytest.mark.parametrize("cleanup_policy", ["compact", " Compact ", "", None])
def test_compacted_or_unreadable_topics_are_accepted(cleanup_policy: str | None) -> None:
    assert internal_topics.status(FLOW).refusal(partitions=9, cleanup_policy=cleanup_policy) is None


def test_other_topics_are_not_checked() -> None:
    assert internal_topics.heartbeats(DOTS).refusal(partitions=3, cleanup_policy="delete") is None


def test_config_topic_requires_one_partition() -> None:
    refusal = internal_topics.configs(FLOW).refusal(partitions=3, cleanup_policy="compact")
    assert refusal is not None
    assert "mm2-configs.A.internal has 3 partitions" in refusal
