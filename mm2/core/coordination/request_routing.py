"""Routing of requests that only the flow's leader can execute (Connect: HerderRequestHandler).

    forward      absent: from a client or the first node · true: forwarded once · false: forwarded twice
    leader       executes it
    other node   forwards it to the leader with forward=true, then with forward=false, then rejects it

Two hops are enough unless leadership changes meanwhile; the caller then retries.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOut:
    """This node is the leader and executes the request."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOn:
    """Forward the request to the node at ``url`` with this value of ``forward``."""

    url: str
    forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The leader is unknown at the moment: 409, with a message."""

    message: str


Route = CarryOut | SendOn | Conflict


def route(*, leads: bool, leader_url: str | None, own_url: str | None, forward: bool | None) -> Route:
    """Return what to do with a request that has ``forward``.

    ``leader_url`` None: no leader is known, or it has no REST interface; if it equals ``own_url``, it is outdated.
    """
    if leads:
        return CarryOut()
    if forward is False:
        return Conflict(message="Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if leader_url is None:
        return Conflict(
            message="Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
            "underway."
        )
    if leader_url == own_url:
        return Conflict(message="Cannot complete request momentarily: this node has just lost leadership")
    return SendOn(url=leader_url, forward=forward is None)
