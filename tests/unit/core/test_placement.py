from __future__ import annotations

import json
from typing import Any

import pytest

from mm2.core.placement import NOBODY, Place, Placement
from mm2.core.tasks import TaskId, TaskKind

S0, S1, S2, S3 = (TaskId(TaskKind.SOURCE, number) for number in range(4))

PLACEMENT = Placement(
    epoch=7,
    places={
        S0: Place(owner="m-1", node="a", since=3, home="a"),
        S1: Place(owner="m-1", node="a", since=3, home="b", next="m-2"),
        S2: Place(owner=None, node="c", since=5, home="c", until_ms=9_000),
        S3: Place(owner="m-2", node="b", since=6, home="a", next=NOBODY),
    },
    seen={"a": 1_000, "b": 2_000},
)


def test_who_runs_what_and_what_is_moving() -> None:
    assert PLACEMENT.run("m-1") == (S0,)
    assert PLACEMENT.run("m-2") == ()
    assert PLACEMENT.moving == (S1, S2, S3)


def test_it_travels_as_json() -> None:
    assert Placement.from_json(json.loads(json.dumps(PLACEMENT.to_json()))) == PLACEMENT


def test_later_versions_may_say_more() -> None:
    message = PLACEMENT.to_json()
    message["new"] = 1
    message["places"] = [[*place, "new"] for place in message["places"]]
    assert Placement.from_json(message) == PLACEMENT


@pytest.mark.parametrize(
    "change",
    [{"epoch": "x"}, {"members": [1]}, {"places": [["x", 0, 0, 0, 0, None, None]]}, {"places": [[1]]}, {"seen": 3}],
)
def test_what_is_no_placement_is_none(change: dict[str, Any]) -> None:
    assert Placement.from_json(PLACEMENT.to_json() | change) is None
    assert Placement.from_json(None) is None


def test_the_same_plan_in_a_later_epoch() -> None:
    assert PLACEMENT.same_plan(Placement(epoch=8, places=PLACEMENT.places))
    assert not PLACEMENT.same_plan(Placement(epoch=7))
