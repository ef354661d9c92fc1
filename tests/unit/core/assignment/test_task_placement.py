from __future__ import annotations

import json
from typing import Any

import pytest

from mm2.core.assignment.task_placement import NO_MEMBER, TaskAssignments, TaskPlacement
from mm2.core.assignment.tasks import TaskId, TaskKind

S0, S1, S2, S3 = (TaskId(TaskKind.SOURCE, number) for number in range(4))

PLACEMENT = TaskAssignments(
    epoch=7,
    places={
        S0: TaskPlacement(owner="m-1", node="a", since=3, home="a"),
        S1: TaskPlacement(owner="m-1", node="a", since=3, home="b", next="m-2"),
        S2: TaskPlacement(owner=None, node="c", since=5, home="c", until_ms=9_000),
        S3: TaskPlacement(owner="m-2", node="b", since=6, home="a", next=NO_MEMBER),
    },
    seen={"a": 1_000, "b": 2_000},
)


def test_running_and_moving_tasks() -> None:
    assert PLACEMENT.run("m-1") == (S0,)
    assert PLACEMENT.run("m-2") == ()
    assert PLACEMENT.moving == (S1, S2, S3)


def test_unreported_tasks_have_to_be_released_by_a_member_that_did_not_report_them() -> None:
    assert PLACEMENT.unreported({"m-1": {S0}, "m-2": {S3}}) == (S1,)
    assert PLACEMENT.unreported({"m-1": {S0, S1}, "m-2": ()}) == (S3,)
    assert PLACEMENT.unreported({"m-1": (S1,)}) == ()


def test_json_round_trip() -> None:
    assert TaskAssignments.from_json(json.loads(json.dumps(PLACEMENT.to_json()))) == PLACEMENT


def test_unknown_fields_are_ignored() -> None:
    message = PLACEMENT.to_json()
    message["new"] = 1
    message["places"] = [[*place, "new"] for place in message["places"]]
    assert TaskAssignments.from_json(message) == PLACEMENT


def test_unknown_task_kinds_are_skipped() -> None:
    message = PLACEMENT.to_json()
    message["places"].append(["MirrorSchemaConnector-0", 1, 0, 7, 0, None, None])
    placement = TaskAssignments.from_json(message)
    assert placement is not None
    assert placement.run("m-1") == (S0, TaskId("MirrorSchemaConnector", 0))


@pytest.mark.parametrize(
    "change",
    [{"epoch": "x"}, {"members": [1]}, {"places": [["x", 0, 0, 0, 0, None, None]]}, {"places": [[1]]}, {"seen": 3}],
)
def test_invalid_placement_is_none(change: dict[str, Any]) -> None:
    assert TaskAssignments.from_json(PLACEMENT.to_json() | change) is None
    assert TaskAssignments.from_json(None) is None


def test_same_plan_in_a_later_epoch() -> None:
    assert PLACEMENT.same_plan(TaskAssignments(epoch=8, places=PLACEMENT.places))
    assert not PLACEMENT.same_plan(TaskAssignments(epoch=7))
