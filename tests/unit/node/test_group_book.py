"""What /flows/…/groups says of a group, from what was found out about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from mm2.core.checkpoints import (
    CommittedOffset,
    Emit,
    HeldBack,
    NotCommitted,
    Outcome,
    TopicNotSelected,
    Unchanged,
    Untranslated,
)
from mm2.core.formats import Checkpoint
from mm2.core.group_offsets import Absent, Active, AsFar, Decision, Idle, TargetGroup, Write
from mm2.core.names import TopicPartition
from mm2.core.offset_translation import NO_SYNC, NOT_READY, TooOld, Translated
from mm2.node.group_book import GroupBook, Refused, RemoteName
from mm2.node.published import GroupPartitionStatus, GroupState, GroupStatus

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


def book(*, syncs: bool = True) -> GroupBook:
    found = GroupBook(place=place, syncs=syncs)
    found.keep({"g": "Stable"})
    return found


def judged(
    found: GroupBook, outcomes: Mapping[TopicPartition, Outcome], checkpoints: tuple[Checkpoint, ...] = ()
) -> GroupStatus:
    committed = {partition: CommittedOffset(offset=50) for partition in outcomes}
    found.judged("g", committed, outcomes, {one.topic_partition: one for one in checkpoints})
    (status,) = found
    return status


EXACT, EARLY = Translated(offset=60, behind=0), Translated(offset=55, behind=5)
EMITTED = Emit(checkpoint=checkpoint(T0, 50, 60), translated=EXACT)
KEPT = Unchanged(checkpoint=checkpoint(T1, 49, 55), translated=EARLY)
HELD = HeldBack(checkpoint=checkpoint(T2, 40, 58), offset=51)


def test_partitions_say_where_the_group_would_go_on() -> None:
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
        sync="not looked at yet",
    )
    assert status.partitions == (
        GroupPartitionStatus(
            topic="hidden",
            partition=0,
            remote_topic=None,
            state=GroupState.FILTERED,
            reason="hidden is not wanted",
            source_offset=50,
        ),
        replace(
            row,
            reason="translated to 60",
            translated_offset=60,
            exact=True,
            read_again=0,
            checkpoint=(50, 60),
        ),
        replace(
            row,
            partition=1,
            reason="translated to 55 before",
            translated_offset=55,
            exact=False,
            read_again=5,
            checkpoint=(49, 55),
        ),
        replace(
            row,
            partition=2,
            reason="translated to 58 before; what is known now would lead back to 51",
            translated_offset=58,
            checkpoint=(40, 58),
        ),
        replace(
            row,
            sync=None,
            partition=3,
            state=GroupState.TOO_OLD,
            reason="too old: of source offsets before 99 nothing is known any more",
        ),
    )


@pytest.mark.parametrize(
    ("outcomes", "state", "words"),
    [
        ({T0: EMITTED, T1: KEPT}, GroupState.TRANSLATED, "offsets of 2 partitions are translated"),
        ({T0: EMITTED, HIDDEN: TopicNotSelected()}, GroupState.TRANSLATED, "offsets of 1 partition are translated"),
        ({T0: NotCommitted()}, GroupState.NOT_COMMITTED, "no offset for any topic that is selected"),
        (
            {},
            GroupState.NOT_COMMITTED,
            "no offset for any topic that is selected",
        ),  # deleted since the groups were listed
        ({T0: Untranslated(reason=NO_SYNC)}, GroupState.NOT_REPLICATED, "1 partition: nothing of this partition"),
        ({T0: Untranslated(reason=NOT_READY)}, GroupState.WAITING, "1 partition: the offset syncs are still being"),
        ({T0: Untranslated(reason=TooOld(first=9))}, GroupState.TOO_OLD, "1 partition: too old: of source offsets b"),
        (
            {T0: EMITTED, **{one: Untranslated(reason=TooOld(first=one.partition)) for one in (T1, T2, T3, T4)}},
            GroupState.PARTLY_TRANSLATED,
            "offsets of 1 partition are translated; 4 partitions: too old: of source offsets before 1 nothing is known"
            " any more, too old: of source offsets before 2 nothing is known any more, too old: of source offsets"
            " before 3 nothing is known any more",
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
        (Idle(committed={remote(T0): 60}), AsFar(offset=60, current=60), "TRANSLATED", "Empty", 60, "at 60 already"),
        (None, Refused(words="no"), "TRANSLATED", None, None, "not written: no"),
        (Active(state="Stable"), None, "ACTIVE", "Stable", None, "not looked at yet"),
    ],
)
def test_what_group_offset_sync_did(
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


def test_a_flow_that_does_not_sync_says_so() -> None:
    (row,) = judged(book(syncs=False), {T0: EMITTED}, (EMITTED.checkpoint,)).partitions
    assert row.sync == "sync.group.offsets.enabled is false"


def test_a_group_from_its_discovery_to_its_end() -> None:
    found = book()

    def shown() -> list[tuple[str, GroupState, str, str | None]]:
        return [(one.group, one.state, one.reason, one.source_state) for one in found]

    assert shown() == [("g", GroupState.WAITING, "its offsets have not been looked at yet", "Stable")]
    found.keep({"g": "Empty", "f": None})
    found.filtered("f", "groups does not name it: g")
    assert shown()[0] == ("f", GroupState.FILTERED, "groups does not name it: g", None)
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


def judged_of(found: GroupBook, group: str) -> tuple[GroupPartitionStatus, ...]:
    return next(one.partitions for one in found if one.group == group)


def test_a_look_at_the_groups_takes_nothing_of_what_is_shown() -> None:
    """The next round may be a minute away, or fail."""
    found = book()
    before = judged(found, {T0: EMITTED}, (EMITTED.checkpoint,))
    assert before.partitions[0].checkpoint == (50, 60)
    for _ in range(2):
        found.keep({"g": "Stable"})
        assert list(found) == [before]


def test_names_on_the_target_are_asked_for_anew_after_each_look() -> None:
    """The policy and the filter may be users' own."""
    names = iter([RemoteName(refusal="not today"), RemoteName(topic="A.t")])
    found = GroupBook(place=lambda topic: next(names), syncs=True)
    found.keep({"g": "Stable"})
    shown = [judged(found, {T0: EMITTED}).partitions[0].remote_topic for _ in range(2)]
    found.keep({"g": "Stable"})
    shown += [judged(found, {T0: EMITTED}).partitions[0].remote_topic for _ in range(2)]
    assert shown == [None, None, "A.t", "A.t"]


def test_it_may_be_read_while_it_changes() -> None:
    found = book()
    found.keep({f"g{number}": None for number in range(10)})
    names = []
    for status in found:
        names.append(status.group)
        found.keep({})
    assert len(names) == 10


def test_groups_that_went_to_another_node_are_forgotten() -> None:
    found = book()
    found.keep({"g": "Stable", "h": "Empty"})
    found.only(lambda group: group == "h")
    found.failed("g", "a round that was on its way")
    assert [status.group for status in found] == ["h"]
