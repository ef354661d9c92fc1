"""Letters refer to the invariants of `SourceTaskPlan`."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from mm2.core.assignment.source_task_plan import SourceTaskPlan
from mm2.core.assignment.source_task_records import (
    SourceTaskBook,
    SourceTaskRecord,
    decode_source_task,
    encode_source_task,
)
from mm2.core.assignment.source_task_reports import SourceTaskReport
from mm2.core.naming.names import TopicPartition
from mm2.core.offsets.exact_offset_records import TopicIds
from tests.lab.work import count_calls

IDS = TopicIds(UUID(int=1), UUID(int=2))
OTHER_IDS = TopicIds(UUID(int=1), UUID(int=3))


def some(*numbers: int) -> frozenset[TopicPartition]:
    return frozenset(TopicPartition("t", number) for number in numbers)


def a_list(source_task: int, *numbers: int, epoch: int = 1, version: int = 1) -> SourceTaskRecord:
    return SourceTaskRecord(source_task=source_task, epoch=epoch, version=version, partitions=some(*numbers))


def after(*records: SourceTaskRecord, owners: dict[int, str] | None = None, epoch: int = 2) -> SourceTaskPlan:
    """Return the plan of a leader that reads these lists."""
    book = SourceTaskBook()
    for record in records:
        for pair in encode_source_task(record):
            book.take(decode_source_task(*pair))
    plan = SourceTaskPlan(book, epoch)
    plan.owned(owners or {})
    return plan


def report(record: SourceTaskRecord, member: str) -> SourceTaskReport:
    epoch, version = record.age
    return SourceTaskReport(source_task=record.source_task, epoch=epoch, version=version, member=member, node="node-1")


def test_the_query_of_a_topic_changes_by_revoking_and_assigning() -> None:
    before = a_list(0, 0, 1)
    plan = after(before, owners={0: "m", 8: "n"})
    plan.take_report(report(before, "m"))
    plan.want({0: some(0), 8: some(1)}, {}, {8: "mask"})
    (revoked,) = plan.due()
    assert (revoked.source_task, revoked.partitions, plan.moving) == (0, some(0), some(1))
    assert plan.due() == []
    plan.take_report(report(revoked, "m"))
    (assigned,) = plan.due()
    assert (assigned.source_task, assigned.partitions, assigned.query) == (8, some(1), "mask")
    assert plan.lists.keys() == {0, 8}


def test_a_list_is_published_again_if_its_number_stands_for_another_query() -> None:
    published = replace(a_list(4, 0), query="mask")
    plan = after(published, a_list(5), owners={4: "m"})
    assert plan.due() == []
    plan.want({4: some(0)}, {}, {4: "mask"})
    assert plan.due() == []
    plan.want({4: some(0)}, {}, {4: "keys"})
    (changed,) = plan.due()
    assert (changed.partitions, changed.query, changed.age) == (some(0), "keys", (2, 1))
    assert plan.due() == []
    plan.want({}, {})
    plan.take_report(report(changed, "m"))
    (emptied,) = plan.due()
    assert (emptied.partitions, emptied.query) == (frozenset(), None)
    plan.want({}, {}, {4: "mask"})
    assert plan.due() == [], "an empty list has no query"


def test_a_new_leader_keeps_the_query_of_a_list_until_its_discovery() -> None:
    published = replace(a_list(4, 0), query="mask")
    plan = after(published, owners={4: "m"}, epoch=3)
    late = replace(a_list(4, 0, epoch=2), query="mask")
    plan.take_report(report(late, "m"))
    (renewed,) = plan.due()
    assert (renewed.partitions, renewed.query) == (some(0), "mask")


def test_first_lists() -> None:
    plan = after(epoch=7)
    plan.want({0: some(0), 1: some(1)}, {"t": IDS, "elsewhere": OTHER_IDS})
    assert plan.moving == some(0, 1)
    assert plan.moving is plan.moving  # callers cache derived values by identity
    first, second = plan.due()
    assert (first.source_task, first.age, first.partitions) == (0, (7, 1), some(0))
    assert (second.source_task, second.age, second.partitions) == (1, (7, 1), some(1))
    assert first.topic_ids == {"t": IDS}
    assert plan.lists == {0: first, 1: second}
    assert plan.source_tasks == {TopicPartition("t", 0): 0, TopicPartition("t", 1): 1}
    assert not plan.moving
    assert plan.due() == []


def test_new_leader_changes_nothing_before_it_has_targets() -> None:
    assert after(a_list(0, 0), a_list(1, 1), owners={0: "m"}).due() == []


def test_partition_moves_after_its_source_task_reports_the_removal() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.take_report(report(a_list(0, 0, 1), "m"))
    plan.take_report(report(a_list(1, 2), "n"))
    plan.want({0: some(0), 1: some(1, 2)}, {})
    (revoked,) = plan.due()
    assert (revoked.source_task, revoked.age, revoked.partitions) == (0, (2, 1), some(0))
    assert plan.moving == some(1)
    assert plan.source_tasks[TopicPartition("t", 1)] == 1
    assert plan.due() == []
    plan.take_report(report(revoked, "m"))
    (assigned,) = plan.due()
    assert (assigned.source_task, assigned.partitions) == (1, some(1, 2))
    assert not plan.moving


def test_partitions_are_exchanged_by_two_lists_each() -> None:
    lists = [a_list(0, 0, 1), a_list(1, 2, 3)]
    plan = after(*lists, owners={0: "m", 1: "n"})
    for one, member in zip(lists, "mn", strict=True):
        plan.take_report(report(one, member))
    plan.want({0: some(0, 2), 1: some(1, 3)}, {})
    revoked = plan.due()
    assert [one.partitions for one in revoked] == [some(0), some(3)]
    assert plan.due() == []
    for one, member in zip(revoked, "mn", strict=True):
        plan.take_report(report(one, member))
    assert [one.partitions for one in plan.due()] == [some(0, 2), some(1, 3)]


def test_a_report_of_an_older_list_does_not_release_partitions() -> None:
    """A previous leader revoked partition 1 from source task 0, whose owner has not read that list."""
    plan = after(a_list(0, 0, version=2), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.take_report(report(a_list(1, 2), "n"))
    plan.want({0: some(0), 1: some(1, 2)}, {})
    plan.take_report(report(a_list(0, 0, 1, version=1), "m"))
    assert plan.due() == []
    plan.take_report(report(a_list(0, 0, version=2), "m"))
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_a_report_of_a_former_owner_is_ignored() -> None:
    plan = after(a_list(0, 0), owners={0: "n"})
    plan.take_report(report(a_list(0, 0), "m"))
    plan.want({0: some(0), 1: some(1)}, {})
    assert plan.due() == []
    assert not plan.confirmed(0)
    plan.take_report(report(a_list(0, 0), "n"))
    assert plan.confirmed(0)
    assert [one.source_task for one in plan.due()] == [1]


def test_a_source_task_without_a_list_is_drained_first() -> None:
    """The config topic was lost: running partitions are drained first, because their source task no longer exists."""
    plan = after(owners={3: "m"})
    plan.take_report(report(a_list(3, 0), "m"))
    plan.want({0: some(0)}, {})
    assert plan.due() == []
    plan.owned({})
    assert [one.partitions for one in plan.due()] == [some(0)]


def test_a_new_owner_can_start_with_the_previous_list() -> None:
    """The new owner of source task 0 can read the config topic before it contains the new list."""
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={1: "n"})
    plan.take_report(report(a_list(1, 2), "n"))
    plan.want({0: some(0), 1: some(2)}, {})  # topic partition 1 is gone
    (shorter,) = plan.due()
    assert (shorter.source_task, shorter.partitions) == (0, some(0))
    plan.owned({0: "m", 1: "n"})  # decided while the list was being published
    plan.want({0: some(0), 1: some(1, 2)}, {})
    assert plan.due() == []
    plan.take_report(report(a_list(0, 0, 1), "m"))
    assert plan.due() == []
    plan.take_report(report(shorter, "m"))
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_b_partitions_without_an_owner_move_when_the_next_owner_has_released_them() -> None:
    """The lost owner may still be writing: the next one fences it, for all partitions of the list it starts with."""
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={1: "n"})
    plan.take_report(report(a_list(1, 2), "n"))
    plan.want({0: some(0), 1: some(1, 2)}, {})
    assert plan.due() == []
    plan.owned({0: "m", 1: "n"})
    assert plan.due() == [], "the next owner has not started yet"
    plan.take_report(report(a_list(0, 0, 1), "m"))
    (revoked,) = plan.due()
    assert (revoked.source_task, revoked.partitions) == (0, some(0))
    plan.take_report(report(revoked, "m"))
    assert [one.partitions for one in plan.due()] == [some(1, 2)]
    assert plan.due() == []


def test_b_partitions_of_deleted_topics_leave_without_an_owner() -> None:
    plan = after(a_list(0, 0, 1))
    plan.want({0: some(0)}, {})
    assert [one.partitions for one in plan.due()] == [some(0)]


def test_b_unconfirmed_list_of_a_lost_owner_blocks_nothing() -> None:
    """It may also have released the source task in order, because the list was empty."""
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.take_report(report(a_list(0, 0, 1), "m"))
    plan.take_report(report(a_list(1, 2), "n"))
    plan.want({0: some(0), 1: some(1, 2)}, {})
    (revoked,) = plan.due()
    assert (revoked.source_task, revoked.partitions) == (0, some(0))
    plan.owned({1: "n"})
    assert [one.partitions for one in plan.due()] == [some(1, 2)]
    assert plan.due() == []


def test_b_an_emptied_source_task_that_is_released_stays_empty() -> None:
    plan = after(a_list(0, 0), a_list(1, 1), owners={0: "m", 1: "m"})
    plan.take_report(report(a_list(0, 0), "m"))
    plan.take_report(report(a_list(1, 1), "m"))
    plan.want({0: some(0, 1)}, {})
    (empty,) = plan.due()
    assert (empty.source_task, empty.partitions) == (1, some())
    plan.owned({0: "m"})  # released before it reported the empty list
    (both,) = plan.due()
    assert (both.source_task, both.partitions) == (0, some(0, 1))
    plan.take_report(report(both, "m"))
    assert plan.due() == []


def test_report_counts_once_its_member_becomes_the_owner() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), owners={0: "m", 1: "n"})
    plan.take_report(report(a_list(1, 2), "n"))
    plan.take_report(report(a_list(0, 0, 1), "m"))
    plan.want({0: some(0), 1: some(1, 2)}, {})
    (revoked,) = plan.due()
    plan.take_report(report(revoked, "o"))
    assert plan.due() == []
    plan.owned({0: "o", 1: "n"})
    assert [one.partitions for one in plan.due()] == [some(1, 2)]


def test_removed_source_task_has_an_empty_list_and_can_return() -> None:
    plan = after(a_list(0, 0), a_list(1, 1), owners={0: "m", 1: "n"})
    plan.take_report(report(a_list(0, 0), "m"))
    plan.take_report(report(a_list(1, 1), "n"))
    plan.want({0: some(0, 1)}, {})
    (empty,) = plan.due()
    assert (empty.source_task, empty.partitions) == (1, some())
    plan.take_report(report(empty, "n"))
    (both,) = plan.due()
    assert (both.source_task, both.partitions) == (0, some(0, 1))
    plan.take_report(report(both, "m"))
    plan.want({0: some(0), 1: some(1)}, {})
    (less,) = plan.due()
    assert (less.source_task, less.age) == (0, (2, 2))
    plan.take_report(report(less, "m"))
    assert [(one.source_task, one.age) for one in plan.due()] == [(1, (2, 2))]


def test_other_topic_ids_are_published_and_unknown_ones_are_not() -> None:
    plan = after(a_list(0, 0))
    plan.want({0: some(0)}, {"t": IDS})
    assert [one.topic_ids for one in plan.due()] == [{"t": IDS}]
    plan.want({0: some(0)}, {})
    assert plan.due() == []
    plan.want({0: some(0)}, {"t": OTHER_IDS})
    assert [one.topic_ids for one in plan.due()] == [{"t": OTHER_IDS}]


def test_late_list_of_a_replaced_leader_is_overridden() -> None:
    """This happens if the broker does not fence the writer (`ConfigWriter.warning`): what the source task runs is
    unknown.
    """
    plan = after(a_list(0, 0), owners={0: "m"})
    plan.want({0: some(0), 1: some(1)}, {})
    plan.take_report(report(a_list(0, 0, 1, version=2), "m"))
    (overriding,) = plan.due()
    assert (overriding.source_task, overriding.age, overriding.partitions) == (0, (2, 1), some(0))
    assert plan.due() == []
    plan.take_report(report(overriding, "m"))
    assert [one.partitions for one in plan.due()] == [some(1)]


def test_list_of_a_later_leader_is_not_overridden() -> None:
    plan = after(a_list(0, 0), owners={0: "m"})
    plan.take_report(report(a_list(0, 1, epoch=3), "m"))
    assert plan.due() == []


def test_confirmed_requires_a_list_and_a_report() -> None:
    plan = after(a_list(0, 0), owners={0: "m", 1: "m"})
    assert not plan.confirmed(0)
    plan.take_report(report(a_list(1, 0), "m"))
    assert not plan.confirmed(1)


def calls_of_reports(source_tasks: int) -> tuple[int, int]:
    """Return the calls for a repeated and for a new report about one of these source tasks, each with 10 partitions."""
    lists = [a_list(one, *range(10 * one, 10 * one + 10)) for one in range(source_tasks)]
    plan = after(*lists, owners=dict.fromkeys(range(source_tasks), "m"))
    plan.want({one.source_task: one.partitions for one in lists}, {})
    for one in lists:
        plan.take_report(report(one, "m"))
    assert plan.due() == []

    def take(member: str) -> None:
        plan.take_report(report(lists[0], member))
        assert plan.due() == []

    return count_calls(lambda: take("m")), count_calls(lambda: take("n"))


def test_d_a_repeated_report_costs_the_same_for_any_number_of_source_tasks() -> None:
    assert calls_of_reports(400)[0] == calls_of_reports(100)[0]


def test_d_a_report_does_not_look_at_partitions_that_stay() -> None:
    (_, few), (_, many) = calls_of_reports(100), calls_of_reports(400)
    assert many < 5 * few
    assert many < 20 * 400


def test_d_a_moving_partition_is_assigned_although_other_source_tasks_are_as_wanted() -> None:
    plan = after(a_list(0, 0, 1), a_list(1, 2), a_list(2, 3), owners={0: "m", 1: "m", 2: "m"})
    for one in (a_list(0, 0, 1), a_list(1, 2), a_list(2, 3)):
        plan.take_report(report(one, "m"))
    plan.want({0: some(0), 1: some(1, 2), 2: some(3)}, {})
    (revoked,) = plan.due()
    plan.take_report(report(a_list(2, 3), "m"))  # repeated
    assert plan.due() == []
    plan.take_report(report(revoked, "m"))
    assert [(one.source_task, one.partitions) for one in plan.due()] == [(1, some(1, 2))]
    assert plan.due() == []


def test_a_held_partition_is_free_when_its_owner_reports_a_list_without_it() -> None:
    before = a_list(0, 0, 1)
    plan = after(before, owners={0: "m"})
    assert not plan.is_free(TopicPartition("t", 9)), "nothing is known of lists that the owner may run"
    plan.take_report(report(before, "m"))
    assert plan.is_free(TopicPartition("t", 9))
    plan.want({0: some(0, 1)}, {}, held=some(1))
    (revoked,) = plan.due()
    assert (revoked.partitions, plan.moving) == (some(0), frozenset())
    assert not plan.is_free(TopicPartition("t", 1))
    plan.take_report(report(revoked, "m"))
    assert plan.is_free(TopicPartition("t", 1))
    plan.want({0: some(0, 1)}, {})
    (listed,) = plan.due()
    assert listed.partitions == some(0, 1)
    assert not plan.is_free(TopicPartition("t", 1))


def test_a_held_partition_stays_listed_while_its_source_task_has_no_owner() -> None:
    """(B): the next owner fences the lost one on all partitions of the list that it starts with."""
    before = a_list(0, 0, 1)
    plan = after(before)
    plan.want({0: some(0, 1)}, {}, held=some(1))
    assert plan.due() == []
    assert not plan.is_free(TopicPartition("t", 1))
    plan.owned({0: "m"})
    plan.take_report(report(before, "m"))
    (revoked,) = plan.due()
    assert revoked.partitions == some(0)
