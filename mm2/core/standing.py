"""Where a node stands in one flow at a moment: what it needs to answer, sign and pass on what nodes ask each other."""

from __future__ import annotations

from dataclasses import dataclass

from mm2.core.names import Flow
from mm2.core.request_routing import Route, route
from mm2.core.session_keys import SessionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """``leader_url``: base URL of the leader, None while there is none or it has no REST interface. ``session_key``:
    the newest of the config topic, None until it has been read. ``signature_algorithm`` and ``accepted_algorithms``:
    inter.worker.signature.algorithm and inter.worker.verification.algorithms."""

    flow: Flow
    leads: bool
    leader_url: str | None
    own_url: str | None
    session_key: SessionKey | None
    signature_algorithm: str = "HmacSHA256"
    accepted_algorithms: tuple[str, ...] = ("HmacSHA256",)

    def route(self, forward: bool | None) -> Route:
        """What to do with a request for the leader."""
        return route(leads=self.leads, leader_url=self.leader_url, own_url=self.own_url, forward=forward)
