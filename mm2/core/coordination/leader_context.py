"""A snapshot of one node's state in a flow, used to answer, sign and forward requests between nodes,
and where a request goes."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.coordination.session_keys import SessionKey
from mm2.core.naming.names import Flow


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderContext:
    """State of a node in one flow.

    ``leader_url``: base URL of the leader, None if there is no leader or it has no REST interface. ``session_key``: the
    newest one in the config topic, None until it has been read. ``signature_algorithm`` and ``accepted_algorithms``:
    inter.worker.signature.algorithm and inter.worker.verification.algorithms.
    """

    flow: Flow
    leads: bool
    leader_url: str | None
    own_url: str | None
    session_key: SessionKey | None
    signature_algorithm: str = "HmacSHA256"
    accepted_algorithms: tuple[str, ...] = ("HmacSHA256",)

    def route(self, forward: bool | None) -> Route:
        """Return what to do with a request for the leader."""
        return route(leads=self.leads, leader_url=self.leader_url, own_url=self.own_url, forward=forward)
