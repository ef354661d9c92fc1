"""A lease counts from the moment at which the request for it was sent."""

from __future__ import annotations

from flows.lane.lease_deadline import LeaseDeadline


def test_a_lease_ends_unless_it_is_renewed() -> None:
    now = 1_000.0
    deadline = LeaseDeadline(clock=lambda: now)
    assert not deadline.valid, "until it is granted"
    deadline.renew(sent=998.0, seconds=9.0)
    assert deadline.valid
    assert deadline.remaining == 7.0
    now = 1_006.9
    assert deadline.valid
    deadline.renew(sent=1_006.0, seconds=1.0)
    now = 1_007.0
    assert not deadline.valid
    deadline.renew(sent=1_006.5, seconds=0.0)
    assert deadline.remaining == -0.5, "the node is not a member"
