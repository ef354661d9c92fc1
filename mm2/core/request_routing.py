"""What a node does with a request that only the flow's leader can carry out (mm2-compat §6.4).

    forward      absent: asked by a client or the node where it began · true: sent on once · false: sent on twice
    leader       carries it out
    another      sends it on to the leader with forward=true, then with forward=false, then refuses

Two hops are enough unless the leadership moves meanwhile; whoever asked tries again then.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryOut:
    """This node leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOn:
    """Ask the node at ``url`` with this value of ``forward``."""

    url: str
    forward: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Nobody can tell now who leads: 409, with a sentence."""

    sentence: str


Route = CarryOut | SendOn | Conflict


def route(*, leads: bool, leader_url: str | None, own_url: str | None, forward: bool | None) -> Route:
    """Where a request goes that came with ``forward``. ``leader_url`` None: no leader is known, or it has no REST
    interface; one that equals ``own_url`` is knowledge of a leadership that is over."""
    if leads:
        return CarryOut()
    if forward is False:
        return Conflict(sentence="Cannot complete request because of a conflicting operation (e.g. worker rebalance)")
    if leader_url is None:
        return Conflict(
            sentence="Cannot complete request momentarily due to no known leader URL, likely because a rebalance was "
            "underway."
        )
    if leader_url == own_url:
        return Conflict(sentence="Cannot complete request momentarily: this node was the leader until now")
    return SendOn(url=leader_url, forward=forward is None)
