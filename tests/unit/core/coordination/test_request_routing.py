from __future__ import annotations

from dataclasses import replace

import pytest

from mm2.core.coordination.leader_context import CarryOut, Conflict, LeaderContext, SendOn, route
from mm2.core.naming.names import Flow

LEADER, OWN = "http://leader:8083", "http://own:8083"


@pytest.mark.parametrize("forward", [None, True, False])
def test_leader_executes_forwarded_requests(forward: bool | None) -> None:
    assert route(leads=True, leader_url=None, own_url=OWN, forward=forward) == CarryOut()


def test_requests_are_forwarded_twice_at_most() -> None:
    assert route(leads=False, leader_url=LEADER, own_url=OWN, forward=None) == SendOn(url=LEADER, forward=True)
    assert route(leads=False, leader_url=LEADER, own_url=OWN, forward=True) == SendOn(url=LEADER, forward=False)
    third = route(leads=False, leader_url=LEADER, own_url=OWN, forward=False)
    assert third == Conflict(
        message="Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )


def test_no_known_leader() -> None:
    assert isinstance(route(leads=False, leader_url=None, own_url=OWN, forward=None), Conflict)
    assert isinstance(route(leads=False, leader_url=OWN, own_url=OWN, forward=None), Conflict)


def test_a_node_routes_by_what_it_knows_of_the_leader() -> None:
    context = LeaderContext(flow=Flow("A", "B"), leads=False, leader_url=LEADER, own_url=OWN, session_key=None)
    assert context.route(None) == SendOn(url=LEADER, forward=True)
    assert replace(context, leads=True).route(None) == CarryOut()
