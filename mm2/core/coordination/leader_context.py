"""A snapshot of one node's state in a flow, used to answer, sign and forward requests between nodes."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.coordination.request_routing import Route, route
from mm2.core.coordination.session_keys import SessionKey
from mm2.core.naming.names import Flow


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
