"""Who a node is to the other nodes of its flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.config.agreement import digest, terms
from mm2.config.comparison import Reading
from mm2.core.flow_terms import FlowTerms
from mm2.core.names import Flow


@dataclass(slots=True, kw_only=True)
class NodeIdentity:
    """``node_id`` outlives restarts where it can. ``url``: where other nodes reach it, empty where they cannot.
    ``terms``: by flow, what the node's file says of it, as far as all its nodes should agree."""

    node_id: str
    version: str
    url: str = ""
    terms: Mapping[Flow, FlowTerms] = field(default_factory=dict)

    def reads(self, reading: Reading) -> None:
        """The node's file says this now."""
        said = {flow.flow: terms(reading, flow) for flow in reading.settings.flows}
        self.terms = {
            flow: FlowTerms(node=self.node_id, digest=digest(agreed), terms=agreed) for flow, agreed in said.items()
        }
