from __future__ import annotations

import pytest

from mm2.core.request_routing import CarryOut, Conflict, SendOn, route

LEADER, OWN = "http://leader:8083", "http://own:8083"


@pytest.mark.parametrize("forward", [None, True, False])
def test_the_leader_carries_out_whatever_came_before(forward: bool | None) -> None:
    assert route(leads=True, leader_url=None, own_url=OWN, forward=forward) == CarryOut()


def test_two_hops_and_no_more() -> None:
    assert route(leads=False, leader_url=LEADER, own_url=OWN, forward=None) == SendOn(url=LEADER, forward=True)
    assert route(leads=False, leader_url=LEADER, own_url=OWN, forward=True) == SendOn(url=LEADER, forward=False)
    third = route(leads=False, leader_url=LEADER, own_url=OWN, forward=False)
    assert third == Conflict(
        sentence="Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    )


def test_nobody_to_send_on_to() -> None:
    assert isinstance(route(leads=False, leader_url=None, own_url=OWN, forward=None), Conflict)
    assert isinstance(route(leads=False, leader_url=OWN, own_url=OWN, forward=None), Conflict)
