from __future__ import annotations

from collections.abc import Mapping

import pytest

from mm2.cli.clusters.group_positions import Answer, CheckpointsByGroup, FlowRules, PartitionPosition, source_partition
from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import CommittedOffset, remote_partition
from mm2.core.offsets.offset_translation import NO_SYNC, TooOld, Translated, Translation
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy, ReplicationPolicy
from mm2.core.wire.formats import Checkpoint

A_B = Flow("A", "B")
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
RULES = FlowRules(
    aliases=A_B,
    policy=DefaultReplicationPolicy(),
    selects=lambda topic: topic != "hidden",
    refusal=lambda topic: f"not matched by topics: {topic}",
)
LOST = TooOld(first=900)


def checkpoint(upstream: int, downstream: int, remote: TopicPartition = REMOTE) -> Checkpoint:
    return Checkpoint(
        group="g", topic_partition=remote, upstream_offset=upstream, downstream_offset=downstream, metadata="m"
    )


def positions(
    committed: Mapping[TopicPartition, int | None],
    translation: Translation,
    last: Checkpoint | None = None,
    on_target: Mapping[TopicPartition, CommittedOffset | None] | None = None,
) -> tuple[PartitionPosition, ...]:
    known = CheckpointsByGroup(RULES)
    if last is not None:
        known.take(last, 1_000)
    offsets = {one: None if offset is None else CommittedOffset(offset=offset) for one, offset in committed.items()}
    return known.positions("g", offsets, lambda partition, offset: translation, on_target or {})


@pytest.mark.parametrize(
    ("translation", "last", "expected"),
    [
        (Translated(offset=80, behind=0), None, (80, Answer.EXACT, 0)),
        (Translated(offset=80, behind=7), None, (80, Answer.CONSERVATIVE, 7)),
        (Translated(offset=80, behind=7), checkpoint(90, 80), (80, Answer.CONSERVATIVE, 7)),
        (Translated(offset=80, behind=7), checkpoint(95, 85), (85, Answer.CONSERVATIVE, None)),  # never moved back
        (Translated(offset=80, behind=0), checkpoint(200, 185), (80, Answer.EXACT, 0)),  # the group was rewound
        (NO_SYNC, None, (None, Answer.NONE, None)),
        (LOST, checkpoint(95, 85), (85, Answer.CONSERVATIVE, None)),
        (NO_SYNC, checkpoint(100, 88), (88, Answer.CONSERVATIVE, None)),
        (LOST, checkpoint(101, 89), (None, Answer.NONE, None)),  # would skip the record at 100
    ],
)
def test_translated_position_skips_no_record(
    translation: Translation, last: Checkpoint | None, expected: tuple[int | None, Answer, int | None]
) -> None:
    (one,) = positions({ORDERS: 100}, translation, last)
    assert (one.translated, one.answer, one.read_again) == expected
    assert (one.partition, one.remote, one.source_offset) == (ORDERS, REMOTE, 100)
    assert (one.reason is None) == (one.translated is not None)


def test_checkpoint_for_a_deleted_remote_topic_is_ignored() -> None:
    known = CheckpointsByGroup(RULES)
    known.take(checkpoint(95, 85), 1_000)
    committed = {ORDERS: CommittedOffset(offset=100)}
    (one,) = known.positions("g", committed, lambda *_: LOST, {}, lambda *_: 5)
    assert (one.translated, one.answer, one.reason) == (None, Answer.NONE, str(LOST))
    assert one.checkpoint is not None, "the checkpoint is still shown"


def test_reasons() -> None:
    shown = positions(
        {ORDERS: 100, TopicPartition("hidden", 0): 5, TopicPartition("reset", 1): None, TopicPartition("reset", 0): -1},
        LOST,
        checkpoint(150, 140),
    )
    assert [(str(one.partition), one.source_offset, one.reason) for one in shown] == [
        ("hidden-0", 5, "not matched by topics: hidden"),
        (
            "orders-0",
            100,
            "too old: source offsets before 900 can no longer be translated;"
            " the last checkpoint is for source offset 150 and would skip records before it",
        ),
        ("reset-0", None, "the group has committed no offset"),
        ("reset-1", None, "the group has committed no offset"),
    ]


def test_group_offset_on_the_target() -> None:
    exact = Translated(offset=80, behind=0)
    (there,) = positions({ORDERS: 100}, exact, on_target={REMOTE: CommittedOffset(offset=70)})
    (reset,) = positions({ORDERS: 100}, exact, on_target={REMOTE: None})
    assert (there.target_offset, reset.target_offset) == (70, None)


def test_last_checkpoint_gives_the_position_if_the_source_is_unavailable() -> None:
    known = CheckpointsByGroup(RULES)
    known.take(checkpoint(90, 80), 1_000)
    known.take(checkpoint(95, 84), 2_000)
    known.take(checkpoint(7, 7, TopicPartition("orders", 3)), 3_000)  # of B.orders, which maps back to orders
    assert known.groups == {"g"}
    assert known.committed("g") == {
        ORDERS: CommittedOffset(offset=95, metadata="m"),
        TopicPartition("B.orders", 3): CommittedOffset(offset=7, metadata="m"),
    }
    assert known.committed("unknown") == {}
    _, one = known.positions("g", known.committed("g"), lambda *_: NO_SYNC, {})
    assert (one.source_offset, one.translated, one.checkpoint and one.checkpoint.written_ms) == (95, 84, 2_000)


@pytest.mark.parametrize(
    ("policy", "topics"),
    [
        (DefaultReplicationPolicy(), ["orders", "X.orders", "B.orders", "heartbeats"]),
        (DefaultReplicationPolicy(separator="_"), ["orders", "X_orders", "B_orders", "A.orders"]),
        (IdentityReplicationPolicy(source_alias="A"), ["orders", "X.orders", "heartbeats"]),
    ],
)
def test_source_partition_of_a_remote_partition(policy: ReplicationPolicy, topics: list[str]) -> None:
    for topic in topics:
        there = remote_partition(TopicPartition(topic, 2), aliases=A_B, policy=policy)
        assert source_partition(there, aliases=A_B, policy=policy) == TopicPartition(topic, 2)
