"""The status of groups in /flows/…/groups."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.checkpoints import (
    CheckpointUnchanged,
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Untranslated,
)
from mm2.core.offsets.group_offsets import Absent, Active, AlreadyReached, Decision, Idle, TargetGroup, Write
from mm2.core.offsets.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated
from mm2.core.wire.formats import Checkpoint
from mm2.node.checkpoint.group_status_store import GroupStatusStore, Refused, RemoteName
from mm2.node.status.status_model import CheckpointStatus, GroupPartitionStatus, GroupState, GroupStatus

T0, T1, T2, T3, T4 = (TopicPartition("t", number) for number in range(5))
HIDDEN = TopicPartition("hidden", 0)


def place(topic: str) -> RemoteName:
    return RemoteName(refusal="hidden is not wanted") if topic == "hidden" else RemoteName(topic=f"A.{topic}")


def remote(partition: TopicPartition) -> TopicPartition:
    return TopicPartition(f"A.{partition.topic}", partition.partition)


def checkpoint(partition: TopicPartition, upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint(
        group="g", topic_partition=remote(partition), upstream_offset=upstream, downstream_offset=downstream
    )


def book(*, syncs: bool = True) -> GroupStatusStore:
    found = GroupStatusStore(place=place, syncs=syncs)
    found.keep({"g": "Stable"})
    return found


def judged(
    found: GroupStatusStore, outcomes: Mapping[TopicPartition, Outcome], checkpoints: tuple[Checkpoint, ...] = ()
) -> GroupStatus:
    committed = {partition: CommittedOffset(offset=50) for partition in outcomes}
    found.judged("g", committed, outcomes, {one.topic_partition: one for one in checkpoints})
    (status,) = found
    return status


EXACT, EARLY = Translated(offset=60, behind=0), Translated(offset=55, behind=5)
EMITTED = Emit(checkpoint=checkpoint(T0, 50, 60), translated=EXACT)
KEPT = CheckpointUnchanged(checkpoint=checkpoint(T1, 49, 55), translated=EARLY)
HELD = HeldBack(checkpoint=checkpoint(T2, 40, 58), offset=51)


def test_partitions_show_where_the_group_would_resume() -> None:
    status = judged(
        book(),
        {HIDDEN: TopicNotSelected(), T0: EMITTED, T1: KEPT, T2: HELD, T3: Untranslated(reason=TooOld(first=99))},
        (EMITTED.checkpoint, KEPT.checkpoint, HELD.checkpoint),
    )
    row = GroupPartitionStatus(
        topic="t",
        partition=0,
        remote_topic="A.t",
        state=GroupState.TRANSLATED,
        reason="",
        source_offset=50,
        translated_offset=None,
        precision=None,
        records_read_again=None,
        checkpoint=None,
        target_offset=None,
        sync="not checked yet",
    )
    assert status.partitions == (
        replace(
            row,
            topic="hidden",
            remote_topic=None,
            state=GroupState.FILTERED,
            reason="hidden is not wanted",
            sync=None,
        ),
        replace(
            row,
            reason="translated to 60",
            translated_offset=60,
            precision="exact",
            records_read_again=0,
            checkpoint=CheckpointStatus(source_offset=50, target_offset=60),
        ),
        replace(
            row,
            partition=1,
            reason="already translated to 55",
            translated_offset=55,
            precision="conservative",
            records_read_again=5,
            checkpoint=CheckpointStatus(source_offset=49, target_offset=55),
        ),
        replace(
            row,
            partition=2,
            reason="already translated to 58; ignoring the lower translation 51 of the offset syncs available now",
            translated_offset=58,
            checkpoint=CheckpointStatus(source_offset=40, target_offset=58),
        ),
        replace(
            row,
            sync=None,
            partition=3,
            state=GroupState.TOO_OLD,
            reason="too old: source offsets before 99 can no longer be translated",
        ),
    )


@pytest.mark.parametrize(
    ("outcomes", "state", "words"),
    [
        ({T0: EMITTED, T1: KEPT}, GroupState.TRANSLATED, "offsets of 2 partitions are translated"),
        ({T0: EMITTED, HIDDEN: TopicNotSelected()}, GroupState.TRANSLATED, "offsets of 1 partition are translated"),
        ({T0: NotCommitted()}, GroupState.NOT_COMMITTED, "no offset for any selected topic"),
        (
            {},
            GroupState.NOT_COMMITTED,
            "no offset for any selected topic",
        ),  # deleted since the groups were listed
        ({T0: Untranslated(reason=NO_SYNC)}, GroupState.NOT_REPLICATED, "1 partition: no offset sync for this"),
        ({T0: Untranslated(reason=NOT_READY)}, GroupState.WAITING, "1 partition: the offset syncs are still being"),
        ({T0: Untranslated(reason=TooOld(first=9))}, GroupState.TOO_OLD, "1 partition: too old: source offsets b"),
        (
            {T0: EMITTED, **{one: Untranslated(reason=TooOld(first=one.partition)) for one in (T1, T2, T3, T4)}},
            GroupState.PARTLY_TRANSLATED,
            "offsets of 1 partition are translated; 4 partitions: too old: source offsets before 1 can no longer be"
            " translated, too old: source offsets before 2 can no longer be translated, too old: source offsets"
            " before 3 can no longer be translated",
        ),
    ],
)
def test_the_group_as_a_whole(outcomes: dict[TopicPartition, Outcome], state: GroupState, words: str) -> None:
    status = judged(book(), outcomes)
    assert status.state is state
    assert words in status.reason


@pytest.mark.parametrize(
    ("target", "decision", "state", "target_state", "target_offset", "sync"),
    [
        (Absent(), Write(offset=60, metadata="", current=None), "TRANSLATED", None, None, "set to 60"),
        (
            Idle(committed={remote(T0): 60}),
            AlreadyReached(offset=60, current=60),
            "TRANSLATED",
            "Empty",
            60,
            "already at 60",
        ),
        (None, Refused(words="no"), "TRANSLATED", None, None, "not committed: no"),
        (Active(state="Stable"), None, "ACTIVE", "Stable", None, "not checked yet"),
    ],
)
def test_the_result_of_group_offset_sync(
    target: TargetGroup | None,
    decision: Decision | Refused | None,
    state: str,
    target_state: str | None,
    target_offset: int | None,
    sync: str,
) -> None:
    found = book()
    found.synced("g", target, {remote(T0): decision} if decision is not None else {})
    status = judged(found, {T0: EMITTED}, (EMITTED.checkpoint,))
    assert (status.state, status.target_state) == (state, target_state)
    (row,) = status.partitions
    assert (row.target_offset, row.sync) == (target_offset, sync)


def test_a_flow_without_group_offset_sync() -> None:
    (row,) = judged(book(syncs=False), {T0: EMITTED}, (EMITTED.checkpoint,)).partitions
    assert row.sync == "sync.group.offsets.enabled is false"


def test_a_group_from_its_discovery_to_its_end() -> None:
    found = book()

    def shown() -> list[tuple[str, GroupState, str, str | None]]:
        return [(one.group, one.state, one.reason, one.source_state) for one in found]

    assert shown() == [("g", GroupState.WAITING, "its offsets have not been read yet", "Stable")]
    found.keep({"g": "Empty", "f": None})
    found.filtered("f", "not matched by groups: g")
    assert shown()[0] == ("f", GroupState.FILTERED, "not matched by groups: g", None)
    assert shown()[1][3] == "Empty"
    found.selected("f")
    judged_before = judged_of(found, "g")
    found.failed("g", "the coordinator is away")
    assert shown()[1][:3] == ("g", GroupState.FAILED, "the coordinator is away")
    assert judged_of(found, "g") == judged_before, "what was known stays"
    found.keep({})
    for late in (found.selected, lambda group: found.failed(group, ""), lambda group: found.filtered(group, "")):
        late("g")
    found.judged("g", {}, {}, {})
    found.synced("g", None, {})
    assert shown() == []


def judged_of(found: GroupStatusStore, group: str) -> tuple[GroupPartitionStatus, ...]:
    return next(one.partitions for one in found if one.group == group)


def test_listing_groups_does_not_change_their_status() -> None:
    """The next round can start a minute later, or fail."""
    found = book()
    before = judged(found, {T0: EMITTED}, (EMITTED.checkpoint,))
    assert before.partitions[0].checkpoint == CheckpointStatus(source_offset=50, target_offset=60)
    for _ in range(2):
        found.keep({"g": "Stable"})
        assert list(found) == [before]


def test_remote_names_are_determined_again_after_each_listing() -> None:
    """Custom policies and filters can return a different result later."""
    names = iter([RemoteName(refusal="not today"), RemoteName(topic="A.t")])
    found = GroupStatusStore(place=lambda topic: next(names), syncs=True)
    found.keep({"g": "Stable"})
    shown = [judged(found, {T0: EMITTED}).partitions[0].remote_topic for _ in range(2)]
    found.keep({"g": "Stable"})
    shown += [judged(found, {T0: EMITTED}).partitions[0].remote_topic for _ in range(2)]
    assert shown == [None, None, "A.t", "A.t"]


def test_it_can_be_read_while_it_changes() -> None:
    found = book()
    found.keep({f"g{number}": None for number in range(10)})
    names = []
    for status in found:
        names.append(status.group)
        found.keep({})
    assert len(names) == 10


def test_groups_that_moved_to_another_node_are_forgotten() -> None:
    found = book()
    found.keep({"g": "Stable", "h": "Empty"})
    found.only(lambda group: group == "h")
    found.failed("g", "a round that was on its way")
    assert [status.group for status in found] == ["h"]
