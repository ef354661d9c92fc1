"""Letters are the invariants of `SlotPlan`."""

from __future__ import annotations

from uuid import UUID

from mm2.core.exact_offset_records import TopicIds
from mm2.core.names import TopicPartition
from mm2.core.slot_plan import SlotPlan
from mm2.core.slot_records import SlotBook, SlotRecord, decode_slot, encode_slot
from mm2.core.slot_reports import SlotReport

IDS = TopicIds(UUID(int=1), UUID(int=2))
OTHER_IDS = TopicIds(UUID(int=1), UUID(int=3))


def some(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


def a_list(slot: int, *numbers: int, epoch: int = 1, version: int = 1) -> SlotRecord:
    return SlotRecord(slot=slot, epoch=epoch, version=version, partitions=some(*numbers))


def after(*records: SlotRecord, owners: dict[int, str] | None = None, epoch: int = 2) -> SlotPlan:
    """The plan of a leader that finds these lists."""
    book = SlotBook()
    for record in records:
        for pair in encode_slot(record):
            book.take(decode_slot(*pair))
    plan = SlotPlan(book, epoch)
    plan.owned(owners or {})
    return plan


def report(record: SlotRecord, member: str) -> SlotReport:
    epoch, version = record.age
    return SlotReport(slot=record.slot, epoch=epoch, version=version, member=member, node="node-1")


def test_the_first_lists() -> None:
    plan = after(epoch=7)
    plan.want([some(0), some(1)], {"t": IDS, "elsewhere": OTHER_IDS})
    assert plan.moving == some(0, 1)
    assert plan.moving is plan.moving  # whoever keeps what follows from it knows by identity
    first, second = plan.due()
    assert (first.slot, first.age, first.partitions) == (0, (7, 1), some(0))
    assert (second.slot, second.age, second.partitions) == (1, (7, 1), some(1))
    assert first.topic_ids == {"t": IDS}
    assert plan.lists == {0: first, 1: second}
    assert plan.slots == {TopicPartition("t", 0): 0, TopicPartition("t", 1): 1}
    assert not plan.moving
    assert plan.due() == []


def test_a_leader_that_knows_nothing_yet_changes_nothing() -> None:
    assert after(a_list(0, 0), a_list(1, 1), owners={0: "m"}).due() == []


def test_a_partition_is_given_when_its_slot_has_said_that_it_runs_it_no_more() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.heard(report(a_list(0, 0, 1), "m"))
    plan.heard(report(a_list(1, 2), "n"))
    plan.want([some(0), some(1, 2)], {})
    (taken,) = plan.due()
    assert (taken.slot, taken.age, taken.partitions) == (0, (2, 1), some(0))
    assert plan.moving == some(1)
    assert plan.slots[TopicPartition("t", 1)] == 1
    assert plan.due() == []
    plan.heard(report(taken, "m"))
    (given,) = plan.due()
    assert (given.slot, given.partitions) == (1, some(1, 2))
    assert not plan.moving


def test_a_what_a_slot_runs_by_a_list_before_the_newest_is_not_given() -> None:
    """A predecessor took partition 1 from slot 0, whose owner has not heard of it."""
    plan = after(a_list(0, 0, version=2), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.heard(report(a_list(1, 2), "n"))
    plan.want([some(0), some(1, 2)], {})
    plan.heard(report(a_list(0, 0, 1, version=1), "m"))
    assert plan.due() == []
    plan.heard(report(a_list(0, 0, version=2), "m"))
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_a_the_word_of_a_former_owner_does_not_count() -> None:
    plan = after(a_list(0, 0), owners={0: "n"})
    plan.heard(report(a_list(0, 0), "m"))
    plan.want([some(0), some(1)], {})
    assert plan.due() == []
    assert not plan.confirmed(0)
    plan.heard(report(a_list(0, 0), "n"))
    assert plan.confirmed(0)
    assert [one.slot for one in plan.due()] == [1]


def test_a_a_node_may_run_a_slot_of_which_no_list_was_found() -> None:
    """The config topic was lost: what runs is drained first, since there is no such task any more."""
    plan = after(owners={3: "m"})
    plan.heard(report(a_list(3, 0), "m"))
    plan.want([some(0)], {})
    assert plan.due() == []
    plan.owned({})
    assert [one.partitions for one in plan.due()] == [some(0)]


def test_a_a_slot_without_an_owner_may_get_one_that_begins_with_its_published_list() -> None:
    """The node that gets slot 0 may read the config topic before the new list is in it."""
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={1: "n"})
    plan.heard(report(a_list(1, 2), "n"))
    plan.want([some(0), some(1, 2)], {})
    (taken,) = plan.due()
    assert (taken.slot, taken.partitions) == (0, some(0))
    plan.owned({0: "m", 1: "n"})  # decided while the list was on its way
    assert plan.due() == []
    plan.heard(report(a_list(0, 0, 1), "m"))
    assert plan.due() == []
    plan.heard(report(taken, "m"))
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_b_what_nobody_runs_moves_as_soon_as_it_is_published() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2))
    plan.want([some(0), some(1, 2)], {})
    assert [one.slot for one in plan.due()] == [0]
    assert [one.partitions for one in plan.due()] == [some(1, 2)]
    assert plan.due() == []


def test_b_what_a_slot_was_told_before_its_owner_left_holds_up_nobody() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.heard(report(a_list(1, 2), "n"))
    plan.want([some(0), some(1, 2)], {})
    plan.due()
    assert plan.due() == []
    plan.owned({1: "n"})
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_a_word_that_came_before_its_member_was_known_as_owner_counts_then() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.heard(report(a_list(1, 2), "n"))
    plan.want([some(0), some(1, 2)], {})
    (taken,) = plan.due()
    plan.heard(report(taken, "o"))
    assert plan.due() == []
    plan.owned({0: "o", 1: "n"})
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_a_slot_that_is_gone_has_an_empty_list_and_may_come_back() -> None:
    plan = after(a_list(0, 0), a_list(1, 1))
    plan.want([some(0, 1)], {})
    assert [(one.slot, one.partitions) for one in plan.due()] == [(1, some())]
    assert [(one.slot, one.partitions) for one in plan.due()] == [(0, some(0, 1))]
    plan.want([some(0), some(1)], {})
    assert [(one.slot, one.age) for one in plan.due()] == [(0, (2, 2))]
    assert [(one.slot, one.age) for one in plan.due()] == [(1, (2, 2))]


def test_other_topic_ids_are_published_and_unknown_ones_are_not() -> None:
    plan = after(a_list(0, 0))
    plan.want([some(0)], {"t": IDS})
    assert [one.topic_ids for one in plan.due()] == [{"t": IDS}]
    plan.want([some(0)], {})
    assert plan.due() == []
    plan.want([some(0)], {"t": OTHER_IDS})
    assert [one.topic_ids for one in plan.due()] == [{"t": OTHER_IDS}]


def test_a_list_that_a_replaced_leader_wrote_late_is_made_void() -> None:
    """Where the broker does not refuse it (`ConfigWriter.warning`): what the slot runs by it is not known."""
    plan = after(a_list(0, 0), owners={0: "m"})
    plan.want([some(0), some(1)], {})
    plan.heard(report(a_list(0, 0, 1, version=2), "m"))
    (anew,) = plan.due()
    assert (anew.slot, anew.age, anew.partitions) == (0, (2, 1), some(0))
    assert plan.due() == []
    plan.heard(report(anew, "m"))
    assert [one.partitions for one in plan.due()] == [some(1)]


def test_a_list_of_a_later_leader_is_not_answered() -> None:
    plan = after(a_list(0, 0), owners={0: "m"})
    plan.heard(report(a_list(0, 1, epoch=3), "m"))
    assert plan.due() == []


def test_confirmed_needs_a_list_and_a_word() -> None:
    plan = after(a_list(0, 0), owners={0: "m", 1: "m"})
    assert not plan.confirmed(0)
    plan.heard(report(a_list(1, 0), "m"))
    assert not plan.confirmed(1)
