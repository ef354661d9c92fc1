"""Who a node is to the other nodes of its flows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mm2.core.names import Flow


@dataclass(slots=True, kw_only=True)
class NodeIdentity:
    """``node_id`` outlives restarts where it can. ``url``: where other nodes reach it, empty where they cannot.
    ``terms``: by flow, what the node's file says of it, as a digest (`mm2.config.agreement`)."""

    node_id: str
    version: str
    url: str = ""
    terms: Mapping[Flow, str] = field(default_factory=dict)
