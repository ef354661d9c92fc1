"""The cases of Java's MirrorCheckpointTaskTest, and further rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest

from mm2.core.naming.names import Flow, TopicPartition
from mm2.core.offsets.checkpoints import (
    Checkpoints,
    CheckpointUnchanged,
    CommittedOffset,
    Emit,
    GroupSelection,
    GroupVerdict,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Untranslated,
    remote_partition,
)
from mm2.core.offsets.offset_sync_store import OffsetSyncStore
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated, Translation
from mm2.core.policies import DefaultReplicationPolicy, IdentityReplicationPolicy
from mm2.core.wire.formats import Checkpoint, OffsetSync

FLOW = Flow("source1", "target2")
T1 = TopicPartition("topic1", 2)
REMOTE = TopicPartition("source1.topic1", 2)


def checkpoints(selects: Callable[[str], bool] = lambda _: True) -> Checkpoints:
    return Checkpoints(aliases=FLOW, policy=DefaultReplicationPolicy(), selects=selects)


def store(syncs: Iterable[tuple[TopicPartition, int, int]], *, must_read_to_end: bool = True) -> OffsetSyncStore:
    loaded = OffsetSyncStore(must_read_to_end=must_read_to_end)
    for partition, upstream, downstream in syncs:
        loaded.apply(OffsetSync(topic_partition=partition, upstream_offset=upstream, downstream_offset=downstream))
    loaded.read_to_end()
    return loaded


def always(translation: Translation) -> Callable[[TopicPartition, int], Translation]:
    return lambda partition, offset: translation


def translate_commit(
    book: Checkpoints, offset: int, translation: Translation, partition: TopicPartition = T1
) -> Outcome:
    """Translate one committed offset of group g; emitted checkpoints count as written."""
    outcome = book.judge("g", {partition: CommittedOffset(offset=offset)}, always(translation))[partition]
    if isinstance(outcome, Emit):
        book.remember(outcome.checkpoint)
    return outcome


@pytest.mark.parametrize(
    ("topic", "remote"),
    [
        ("topic3", "source1.topic3"),
        ("target2.topic3", "topic3"),
        ("source6.topic7", "source1.source6.topic7"),
    ],
)
def test_topic_replicated_from_the_target_maps_back_to_its_original(topic: str, remote: str) -> None:
    policy = DefaultReplicationPolicy()
    assert remote_partition(TopicPartition(topic, 8), aliases=FLOW, policy=policy) == TopicPartition(remote, 8)


def test_identity_policy_keeps_names() -> None:
    policy = IdentityReplicationPolicy(source_alias="source1")
    for topic, remote in {
        "topic3": "topic3",
        "target2.topic3": "target2.topic3",
        "heartbeats": "source1.heartbeats",
    }.items():
        assert remote_partition(TopicPartition(topic, 0), aliases=FLOW, policy=policy).topic == remote


def test_checkpoints_of_committed_offsets() -> None:
    home = TopicPartition("target2.topic5", 6)
    syncs = store([(T1, 3, 4), (home, 7, 8)])
    committed = {T1: CommittedOffset(offset=10, metadata="m"), home: CommittedOffset(offset=7)}
    outcomes = checkpoints().judge("group9", committed, syncs.translate)
    assert outcomes == {
        T1: Emit(
            checkpoint=Checkpoint(
                group="group9", topic_partition=REMOTE, upstream_offset=10, downstream_offset=5, metadata="m"
            ),
            translated=Translated(offset=5, behind=6),
        ),
        home: Emit(
            checkpoint=Checkpoint(
                group="group9",
                topic_partition=TopicPartition("topic5", 6),
                upstream_offset=7,
                downstream_offset=8,
            ),
            translated=Translated(offset=8, behind=0),
        ),
    }


def test_no_checkpoint_without_translation_or_committed_offset() -> None:
    other = TopicPartition("topic1", 1)
    none, reset = TopicPartition("topic1", 7), TopicPartition("topic1", 8)
    hidden = TopicPartition("hidden", 0)
    outcomes = checkpoints(lambda topic: topic != "hidden").judge(
        "g",
        {
            other: CommittedOffset(offset=10),
            none: None,
            reset: CommittedOffset(offset=-1),
            hidden: CommittedOffset(offset=1),
        },
        store([(T1, 3, 4)]).translate,
    )
    assert outcomes == {
        other: Untranslated(reason=NO_SYNC),
        none: NotCommitted(),
        reset: NotCommitted(),
        hidden: TopicNotSelected(),
    }


def test_checkpoint_is_not_moved_back_by_lost_knowledge() -> None:
    """MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds."""
    syncs, book = store([(T1, 11, 4), (T1, 12, 5)], must_read_to_end=False), checkpoints()

    def commit(offset: int) -> Outcome:
        return book.judge("g1", {T1: CommittedOffset(offset=offset)}, syncs.translate)[T1]

    first = commit(13)
    assert isinstance(first, Emit)
    assert first.checkpoint.downstream_offset == 6
    book.remember(first.checkpoint)
    assert commit(13) == CheckpointUnchanged(checkpoint=first.checkpoint, translated=Translated(offset=6, behind=0))
    for step in range(13, 18):
        syncs.apply(OffsetSync(topic_partition=T1, upstream_offset=step, downstream_offset=step - 7))
    assert commit(13) == HeldBack(checkpoint=first.checkpoint, offset=5)
    assert isinstance(commit(12), Emit)  # the group itself was rewound


def test_restart_continues_from_written_checkpoints() -> None:
    """MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints."""
    tp, book = TopicPartition("t1", 0), checkpoints()

    def commit(offset: int, syncs: OffsetSyncStore) -> int | None:
        outcome = book.judge("group1", {tp: CommittedOffset(offset=offset)}, syncs.translate)[tp]
        return outcome.checkpoint.downstream_offset if isinstance(outcome, Emit) else None

    before = store([(tp, offset, offset) for offset in (100, 200, 300)], must_read_to_end=False)
    assert commit(250, before) == 201
    book.remember(
        Checkpoint(
            group="group1",
            topic_partition=TopicPartition("source1.t1", 0),
            upstream_offset=250,
            downstream_offset=201,
        )
    )
    after = store([(tp, offset, offset) for offset in (175, 275, 375, 475)], must_read_to_end=False)
    assert after.translate(tp, 250) == Translated(offset=176, behind=74)
    assert after.translate(tp, 370) == Translated(offset=176, behind=194)
    assert [commit(offset, after) for offset in (250, 370, 400)] == [None, None, 376]


def test_last_loaded_checkpoint_is_used() -> None:
    book = checkpoints()
    for downstream in (5, 9):
        loaded = Checkpoint(group="g", topic_partition=REMOTE, upstream_offset=50, downstream_offset=downstream)
        book.remember(loaded)
    assert book.of_group("g") == {REMOTE: loaded}
    assert book.of_group("another") == {}
    assert book.groups == ("g",)
    assert isinstance(translate_commit(book, 51, Translated(offset=8, behind=0)), HeldBack)
    assert isinstance(translate_commit(book, 51, Translated(offset=10, behind=0)), Emit)


@pytest.mark.parametrize(
    ("latest", "offset"),
    [(None, None), (900, None), (899, 200), (200, 200)],
    ids=["not known", "last checkpoint is not too late", "too late by one record", "too late"],
)
def test_checkpoint_that_would_skip_records_is_replaced(latest: int | None, offset: int | None) -> None:
    """The remote topic was recreated: source offset 1200 is at 200 now, and the records at 900 no longer exist."""
    book = checkpoints()
    translate_commit(book, 900, Translated(offset=900, behind=0))
    outcome = book.judge(
        "g",
        {T1: CommittedOffset(offset=1200)},
        always(Translated(offset=200, behind=0)),
        lambda partition, position: {(T1, 1200): latest}[partition, position],
    )[T1]
    assert (outcome.checkpoint.downstream_offset if isinstance(outcome, Emit) else None) == offset


@pytest.mark.parametrize(("latest", "kept"), [(None, True), (900, True), (899, False)])
def test_checkpoint_that_would_skip_records_is_dropped_without_a_replacement(latest: int | None, kept: bool) -> None:
    """Otherwise group offset sync would commit it."""
    book = checkpoints()
    translate_commit(book, 900, Translated(offset=900, behind=0))
    committed = {T1: CommittedOffset(offset=900)}
    outcomes = book.judge("g", committed, always(TooOld(first=1500)), lambda partition, position: latest)
    assert outcomes == {T1: Untranslated(reason=TooOld(first=1500))}
    assert (REMOTE in book.of_group("g")) is kept


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (translate_commit(checkpoints(), 10, Translated(offset=5, behind=0)), "translated to 5"),
        (
            translate_commit(checkpoints(), 10, Translated(offset=5, behind=3)),
            "translated to 5, conservatively: up to 3 source offsets will be read again",
        ),
        (
            translate_commit(checkpoints(), 10, TooOld(first=12)),
            "too old: source offsets before 12 can no longer be translated",
        ),
        (
            translate_commit(checkpoints(), 10, NO_SYNC),
            "no offset sync for this partition yet: nothing was replicated, or offset syncs are disabled",
        ),
        (translate_commit(checkpoints(), 10, NOT_READY), "the offset syncs are still being read"),
        (NotCommitted(), "the group has committed no offset"),
        (TopicNotSelected(), "topics and topics.exclude do not select the topic"),
    ],
)
def test_every_outcome_has_a_reason(outcome: Outcome, reason: str) -> None:
    assert str(outcome) == reason


def test_reason_of_an_emitted_checkpoint() -> None:
    book = checkpoints()
    translate_commit(book, 10, Translated(offset=5, behind=0))
    assert str(translate_commit(book, 10, Translated(offset=5, behind=0))) == "already translated to 5"
    assert str(translate_commit(book, 10, Translated(offset=4, behind=1))) == (
        "already translated to 5; ignoring the lower translation 4 of the offset syncs available now"
    )


def test_group_verdicts() -> None:
    choice = GroupSelection(selects=lambda group: group.startswith("g"), topics=lambda topic: topic == "orders")
    orders, other = TopicPartition("orders", 0), TopicPartition("other", 0)
    assert choice.verdict("g,1 ü", [other, orders]) is GroupVerdict.CHECKPOINTED
    assert choice.verdict("g1", [other]) is GroupVerdict.NO_TOPIC
    assert choice.verdict("g1", []) is GroupVerdict.NO_TOPIC
    assert choice.verdict("h1", [orders]) is GroupVerdict.NOT_SELECTED
