from __future__ import annotations

import json

import pytest

from mm2.core.assignment.checkpoint_task_records import (
    EVERY_GROUP,
    GroupList,
    GroupListBook,
    OwnGroups,
    decode_groups,
    encode_groups,
    is_groups_key,
    share_groups,
)
from mm2.core.assignment.source_task_records import SourceTaskRecord, encode_source_task
from mm2.core.wire.formats import FormatError


def groups(*names: str, task: int = 0, epoch: int = 1, version: int = 1) -> GroupList:
    return GroupList(task=task, epoch=epoch, version=version, groups=frozenset(names))


def shared(names: str, tasks_max: int, previous: dict[str, int] | None = None) -> list[str]:
    """Return the lists of groups, with one letter per group."""
    return ["".join(sorted(some)) for some in share_groups(names, tasks_max=tasks_max, previous=previous)]


def take(found: GroupListBook, record: GroupList, *, part_bytes: int = 1_000) -> list[bool]:
    return [found.take(decode_groups(*one)) for one in encode_groups(record, part_bytes=part_bytes)]


def book(*records: GroupList) -> GroupListBook:
    found = GroupListBook()
    for record in records:
        assert take(found, record) == [True]
    return found


def test_first_assignment_is_round_robin() -> None:
    assert shared("baca", 2) == ["ac", "b"]
    assert shared("ba", 5) == ["a", "b"], "there are at most as many tasks as groups"
    assert shared("", 5) == []


def test_new_group_moves_no_other() -> None:
    assert shared("abcd", 2, {"a": 0, "c": 0, "b": 1}) == ["ac", "bd"]


def test_fewer_tasks_move_only_the_groups_of_removed_tasks() -> None:
    before = {"a": 0, "b": 1, "c": 2, "d": 0, "e": 1, "f": 2}
    one, two = share_groups("abcdef", tasks_max=2, previous=before)
    assert one > {"a", "d"}
    assert two > {"b", "e"}


def test_zero_tasks_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"tasks\.max is 0"):
        share_groups(["a"], tasks_max=0)


def test_encoded_record() -> None:
    record = groups('quo"ted, größe', "a,b", task=3, epoch=7, version=2)
    assert encode_groups(record) == [
        (
            b"mm2-groups-3",
            '{"epoch":7,"version":2,"part":0,"parts":1,"groups":["a,b","quo\\"ted, größe"]}'.encode(),
        )
    ]
    assert book(record).records == {3: record}
    assert [value for _, value in encode_groups(groups())] == [
        b'{"epoch":1,"version":1,"part":0,"parts":1,"groups":[]}'
    ]


def test_keys_differ_from_those_of_source_tasks() -> None:
    (key, _), (source_task, _) = (
        *encode_groups(groups("a")),
        *encode_source_task(SourceTaskRecord(source_task=0, epoch=1, version=1, partitions=frozenset())),
    )
    assert is_groups_key(key)
    assert not is_groups_key(source_task)
    assert not is_groups_key(None)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"mm2-groups-x", b"{}"),
        (b"mm2-source-task-0", b'{"epoch":1,"version":1,"part":0,"parts":1,"groups":[]}'),
        (b"mm2-groups-0", None),
        (b"mm2-groups-0", b'{"epoch":1,"version":1,"part":0,"parts":1}'),
        (b"mm2-groups-0", b'{"epoch":1,"version":1,"part":0,"parts":1,"groups":"a"}'),
        (b"mm2-groups-0", b'{"epoch":1,"version":1,"part":0,"parts":1,"groups":[1]}'),
        (b"mm2-groups-0.1", b'{"epoch":1,"version":1,"part":0,"parts":2,"groups":[]}'),
    ],
)
def test_invalid_records(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(FormatError, match="read groups of task"):
        decode_groups(key, value)


def test_long_lists_are_split_and_applied_when_complete() -> None:
    long = groups(*(f"group-{number:04}" for number in range(500)), version=2)
    encoded = encode_groups(long, part_bytes=1_000)
    assert [key for key, _ in encoded][:2] == [b"mm2-groups-0", b"mm2-groups-0.1"]
    assert all(len(value) < 1_200 for _, value in encoded)
    assert {json.loads(value)["parts"] for _, value in encoded} == {len(encoded)}
    found = book(groups("a"))
    assert take(found, long)[-2:] == [False, True]
    assert (found.records, found.revision) == ({0: long}, 2)


def test_records_of_an_earlier_leader_are_ignored() -> None:
    found = book(groups("a", epoch=5))
    assert take(found, groups("b", epoch=4, version=9)) == [False]
    assert (found.records, found.revision) == ({0: groups("a", epoch=5)}, 1)
    assert (found.epoch_of_next_leader(3), found.epoch_of_next_leader(9)) == (6, 9)


def test_first_task_has_every_group_before_the_first_list() -> None:
    found = GroupListBook()
    assert found.share({0, 3}) == EVERY_GROUP
    assert EVERY_GROUP.has("any")
    nothing = found.share({1})
    assert not nothing.has("any")
    assert not nothing.shows("any")


def test_groups_of_a_node_are_those_of_its_tasks() -> None:
    found = book(groups("a", "b"), groups("c", task=1), groups("d", task=2))
    assert found.share({1, 2, 7}) == OwnGroups(groups=frozenset("cd"))
    first = found.share({0, 1})
    assert [group for group in "abcde" if first.has(group)] == ["a", "b", "c"]
    assert [group for group in "abcde" if first.shows(group)] == ["a", "b", "c", "e"], (
        "the first task reports unassigned groups"
    )


def test_only_changed_lists_are_published_with_empty_lists_for_removed_tasks() -> None:
    found = book(groups("a"), groups("b", "c", task=1), groups("d", task=2, epoch=4, version=7))
    assert found.changes(share_groups("abcd", tasks_max=3, previous=found.previous()), 5) == []
    assert found.changes((frozenset("a"), frozenset("bcd")), 4) == [
        groups("b", "c", "d", task=1, epoch=4),
        groups(task=2, epoch=4, version=8),
    ]


def test_first_task_has_an_empty_list_if_there_are_no_groups() -> None:
    found = GroupListBook()
    (empty,) = found.changes((), 1)
    assert empty == groups()
    take(found, empty)
    assert found.changes((), 2) == []
    assert found.sizes() == {}
    assert found.share({0}) == OwnGroups(groups=frozenset(), listed=frozenset())


def test_newest_list_determines_the_task_of_a_group() -> None:
    found = book(groups("a", "b", epoch=5), groups("b", "c", task=1, epoch=6))
    assert found.previous() == {"a": 0, "b": 1, "c": 1}
    assert found.sizes() == {0: 2, 1: 2}
