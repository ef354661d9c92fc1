"""Java's records about the transactional IDs of source tasks."""

from __future__ import annotations

import pytest

from mm2.core.coordination.task_fencing import COMMIT_KEY, FENCING_KEY, MOST_TASKS, NO_FENCING, TaskFencing
from mm2.core.wire.formats import FormatError


def read(*records: tuple[bytes, bytes | None]) -> TaskFencing:
    fencing = NO_FENCING
    for key, value in records:
        fencing = fencing.take(key, value)
    return fencing


def test_first_source_tasks_are_recorded() -> None:
    assert not NO_FENCING.covers(0)
    assert NO_FENCING.to_fence((), ()) == []
    assert NO_FENCING.records(range(0)) == []
    (record,) = NO_FENCING.records(range(2))
    assert record == (b"tasks-fencing-MirrorSourceConnector", b'{"task-count":2}')
    fencing = read(record)
    assert [fencing.covers(source_task) for source_task in range(3)] == [True, True, False]
    assert fencing.records(range(2)) == []
    assert fencing.records(range(3)) == [(FENCING_KEY, b'{"task-count":3}')]


def test_a_lost_owner_is_fenced_unless_it_has_a_successor() -> None:
    fencing = TaskFencing(task_count=4)
    assert fencing.to_fence(owned={0: "n1", 2: "n2"}, confirmed=()) == [1, 3]


def test_java_led_the_flow_in_between() -> None:
    fencing = read((FENCING_KEY, b'{"task-count":2}'), (FENCING_KEY, b'{"task-count":3}'), (COMMIT_KEY, b'{"tasks":3}'))
    assert not fencing.covers(0), "Java's tasks may still be writing"
    assert fencing.to_fence(owned=(0, 1), confirmed=()) == [0, 1, 2]
    assert fencing.to_fence(owned=(0, 1), confirmed=(1,)) == [0, 2]
    assert fencing.records(range(0)) == [], "there are no source tasks yet"
    records = fencing.records(range(3))
    assert records == [(FENCING_KEY, b'{"task-count":3}'), (COMMIT_KEY, b'{"tasks":0}')]
    assert read(*records).covers(2)
    assert read(*records).records(range(3)) == []


def test_at_least_once_tasks_of_java_need_no_fencing() -> None:
    fencing = read((COMMIT_KEY, b'{"tasks":3}'))
    assert fencing.to_fence((), ()) == []
    assert fencing.records(range(0)) == [], "nothing is known about our source tasks yet"
    assert fencing.records(range(1)) == [(FENCING_KEY, b'{"task-count":1}'), (COMMIT_KEY, b'{"tasks":0}')]


def test_fewer_source_tasks() -> None:
    assert TaskFencing(task_count=4).records(range(1)) == [(FENCING_KEY, b'{"task-count":1}')]
    assert TaskFencing(task_count=4).records(range(0)) == [(FENCING_KEY, b'{"task-count":0}')]


def test_numbers_with_gaps() -> None:
    """tasks.max = 100, and queries with the indexes 0 and 2."""
    (record,) = NO_FENCING.records({0, 1, 101, 100, 300})
    assert record == (FENCING_KEY, b'{"task-count":301,"unused":[[2,100],[102,300]]}')
    fencing = read(record)
    assert [one for one in range(400) if fencing.covers(one)] == [0, 1, 100, 101, 300]
    assert fencing.to_fence(owned=(1,), confirmed=()) == [0, 100, 101, 300]
    assert fencing.records([0, 1, 100, 101, 300]) == []
    assert fencing.records([0, 1, 99, 100, 101, 300]) != []
    assert fencing.records(range(301)) == [(FENCING_KEY, b'{"task-count":301}')]
    assert read(record, (FENCING_KEY, None)) == NO_FENCING


def test_source_tasks_that_were_not_recorded_are_fenced_too() -> None:
    """A leader without transactions has published a list of source task 2."""
    fencing = TaskFencing(task_count=5, unused=(range(1, 4),))
    assert fencing.to_fence((), (), listed=(0, 2, 4, 9)) == [0, 2, 4]


def test_nothing_of_java_is_unused() -> None:
    ours = (FENCING_KEY, b'{"task-count":5,"unused":[[1,4]]}')
    assert read(ours, (COMMIT_KEY, b'{"tasks":3}')).to_fence((), ()) == [0, 1, 2, 3, 4]
    assert read(ours, (COMMIT_KEY, b'{"tasks":3}'), (FENCING_KEY, b'{"task-count":3}')).to_fence((), ()) == [0, 1, 2]
    without_tasks = read(ours, (FENCING_KEY, b'{"task-count":3}'), (COMMIT_KEY, b'{"tasks":0}'))
    assert without_tasks.to_fence((), (), listed=(0,)) == [0, 1, 2], "Java has had tasks since"


def test_deleted_records() -> None:
    assert read((FENCING_KEY, b'{"task-count":4}'), (FENCING_KEY, None), (COMMIT_KEY, None)) == NO_FENCING


@pytest.mark.parametrize(
    "value",
    [
        *(b"", b"1", b"[]", b"null", b"{}", b"\xff"),
        *(b'{"task-count":"1"}', b'{"task-count":true}', b'{"task-count":-1}'),
        b'{"task-count":%d}' % (MOST_TASKS + 1),
        *(
            b'{"task-count":1,"unused":%s}' % unused
            for unused in (b"1", b"[1]", b"[[1]]", b'[[0,"1"]]', b"null", b"{}x")
        ),
        *(b'{"task-count":1,"unused":[[%s]]}' % gap for gap in (b"0,0", b"-1,1", b"1,0", b"0,%d" % (MOST_TASKS + 1))),
    ],
)
def test_invalid_records(value: bytes) -> None:
    with pytest.raises(FormatError, match="cannot read tasks-fencing-MirrorSourceConnector"):
        NO_FENCING.take(FENCING_KEY, value)
