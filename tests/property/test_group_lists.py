"""Distribution of groups to checkpoint tasks, for any history of groups and of tasks.max."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mm2.core.assignment.checkpoint_task_records import GroupListBook, decode_groups, encode_groups, share_groups

GROUPS = st.sets(st.integers(0, 60).map(lambda number: f"g{number}"), max_size=40)
ROUNDS = st.lists(st.tuples(GROUPS, st.integers(1, 8)), min_size=1, max_size=6)


def publish(book: GroupListBook, groups: set[str], tasks_max: int, epoch: int) -> None:
    """Publish the changes of one leader round and read them back part by part."""
    wanted = share_groups(groups, tasks_max=tasks_max, previous=book.previous())
    for record in book.changes(wanted, epoch):
        parts = [book.take(decode_groups(*one)) for one in encode_groups(record, part_bytes=40)]
        assert parts == [False] * (len(parts) - 1) + [True]


@given(rounds=ROUNDS)
def test_every_group_is_in_one_list_and_no_list_is_empty(rounds: list[tuple[set[str], int]]) -> None:
    book = GroupListBook()
    for epoch, (groups, tasks_max) in enumerate(rounds):
        publish(book, groups, tasks_max, epoch)
        listed = [group for record in book.records.values() for group in record.groups]
        assert sorted(listed) == sorted(groups)
        assert sorted(book.sizes()) == list(range(min(tasks_max, len(groups))))


@given(rounds=ROUNDS)
def test_lists_finally_have_similar_lengths(rounds: list[tuple[set[str], int]]) -> None:
    book = GroupListBook()
    for epoch, (groups, tasks_max) in enumerate(rounds):
        publish(book, groups, tasks_max, epoch)
    groups, tasks_max = rounds[-1]
    for epoch in range(len(rounds), len(rounds) + 10):  # at most a tenth of the groups moves at a time
        publish(book, groups, tasks_max, epoch)
    sizes = book.sizes().values()
    assert not sizes or max(sizes) - min(sizes) <= max(1, 0.2 * len(groups) / len(sizes))
    revision = book.revision
    publish(book, groups, tasks_max, epoch + 1)
    assert book.revision == revision, "a round without changes publishes nothing"


@given(before=GROUPS, new=GROUPS, tasks_max=st.integers(1, 8))
def test_added_groups_move_at_most_a_tenth_of_the_others(before: set[str], new: set[str], tasks_max: int) -> None:
    book = GroupListBook()
    publish(book, before, tasks_max, 0)
    old, count = book.previous(), len(book.sizes())
    publish(book, before | new, tasks_max, 1)
    if len(book.sizes()) == count:
        moved = {group for group in before if book.previous()[group] != old[group]}
        assert len(moved) <= max(1, len(before | new) // 10)


@given(rounds=ROUNDS, nodes=st.lists(st.integers(0, 3), min_size=8, max_size=8))
def test_every_group_is_reported_and_translated_by_one_node(
    rounds: list[tuple[set[str], int]], nodes: list[int]
) -> None:
    book = GroupListBook()
    for epoch, (groups, tasks_max) in enumerate(rounds):
        publish(book, groups, tasks_max, epoch)
        shares = [book.share({task for task, node in enumerate(nodes) if node == at}) for at in range(4)]
        for group in groups | {"filtered"}:
            assert sum(share.shows(group) for share in shares) == 1
            assert sum(share.has(group) for share in shares) == (group in groups)
